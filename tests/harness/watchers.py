"""Subscribers that record everything they receive, across restarts of the tickerplant: stock ones, and the paper's in a queue."""

import threading

from .client import Connection
from .cluster import GONE
from .process import soon
from .subscribers import PaperRdb


class Segment:
    """Rows of one table received over one connection, from update `i` of the log `log` on. `ends`: number of rows at each
    end of a day."""

    def __init__(self, i, log):
        self.i, self.log = i, log
        self.seqs = []
        self.ends = []


class Subscriber(threading.Thread):
    """Thread that connects, runs `serve` on the connection, and reconnects when it ends."""

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
            # Record any failure: a failed subscriber must not look like one that receives nothing.
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
            # Makes the thread's current operation on it fail.
            self.connection.finish()

    def stop(self):
        self.stopped = True
        self.cut()
        self.join(60)


class Watcher(Subscriber):
    """Subscribes to a table like any q client. Requests the start position on each new connection, and records the messages."""

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
                # Nothing has arrived for a while. Do not reconnect: a new subscription would hide missing messages.
                pass

    def _take(self, segment, message):
        if message[0].v == "upd":
            segment.seqs += message[2]["seq"].v
        elif message[0].v == ".u.end":
            segment.ends.append(len(segment.seqs))


class PaperMember(Subscriber):
    """The paper's `asg/r.q` in a separate queue; reconnects without rows, like a restarted q process."""

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
