#!/usr/bin/env python3
"""Time from the death of the active tickerplant to the first update that the next one accepts.

    .venv-aws/bin/python benches/failover.py BINARY [--leases file:,3,6,20] [--times 100] [--pairs 10] [--kinds kill,hand-over] [--copies]

For each lease (`file:`, or seconds of a lease in a DynamoDB table, which dynalite serves on this machine) several pairs of tickerplants run side by
side, each pair with a log directory and a publisher of its own, which sends one row at a time and knows both addresses. With `--copies` each
tickerplant has a log directory of its own, under `--durability replica(1)`, and a round begins once the lease names both. `kill` ends the active one by
kill -9, `hand-over` calls .u.failover; in either case the one that was active is the passive one of the next round. Prints median, 90th percentile
and worst of all rounds, and ends with 1 if an acknowledged row is missing in a log, or is there twice.
BINARY has the feature aws. tests/run aws installs what this needs.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from harness import kdb, tplog
from harness.client import Connection, KdbError
from harness.process import reserve_port
from harness.scene import SCHEMA, trades, update

LOG = re.compile(r"sym\d{4}\.\d\d\.\d\d")
STATE = kdb.lst(kdb.sym(".u.state"), kdb.NIL)
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
GONE = (OSError, EOFError, KdbError, AssertionError)
# Between two attempts of a publisher to find the active one, and between two updates.
RETRY_S = 0.002
PACE_S = 0.002
DEADLINE_S = 120


class Pair:
    """Two tickerplants of one log, and the rows that they have acknowledged."""

    def __init__(self, binary, lease, directory, has_copies):
        self.binary, self.lease, self.directory, self.has_copies = binary, lease, directory, has_copies
        self.logs = [directory / name for name in (["one", "two"] if has_copies else ["logs", "logs"])]
        directory.mkdir(parents=True)
        (directory / "sym.q").write_text(SCHEMA)
        self.ports = [reserve_port(), reserve_port()]
        self.processes = [None, None]
        self.next, self.acknowledged, self.starts, self.active = 0, [], 0, 0

    def start(self, which):
        self.starts += 1
        addresses = [f"127.0.0.1:{port}" for port in self.ports]
        command = [self.binary, "tick", "sym", self.logs[which], "-p", addresses[which], "--lease", self.lease, "--unix-sockets="]
        if self.has_copies:
            command += ["--follow", ",".join(addresses), "--durability", "replica(1)"]
        output = open(self.directory / f"tick{self.starts}", "wb")
        environment = {**os.environ, **KEYS}
        self.processes[which] = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output, env=environment, cwd=self.directory)
        output.close()

    def state(self, which):
        try:
            with Connection(self.ports[which]) as connection:
                return connection.ask(STATE).py()
        except GONE:
            return {"role": None}

    def wait(self, role, which=(0, 1)):
        """Returns which of the two has a role, once one has."""
        by = time.monotonic() + DEADLINE_S
        while time.monotonic() < by:
            for one in which:
                if self.state(one)["role"] == role:
                    return one
            time.sleep(0.02)
        raise SystemExit(f"no tickerplant of {self.directory} is {role}")

    def wait_until_it_may_take_over(self, which):
        by = time.monotonic() + DEADLINE_S
        while self.has_copies and self.state(which).get("trouble"):
            if time.monotonic() > by:
                raise SystemExit(f"a tickerplant of {self.directory} may not take over: {self.state(which)['trouble']}")
            time.sleep(0.02)

    def publish(self, connection):
        connection.ask(update("trade", trades(self.next, 1)))
        self.acknowledged.append(self.next)

    def first_accepted(self, since, order):
        """Publishes one row to whoever accepts it. The time since then, and the connection."""
        while time.monotonic() < since + DEADLINE_S:
            for which in order:
                # A row of an attempt that failed may be in the log: it is not sent again.
                self.next += 1
                try:
                    connection = Connection(self.ports[which])
                except GONE:
                    continue
                try:
                    self.publish(connection)
                    return time.monotonic() - since, connection
                except GONE:
                    connection.close()
            time.sleep(RETRY_S)
        raise SystemExit(f"nobody accepts updates in {self.directory}")

    def round(self, kind):
        """One change of the active tickerplant; seconds until an update was accepted."""
        active = self.wait("active")
        passive = 1 - active
        if self.processes[passive] is None:
            self.start(passive)
        self.wait("passive", [passive])
        self.wait_until_it_may_take_over(passive)
        connection = Connection(self.ports[active])
        for _ in range(20):
            self.next += 1
            self.publish(connection)
            time.sleep(PACE_S)
        since = time.monotonic()
        if kind == "kill":
            self.processes[active].kill()
            self.processes[active].wait()
            self.processes[active] = None
        else:
            connection.ask(kdb.lst(kdb.sym(".u.failover"), kdb.NIL))
        connection.close()
        took, connection = self.first_accepted(since, [passive, active])
        connection.close()
        if self.state(passive)["role"] != "active":
            raise SystemExit(f"the former one is active again in {self.directory}")
        self.active = passive
        return took

    def run(self, kind, times, found):
        try:
            self.start(0)
            self.wait("active")
            for _ in range(times):
                found.append(self.round(kind))
        except SystemExit as failed:
            print(failed, file=sys.stderr)

    def close(self):
        for process in filter(None, self.processes):
            process.kill()
            process.wait()

    def check(self):
        """Numbers of acknowledged rows that the log of the last active one lacks, and of rows that are there twice."""
        logs = [path for path in self.logs[self.active].iterdir() if LOG.fullmatch(path.name)]
        rows = [seq for log in logs for record in tplog.read(log) for seq in record[2][4].v]
        return len(set(self.acknowledged) - set(rows)), len(rows) - len(set(rows))


def url(lease, store, pair):
    if lease == "file:":
        return lease
    from aws.cloud import leases

    table = f"failover-{os.getpid()}-{pair}-{lease}-{time.time_ns()}"
    leases.create(store.client("dynamodb"), table)
    return f"dynamodb://{table}/tick?region=us-east-1&endpoint={store.direct}&duration={lease}s"


def measure(arguments, lease, kind, store):
    pairs, found, threads = [], [], []
    with tempfile.TemporaryDirectory(prefix="elastick-failover-") as directory:
        for number in range(arguments.pairs):
            pairs.append(Pair(arguments.binary, url(lease, store, number), pathlib.Path(directory) / str(number), arguments.copies))
        each = -(-arguments.times // arguments.pairs)
        for pair in pairs:
            thread = threading.Thread(target=pair.run, args=(kind, each, found), daemon=True)
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()
        for pair in pairs:
            pair.close()
        missing, twice = map(sum, zip(*(pair.check() for pair in pairs)))
        acknowledged = sum(len(pair.acknowledged) for pair in pairs)
    if len(found) < each * arguments.pairs:
        raise SystemExit(f"{lease} {kind}: {each * arguments.pairs - len(found)} rounds have failed")
    found.sort()
    shown = [found[len(found) // 2], found[len(found) * 9 // 10], found[-1]]
    figures = " ".join(f"{seconds:8.3f}" for seconds in shown)
    name = lease if lease == "file:" else f"{lease} s"
    print(f"{name:6} {kind:9} {len(found):5} {figures} {acknowledged:12,} {missing:8} {twice:6}", flush=True)
    return missing + twice


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--leases", default="file:,3,6,20")
    parser.add_argument("--kinds", default="kill,hand-over")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--copies", action="store_true")
    arguments = parser.parse_args()
    arguments.binary = arguments.binary.resolve()
    leases = arguments.leases.split(",")
    store = None
    if leases != ["file:"]:
        from aws.cloud import leases as tables

        if reason := tables.missing("dynalite"):
            raise SystemExit(f"no stand-in for DynamoDB: {reason}")
        store = tables.store("dynalite")
    print("lease  kind      times   median      90%    worst acknowledged  missing  twice")
    wrong = sum(measure(arguments, lease, kind, store) for kind in arguments.kinds.split(",") for lease in leases)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
