"""Self-checking queries over all nodes, and a thread that runs them while windows change hands."""

import threading

from .client import KdbError
from .cluster import GONE


def spans(answer):
    """The windows of one node's `.rdb.windows`: a set of (first, last, open)."""
    t = answer.v
    return set(zip(t["firstI"].v, t["lastI"].v, t["open"].v))


def is_whole(windows):
    """Whether windows follow one another from update 0 without gap or overlap, and the last is open."""
    windows = sorted(windows)
    starts = [first for first, *_ in windows]
    ends = [last for _, last, _ in windows]
    opened = [is_open for *_, is_open in windows]
    return starts == [0, *ends[:-1]] and opened == [False] * (len(windows) - 1) + [True]


class Probe(threading.Thread):
    """Thread that repeatedly queries all nodes for all rows. If the windows in the replies are complete, the rows must be too:
    each exactly once, from the first on. Rows are numbered in the order of publication."""

    def __init__(self, cluster, between=lambda: None):
        """`between` is called after each look."""
        super().__init__(daemon=True)
        self.cluster = cluster
        self.between = between
        self.stopped = False
        self.failure = None
        self.whole = 0
        self.again = 0
        self.seen = set()

    def look(self):
        """Rows and windows of all nodes that reply; those of one node are consistent."""
        rows, windows = [], []
        for node in self.cluster.answering():
            answer = self.cluster.ask(node, "(exec seq from trade;.rdb.windows)")
            if answer is None:
                continue
            seqs, held = answer.v
            rows += seqs.v
            windows += [(node.name, *span) for span in spans(held)]
        return rows, windows

    def probe(self):
        rows, windows = self.look()
        if not is_whole([span for _, *span in windows]):
            self.again += 1
            return
        wrong = [] if sorted(rows) == list(range(len(rows))) else [f"{len(rows)} rows, {len(set(rows))} different"]
        closed = max((last for _, _, last, is_open in windows if not is_open), default=0)
        if len(rows) < closed * self.cluster.rows_at_once:
            wrong.append(f"{len(rows)} rows in windows up to {closed}")
        assert not wrong, f"{wrong} in {sorted(windows)}"
        self.whole += 1
        self.seen |= {name for name, *_ in windows}

    def run(self):
        while not self.stopped:
            try:
                self.probe()
            except (KdbError, *GONE):
                self.again += 1
            except AssertionError as failure:
                self.failure = failure
                return
            self.between()

    def stop(self):
        self.stopped = True
        self.join(60)
        if self.failure:
            raise self.failure
