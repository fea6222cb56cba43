#!/usr/bin/env python3
"""TorQ's scripts that start and stop processes, for its unit tests: `start|stop NAMES [-csv FILE]` (`torq.sh`) for processes of a table,
`launch -procname NAME …` and `kill NAME` (`bin/launchprocess.sh`, `bin/killprocess.sh`) for others."""

import csv
import os
import pathlib
import shlex
import subprocess
import sys


def rows(path):
    return csv.DictReader(pathlib.Path(path).read_text().split("\n"))


NOT_RUNNING = 2
ALREADY_RUNNING = 2


def pids(text):
    return subprocess.run(["pgrep", "-f", "--", text], capture_output=True, text=True).stdout.split()


def spawn(name, command):
    with open(f"{os.environ['KDBLOG']}/torq{name}.txt", "w") as output:
        subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)


def launch(*arguments):
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    name, program = options["-procname"], options.pop("-qcmd", "q")
    if pids(f"torq.q .*-procname {name} "):
        sys.exit(ALREADY_RUNNING)
    words = [word for option in options.items() for word in option]
    spawn(name, shlex.join(["exec", program, f"{os.environ['TORQHOME']}/torq.q", "-stackid", os.environ["KDBBASEPORT"], *words]))


def kill(name):
    running = pids(f"torq.q .*-procname {name} ")
    sys.exit(subprocess.run(["kill", *running]).returncode if running else NOT_RUNNING)


def main(action, *arguments):
    if action in ("launch", "kill"):
        return {"launch": launch, "kill": kill}[action](*arguments)
    names = [name for argument in arguments for name in argument.split()]
    at = names.index("-csv") if "-csv" in names else len(names)
    path = names[at + 1] if at < len(names) else os.environ["TORQPROCESSES"]
    for row in rows(path):
        if row["startwithall"] != "1" or not {row["procname"], "all"} & set(names[:at]):
            continue
        stem = f"torq.q -stackid {os.environ['KDBBASEPORT']} -proctype {row['proctype']} -procname {row['procname']}"
        running = pids(f"{stem} ")
        if action == "start" and not running:
            start(row, f"$TORQHOME/{stem}", path)
        elif action == "stop" and running:
            subprocess.run(["kill", *running])


def start(row, program, path):
    options = " ".join(f"-{column} {row[column]}" for column in ("U", "localtime", "g", "T", "w", "load") if row[column])
    rights = "" if row["U"] else "-u 0"
    command = os.path.expandvars(f"exec {row['qcmd'] or 'q'} {program} {options} {rights} {row['extras'] or ''} -procfile {path}")
    spawn(row["procname"], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
