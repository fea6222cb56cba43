"""Figures for README.md: visibility delays per set of mount options, cost of appends, speed of replay.

`ELASTICK_BIN=target/release/elastick python3 -m efs.measure` from tests/, as root; some minutes. Prints Markdown tables.
"""

import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time

from harness import kdb
from harness.client import Connection
from harness.scene import SCHEMA, update

from .cluster import GuestProcess
from .lab import DEFAULTS, EFS, OF_NODES, OF_TICKERPLANT, SERVER, Lab

OPTIONS = {
    "as AWS documents": DEFAULTS,
    "actimeo=1": f"{DEFAULTS},actimeo=1",
    "lookupcache=positive": f"{DEFAULTS},lookupcache=positive",
    "actimeo=1,lookupcache=positive": f"{DEFAULTS},actimeo=1,lookupcache=positive",
    "noac": f"{DEFAULTS},noac",
}
# By default attributes of an unchanged file are cached for 3, 6, 12, 24, 48 and then 60 s.
QUIET_S = 105

# Runs in the nodes' guest, on all mounts in parallel: delay until an append, and a new name, is visible.
WATCHER = """
import json, os, sys, threading, time
points, at = json.loads(sys.argv[1]), float(sys.argv[2])
seen = {p: {} for p in points}
def watch(point):
    kept = os.open(point + "/tail", os.O_RDONLY)
    fresh = os.open(point + "/tail", os.O_RDONLY | os.O_DIRECT)
    buffer = __import__("mmap").mmap(-1, 4096)
    here = seen[point]
    while time.time() < at - 2:
        os.fstat(kept); os.path.exists(point + "/new"); time.sleep(0.1)
    while time.time() < at + 70 and len(here) < 4:
        now = time.time() - at
        if "kept" not in here and os.fstat(kept).st_size > 1000: here["kept"] = now
        if "direct" not in here and os.preadv(fresh, [buffer], 1000) > 0: here["direct"] = time.time() - at
        if "new" not in here and os.path.exists(point + "/new"): here["new"] = now
        if now > 0 and "reopened" not in here:
            fd = os.open(point + "/tail", os.O_RDONLY)
            if os.fstat(fd).st_size > 1000: here["reopened"] = time.time() - at
            os.close(fd)
        time.sleep(0.02)
order = sys.argv[3]
if order == "kept":
    # Opening asks the server and corrects the handle that is kept: one after the other would spoil the figure.
    src = watch
    def watch(point):
        kept = os.open(point + "/tail", os.O_RDONLY)
        here = seen[point]
        while time.time() < at + 70 and len(here) < 2:
            now = time.time() - at
            if "kept" not in here and os.fstat(kept).st_size > 1000: here["kept"] = now
            if "new" not in here and os.path.exists(point + "/new"): here["new"] = now
            time.sleep(0.05)
threads = [threading.Thread(target=watch, args=(p,)) for p in points]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps(seen))
"""
WRITER = """
import os, sys, time
d, at = sys.argv[1], float(sys.argv[2])
fd = os.open(d + "/tail", os.O_RDWR)
time.sleep(max(0, at - time.time()))
os.pwrite(fd, b"x" * 1000, 1000); os.fdatasync(fd); open(d + "/new", "w").close()
"""


def visible(lab, here, there):
    print("\n| options | append, handle kept open | append, opened anew | append, past the page cache | new name |")
    print("|---|---|---|---|---|")
    figures = {name: {} for name in OPTIONS}
    for round_, order in enumerate(("kept", "all")):
        directory = f"visible{round_}"
        (lab.export / directory).mkdir()
        (lab.export / directory / "tail").write_bytes(b"x" * 1000)
        points = {}
        for number, (name, options) in enumerate(OPTIONS.items()):
            point = f"/mnt/m{round_}{number}"
            there.run(f"mkdir -p {point}; mount -t nfs4 -o {options},nosharecache {SERVER}:/{directory} {point}")
            points[point] = name
        for program, text in (("watcher.py", WATCHER), ("writer.py", WRITER)):
            (lab.work / program).write_text(text)
        at = time.time() + (QUIET_S if order == "kept" else 5)
        here.ask("start", arguments=["python3", "/mnt/work/writer.py", f"{EFS}/{directory}", str(at)], output="/dev/null")
        said = there.run(f"python3 /mnt/work/watcher.py '{json.dumps(list(points))}' {at} {order}", 300)
        for point, seen in json.loads(said).items():
            for what, after_s in seen.items():
                figures[points[point]].setdefault(what, after_s)
    for name, seen in figures.items():
        told = [f"{seen[w]:.2f} s" if w in seen else "over 70 s" for w in ("kept", "reopened", "direct", "new")]
        print(f"| {name} | {' | '.join(told)} |", flush=True)


def quantiles(values):
    values = sorted(values)
    at = lambda q: values[min(len(values) - 1, int(len(values) * q))] * 1e3
    return f"{at(0.5):.1f} / {at(0.99):.1f} ms" if values else "none"


def trades(count):
    return kdb.lst(kdb.syms(*["AAA"] * count), kdb.floats([1.0] * count), kdb.longs([1] * count), kdb.longs([1] * count))


class Stage:
    """A tickerplant in its guest with its own directory."""

    number = 0

    def __init__(self, lab, guest, durability):
        Stage.number += 1
        self.lab = lab
        self.name = f"stage{Stage.number}"
        (lab.export / self.name).mkdir()
        (lab.work / "sym.q").write_text(SCHEMA)
        arguments = ["tick", "sym", f"{EFS}/{self.name}", "-p", "0", "--open", "--schemas", "/mnt/work/sym.q"]
        self.tick = GuestProcess(guest, f"{self.name}.tick", [*arguments, "--durability", durability])
        self.port = self.tick.port

    def close(self):
        self.tick.kill()


def costs(lab, here):
    print("\n| durability | acknowledged, p50 / p99 | a question to the loop meanwhile, p50 / p99 |")
    print("|---|---|---|")
    for durability in ("os", "group(5ms)", "group(20ms)", "each"):
        stage = Stage(lab, here, durability)
        message = update("trade", trades(10))
        over, pings = threading.Event(), []

        def ping():
            with Connection(stage.port) as h:
                while not over.is_set():
                    begin = time.perf_counter()
                    h.ask(".u.i")
                    pings.append(time.perf_counter() - begin)
                    time.sleep(0.005)

        thread = threading.Thread(target=ping)
        thread.start()
        taken = []
        with Connection(stage.port) as h:
            for _ in range(600):
                begin = time.perf_counter()
                h.ask(message)
                taken.append(time.perf_counter() - begin)
        over.set()
        thread.join()
        stage.close()
        print(f"| `{durability}` | {quantiles(taken)} | {quantiles(pings)} |", flush=True)


def outage(lab, here):
    """Whether the tickerplant replies while the server is paused for some seconds."""
    stage = Stage(lab, here, "group(5ms)")
    with Connection(stage.port) as feed, Connection(stage.port, deadline_s=60) as h:
        for _ in range(50):
            feed.ask(update("trade", trades(10)))
        lab.pause_server()
        answered = []
        for number in range(6):
            feed.send(update("trade", trades(10)))
            begin = time.perf_counter()
            h.deadline_s = 1
            try:
                h.ask(".u.i")
                answered.append(f"{time.perf_counter() - begin:.3f} s")
            except TimeoutError:
                answered.append("not within 1 s")
                break
        lab.resume_server()
    stage.close()
    print(f"\nThe tickerplant's answers while the server is silent and updates come: {', '.join(answered)}", flush=True)


def replays(lab, here, there):
    stage = Stage(lab, here, "os")
    rows = 2000
    message = update("trade", trades(rows))
    with Connection(stage.port) as feed:
        for _ in range(1500):
            feed.send(message)
        feed.ask(message)
    size = next((lab.export / stage.name).glob("sym????.??.??")).stat().st_size
    print(f"\n| replay of {size / 1e6:.0f} MB, {1501 * rows} rows | time | rate |\n|---|---|---|")
    host, port = stage.port
    for how, options in (("by path, as AWS documents", DEFAULTS), ("by path, recommended", OF_NODES), ("streamed", None)):
        there.mount(options or OF_NODES)
        if options is None:
            there.run(f"umount -l {EFS}")
        arguments = ["rdb", f"{host}:{port}", "-p", "0", "--queue", how.replace(" ", "")[:9], "--node", "n", "--memory", "300MiB"]
        node = GuestProcess(there, f"{stage.name}.{how.split()[-1]}", arguments)
        with Connection(node.port) as h:
            begin = time.perf_counter()
            while True:
                try:
                    if h.ask("count trade").v == 1501 * rows:
                        break
                except Exception:
                    pass
                time.sleep(0.01)
            took_s = time.perf_counter() - begin
            try:
                caught_up = h.ask(".rdb.stats[]`catchUp").v / 1e9
            except Exception:
                caught_up = took_s
        node.kill()
        print(f"| {how} | {caught_up:.2f} s | {size / 1e6 / caught_up:.0f} MB/s |", flush=True)
        if options is None:
            there.options = None
    stage.close()


def main():
    lab = Lab.get()
    here, there = lab.guest("tickerplants", OF_TICKERPLANT), lab.guest("nodes", OF_NODES)
    wanted = sys.argv[1:] or ["visible", "costs", "outage", "replays"]
    if "visible" in wanted:
        visible(lab, here, there)
    if "costs" in wanted:
        costs(lab, here)
    if "outage" in wanted:
        outage(lab, here)
    if "replays" in wanted:
        replays(lab, here, there)


if __name__ == "__main__":
    main()
