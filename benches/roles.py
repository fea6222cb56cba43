#!/usr/bin/env python3
"""What roles cost a query: processor time and latency of queries of users with and without roles.

    roles.py BINARY [--pairs 7] [--rounds 6] [--queries 2000]

Two nodes hold the same rows; one of them has a users file. The kinds of user take turns, so that other load on the machine meets them alike.
Two processes of one program differ by more than a role costs (where their memory lies, which thread runs), so there are several such
pairs. Prints medians, and the difference from the node without users: its median and range over the pairs. Ends with 1 if a role costs
more than 2 microseconds of processor time in a query that reads no restricted table.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from harness import kdb, wire
from harness.client import Connection

SCHEMA = "trade:([]time:`timespan$();sym:`symbol$();seq:`long$())\nquote:([]time:`timespan$();sym:`symbol$();seq:`long$())\n"
USERS = """
[roles.some]
query = { trade = "sym=`A", quote = true }
[users.all]
password = ""
roles = ["publish", "query", "node", "operator"]
[users.some]
password = ""
roles = ["some"]
[users.""]
password = ""
roles = ["node", "query"]
"""
ROWS = 1000
OPEN = "no users file"
MAX_US = 2.0
# A query, and whether it reads a table of which the user `some` may read some rows only.
QUERIES = [("1+1", False), ("exec count i from quote", False), ("exec count i from trade", True)]


def start(binary, directory, *arguments):
    command = [binary, *arguments, "--unix-sockets="]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory)
    for line in process.stdout:
        if found := re.search(r"listening on (\d+)", line):
            return process, int(found.group(1))
    raise SystemExit(f"{' '.join(command)} does not start")


def processor_s(process):
    """Processor time of all threads so far, to the nanosecond."""
    threads = pathlib.Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def measure(process, connection, text, queries):
    """Microseconds of processor time and of elapsed time per query."""
    message = wire.message(kdb.chars(text), wire.SYNC)
    used, began = processor_s(process), time.perf_counter()
    for _ in range(queries):
        connection.raw(message)
        connection.answer()
    return (processor_s(process) - used) / queries * 1e6, (time.perf_counter() - began) / queries * 1e6


def wait(done, otherwise):
    deadline = time.monotonic() + 30
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(otherwise)
        time.sleep(0.05)


def node(binary, directory, *options):
    """A tickerplant with a node that holds rows of two tables. Returns the processes and the node's port."""
    tick, port = start(binary, directory, "tick", "sym", "-p", "127.0.0.1:0", "--schemas", directory, *options)
    rdb, rdb_port = start(binary, directory, "rdb", f"127.0.0.1:{port}", "-p", "0", *options)
    feed, queries = Connection(port, user="all:"), Connection(rdb_port, user="all:")
    # Without a log a node has only what was published after it joined.
    wait(lambda: feed.ask("exec count i from .u.asg.tab where state=`live").v == 1, "the node does not join")
    for table in ("trade", "quote"):
        columns = kdb.lst(kdb.syms(*("AB"[i % 2] for i in range(ROWS))), kdb.longs(list(range(ROWS))))
        feed.ask(kdb.lst(kdb.sym(".u.upd"), kdb.sym(table), columns))
    wait(lambda: queries.ask("count[trade]+count quote").v == 2 * ROWS, "the node does not receive the rows")
    return tick, rdb, rdb_port


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--queries", type=int, default=2000)
    args = parser.parse_args()
    binary = str(pathlib.Path(args.binary).resolve())
    pairs = []
    for pair in range(args.pairs):
        pairs.append(of_pair(binary, args))
        print(f"pair {pair + 1} of {args.pairs}", file=sys.stderr, flush=True)
    return report(pairs)


def of_pair(binary, args):
    """Processor and elapsed time by query and kind of user, for two new nodes: medians over the rounds."""
    with tempfile.TemporaryDirectory() as directory:
        (pathlib.Path(directory) / "sym.q").write_text(SCHEMA)
        (pathlib.Path(directory) / "users.toml").write_text(USERS)
        open_processes = node(binary, directory)
        with_users = node(binary, directory, "-U", "users.toml")
        kinds = {
            OPEN: (open_processes[1], Connection(open_processes[2], user="all:")),
            "role query": (with_users[1], Connection(with_users[2], user="all:")),
            "role query, some rows of trade": (with_users[1], Connection(with_users[2], user="some:")),
        }
        try:
            figures = {(text, kind): [] for text, _ in QUERIES for kind in kinds}
            for text, _ in QUERIES:
                for _ in range(args.rounds):
                    for kind, (process, connection) in kinds.items():
                        figures[text, kind].append(measure(process, connection, text, args.queries))
            return {key: [statistics.median(of) for of in zip(*rounds)] for key, rounds in figures.items()}
        finally:
            for process in (*open_processes[:2], *with_users[:2]):
                process.kill()
                process.wait()


def report(pairs):
    costly = []
    for text, is_restricted in QUERIES:
        print(text)
        for kind in [kind for of, kind in pairs[0] if of == text]:
            processor, elapsed = (statistics.median(pair[text, kind][of] for pair in pairs) for of in (0, 1))
            more = sorted(pair[text, kind][0] - pair[text, OPEN][0] for pair in pairs)
            cost = statistics.median(more)
            span = f"({cost:+.2f}; {more[0]:+.2f} to {more[-1]:+.2f})"
            print(f"  {kind:32} processor {processor:6.2f} us {span:28} elapsed {elapsed:6.1f} us")
            if cost > MAX_US and not is_restricted:
                costly.append((text, kind))
    return int(bool(costly))


if __name__ == "__main__":
    sys.exit(main())
