#!/usr/bin/env python3
"""What an acknowledgement costs: sync publishing under each durability, with and without a lease and a follower.

    .venv-aws/bin/python benches/durable.py BINARY [--publishers 1,16] [--seconds 5] [--rounds 3]

Each publisher sends one row and waits for its response before the next. The cases take turns, so that other load on the machine meets them alike. Prints
acknowledged updates a second, and the median and 99th percentile of the time to a response; `ratio` is to `group(5ms)` alone. BINARY has the feature aws;
dynalite serves the table. tests/run aws installs what this needs.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from harness import kdb
from harness.client import Connection
from harness.process import reserve_port
from harness.scene import SCHEMA, trades, update

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
STATE = kdb.lst(kdb.sym(".u.state"), kdb.NIL)
# Name, durability, has a lease, followers.
CASES = [
    ("group(5ms)", "group(5ms)", False, 0),
    ("group(5ms), lease", "group(5ms)", True, 0),
    ("replica(1)", "replica(1)", False, 1),
    ("replica(1), lease", "replica(1)", True, 1),
]
DEADLINE_S = 60


class Cluster:
    """An active tickerplant of a case, and its followers."""

    def __init__(self, binary, case, directory, lease):
        self.name, durability, has_lease, followers = case
        directory.mkdir()
        (directory / "sym.q").write_text(SCHEMA)
        self.ports = [reserve_port() for _ in range(1 + followers)]
        addresses = [f"127.0.0.1:{port}" for port in self.ports]
        self.processes = []
        for number, port in enumerate(self.ports):
            command = [binary, "tick", "sym", directory / str(number), "-p", addresses[number], "--durability", durability, "--unix-sockets="]
            if has_lease:
                command += ["--lease", lease, *(["--follow", ",".join(addresses)] if followers else [])]
            elif number:
                command += ["--follow", addresses[0]]
            output = open(directory / f"out{number}", "wb")
            self.processes.append(subprocess.Popen(list(map(str, command)), stdout=output, stderr=output, env={**os.environ, **KEYS}, cwd=directory))
            output.close()
            self.wait(port, "passive" if number else "active")

    def wait(self, port, role):
        """Waits for a role; a passive one is to have all that there is."""
        by = time.monotonic() + DEADLINE_S
        while time.monotonic() < by:
            try:
                with Connection(port) as connection:
                    state = connection.ask(STATE).py()
                if state["role"] == role and (role == "active" or not state.get("trouble")):
                    return
            except (OSError, EOFError):
                pass
            time.sleep(0.05)
        raise SystemExit(f"{self.name}: no {role} tickerplant on {port}")

    def measure(self, publishers, seconds):
        """Acknowledged updates a second, and the times to their responses."""
        times, stop = [[] for _ in range(publishers)], time.monotonic() + seconds

        def publish(number):
            message, own = update("trade", trades(number, 1)), times[number]
            with Connection(self.ports[0]) as connection:
                while (sent := time.monotonic()) < stop:
                    connection.ask(message)
                    own.append(time.monotonic() - sent)

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(publishers)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        every = sorted(one for own in times for one in own)
        return len(every) / seconds, every

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--publishers", default="1,16")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    from aws.cloud import leases

    if reason := leases.missing("dynalite"):
        raise SystemExit(f"no stand-in for DynamoDB: {reason}")
    store = leases.store("dynalite")
    print("publishers  case                  updates/s   ratio   p50 ms   p99 ms")
    with tempfile.TemporaryDirectory(prefix="elastick-durable-") as directory:
        clusters = []
        for number, case in enumerate(CASES):
            table = f"durable-{os.getpid()}-{number}"
            leases.create(store.client("dynamodb"), table)
            lease = f"dynamodb://{table}/tick?region=us-east-1&endpoint={store.direct}"
            clusters.append(Cluster(arguments.binary.resolve(), case, pathlib.Path(directory) / str(number), lease))
        try:
            for publishers in map(int, arguments.publishers.split(",")):
                show(clusters, publishers, arguments)
        finally:
            [cluster.close() for cluster in clusters]


def show(clusters, publishers, arguments):
    found = {cluster.name: ([], []) for cluster in clusters}
    for _ in range(arguments.rounds):
        for cluster in clusters:
            rate, every = cluster.measure(publishers, arguments.seconds)
            found[cluster.name][0].append(rate)
            found[cluster.name][1].extend(every)
    base = statistics.median(found[clusters[0].name][0])
    for name, (rates, every) in found.items():
        every.sort()
        rate, p50, p99 = statistics.median(rates), every[len(every) // 2] * 1e3, every[len(every) * 99 // 100] * 1e3
        print(f"{publishers:10}  {name:20} {rate:10,.0f} {rate / base:7.2f} {p50:8.2f} {p99:8.2f}", flush=True)


if __name__ == "__main__":
    main()
