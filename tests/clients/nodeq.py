"""Runs `node_q.js`, which executes a list of steps with node-q."""

import json
import pathlib
import subprocess

SCRIPT = pathlib.Path(__file__).with_name("node_q.js")


def play(address, *steps):
    """Runs the steps. Returns their results in order."""
    command = ["node", "--no-deprecation", SCRIPT, str(address), json.dumps(steps)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"node-q did not end playing {[next(iter(step)) for step in steps]}") from None
    if done.returncode:
        raise AssertionError(f"node-q ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def columns(first, count):
    """Typed vectors as arguments of a step, without time."""
    seq = range(first, first + count)
    return [
        {"symbols": [("NQA", "NQB")[i % 2] for i in seq]},
        {"floats": [i * 0.125 for i in seq]},
        {"longs": [i % 3 for i in seq]},
        {"longs": list(seq)},
    ]


def upd(columns, kind="sync", table="`trade"):
    return {kind: ".u.upd", "args": [table, {"mixed": columns}]}


def rows_of(columns):
    return list(zip(*(next(iter(column.values())) for column in columns)))
