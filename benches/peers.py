#!/usr/bin/env python3
"""The query list of a desk on elastick and its peers in one run: times side by side, and every answer compared by value.

    peers.py --data FOLDER [--threads 1,2] [--engines duckdb,polars,chdb] [--only a,b2] [--out r.jsonl]
    peers.py --data FOLDER --node 1=PORT,2=PORT     (nodes that run already)
    peers.py --data FOLDER --apart                  (one engine after the other: with memory for two of them only)

FOLDER is what `gen_data.py` of `../shared/perf/rdb` made; the peers' queries are those of `run_queries.py` there. For each
number of threads it starts `cargo bench --bench queries` with so many, loads each peer in a process of its own, and then
asks all of them one query after the other, so that what else happens on the machine meets them alike.

Prints a table of medians, processor time (of all of an engine's threads) behind each, and elastick's against the best
peer's. On a machine that others use too, processor time says more: a query that waits for a processor works no more.
Ends with 1 if an answer differs.
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "..", "..", "shared", "perf", "rdb", "run_queries.py")
# Where the list's own script begins to measure.
MEASURES = "\nsys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\nE = make()"
# A query that takes longer is asked once, seconds.
SLOW = 1.5
RUNS = 7

# Answers with the side of a trade as their fifth column.
SIDED = ("d_sym_window_rows", "d2_last_row_sym", "f1_asof_sym")
# How many columns of an answer say which row it is.
KEYS = {"c2_ohlcv_1min_all": 2, "g_range_5min_by_sym": 2, "h_count_sym_ex": 2, "d_sym_window_rows": 6, "f1_asof_sym": 6}
# Bars are numbered by the peers and dated by q, nanoseconds: column, width.
BARS = {"c1_ohlcv_1min_sym": (0, 60), "c2_ohlcv_1min_all": (1, 60), "g_range_5min_by_sym": (1, 300), "g2_spread_5min": (0, 300)}
# The columns of q's answer in the order in which the peers have them.
ORDER = {"d2_last_row_sym": [1, 0, 2, 3, 4, 5], "j_window_avg_sym": [0, 2, 6]}


class Node:
    """q's answers, by IPC. What is timed is the query as it stands; what is compared is asked for as lists."""

    def __init__(self, port, queries):
        self.queries = queries
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b"bench:x\x03\0")
        self.exactly(1)
        pid = struct.unpack("<i", self.ask(".z.i")[1:5])[0]
        self.stat = f"/proc/{pid}/stat"

    def cpu(self):
        """Processor seconds of the node so far."""
        with open(self.stat) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def has(self, name):
        return name in self.queries

    def exactly(self, count):
        out = bytearray(count)
        view = memoryview(out)
        while view:
            got = self.socket.recv_into(view)
            assert got, "the node is gone"
            view = view[got:]
        return out

    def ask(self, text):
        body = b"\n\0" + struct.pack("<I", len(text)) + text.encode()
        self.socket.sendall(b"\1\1\0\0" + struct.pack("<I", 8 + len(body)) + body)
        body = self.exactly(struct.unpack("<I", self.exactly(8)[4:])[0] - 8)
        if body[:1] == b"\x80":
            raise RuntimeError(body[1:-1].decode())
        return body

    def run(self, name):
        return self.ask(self.queries[name][1])

    def columns(self, name, _):
        text = self.queries[name][1]
        if name == "f3_asof_all_rows":
            return [np.array([struct.unpack("<q", self.ask(text)[1:9])[0]])]
        body, at = self.ask(f"value flip 0!{text}"), 6
        out = []
        for _ in range(struct.unpack("<I", body[2:6])[0]):
            kind, count = body[at], struct.unpack("<I", body[at + 2 : at + 6])[0]
            at += 6
            if kind == 11:
                items = []
                for _ in range(count):
                    end = body.index(0, at)
                    items.append(body[at:end].decode())
                    at = end + 1
                out.append(np.array(items))
                continue
            dtype = {1: "i1", 6: "i4", 7: "i8", 9: "f8", 10: "S1", 16: "i8"}[kind]
            items = np.frombuffer(body, dtype, count, at)
            at += items.nbytes
            out.append(items.astype(str) if kind == 10 else items)
        if name in BARS:
            column, seconds = BARS[name]
            out[column] = out[column] // (seconds * 10**9)
        return [out[i] for i in ORDER.get(name, range(len(out)))]


def arrow_columns(table):
    import pyarrow as pa

    out = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind) or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            items = column.to_pylist()
            if items and isinstance(items[0], bytes):
                items = [item.decode() for item in items]
            if items and not isinstance(items[0], str):
                items = [float("nan") if item is None else float(item) for item in items]
            out.append(np.array(items))
        else:
            out.append(column.to_numpy())
    return out


def peer_columns(engine, name, result):
    import pyarrow as pa

    if name == "f3_asof_all_rows":
        count = int(engine.chk(name, result)[0])
        if hasattr(engine, "c"):
            # DuckDB takes no other query before this one's rows are all fetched.
            engine.c.fetchall()
        return [np.array([count])]
    is_chdb = not hasattr(result, "to_arrow") and not isinstance(result, pa.Table)
    if hasattr(result, "to_arrow"):
        result = result.to_arrow()
    elif is_chdb:
        result = pa.ipc.open_stream(result.bytes()).read_all()
    columns = arrow_columns(result)
    if is_chdb and name in SIDED:
        # An enumeration comes as its numbers.
        columns[4] = np.where(columns[4].astype(str) == "1", "B", np.where(columns[4].astype(str) == "2", "S", columns[4]))
    return columns


def listed(engine, threads, data):
    """The head of the list's script: its queries and engines. With one thread it binds this process to one processor."""
    sys.argv = ["run_queries.py", "--engine", engine, "--threads", str(threads), "--data", data]
    with open(LIST) as file:
        text = file.read()
    assert MEASURES in text, f"{LIST} is another than this script knows"
    names = {"__file__": LIST, "__name__": "listed"}
    exec(compile(text.split(MEASURES)[0], LIST, "exec"), names)
    return names


def work(pipe, name, threads, data, port):
    """A process with one engine: answers queries by name with times and, at the end, columns."""
    names = listed("duckdb" if name == "elastick" else name, threads, data)
    if name == "elastick":
        os.sched_setaffinity(0, range(os.cpu_count()))
        engine = Node(port, names["Q"])
    else:
        engine = names["make"]()
        engine.load()
    cpu = engine.cpu if name == "elastick" else time.process_time
    pipe.send("loaded")
    while (query := pipe.recv()) is not None:
        try:
            if not engine.has(query):
                pipe.send((None, None, None, "not supported"))
                continue
            before, began = cpu(), time.perf_counter()
            result = engine.run(query)
            times, used = [time.perf_counter() - began], cpu() - before
            columns = engine.columns(query, result) if name == "elastick" else peer_columns(engine, query, result)
            if times[0] < SLOW:
                times, before = [], cpu()
                for _ in range(RUNS):
                    del result
                    began = time.perf_counter()
                    result = engine.run(query)
                    times.append(time.perf_counter() - began)
                used = (cpu() - before) / RUNS
            del result
            pipe.send((times, used, columns, None))
        except Exception as error:
            pipe.send((None, None, None, f"{type(error).__name__}: {error}"[:200]))


def rows_by_key(name, columns):
    """The columns with their rows in the order of the keys; of windows, one row for each instant that has quotes."""
    if name == "j_window_avg_sym":
        keep = ~np.isnan(columns[2].astype(float))
        times, first = np.unique(columns[0][keep], return_index=True)
        return [times, columns[2][keep][first]]
    if name in ("f3_asof_all_rows", "k2_ema_sym"):
        return columns
    keys = columns[: KEYS.get(name, 1)]
    order = np.lexsort(keys[::-1])
    return [column[order] for column in columns]


def difference(name, own, other):
    """Says where two answers differ, or nothing."""
    own, other = rows_by_key(name, own), rows_by_key(name, other)
    if len(own) != len(other) or len(own[0]) != len(other[0]):
        return f"{len(own)} columns of {len(own[0])} against {len(other)} of {len(other[0])}"
    for at, (a, b) in enumerate(zip(own, other)):
        if a.dtype.kind in "US" or b.dtype.kind in "US":
            wrong = a.astype(str) != b.astype(str)
        else:
            a, b = a.astype(float), b.astype(float)
            wrong = ~np.isclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
        if wrong.any():
            first = int(np.argmax(wrong))
            return f"column {at}: {int(wrong.sum())} of {len(a)} rows, first {a[first]} against {b[first]}"
    return None


def report(query, threads, answers, out):
    """Prints a row of the table; how many peers' answers differ."""
    cells, notes, wrong = [], [], 0
    medians, used = {}, {}
    for name, (times, cpu, columns, failed) in answers.items():
        if failed:
            cells.append("-")
            notes.append(f"{name}: {failed}")
            continue
        medians[name], used[name] = statistics.median(times) * 1e3, cpu * 1e3
        cells.append(f"{medians[name]:.1f} ({used[name]:.0f})")
        if name != "elastick" and answers["elastick"][2] is not None:
            differs = difference(query, answers["elastick"][2], columns)
            if differs:
                wrong += 1
                notes.append(f"ANSWER DIFFERS from {name}: {differs}")

    def ratio(of):
        best = min((name for name in of if name != "elastick"), key=of.get, default=None)
        return f"{of['elastick'] / of[best]:.2f} {best}" if best and "elastick" in of and of[best] else "-"

    print(f"| {query} | {' | '.join(cells)} | {ratio(medians)} | {ratio(used)} |", "; ".join(notes))
    if out:
        with open(out, "a") as file:
            file.write(json.dumps({"query": query, "threads": threads, "ms": medians, "cpu_ms": used, "notes": notes}) + "\n")
    return wrong


def started(data, threads):
    """A node with the data, and its port."""
    command = ["cargo", "bench", "-q", "--bench", "queries", "--", data, "--query-threads", "1", "-s", str(threads)]
    process = subprocess.Popen(command, cwd=os.path.join(HERE, ".."), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "listening on" in line:
            return process, int(line.split("listening on")[1].split(":")[0])
    raise SystemExit("no node")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--engines", default="duckdb,polars,chdb")
    parser.add_argument("--only", default="")
    parser.add_argument("--node", default="")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    ports = dict(pair.split("=") for pair in options.node.split(",") if pair)
    only = [name for name in options.only.split(",") if name]
    context = multiprocessing.get_context("spawn")
    processors = os.sched_getaffinity(0)
    wrong = 0
    for threads in (int(number) for number in options.threads.split(",")):
        node = None
        port = int(ports[str(threads)]) if str(threads) in ports else None
        if port is None:
            node, port = started(options.data, threads)
        names = ["elastick"] + [name for name in options.engines.split(",") if name]
        queries = [q for q in listed("duckdb", threads, options.data)["Q"] if not only or any(map(q.startswith, only))]
        # Who is started from here would be bound with it.
        os.sched_setaffinity(0, processors)
        answers = {}
        for group in [[name] for name in names] if options.apart else [names]:
            workers = {}
            for name in group:
                ours, theirs = context.Pipe()
                process = context.Process(target=work, args=(theirs, name, threads, options.data, port), daemon=True)
                process.start()
                assert ours.recv() == "loaded"
                workers[name] = (process, ours)
            for query in queries:
                for name, (_, pipe) in workers.items():
                    pipe.send(query)
                    answers[query, name] = pipe.recv()
            for process, pipe in workers.values():
                pipe.send(None)
                process.join()
        head = " | ".join(f"{name}, ms (processor)" for name in names)
        print(f"| {threads} threads | {head} | time | processor |", "|---" * (len(names) + 3) + "|", sep="\n")
        for query in queries:
            wrong += report(query, threads, {name: answers[query, name] for name in names}, options.out)
        sys.stdout.flush()
        if node:
            node.stdin.close()
            node.wait()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
