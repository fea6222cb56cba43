"""The proof of a day: compares feed, log and nodes, by table and window."""

import json
import subprocess

from harness.cluster import GONE
from harness.client import Connection

WORD = 1 << 64


class Proof(dict):
    """Table -> (updates, rows, hash). Proofs of windows can be added."""

    def add(self, table, updates, rows, hash_):
        before = self.get(table, (0, 0, 0))
        self[table] = (before[0] + updates, before[1] + rows, (before[2] + hash_) % WORD)

    def merge(self, other):
        for table, figures in other.items():
            self.add(table, *figures)


def of_json(tables):
    proof = Proof()
    for name, table in tables.items():
        proof.add(name, table["updates"], table["rows"], int(table["hash"], 16))
    return proof


def logged(binary, log, first, last):
    """Proof of [first, last) from the log, by `elastick log proof`."""
    command = [binary, "log", "proof", "--json", "--from", str(first), "--to", str(last), str(log)]
    return of_json(json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["tables"])


def windows_of(port):
    """(first, last) -> proof of a node's windows; None if it does not reply."""
    try:
        with Connection(port, deadline_s=20) as connection:
            answer = connection.ask(".rdb.windows")
    except GONE:
        return None
    found = {}
    columns = [answer.v[name].v for name in ("firstI", "lastI", "tab", "updates", "rows", "hash")]
    for first, last, table, updates, rows, hash_ in zip(*columns):
        proof = found.setdefault((first, last), Proof())
        if table:
            proof.add(table, updates, rows, hash_ % WORD)
    return found


def coverage(windows, tip):
    """Gaps and overlaps of windows, list of (first, last, node), as a cover of [0, tip), as text."""
    wrong, reached = [], 0
    for first, last, node in sorted(windows):
        if first > reached:
            wrong.append(f"[{reached}, {first}) is held by nobody")
        if first < reached and last > first:
            wrong.append(f"[{first}, {min(last, reached)}) is held twice, by {node} too")
        reached = max(reached, last)
    if reached != tip:
        wrong.append(f"the windows end at {reached}, the log at {tip}")
    return wrong


def check(binary, log, tip, sent, held):
    """Differences between log and nodes as text; `held` is a list of (node, first, last, proof)."""
    wrong = coverage([(first, last, node) for node, first, last, _ in held], tip)
    whole, total = Proof(), Proof()
    for node, first, last, proof in held:
        wanted = logged(binary, log, first, last)
        if proof != wanted:
            wrong.append(f"[{first}, {last}) is not held by {node} as it was logged")
        whole.merge(wanted)
        total.merge(proof)
    # Here the windows cover the log once, or the deviation is already reported.
    if whole != sent:
        wrong.append(f"the log has {whole}, sent were {sent}")
    if total != whole:
        wrong.append(f"the nodes hold {total}, the log has {whole}")
    return wrong
