"""Publishers that survive faults of the tickerplant, and record the acknowledgements that they receive."""

import contextlib
import threading

from .client import Connection, KdbError
from .cluster import GONE
from .process import soon
from .scene import update


class Publisher(threading.Thread):
    """Publishes numbered rows of one table, as many updates as `allow` permits. An update without a reply is not resent.

    With `burst` 1 each update is a sync message. Otherwise `burst` async updates are followed by a sync query, whose reply
    means that all of them were accepted.
    """

    def __init__(self, port, table, columns, rows, burst=1, dialling=contextlib.nullcontext, deadline_s=20):
        """`dialling` is a context manager for connecting, such as a host's `inside`. After `deadline_s` without a reply a connection
        counts as lost."""
        super().__init__(daemon=True)
        self.dialling, self.deadline_s = dialling, deadline_s
        self.port, self.table, self.columns, self.rows, self.burst = port, table, columns, rows, burst
        self.allowed = threading.Semaphore(0)
        self.stopped = False
        self.failure = None
        self.connection = None
        self.next = 0
        self.done = 0
        # First row numbers of the sent and of the acknowledged updates.
        self.sent = []
        self.acknowledged = set()

    def allow(self, updates):
        for _ in range(updates):
            self.allowed.release()

    def run(self):
        try:
            while True:
                self.allowed.acquire()
                while not self.stopped and not soon(self._connected, 1):
                    pass
                if self.stopped:
                    return
                self._publish()
                self.done += 1
        except Exception as failure:
            # Record any failure: a publisher that has failed must not look like an idle one.
            self.failure = f"the publisher of {self.table}, at row {self.next}: {failure!r}"

    def _connected(self):
        try:
            if self.connection is None:
                with self.dialling():
                    self.connection = Connection(self.port, deadline_s=self.deadline_s)
            return True
        except GONE:
            return False

    def _publish(self):
        here, connection = [], self.connection
        try:
            for _ in range(self.burst):
                first, self.next = self.next, self.next + self.rows
                self.sent.append(first)
                here.append(first)
                message = update(self.table, self.columns(first, self.rows))
                if self.burst == 1:
                    connection.ask(message)
                else:
                    connection.send(message)
            if self.burst > 1:
                self._confirm(connection)
            self.acknowledged.update(here)
        except GONE:
            self.connection = None
            connection.close()

    def _confirm(self, connection):
        """Repeats the query until it has a result: a busy tickerplant replies `stop`."""
        while True:
            try:
                return connection.ask(".u.i")
            except KdbError as error:
                if not str(error).startswith("stop"):
                    raise

    def cut(self):
        """Closes the connection, with messages in flight."""
        connection = self.connection
        if connection is not None:
            connection.finish()

    def stop(self):
        self.stopped = True
        self.allowed.release()
        self.join(60)
        self.cut()
