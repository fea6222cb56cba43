#!/usr/bin/env python3
"""A soak: a tickerplant, a group of nodes that roll, feeds that come and go, queries all the while, days that end.

    benches/soak.py [--minutes 30] [--rate UPDATES/S] [--day 180] [--memory 256MiB] [--out FILE] [--keep DIR]

Without --rate it first measures how much one feed gets through and takes half of it. It prints and writes (CSV) the tickerplant's memory and
descriptors all along, and at the end of each day what was accepted beside what all nodes together hold: any difference is drift.
Exit code 1 if there was drift, or a process had to be started again.
"""

import argparse
import json
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness import process as processes  # noqa: E402
from harness.client import Connection, KdbError  # noqa: E402
from harness.cluster import GONE  # noqa: E402
from harness.process import Process, reserve_port  # noqa: E402
from harness.whole import is_whole, spans  # noqa: E402

TABLES = ("trade", "quote")
QUERIES = (
    "select count i, last price by sym from trade",
    "select n:count i, bid:max bid by sym from quote",
    "select from trade where i>count[trade]-100",
    ".rdb.windows",
)
READ_EVERY_S = 10
FEED_S = 60
MB = 1 << 20


def ask(port, question, deadline_s=60):
    with Connection(port, deadline_s=deadline_s) as h:
        return h.ask(question)


def descriptors(process):
    return len(list(pathlib.Path(f"/proc/{process.pid}/fd").iterdir()))


class Soak:
    def __init__(self, options):
        self.options = options
        self.directory = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="elastick-soak-"))
        self.logs = self.directory / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.port = reserve_port()
        self.stopped = threading.Event()
        self.readings, self.nights, self.drift, self.queries, self.failed_queries = [], [], [], 0, 0
        self.days, self.rolled, self.feeds, self.reconnects = 0, 0, 0, 0
        self.accepted_today = dict.fromkeys(TABLES, 0)
        self.accepted = 0
        self.unknown = 0
        schema = str(ROOT / "schemas" / "sym.q")
        self.tick = self.started("tick", "tick", "sym", self.logs, "-p", self.port, "--schemas", schema, "--node-grace", "5s")
        self.tick.port
        node = (processes.binary(), "rdb", f"127.0.0.1:{self.port}", "-p", "0", "--memory", options.memory)
        node += ("--scale", "40", "--roll-threshold", "70")
        self.fleet = self.started("fleet", "fleet", "--group", "rdb", "--min", "2", "--max", "40", "--notice", "20s", "--", *node)

    def started(self, name, *arguments):
        return Process(name, arguments, self.directory)

    # What goes on.

    def feed(self, seconds, rate, seed):
        """One feed for so long; what it says was accepted, by table."""
        arguments = ("feed", f"127.0.0.1:{self.port}", "--tables", "trade,quote", "--rate", rate, "--json", "--seed", seed)
        feed = self.started(f"feed{seed}", *arguments)
        self.stopped.wait(seconds)
        feed.signal(signal.SIGTERM)
        feed.wait(120)
        told = [line for line in feed.printed().splitlines() if line.startswith("{")]
        feed.close()
        self.feeds += 1
        if not told:
            raise SystemExit(f"the feed has told no account{feed.tail()}")
        feed.output_path.unlink()
        return json.loads(told[-1])

    def top_rate(self):
        """Updates a second that one feed gets through, with nodes that take them."""
        told = self.feed(10, 10_000_000, 0)
        self.account(told)
        return told["updates"] / told["seconds"]

    def account(self, told):
        self.accepted += told["updates"]
        self.reconnects += told["reconnects"]
        for table, of in told["tables"].items():
            self.accepted_today[table] += of["rows"]

    def feed_all_along(self, rate, until, day_s):
        """Feeds of a minute, each over a new connection; between two of them days end."""
        day_ends, seed = time.monotonic() + day_s, 1
        while time.monotonic() < until:
            seconds = min(FEED_S, day_s, max(1.0, until - time.monotonic()))
            self.account(self.feed(seconds, rate, seed))
            seed += 1
            if time.monotonic() >= min(day_ends, until):
                self.end_day()
                day_ends = time.monotonic() + day_s

    def end_day(self):
        """Compares what was accepted with what is held; then the day ends, and logs of days before are removed."""
        held = self.held()
        self.drift.append({table: held[table] - self.accepted_today[table] for table in TABLES})
        self.rolled += self.states().count("rolled")
        print(f"  day {self.days + 1}: accepted {self.accepted_today}, held {held}, states {self.states()}", flush=True)
        self.days += 1
        self.accepted_today = dict.fromkeys(TABLES, 0)
        ask(self.port, ".u.endofday[]")
        self.wait_for_night()
        self.nights.append((self.tick.memory_bytes(), descriptors(self.tick), len(self.nodes())))
        today = ask(self.port, ".u.L").v
        for path in self.logs.iterdir():
            if re.search(r"\d{4}\.\d\d\.\d\d", path.name) and pathlib.Path(today[1:]).name not in path.name:
                path.unlink()

    def wait_for_night(self):
        """Until the nodes that were full have gone and as many are left as on the other nights."""
        end = time.monotonic() + 120
        while len(self.nodes()) != 2 and time.monotonic() < end:
            time.sleep(0.2)

    def nodes(self):
        """Ports of the nodes that are in the queue."""
        table = ask(self.port, "select node, port, state from .u.asg.tab where state<>`lost, not null port")
        return list(zip(table.v["node"].v, table.v["port"].v, table.v["state"].v))

    def states(self):
        return sorted(state for *_, state in self.nodes())

    def held(self):
        """Rows of all nodes, once their windows cover the whole log; waits until they do."""
        end = time.monotonic() + 300
        while time.monotonic() < end:
            try:
                tip, windows, rows = ask(self.port, ".u.i").v, [], dict.fromkeys(TABLES, 0)
                for _, port, _ in self.nodes():
                    shown, *counts = ask(port, "(.rdb.windows;count trade;count quote)").v
                    windows += spans(shown)
                    for table, count in zip(TABLES, counts):
                        rows[table] += count.v
                if is_whole(windows) and max(last for _, last, _ in windows) == tip:
                    return rows
            except (KdbError, *GONE):
                pass
            time.sleep(0.2)
        raise SystemExit(f"the nodes do not hold the whole day: {sorted(windows)}, tip {tip}")

    def query_all_along(self):
        """One question after another, each over a connection of its own."""
        while not self.stopped.is_set():
            try:
                for _, port, _ in self.nodes():
                    ask(port, QUERIES[self.queries % len(QUERIES)])
                    self.queries += 1
            except (KdbError, *GONE):
                # A node that has just left, or that waits and has no tables yet.
                self.failed_queries += 1
            self.stopped.wait(0.1)

    def read_all_along(self, began):
        while not self.stopped.is_set():
            self.readings.append((time.monotonic() - began, self.tick.memory_bytes(), descriptors(self.tick), self.accepted))
            self.stopped.wait(READ_EVERY_S)

    # From the beginning to the end.

    def run(self):
        options = self.options
        rate = options.rate or self.top_rate() / 2
        began = time.monotonic()
        print(f"{rate:,.0f} updates a second for {options.minutes} minutes", flush=True)
        beside = [
            threading.Thread(target=self.query_all_along, daemon=True),
            threading.Thread(target=self.read_all_along, args=(began,), daemon=True),
        ]
        for thread in beside:
            thread.start()
        self.feed_all_along(rate, began + options.minutes * 60, options.day)
        self.readings.append((time.monotonic() - began, self.tick.memory_bytes(), descriptors(self.tick), self.accepted))
        self.stopped.set()
        for thread in beside:
            thread.join(120)
        return self.report()

    def report(self):
        out = pathlib.Path(self.options.out)
        lines = [f"{at:.0f},{memory},{files},{accepted}" for at, memory, files, accepted in self.readings]
        out.write_text("seconds,tick_memory_bytes,tick_descriptors,updates_accepted\n" + "\n".join(lines) + "\n")
        first, last = self.readings[min(2, len(self.readings) - 1)], self.readings[-1]
        most = max(memory for _, memory, *_ in self.readings)
        drift = [day for day in self.drift if any(day.values())]
        restarted = not self.tick.is_running()
        print(f"accepted {self.accepted:,} updates over {self.feeds} feeds, {self.reconnects} reconnects; {self.days} days, {self.rolled} windows rolled")
        print(f"queries {self.queries:,}, of nodes that were leaving {self.failed_queries}")
        print(f"tickerplant: memory {first[1] / MB:.1f} MB at {first[0]:.0f} s, {last[1] / MB:.1f} MB at {last[0]:.0f} s, {most / MB:.1f} MB at most")
        for name, night in (("first", self.nights[0]), ("last", self.nights[-1])):
            print(f"tickerplant after the {name} day: memory {night[0] / MB:.1f} MB, descriptors {night[1]}, nodes {night[2]}")
        print(f"drift between accepted and held rows: {drift or 'none'}")
        print(f"readings: {out}")
        return 1 if drift or restarted else 0

    def close(self):
        self.stopped.set()
        self.fleet.terminate()
        for process in (self.fleet, self.tick):
            process.close()
        if not self.options.keep:
            shutil.rmtree(self.directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, help="updates a second; by default half of what one feed gets through")
    parser.add_argument("--day", type=float, default=180, help="seconds until the day ends and its rows are dropped")
    parser.add_argument("--memory", default="256MiB", help="of each node")
    parser.add_argument("--out", default="soak.csv")
    parser.add_argument("--keep", help="directory for logs and outputs, kept")
    soak = Soak(parser.parse_args())
    try:
        return soak.run()
    finally:
        soak.close()


if __name__ == "__main__":
    sys.exit(main())
