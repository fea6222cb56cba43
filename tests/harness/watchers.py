"""Subscribers that note all they are sent, over restarts of the tickerplant: plain ones, and the paper's in a queue."""

import threading

from .client import Connection
from .cluster import GONE
from .process import soon
from .subscribers import PaperRdb


class Segment:
    """What came over one connection: from update `i` of the log `log` on, rows of one table in their order. `ends`: how many of
    them had come when each day ended."""

    def __init__(self, i, log):
        self.i, self.log = i, log
        self.seqs = []
        self.ends = []


class Subscriber(threading.Thread):
    """Connects, again whenever the connection has ended, and does on it what `serve` says."""

    def __init__(self, port, name):
        super().__init__(daemon=True)
        self.port, self.called = port, name
        self.stopped = False
        self.failure = None
        self.connection = None

    def run(self):
        try:
            while not self.stopped:
                if soon(self._dialled, 1):
                    self._served()
        except Exception as failure:
            # Whatever it is: one that has stopped listening must not look like one that is sent nothing.
            self.failure = f"{self.called}: {failure!r}"

    def _dialled(self):
        try:
            self.connection = Connection(self.port, deadline_s=20)
            return True
        except GONE:
            return False

    def _served(self):
        with self.connection as connection:
            try:
                self.serve(connection)
            except GONE:
                pass

    def cut(self):
        if self.connection is not None:
            # Whatever the thread does on it fails then.
            self.connection.finish()

    def stop(self):
        self.stopped = True
        self.cut()
        self.join(60)


class Watcher(Subscriber):
    """Subscribes to a table as any q client does. Over each new connection it learns where it begins, and notes what it gets."""

    def __init__(self, port, table):
        super().__init__(port, f"the watcher of {table}")
        self.table = table
        self.segments = []

    def serve(self, connection):
        answer = connection.ask(f"(.u.sub[`{self.table};`];.u `i`L)")
        segment = Segment(*(item.v for item in answer[1].v))
        self.segments.append(segment)
        while not self.stopped:
            try:
                self._take(segment, connection.push())
            except TimeoutError:
                # Nothing has come for a while. Were it to begin anew for that, it would not show what it was not sent.
                pass

    def _take(self, segment, message):
        if message[0].v == "upd":
            segment.seqs += message[2]["seq"].v
        elif message[0].v == ".u.end":
            segment.ends.append(len(segment.seqs))


class PaperMember(Subscriber):
    """The paper's `asg/r.q` in a queue of its own; after its connection has ended it comes back with nothing, as q would."""

    def __init__(self, port, queue, table):
        super().__init__(port, "the paper's client")
        self.queue, self.table = queue, table
        self.rdb = None

    def serve(self, connection):
        connection.deadline_s = 0.2
        try:
            self.rdb = PaperRdb(connection, self.queue)
            while not self.stopped:
                try:
                    self.rdb.take()
                except TimeoutError:
                    pass
        finally:
            if not self.stopped:
                self.rdb = None

    def seqs(self):
        rdb = self.rdb
        return list(rdb.rows.seqs(self.table)) if rdb is not None and rdb.rows.tables else []
