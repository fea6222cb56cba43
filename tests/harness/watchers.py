"""Subscribers that note all they are sent, over restarts of the tickerplant: plain ones, and the paper's in a queue."""

import threading

from .client import Connection, KdbError
from .cluster import GONE
from .subscribers import PaperRdb


class Segment:
    """What came over one connection: from update `i` of the log `log` on, rows of one table in their order."""

    def __init__(self, i, log):
        self.i, self.log = i, log
        self.seqs = []


class Watcher(threading.Thread):
    """Subscribes to a table as any q client does. Over each new connection it learns where it begins, and notes what it gets."""

    def __init__(self, port, table):
        super().__init__(daemon=True)
        self.port, self.table = port, table
        self.stopped = False
        self.failure = None
        self.connection = None
        self.segments = []

    def run(self):
        while not self.stopped:
            try:
                self.connection = Connection(self.port, deadline_s=20)
                answer = self.connection.ask(f"(.u.sub[`{self.table};`];.u `i`L)")
                segment = Segment(*(item.v for item in answer[1].v))
                self.segments.append(segment)
                while not self.stopped:
                    self._take(segment, self.connection.push())
            except KdbError as error:
                self.failure = f"the watcher of {self.table}: {error!r}"
                return
            except GONE:
                # Also a silence of its deadline: then it begins anew.
                if self.connection is not None:
                    self.connection.close()

    def _take(self, segment, message):
        if message[0].v == "upd":
            segment.seqs += message[2]["seq"].v

    def cut(self):
        if self.connection is not None:
            # Whatever the thread does on it fails then.
            self.connection.finish()

    def stop(self):
        self.stopped = True
        self.cut()
        self.join(60)


class PaperMember(threading.Thread):
    """The paper's `asg/r.q` in a queue of its own; after its connection has ended it comes back with nothing, as q would."""

    def __init__(self, port, queue, table):
        super().__init__(daemon=True)
        self.port, self.queue, self.table = port, queue, table
        self.stopped = False
        self.failure = None
        self.rdb = None
        self.wants_roll = False

    def run(self):
        while not self.stopped:
            try:
                with Connection(self.port, deadline_s=20) as connection:
                    connection.deadline_s = 0.2
                    self.rdb = PaperRdb(connection, self.queue)
                    self._serve()
            except GONE:
                self.rdb = None
            except (KdbError, ValueError) as error:
                # A log that ends too early for what was announced.
                self.failure = f"the paper's client: {error!r}"
                return

    def _serve(self):
        while not self.stopped:
            try:
                self.rdb.take()
            except TimeoutError:
                pass
            if self.wants_roll and self.rdb.live and self.rdb.i > 0:
                self.wants_roll = False
                self.rdb.roll()

    def seqs(self):
        rdb = self.rdb
        return list(rdb.rows.seqs(self.table)) if rdb is not None and rdb.rows.tables else []

    def stop(self):
        self.stopped = True
        self.join(60)
