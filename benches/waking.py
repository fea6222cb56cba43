#!/usr/bin/env python3
"""Time from `.u.asg.wake[]` on a cluster that sleeps until its nodes have answered a query over the whole day, against their number.

    .venv/bin/python benches/waking.py BINARY [--bytes 10000000000] [--nodes 1,2,4]

For each number of nodes: a tickerplant with `--idle-off`, a group whose nodes are of such a size that so many hold the day, and a publisher that sends the
day in updates of 10,000 rows. Once the cluster has fallen asleep, `.u.asg.wake[]` is called, and `select n:count i, last seq from trade` is sent to all nodes
until their windows cover the day without a gap and their rows are all that were sent. Prints the time until the first node answers, and until all do.
Needs as much memory and disk as the day has, and an elastick that sleeps.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from harness import kdb, wire
from harness.client import Connection, KdbError
from harness.process import reserve_port
from harness.scene import SCHEMA, trades, update
from harness.whole import is_whole, spans

GONE = (OSError, EOFError, KdbError, AssertionError)
ROWS = 10_000
DEADLINE_S = 900
ROLL_PERCENT = 80
# Memory of a node without data, and what its columns may take beyond the log's bytes.
SLACK = 1.15
ROOM_BYTES = 64 << 20


class Cluster:
    def __init__(self, binary, directory, nodes, day_bytes):
        self.binary, self.directory, self.processes = binary, directory, []
        (directory / "sym.q").write_text(SCHEMA)
        self.port, fleet = reserve_port(), reserve_port()
        memory = int(day_bytes * SLACK / nodes / (ROLL_PERCENT / 100)) + ROOM_BYTES
        self.start("tick", "sym", directory / "logs", "-p", self.port, "--schemas", directory / "sym.q", "--node-fleet", f"127.0.0.1:{fleet}/rdb",
                   "--wake", "first-update", "--idle-off", "5s", "--quiet")  # fmt: skip
        self.wait(lambda: Connection(self.port).close() or True, "the tickerplant listens")
        node = (binary, "rdb", f"127.0.0.1:{self.port}", "-p", "0", "--memory", memory, "--scale", "30", "--roll-threshold", ROLL_PERCENT)
        self.start("fleet", "-p", f"127.0.0.1:{fleet}", "--group", "rdb", "--min", 0, "--max", nodes + 4, "--", *node)

    def start(self, *command):
        with open(self.directory / f"out-{len(self.processes)}", "wb") as output:
            command = [str(part) for part in (self.binary, *command)]
            self.processes.append(subprocess.Popen(command, stdout=output, stderr=output, cwd=self.directory))

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()

    def wait(self, done, what, pause_s=0.02):
        by = time.monotonic() + DEADLINE_S
        while time.monotonic() < by:
            try:
                if found := done():
                    return found
            except GONE:
                pass
            time.sleep(pause_s)
        raise SystemExit(f"{what}: not within {DEADLINE_S} s")

    def ask(self, port, text):
        with Connection(port) as connection:
            return connection.ask(kdb.chars(text))

    def publish(self, updates):
        """Sends the day; the last update is acknowledged."""
        message = wire.message(update("trade", trades(0, ROWS)), wire.ASYNC)
        with Connection(self.port, deadline_s=DEADLINE_S) as feed:
            for _ in range(updates - 1):
                feed.socket.sendall(message)
            feed.ask(update("trade", trades(0, ROWS)))

    def nodes(self):
        table = self.ask(self.port, "select port from .u.asg.tab where state<>`lost").v
        return list(table["port"].v)

    def look(self):
        """Windows of all nodes, and rows in them."""
        windows, rows = [], 0
        for port in self.nodes():
            count, held = self.ask(port, "(count trade;.rdb.windows)").v
            rows += count.v
            windows += spans(held)
        return windows, rows

    def is_held(self, updates):
        windows, rows = self.look()
        return is_whole(windows) and rows == updates * ROWS


def measure(binary, nodes, day_bytes):
    with tempfile.TemporaryDirectory(prefix="elastick-waking-") as directory:
        cluster = Cluster(binary, pathlib.Path(directory), nodes, day_bytes)
        try:
            updates = day_bytes // len(wire.message(update("trade", trades(0, ROWS)), wire.ASYNC))
            cluster.publish(updates)
            cluster.wait(lambda: cluster.is_held(updates), "nodes hold the day")
            held_by = len(cluster.nodes())
            cluster.wait(lambda: not cluster.nodes(), "the cluster sleeps", 0.2)
            began = time.monotonic()
            cluster.ask(cluster.port, ".u.asg.wake[]")
            cluster.wait(lambda: cluster.look()[0], "the first node answers")
            first_s = time.monotonic() - began
            cluster.wait(lambda: cluster.is_held(updates), "the day is there again")
            whole_s = time.monotonic() - began
        finally:
            cluster.close()
    print(f"{held_by:5} {updates * ROWS:13,} {first_s:8.2f} {whole_s:8.2f} {day_bytes / whole_s / 1e6:8.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--bytes", type=int, default=10_000_000_000)
    parser.add_argument("--nodes", default="1,2,4")
    arguments = parser.parse_args()
    print("nodes          rows  first s  whole s     MB/s")
    for nodes in arguments.nodes.split(","):
        measure(arguments.binary.resolve(), int(nodes), arguments.bytes)


if __name__ == "__main__":
    main()
