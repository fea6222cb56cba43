"""A kdb+ client over TCP or a Unix socket, with enough control to imitate any kdb+ process byte for byte."""

import socket
import time
from collections import deque

from . import kdb, wire

DEADLINE_S = 60


class KdbError(Exception):
    """An error reply; the text is the kdb+ error."""


class Connection:
    """One connection. Keeps replies and pushed messages apart, so that a subscriber can also query."""

    def __init__(self, address, user="tests:", capability=3, deadline_s=DEADLINE_S, tls=None):
        """`address` is a port on this machine, (host, port), or the path of a Unix socket (a leading NUL: an abstract one). `tls` is a
        context of the module `ssl`."""
        self.tls = tls
        self.address = address
        self.deadline_s = deadline_s
        self.received = bytearray()
        self.pushed = deque()
        self.answers = deque()
        self.socket = self._dial(address)
        self.capability = None
        if user is not None:
            try:
                self.capability = self.handshake(user.encode() + bytes([capability]) + b"\0")
            except OSError:
                self.close()
                raise

    def _dial(self, address):
        if isinstance(address, int):
            address = ("127.0.0.1", address)
        if isinstance(address, tuple):
            sock = socket.create_connection(address, timeout=self.deadline_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self.tls.wrap_socket(sock, server_hostname="localhost") if self.tls else sock
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self.deadline_s)
        sock.connect(address)
        return sock

    def handshake(self, login):
        """Sends the login bytes. Returns the agreed capability. Raises ConnectionError if the login is rejected."""
        self.socket.sendall(login)
        answer = self.socket.recv(1)
        if not answer:
            raise ConnectionError(f"{self.address} refused the handshake {login!r}")
        return answer[0]

    def raw(self, data):
        self.socket.sendall(data)

    def send(self, k, **options):
        """Sends an async message."""
        self.raw(wire.message(k, wire.ASYNC, **options))

    def ask(self, k, **options):
        """Sends a sync message and returns the reply; raises KdbError for an error reply."""
        self.raw(wire.message(k, wire.SYNC, **options))
        return self.answer()

    def answer_or_error(self):
        """The next reply; an error is returned as a value."""
        self._read_until(self.answers)
        return self.answers.popleft()

    def answer(self):
        """The next reply."""
        k = self.answer_or_error()
        if k.t == kdb.ERROR:
            raise KdbError(k.v)
        return k

    def push(self):
        """The next pushed message, that is, one that is not a reply."""
        self._read_until(self.pushed)
        return self.pushed.popleft()

    def pushes(self, count):
        return [self.push() for _ in range(count)]

    def error_of(self, k, **options):
        """The error text in the reply to a sync message, or None if the reply is a value."""
        try:
            self.ask(k, **options)
        except KdbError as error:
            return str(error)
        return None

    def is_closed_by_peer(self):
        """Reads until the peer closes the connection; False after the deadline."""
        end = time.monotonic() + self.deadline_s
        while time.monotonic() < end:
            try:
                self._read_once(end)
            except TimeoutError:
                return False
            except (ConnectionError, OSError):
                return True
        return False

    def _read_until(self, wanted):
        end = time.monotonic() + self.deadline_s
        while not wanted:
            self._read_once(end)

    def _read_once(self, end):
        self.socket.settimeout(max(0.001, end - time.monotonic()))
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError(f"{self.address} closed the connection")
        self.received += data
        self._cut_messages()

    def _cut_messages(self):
        at = 0
        while len(self.received) - at >= wire.HEADER:
            length = wire.parse(self.received[at : at + wire.HEADER])[3]
            if len(self.received) - at < length:
                break
            kind, k = wire.open_message(bytes(self.received[at : at + length]))
            (self.answers if kind == wire.RESPONSE else self.pushed).append(k)
            at += length
        del self.received[:at]

    def finish(self):
        """Closes the sending side; replies can still be read."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
