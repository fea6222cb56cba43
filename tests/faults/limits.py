"""Helpers of tests that exceed limits. A test marked with `over` starts its processes with a low limit, exceeds it, and shows the
effect on the offender, the count at `/metrics` under the limit's name, and that other clients are unaffected."""

import contextlib
import pathlib
import re
import socket

from harness import kdb
from harness.client import Connection
from harness.process import eventually
from harness.scene import trades, update

from .others import Others

COUNT = "elastick_limit_refusals_total"
USED = "elastick_limit_used_bytes"


# Users with roles, for limits that depend on them.
USERS = pathlib.Path(__file__).with_name("users.toml")


def over(limit, value, *more):
    """Decorator: the test exceeds `limit`, which its processes set to `value`; `more` are further options."""

    def mark(test):
        test.limit, test.limit_options = limit, (f"--{limit}", value, *more)
        return test

    return mark


def http(process, request):
    """Sends bytes to a process' port and returns the response up to the close."""
    with socket.create_connection(("127.0.0.1", process.port), timeout=30) as sock:
        sock.sendall(request)
        return rest_of(sock)


def rest_of(sock):
    """Reads until the peer closes."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while data := sock.recv(1 << 16):
            answer += data
    return answer.decode()


def get(path, *fields):
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: localhost", *fields, "", "")).encode()


def metrics(process):
    """The text of `/metrics`. Retries on 503, because closed connections may still count towards the limit."""

    def page():
        answer = http(process, get("/metrics", "Connection: close"))
        return not answer.startswith("HTTP/1.1 503 ") and answer

    return eventually(page, f"{process.name} shows its figures")


def figure(process, name, limit):
    """A metric of a limit at `/metrics`."""
    page = metrics(process)
    found = re.search(rf'^{name}{{limit="{limit}"}} (\S+)$', page, re.MULTILINE)
    if not found:
        raise AssertionError(f"{process.name} tells no {name} of {limit}:\n{page}")
    return float(found.group(1))


class Limited(Others):
    """Base of the tests: a tickerplant with a publisher and a subscriber; the process under attack is `self.target`."""

    program = "tick"
    # Start-up script of the target.
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
        """Context manager: asserts that its body is rejected and counted, and that other clients are unaffected during and after it."""
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
        """Asserts a line in the log of the process, for cases without a client to notify."""
        self.target.wait_for(words)

    def assert_closed(self, h):
        self.assertTrue(h.is_closed_by_peer(), "the connection is closed")

    def told(self, h):
        """The error of the next reply; the connection may be closed after it."""
        k = h.answer_or_error()
        self.assertEqual(k.t, -128, f"answered with {k!r}")
        return k.v


class Slow(Limited):
    """Adds subscribers that do not read until the test reads from them."""

    def lazy(self, buffer_bytes=1 << 16):
        """A subscriber that does not read until the test reads from it."""
        h = Connection(self.tp.port, user=None)
        self.connections.append(h)
        h.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        h.handshake(b"lazy:\3\0")
        h.ask(kdb.syms(".u.sub", "trade", ""))
        return h

    def publish_until(self, done, rows=500):
        """Publishes updates until the condition holds; the other subscriber receives each of them."""
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
        """Like `Others.assert_unharmed`, with the larger updates published here."""
        before = self.feed.ask(".u.i").v
        self.feed.ask(update("trade", trades(self.published, 2)))
        self.assertEqual(self.subscriber.push()[2]["seq"].v, [self.published, self.published + 1])
        self.published += 2
        self.assertEqual(self.feed.ask(".u.i").v, before + 1)
        self.assertNotIn("panicked", self.tp.printed())
