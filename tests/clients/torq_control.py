#!/usr/bin/env python3
"""TorQ's `torq.sh start|stop NAMES [-csv FILE]`, for its unit tests: starts and stops processes of a table of processes."""

import csv
import os
import pathlib
import subprocess
import sys


def rows(path):
    return csv.DictReader(pathlib.Path(path).read_text().split("\n"))


def main(action, *arguments):
    names = [name for argument in arguments for name in argument.split()]
    at = names.index("-csv") if "-csv" in names else len(names)
    path = names[at + 1] if at < len(names) else os.environ["TORQPROCESSES"]
    for row in rows(path):
        if row["startwithall"] != "1" or not {row["procname"], "all"} & set(names[:at]):
            continue
        stem = f"torq.q -stackid {os.environ['KDBBASEPORT']} -proctype {row['proctype']} -procname {row['procname']}"
        running = subprocess.run(["pgrep", "-f", "--", f"{stem} "], capture_output=True, text=True).stdout.split()
        if action == "start" and not running:
            start(row, f"$TORQHOME/{stem}", path)
        elif action == "stop" and running:
            subprocess.run(["kill", *running])


def start(row, program, path):
    options = " ".join(f"-{column} {row[column]}" for column in ("U", "localtime", "g", "T", "w", "load") if row[column])
    rights = "" if row["U"] else "-u 0"
    command = os.path.expandvars(f"exec {row['qcmd'] or 'q'} {program} {options} {rights} {row['extras'] or ''} -procfile {path}")
    with open(f"{os.environ['KDBLOG']}/torq{row['procname']}.txt", "w") as output:
        subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
