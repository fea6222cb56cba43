#!/usr/bin/env python3
"""Runs TorQ's own unit tests (k4unit) on `elastick q` and counts them by folder.

    ELASTICK_BIN=target/release/elastick tests/clients/torq_units.py --out /var/tmp/torq stp/eod dataaccess

Each folder has a home, started as the folder's `run.sh` of TorQ's repository does, in namespaces of its own: the tests find processes by
name and kill them, and listen on fixed ports. What a home's processes printed and logged stays below `--out`. `torq_data.q` makes the data
that the tests read; REPAIRS mends tests that TorQ's own code has left behind. `torq_reasons.csv` names the lines that would fail on kdb+
too, and why. The exit code is 1 if a line fails that it does not name.
"""

import argparse
import concurrent.futures
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import torq_control
from harness.process import binary
from harness.torq import DATA_FOLDERS, PACK, PROGRAMS, environment, run_script, write_zones

TESTS = PROGRAMS / "torq" / "tests"
BASE_PORT = 6000
ZONES = ("GMT", "Europe/London", "America/New_York", "Asia/Hong_Kong", "Asia/Tokyo")
REASONS = pathlib.Path(__file__).with_name("torq_reasons.csv")
HELPERS = "$KDBTESTS/helperfunctions.q"
DATA_ACCESS = "-proctype rdb -procname dailyrdb1 -dataaccess $testpath/config/tableproperties.csv"
# Processes that run before the tests; elsewhere all of the folder's process.csv.
STARTED = {
    "chainedtp": "discovery1 tp1 ctp1 rdb1", "dataaccess/gwquerytest": "all", "dataaccess": "discovery1", "rdb": "discovery1 stp1 feed1",
    "k4unit/startupcycles": "discovery1 stp1", "pcap": "discovery1 stp1 rdb1", "stp/batching": "discovery1 stp1 rdb1", "stp/chainedrecovery": "discovery1",
    "stp/chainedstp": "discovery1 stp1 sctp1", "stp/housekeeping": "discovery1 housekeeping1", "stp/idbdefault": "discovery1",
    "stp/idbpartbyenum": "discovery1", "stp/recovery": "discovery1", "stp/upds": "discovery1 stp1", "stp/wdb": "discovery1",
    "wdb/replay": "discovery1 stp1 feed1", "wdb/timer": "discovery1 stp1 feed1",
}  # fmt: skip
# Scripts and options of the process that runs the tests; elsewhere the helpers and the folder's settings.
TESTER = {
    "bglaunchprocess": "-proctype test -procname test1 -load $KDBCODE/common/bglaunchutils.q $testpath/settings.q",
    "dataaccess/gwquerytest": f"-proctype test -procname test1 -load {HELPERS} $testpath/settings.q",
    "dataaccess": f"{DATA_ACCESS} -load {HELPERS} $testpath/../settings.q $testpath/settings.q $testpath/../mockdata.q",
    "dqe": "-proctype dqc -procname dqc1 -parentproctype dqcommon",
    "k4unit/startupcycles": "-proctype rdb -procname rdb1 -load $KDBCODE/processes/rdb.q",
    "k4unit": f"-proctype test -procname test1 -load {HELPERS}",
    "merge/wdb/tests": f"-proctype test -procname test1 -load {HELPERS} $testpath/../settings.q $testpath/../mockdata.q",
    "merge/tplogreplay/tests": f"-proctype test -procname tplogtest -load {HELPERS} $testpath/../database.q $testpath/../settings.q"
    " $KDBCODE/processes/tickerlogreplay.q",
    "pcap": f"-proctype filealerter -procname filealerter1 -load $KDBCODE/processes/filealerter.q {HELPERS} -.fa.polltime 00:10 -.servers.CONNECTIONS"
    " -.fa.tickerplanttype -.fa.alreadyprocessed $testpath/filealerterprocessed -.fa.inputcsv $testpath/dummyfilealerter.csv",
    "permissions": f"-proctype test -procname test1 -load {HELPERS}",
    "rdb": "-proctype rdb -procname rdb1 -load $KDBCODE/processes/rdb.q",
    "wdb/replay": "-proctype wdb -procname wdb1 -load $KDBCODE/processes/wdb.q",
    "wdb/timer": "-proctype wdb -procname wdb1 -load $KDBCODE/processes/wdb.q",
}
# A process that fills the databases before the tests; the others are started anew after it.
FILLER = {"schemas": f"-proctype test -procname test1 -load {HELPERS} $testpath/settings.q $testpath/insertdata.q"}
DIRECTORY = {"dataaccess/queryorder": "$testpath"}
SCRATCH = {
    "merge/wdb/tests": "../testhdb", "merge/tplogreplay/tests": "../testhdb ../tempmergedir", "wdb/intpartbyenum": "temphdb",
    "wdb/nullpartbyenum": "temphdbpartbyenum",
}  # fmt: skip
# Tests that TorQ's own code has left behind: names since changed, settings read before they are loaded, a literal that is none.
REPAIRS = (
    ("stp", ".stplg.stpeod", ".stplg.endofday"),
    ("stp", "00:00:00:10>", "00:00:10>"),
    ("stp/custommode", "(setenv;`KDBTPLOG;", "(set;`.stplg.kdbtplog;`$"),
    ("dataaccess/gwquerytest", "enlist 2000.01.06;", "enlist 2000.01.06;\n.rdb.getpartition:{[].rdb.rdbpartition};\n"),
    # The discovery service asks a process that registers, which answers once it asks something itself.
    ("bglaunchprocess", ".servers.startup[];", ".servers.startup[];.servers.querydiscovery`test;"),
    ("pcap", "tickerplanttype:`tickerplant,", "tickerplanttype:`segmentedtickerplant,"),
    ("merge/tplogreplay", "/treplaysettings.q", "/tpreplaysettings.q"),
    ("merge/wdb", "${KDBCODE}/processes/wdb.q ${KDBTESTS}/merge/wdb/config/wdbsettings.q", "${KDBTESTS}/merge/wdb/config/wdbsettings.q ${KDBCODE}/processes/wdb.q"),
)  # fmt: skip
# What k4unit logs of a line that signalled an error.
ERROR = re.compile(r"error in file \S*/(\S+ on line \d+) - (.*?)\. Code: '")
# Nothing that a test does reaches other processes, or files outside the home and /tmp (TorQ's pipes).
ISOLATED = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--net", "--kill-child"]
RUN = """
set -e
ip link set lo up
mount --bind /tmp /tmp; mount --bind "$TORQHOME" "$TORQHOME"; mount -o remount,ro,bind /; cd "$TORQHOME"
start() {
    [ -n "$started" ] || return 0
    # One after the other, as TorQ's script starts them, so that they do not all wait for each other at once.
    for name in $started; do ./torq.sh start "$name" -csv "$processes"; done
    sleep "$settle"
}
start
[ -z "$filler" ] || { eval "q torq.q $filler"; ./torq.sh stop all -csv "$processes"; sleep 1; start; }
eval "cd $directory; q $TORQHOME/torq.q $tester -test $testpath -testresults $TORQHOME/results/ -runtime 2026.01.01D00:00:00 -write -u 0"
"""


def for_folder(table, folder, default):
    """The entry of the folder, or of the one around it."""
    return next((table[str(f)] for f in (folder, *folder.parents) if str(f) in table), default)


def folders():
    """Folders with k4unit files: those whose header has k4unit's columns."""
    found = {}
    for path in sorted(TESTS.rglob("*.csv")):
        columns = path.read_text(errors="replace").partition("\n")[0].split(",")
        if {"action", "lang", "code"} <= set(columns) and path.parent != TESTS:
            found[path.parent.relative_to(TESTS)] = None
    return list(found)


def reasons():
    """Lines that fail for a reason of TorQ's own: (file, line) and the reason; line 0 stands for all lines of a file that ran none."""
    found = {}
    for row in csv.DictReader(REASONS.open()):
        for span in row["lines"].split():
            first, _, last = span.partition("-")
            found |= {(row["file"], line): row["reason"] for line in range(int(first), int(last or first) + 1)}
    return found


def tests_of(folder):
    """Files of the folder with tests, and their lines."""
    for path in sorted((TESTS / folder).glob("*.csv")):
        actions = [line.partition(",")[0] for line in path.read_text(errors="replace").split("\n")]
        if lines := [i for i, action in enumerate(actions, 1) if action in ("run", "true", "fail")]:
            yield f"{folder}/{path.name}", lines


def prepare(home, folder):
    """A home with TorQ, the starter pack and the folder's scratch directories. Returns the environment of its processes."""
    shutil.copytree(PROGRAMS / "torq", home)
    shutil.copytree(PACK, home, dirs_exist_ok=True)
    subprocess.run(["chmod", "-R", "u+w", home], check=True)
    tests = home / "tests" / folder
    for path in (*DATA_FOLDERS, "html", "lib", "bin", "results", *(tests / name for name in for_folder(SCRATCH, folder, "").split())):
        (home / path).mkdir(parents=True, exist_ok=True)
    # TorQ's tests look for processes named "q".
    (home / "bin" / "q").symlink_to(binary().resolve())
    for script, action in (("torq.sh", ""), ("bin/launchprocess.sh", "launch "), ("bin/killprocess.sh", "kill ")):
        (home / script).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{torq_control.__file__}" {action}"$@"\n')
        (home / script).chmod(0o755)
    write_zones(home, ZONES)
    run_script(pathlib.Path(__file__).with_name("torq_data.q"), KDBTESTS=str(home / "tests"))
    for below, old, new in REPAIRS:
        for path in (p for end in ("csv", "q") for p in (home / "tests" / below).rglob(f"*.{end}") if old in p.read_text(errors="replace")):
            path.write_text(path.read_text(errors="replace").replace(old, new))
    processes = [p for where in (tests, tests.parent) for p in (where / "process.csv", where / "config" / "process.csv") if p.exists()]
    started = for_folder(STARTED, folder, "all" if processes else "")
    if started == "all":
        started = " ".join(row["procname"] for row in torq_control.rows(processes[0]) if row["startwithall"] == "1")
    tester = for_folder(TESTER, folder, f"-proctype test -procname test1 -load {HELPERS} $testpath/settings.q")
    variables = environment(home, home, home, BASE_PORT)
    default = variables["TORQPROCESSES"]
    listed = f" -procfile {processes[0]}" if processes else ""
    filler = for_folder(FILLER, folder, "")
    return {
        **os.environ, **variables, "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "testpath": str(tests), "perfpath": str(tests / "performance"),
        "processes": str(processes[0] if processes else default), "started": started, "tester": tester + listed,
        "filler": filler and filler + listed, "directory": for_folder(DIRECTORY, folder, "$TORQHOME"),
    }  # fmt: skip


def run(folder, out, settle, timeout):
    home = out / str(folder).replace("/", "_")
    if home.exists():
        shutil.rmtree(home)
    variables = prepare(home, folder) | {"settle": str(settle)}
    began = time.monotonic()
    with (home / "out.txt").open("w") as output:
        try:
            command = [*ISOLATED, "bash", "-c", RUN]
            subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=timeout, cwd=home)
            ended = ""
        except subprocess.TimeoutExpired:
            ended = ", did not end"
    results = home / "results"
    rows = [row for path in results.rglob("results_*.csv") for row in csv.DictReader(path.open())]
    errors = dict(found for path in results.rglob("err_*.log") for found in ERROR.findall(path.read_text(errors="replace")))
    ran = {(f"{folder}/{pathlib.Path(row['file']).name}", int(row["csvline"])): row for row in rows}
    known, lines, explained = reasons(), [], 0
    for file, wanted in tests_of(folder):
        failed = [(line, ran.get((file, line))) for line in wanted if (ran.get((file, line)) or {}).get("ok") != "1"]
        if len(failed) == len(wanted) and (file, 0) in known:
            explained += len(failed)
            continue
        for line, row in failed:
            if (file, line) in known:
                explained += 1
                continue
            name = f"{pathlib.Path(file).name} on line {line}"
            what = f"{row['action']} {row['code']}" if row else "did not run"
            lines.append(f"    {name}: {what}" + (f"  '{errors[name]}" if name in errors else ""))
    total = sum(len(wanted) for _, wanted in tests_of(folder))
    passed = total - explained - len(lines)
    told = f", {explained} explained" if explained else ""
    return total, passed, explained, "\n".join([f"{folder} {passed}/{total}{told}, {time.monotonic() - began:.0f} s{ended}", *lines])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", nargs="*", help="folders of TorQ's tests, with those below them; all without one")
    options.add_argument("--out", type=pathlib.Path, help="where the homes are made (a temporary directory)")
    options.add_argument("--jobs", type=int, default=1, help="folders at a time (1)")
    options.add_argument("--settle", type=float, default=4, help="seconds from the start of a folder's processes to its tests (4)")
    options.add_argument("--timeout", type=float, default=600, help="seconds after which a folder's tests are killed (600)")
    given = options.parse_args()
    out = given.out or pathlib.Path(tempfile.mkdtemp(prefix="torq-units-"))
    out.mkdir(parents=True, exist_ok=True)
    wanted = [f for f in folders() if not given.folder or any(f.is_relative_to(w) for w in given.folder)]
    total = passed = explained = 0
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for job in concurrent.futures.as_completed([pool.submit(run, f, out.resolve(), given.settle, given.timeout) for f in wanted]):
            lines, good, known, text = job.result()
            total, passed, explained = total + lines, passed + good, explained + known
            print(text, flush=True)
    print(f"{passed} of {total} pass, {explained} fail for reasons in {REASONS.name}; homes in {out}")
    sys.exit(passed + explained < total)


if __name__ == "__main__":
    main()
