#!/usr/bin/env python3
"""How fast a node that joins late replays the day's log from disk, for one or more binaries side by side.

    benches/replay.py [--rows 6000000] [--runs 3] [--rows-at-once 200] [--pieces default,64KiB] NAME=BINARY ...

Each binary's tickerplant takes the same updates once. Then, in turns, a node of each binary joins with each size of piece, and its rows and
processor time are read until it holds all of them. `cores` is user and system time over elapsed time: a node that waits for anything but
disk and processor has less than 1. The last lines are medians, and ratios to the first binary.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness import wire  # noqa: E402
from harness.client import Connection, KdbError  # noqa: E402
from harness.process import Process, reserve_port, soon  # noqa: E402
from harness.scene import SCHEMA, trades, update  # noqa: E402

READ_EVERY_S = 0.02
REPLAY_S = 600
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Site:
    """One binary's tickerplant with its log, and the nodes that replay it."""

    def __init__(self, directory, name, binary, rows, at_once):
        self.directory, self.name, self.binary, self.rows, self.nodes = directory / name, name, binary, rows, 0
        logs = self.directory / "logs"
        logs.mkdir(parents=True)
        (self.directory / "sym.q").write_text(SCHEMA)
        self.port = reserve_port()
        self.tick = self.started(
            "tick", "tick", "sym", logs, "-p", self.port, "--schemas", self.directory / "sym.q", "--node-grace", "1s"
        )
        self.tick.port
        message = wire.message(update("trade", trades(0, at_once)), wire.ASYNC)
        with Connection(self.port, deadline_s=REPLAY_S) as h:
            for _ in range(rows // at_once):
                h.raw(message)
            taken = h.ask(".u.i").v
        if taken != rows // at_once:
            raise SystemExit(f"{name}: the tickerplant took {taken} updates of {rows // at_once}")

    def started(self, name, *arguments):
        return Process(name, arguments, self.directory, program=self.binary)

    def is_free(self):
        """Whether the window of the node before has been given back."""
        with Connection(self.port) as h:
            return h.ask("count select from .u.asg.tab where state<>`lost").v == 0

    def replay(self, piece):
        """(rows/s, cores) of a node that joins now, between the first rows that are seen and the last."""
        if not soon(self.is_free, 60):
            raise SystemExit(f"{self.name}: the tickerplant keeps the window of a node that was killed")
        options = () if piece == "default" else ("--limit-log-read-chunk", piece)
        self.nodes += 1
        node = self.started(
            f"node{self.nodes}", "rdb", f"127.0.0.1:{self.port}", "-p", "0", "--memory", "4GiB", *options
        )
        try:
            return self.watch(node)
        finally:
            node.kill()
            node.close()

    def watch(self, node):
        first = None
        end = time.monotonic() + REPLAY_S
        with Connection(node.port, deadline_s=REPLAY_S) as h:
            while time.monotonic() < end:
                try:
                    rows = h.ask(".rdb.stats")["rows"].v
                except KdbError:
                    rows = 0
                reading = (time.monotonic(), rows, cpu_s(node.pid))
                first = first or (reading if rows else None)
                if rows >= self.rows:
                    elapsed = reading[0] - first[0]
                    return (rows - first[1]) / elapsed, (reading[2] - first[2]) / elapsed
                time.sleep(READ_EVERY_S)
        raise SystemExit(f"{self.name}: {rows} rows of {self.rows} after {REPLAY_S} s{node.tail()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+", metavar="NAME=BINARY")
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rows-at-once", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pieces", default="default,64KiB")
    options = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="elastick-replay-"))
    sites = []
    try:
        for given in options.binaries:
            name, _, binary = given.partition("=")
            rows = options.rows // options.rows_at_once * options.rows_at_once
            sites.append(Site(directory, name, str(pathlib.Path(binary).resolve()), rows, options.rows_at_once))
        seen = {}
        for run in range(options.runs):
            for piece in options.pieces.split(","):
                for site in sites if run % 2 == 0 else reversed(sites):
                    rate, cores = site.replay(piece)
                    print(f"{site.name:10} piece {piece:8} {rate:12,.0f} rows/s {cores:6.2f} cores", flush=True)
                    seen.setdefault((piece, site.name), []).append((rate, cores))
        for piece in options.pieces.split(","):
            base = None
            for site in sites:
                rate, cores = (statistics.median(column) for column in zip(*seen[piece, site.name]))
                base = base or rate
                print(f"median: {site.name:10} piece {piece:8} {rate:12,.0f} rows/s, {rate / base:.2f} of the first, {cores:.2f} cores")
    finally:
        for site in sites:
            site.tick.kill()
            site.tick.close()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
