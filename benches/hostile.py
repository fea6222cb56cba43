#!/usr/bin/env python3
"""Latency of publishing while clients send expensive expressions flat out.

    hostile.py BINARY [BINARY ...] [--clients 0,1,8] [--updates 2000] [--text '.u.i;count til 400000000']

For each binary and number of clients it starts a tickerplant, a publisher and a subscriber, and measures the time from a
publisher's send to the subscriber's receipt. The binaries take turns, so that other load on the machine meets them alike.
Ends with 1 if the last binary's median with clients is more than twice its median without.
"""

import argparse
import multiprocessing
import os
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

SCHEMA = "trade:([]time:`timespan$();sym:`symbol$();seq:`long$())\n"
EVERY_S = 0.002
WARM_S = 3


def attack(port, text):
    """Sends the text, and again after each response."""
    h = Connection(port, deadline_s=3600)
    message = wire.message(kdb.chars(text))
    while True:
        h.raw(message)
        h.answer_or_error()


def start(binary, directory):
    command = [binary, "tick", "sym", directory, "-p", "127.0.0.1:0", "--schemas", directory, "--unix-sockets="]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if found := re.search(r"listening on (\d+)", line):
            return process, int(found.group(1))
    raise SystemExit(f"{binary} does not start")


def measure(binary, clients, updates, text):
    """Latencies in milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        (pathlib.Path(directory) / "sym.q").write_text(SCHEMA)
        process, port = start(binary, directory)
        attackers = [multiprocessing.Process(target=attack, args=(port, text), daemon=True) for _ in range(clients)]
        try:
            publisher, subscriber = Connection(port), Connection(port)
            subscriber.ask(kdb.syms(".u.sub", "trade", ""))
            for attacker in attackers:
                attacker.start()
            time.sleep(WARM_S if clients else 0)
            latencies = []
            for seq in range(updates):
                update = kdb.lst(kdb.sym(".u.upd"), kdb.sym("trade"), kdb.lst(kdb.syms("A"), kdb.longs([seq])))
                data = wire.message(update, wire.ASYNC)
                sent = time.perf_counter()
                publisher.raw(data)
                subscriber.push()
                latencies.append((time.perf_counter() - sent) * 1e3)
                time.sleep(EVERY_S)
            return latencies
        finally:
            for attacker in attackers:
                attacker.kill()
                attacker.join()
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", nargs="+")
    parser.add_argument("--clients", default="0,1,8")
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--text", default=".u.i;count til 400000000")
    args = parser.parse_args()
    medians = {}
    print(f"{os.cpu_count()} cores; {args.text}")
    for clients in map(int, args.clients.split(",")):
        for binary in args.binaries:
            latencies = sorted(measure(binary, clients, args.updates, args.text))
            medians[binary, clients] = statistics.median(latencies)
            p99, most = latencies[int(len(latencies) * 0.99)], latencies[-1]
            print(f"{binary}: {clients} clients: p50 {medians[binary, clients]:.3f} ms, p99 {p99:.3f} ms, max {most:.1f} ms", flush=True)
    last = args.binaries[-1]
    quiet = medians.get((last, 0))
    return int(quiet is not None and any(m > 2 * quiet for (binary, _), m in medians.items() if binary == last))


if __name__ == "__main__":
    sys.exit(main())
