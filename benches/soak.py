#!/usr/bin/env python3
"""A soak: a tickerplant, a group of nodes that roll, feeds and subscribers that come and go, queries all the while, days that end.

    benches/soak.py [--minutes 30] [--rate UPDATES/S] [--day 180] [--memory 256MiB] [--out FILE] [--keep DIR]

Without --rate it first measures how much one feed gets through, on a cluster of its own, and takes half of it. It prints and writes (CSV)
the tickerplant's memory and descriptors all along; at the end of each day what was accepted beside what all nodes together hold, any
difference is drift; and each night, when nothing is under way, memory and descriptors again. The exit code is 1, with the reason, if
memory or descriptors grew from night to night (benches/README.md says what counts), or anything differs, or was lost on the way.
"""

import argparse
import json
import pathlib
import re
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness import process as processes  # noqa: E402
from harness.client import Connection, KdbError  # noqa: E402
from harness.cluster import GONE  # noqa: E402
from harness.process import Process, reserve_port, soon  # noqa: E402
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
# How long a subscriber stays, and how long until the next one comes.
SUBSCRIBER_S = 5
MB = 1 << 20
NODES_AT_NIGHT = 2
NODES_MOST = 40
# Memory is flat if the median of the last third of readings is above that of the first third by no more than the larger of these.
GROWTH_SHARE = 0.1
GROWTH_BYTES = 4 * MB
# What no process may have said.
ALARMS = re.compile(r"panicked|is lost|as it was logged|nobody in \S+ held")


def ask(port, question, deadline_s=60):
    with Connection(port, deadline_s=deadline_s) as h:
        return h.ask(question)


def descriptors(process):
    return len(list(pathlib.Path(f"/proc/{process.pid}/fd").iterdir()))


def growth(readings):
    """The medians of the first and of the last third of some readings."""
    third = max(1, len(readings) // 3)
    return statistics.median(readings[:third]), statistics.median(readings[-third:])


class Site:
    """A tickerplant and a group of nodes."""

    def __init__(self, memory, keep=None):
        self.keep = keep
        self.directory = pathlib.Path(keep or tempfile.mkdtemp(prefix="elastick-soak-"))
        self.logs = self.directory / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.port = reserve_port()
        schema = str(ROOT / "schemas" / "sym.q")
        self.tick = self.started("tick", "tick", "sym", self.logs, "-p", self.port, "--schemas", schema, "--node-grace", "5s")
        self.tick.port
        node = (processes.binary(), "rdb", f"127.0.0.1:{self.port}", "-p", "0", "--memory", memory)
        node += ("--scale", "40", "--roll-threshold", "70")
        group = ("-p", "127.0.0.1:0", "--group", "rdb", "--min", NODES_AT_NIGHT, "--max", NODES_MOST, "--notice", "20s")
        self.fleet = self.started("fleet", "fleet", *group, "--", *node)

    def started(self, name, *arguments):
        return Process(name, arguments, self.directory)

    def feed(self, seconds, rate, seed, stopped):
        """One feed for so long, over a connection of its own; what it says was accepted."""
        arguments = ("feed", f"127.0.0.1:{self.port}", "--tables", "trade,quote", "--rate", rate, "--json", "--seed", seed)
        feed = self.started(f"feed{seed}", *arguments)
        stopped.wait(seconds)
        feed.signal(signal.SIGTERM)
        feed.wait(120)
        told = [line for line in feed.printed().splitlines() if line.startswith("{")]
        feed.close()
        if not told:
            raise SystemExit(f"the feed has told no account{feed.tail()}")
        feed.output_path.unlink()
        return json.loads(told[-1])

    def top_rate(self):
        """Updates a second that one feed gets through, with nodes that take them."""
        soon(self.nodes, 60)
        told = self.feed(10, 10_000_000, 0, threading.Event())
        return told["updates"] / told["seconds"]

    def nodes(self):
        """Names, ports and states of the nodes that are in the queue."""
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
        is_full = len(self.nodes()) >= NODES_MOST
        why = f"; the group has {NODES_MOST} nodes at most, and a shorter --day needs fewer" if is_full else ""
        raise SystemExit(f"the nodes do not hold the whole day: {sorted(windows)}, tip {tip}{why}")

    def alarms(self):
        """Lines of tickerplant and nodes (the group prints theirs) that tell of harm."""
        lines = [line for process in (self.tick, self.fleet) for line in process.printed().splitlines()]
        return [line for line in lines if ALARMS.search(line)]

    def close(self):
        self.fleet.terminate()
        for process in (self.fleet, self.tick):
            process.close()
        if not self.keep:
            shutil.rmtree(self.directory, ignore_errors=True)


class Soak:
    def __init__(self, site, options, rate):
        self.site, self.options, self.rate = site, options, rate
        self.stopped = threading.Event()
        # Held by whoever asks, and by whoever subscribes; at night both by who reads, so that nothing is under way.
        self.asking, self.subscribing = threading.Lock(), threading.Lock()
        self.readings, self.nights, self.wrong = [], [], []
        self.days, self.rolled, self.feeds, self.subscribers, self.queries, self.failed_queries = 0, 0, 0, 0, 0, 0
        self.accepted_today = dict.fromkeys(TABLES, 0)
        self.accepted = 0

    # What goes on.

    def account(self, told):
        self.feeds += 1
        self.accepted += told["updates"]
        for table, of in told["tables"].items():
            self.accepted_today[table] += of["rows"]
        odd = {what: told[what] for what in ("unconfirmed", "refused", "reconnects", "resent") if told[what]}
        if odd:
            self.wrong.append(f"feed {self.feeds} tells of {odd}")

    def feed_all_along(self, until):
        """Feeds of a minute, each over a new connection; between two of them days end."""
        day_ends = time.monotonic() + self.options.day
        while time.monotonic() < until:
            seconds = min(FEED_S, self.options.day, max(1.0, until - time.monotonic()))
            self.account(self.site.feed(seconds, self.rate, self.feeds + 1, self.stopped))
            if time.monotonic() >= min(day_ends, until):
                self.end_day()
                day_ends = time.monotonic() + self.options.day

    def end_day(self):
        """Compares what was accepted with what is held; then the day ends, and logs of days before are removed."""
        held, states = self.site.held(), self.site.states()
        self.days += 1
        drift = {table: held[table] - self.accepted_today[table] for table in TABLES}
        if any(drift.values()):
            self.wrong.append(f"day {self.days}: held less accepted {drift}")
        self.rolled += states.count("rolled")
        counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
        print(f"  day {self.days}: accepted {self.accepted_today}, held {held}, nodes: {counts}", flush=True)
        self.accepted_today = dict.fromkeys(TABLES, 0)
        ask(self.site.port, ".u.endofday[]")
        with self.asking, self.subscribing:
            self.read_at_night()
        today = ask(self.site.port, ".u.L").v
        for path in self.site.logs.iterdir():
            if re.search(r"\d{4}\.\d\d\.\d\d", path.name) and pathlib.Path(today[1:]).name not in path.name:
                path.unlink()

    def read_at_night(self):
        """Once as many nodes are left as on the other nights, and connections that have ended are gone."""
        if not soon(lambda: len(self.site.nodes()) == NODES_AT_NIGHT, 120):
            self.wrong.append(f"night {self.days}: {len(self.site.nodes())} nodes are left, not {NODES_AT_NIGHT}")
        tick = self.site.tick
        least = min((night[1] for night in self.nights), default=0)
        soon(lambda: descriptors(tick) <= least, 5)
        self.nights.append((tick.memory_bytes(), descriptors(tick)))
        print(f"  night {self.days}: memory {self.nights[-1][0] / MB:.1f} MB, descriptors {self.nights[-1][1]}", flush=True)

    def query_all_along(self):
        """One question after another, each over a connection of its own."""
        while not self.stopped.is_set():
            with self.asking:
                try:
                    for _, port, _ in self.site.nodes():
                        ask(port, QUERIES[self.queries % len(QUERIES)])
                        self.queries += 1
                except (KdbError, *GONE):
                    # A node that has just left, or that waits and has no tables yet.
                    self.failed_queries += 1
            self.stopped.wait(0.1)

    def subscribe_all_along(self):
        """Stock subscribers come, take all quotes for a while, as fast as they can be read, and go in the middle of it."""
        while not self.stopped.wait(SUBSCRIBER_S):
            with self.subscribing:
                try:
                    with Connection(self.site.port, deadline_s=60) as h:
                        h.ask(".u.sub[`quote;`]")
                        self.subscribers += 1
                        self.drain(h.socket, time.monotonic() + SUBSCRIBER_S)
                except GONE as gone:
                    self.wrong.append(f"subscriber {self.subscribers}: {gone!r}")

    def drain(self, socket, until):
        """Reads and throws away, for so long."""
        while (rest := until - time.monotonic()) > 0 and not self.stopped.is_set():
            socket.settimeout(rest)
            try:
                if not socket.recv(MB):
                    raise ConnectionError("the tickerplant has ended the connection")
            except TimeoutError:
                return

    def read_all_along(self, began):
        tick = self.site.tick
        while not self.stopped.wait(READ_EVERY_S):
            self.readings.append((time.monotonic() - began, tick.memory_bytes(), descriptors(tick), self.accepted))

    # From the beginning to the end.

    def run(self):
        soon(self.site.nodes, 60)
        began = time.monotonic()
        print(f"{self.rate:,.0f} updates a second for {self.options.minutes} minutes", flush=True)
        beside = [
            threading.Thread(target=self.query_all_along, daemon=True),
            threading.Thread(target=self.subscribe_all_along, daemon=True),
            threading.Thread(target=self.read_all_along, args=(began,), daemon=True),
        ]
        for thread in beside:
            thread.start()
        self.feed_all_along(began + self.options.minutes * 60)
        self.stopped.set()
        for thread in beside:
            thread.join(120)
        return self.report()

    def judge(self):
        """What else is wrong, now that it is over."""
        for name, readings in (("by day", [memory for _, memory, *_ in self.readings]), ("by night", [memory for memory, _ in self.nights])):
            first, last = growth(readings)
            print(f"tickerplant's memory {name}, medians of thirds: first {first / MB:.1f} MB, last {last / MB:.1f} MB")
            if last - first > max(GROWTH_SHARE * first, GROWTH_BYTES):
                self.wrong.append(f"the tickerplant's memory {name} has grown from {first / MB:.1f} to {last / MB:.1f} MB")
        first, last = self.nights[0][1], self.nights[-1][1]
        if last > first:
            self.wrong.append(f"the tickerplant has {last} descriptors, {first} in the first night")
        if not self.site.tick.is_running() or not self.site.fleet.is_running():
            self.wrong.append("a process has ended")
        if self.days > 1 and not self.rolled:
            self.wrong.append("no node has rolled: with this rate and memory it shows little")
        self.wrong += self.site.alarms()

    def report(self):
        out = pathlib.Path(self.options.out)
        lines = [f"{at:.0f},{memory},{files},{accepted}" for at, memory, files, accepted in self.readings]
        out.write_text("seconds,tick_memory_bytes,tick_descriptors,updates_accepted\n" + "\n".join(lines) + "\n")
        first, last = self.readings[0], self.readings[-1]
        most = max(memory for _, memory, *_ in self.readings)
        print(f"accepted {self.accepted:,} updates of {self.feeds} feeds; {self.days} days, {self.rolled} windows rolled")
        print(f"subscribers that came and went {self.subscribers}; queries {self.queries:,}, of nodes that were leaving {self.failed_queries}")
        print(f"tickerplant: memory {first[1] / MB:.1f} MB at {first[0]:.0f} s, {last[1] / MB:.1f} MB at {last[0]:.0f} s, {most / MB:.1f} MB at most")
        for name, night in (("first", self.nights[0]), ("last", self.nights[-1])):
            print(f"tickerplant in the {name} night: memory {night[0] / MB:.1f} MB, descriptors {night[1]}")
        self.judge()
        print(f"readings: {out}")
        print("wrong: " + ("\n  ".join(["", *self.wrong[:20]]) if self.wrong else "nothing; no drift between accepted and held rows"))
        return 1 if self.wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, help="updates a second; by default half of what one feed gets through")
    parser.add_argument("--day", type=float, default=180, help="seconds until the day ends and its rows are dropped")
    parser.add_argument("--memory", default="256MiB", help="of each node")
    parser.add_argument("--out", default="soak.csv")
    parser.add_argument("--keep", help="directory for logs and outputs, kept")
    options = parser.parse_args()
    rate = options.rate
    if rate is None:
        trial = Site(options.memory)
        try:
            top = trial.top_rate()
        finally:
            trial.close()
        print(f"one feed gets {top:,.0f} updates a second through", flush=True)
        rate = top / 2
    site = Site(options.memory, options.keep)
    try:
        return Soak(site, options, rate).run()
    finally:
        site.close()


if __name__ == "__main__":
    sys.exit(main())
