"""Going over limits on purpose. A test marked with `over` starts its processes with the limit set low by its own option,
goes over it, and shows what the offender meets, that `/metrics` counts it under the limit's name, and that others do not
notice."""

import contextlib
import re
import socket

from harness import kdb
from harness.client import Connection
from harness.process import eventually
from harness.scene import trades, update

from .others import Others

COUNT = "elastick_limit_refusals_total"
USED = "elastick_limit_used_bytes"


def over(limit, value, *more):
    """Marks a test: it goes over this limit, set so by its option; `more` are further options that it needs."""

    def mark(test):
        test.limit, test.limit_options = limit, (f"--{limit}", value, *more)
        return test

    return mark


def http(process, request):
    """Sends bytes to a process' port and reads what it answers until it closes."""
    with socket.create_connection(("127.0.0.1", process.port), timeout=30) as sock:
        sock.sendall(request)
        return rest_of(sock)


def rest_of(sock):
    """What comes until the peer closes."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while data := sock.recv(1 << 16):
            answer += data
    return answer.decode()


def get(path, *fields):
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: h", *fields, "", "")).encode()


def metrics(process):
    """The page; once there is a place, where connections that are gone still have theirs."""

    def page():
        answer = http(process, get("/metrics", "Connection: close"))
        return not answer.startswith("HTTP/1.1 503 ") and answer

    return eventually(page, f"{process.name} shows its figures")


def figure(process, name, limit):
    """A value of a limit at `/metrics`."""
    page = metrics(process)
    found = re.search(rf'^{name}{{limit="{limit}"}} (\S+)$', page, re.MULTILINE)
    if not found:
        raise AssertionError(f"{process.name} tells no {name} of {limit}:\n{page}")
    return float(found.group(1))


class Limited(Others):
    """A tickerplant with its publisher and subscriber; the one to be harmed is `self.target`."""

    program = "tick"
    # What the process to be harmed loads.
    script = ""

    def setUp(self):
        options = getattr(getattr(self, self._testMethodName), "limit_options", ())
        if self.program == "tick":
            self.tick_options = (*self.tick_options, *options)
        super().setUp()
        self.target = self.tp
        if self.program == "rdb":
            self.target = self.rdb(self.tp, *self.scripts(), *options)
            self.reader = self.connect(self.target)
            self.eventually(lambda: self.reader.ask("count trade").v == 0, "the node has its tables")
        self.target.port

    def tick(self, *options, **named):
        return super().tick(*options, *(self.scripts() if self.program == "tick" else ()), **named)

    def scripts(self):
        if not self.script:
            return ()
        path = self.directory / "script.q"
        path.write_text(self.script)
        return "--load", path

    def refusals(self, limit):
        return figure(self.target, COUNT, limit)

    @contextlib.contextmanager
    def refused(self):
        """What happens inside is refused, and counted; everybody else goes on during it and after."""
        limit = getattr(self, self._testMethodName).limit
        before = self.refusals(limit)
        yield
        self.assert_unharmed()
        self.eventually(lambda: self.refusals(limit) > before, f"{limit} counts what it has refused")
        self.assert_unharmed()

    def assert_unharmed(self):
        super().assert_unharmed()
        if self.program == "rdb":
            self.eventually(lambda: self.reader.ask("count trade").v == self.published, "the node has every row")

    def assert_said(self, words):
        """Where there is nobody to tell, the log of the process says it."""
        self.target.wait_for(words)

    def assert_closed(self, h):
        self.assertTrue(h.is_closed_by_peer(), "the connection is closed")

    def told(self, h):
        """The error that the next answer is; the connection may be closed behind it."""
        k = h.answer_or_error()
        self.assertEqual(k.t, -128, f"answered with {k!r}")
        return k.v


class Slow(Limited):
    """With subscribers that do not read until they are told to."""

    def lazy(self, buffer_bytes=1 << 16):
        """A subscriber that does not read until it is told to."""
        h = Connection(self.tp.port, user=None)
        self.connections.append(h)
        h.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        h.handshake(b"lazy:\3\0")
        h.ask(kdb.syms(".u.sub", "trade", ""))
        return h

    def publish_until(self, done, rows=500):
        """Updates, each of which the other subscriber gets."""
        self.updates = 0
        while not done():
            for _ in range(50):
                seq = self.published + self.updates * rows
                self.feed.ask(update("trade", trades(seq, rows)))
                self.assertEqual(self.subscriber.push()[2]["seq"].v[0], seq)
                self.updates += 1
            self.assertLess(self.updates, 5000, "enough was published")
        first, self.published = self.published, self.published + self.updates * rows
        return list(range(first, self.published))

    def read(self, h, count):
        seqs = []
        while len(seqs) < count:
            seqs += h.push()[2]["seq"].v
        return seqs

    def assert_unharmed(self):
        """As for others; what was published here were larger updates."""
        before = self.feed.ask(".u.i").v
        self.feed.ask(update("trade", trades(self.published, 2)))
        self.assertEqual(self.subscriber.push()[2]["seq"].v, [self.published, self.published + 1])
        self.published += 2
        self.assertEqual(self.feed.ask(".u.i").v, before + 1)
        self.assertNotIn("panicked", self.tp.printed())
