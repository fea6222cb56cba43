#!/usr/bin/env python3
"""Runs the Python tests of one suite, several test classes at a time, each in a process of its own.

    tests/suite.py faults                  all of tests/faults
    tests/suite.py faults --jobs 1 -k disk    one after the other, only tests whose name contains "disk"

Most of these tests wait for processes rather than compute, so running them side by side saves minutes even on two cores. What
a class printed is shown whole when it has ended, and again at the end for those that failed. The classes that took longest in the
last run start first, so that none of them runs alone at the end; without a last run those that say that they are long (TAKES_S).
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

TESTS = pathlib.Path(__file__).parent
# Seconds that a class counts for that has never passed here and does not say what it takes.
UNKNOWN_S = 30
# Seconds that each class took when it last passed.
TIMES = TESTS.parent / "target" / "suite-times.json"
RAN = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
SKIPPED = re.compile(r"^.* \.\.\. skipped .*$", re.MULTILINE)


def classes(suite, patterns):
    """unittest names of the suite's test classes with a selected test: the longest first, those of which nothing is known by size."""
    sys.path.insert(0, str(TESTS))
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*" for pattern in patterns] or None
    found, times = {}, last_times()

    def collect(tests):
        for test in tests:
            if isinstance(test, unittest.TestSuite):
                collect(test)
            elif isinstance(test, unittest.loader._FailedTest):
                raise test._exception
            else:
                kind = type(test)
                name = f"{kind.__module__}.{kind.__qualname__}"
                source = pathlib.Path(sys.modules[kind.__module__].__file__)
                seconds = times.get(name, getattr(kind, "TAKES_S", UNKNOWN_S))
                found[name] = (-seconds, -source.stat().st_size, name)

    collect(loader.discover(str(TESTS / suite), top_level_dir=str(TESTS)))
    return sorted(found, key=found.get)


def last_times():
    with contextlib.suppress(OSError, ValueError):
        return json.loads(TIMES.read_text())
    return {}


def run(name, patterns):
    """Runs one class. Returns its name, whether it passed, its duration in seconds, and its output."""
    began = time.monotonic()
    chosen = [argument for pattern in patterns for argument in ("-k", pattern)]
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "--verbose", *chosen, name],
        cwd=TESTS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return name, done.returncode == 0, time.monotonic() - began, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", help="a folder of tests/: clients, faults, aws, deploy or efs")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("ELASTICK_TEST_JOBS", "3")), help="test classes at a time")
    parser.add_argument("-k", dest="patterns", action="append", default=[], help="only tests whose name contains this")
    arguments = parser.parse_args()
    names = classes(arguments.suite, arguments.patterns)
    if not names:
        sys.exit(f"tests/suite.py: no test of {arguments.suite} is chosen")
    began, ran, skipped, failed, took = time.monotonic(), 0, 0, [], {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, name, arguments.patterns) for name in names]):
            name, passed, seconds, output = future.result()
            print(f"{'ok    ' if passed else 'FAILED'} {name} ({seconds:.1f} s)", flush=True)
            left_out = SKIPPED.findall(output)
            for line in left_out if passed else [output]:
                print(f"       {line}", flush=True)
            ran += sum(int(count) for count in RAN.findall(output))
            skipped += len(left_out)
            if not passed:
                failed.append((name, output))
            elif not arguments.patterns:
                took[name] = round(seconds, 1)
    if TIMES.parent.is_dir():
        TIMES.write_text(json.dumps({**last_times(), **took}, indent=0, sort_keys=True))
    for name, output in failed:
        print(f"\n== {name} failed\n{output}", flush=True)
    print(f"{arguments.suite}: ran {ran} tests of {len(names)} classes in {time.monotonic() - began:.1f} s, {skipped} skipped")
    sys.exit(f"{arguments.suite}: failed: {', '.join(name for name, _ in failed)}" if failed else 0)


if __name__ == "__main__":
    main()
