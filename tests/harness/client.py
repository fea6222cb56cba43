"""A kdb+ connection over TCP or a Unix socket: enough of a client to play any kdb+ process byte for byte."""

import socket
import time
from collections import deque

from . import kdb, wire

DEADLINE_S = 30


class KdbError(Exception):
    """An error answer; its text is the error's."""


class Connection:
    """One connection. Answers and pushed messages are kept apart, so a subscriber may also ask."""

    def __init__(self, address, user="tests:", capability=3, deadline_s=DEADLINE_S):
        """`address` is a port on this machine, (host, port), or the path of a Unix socket (a leading NUL: an abstract one)."""
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
            return sock
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self.deadline_s)
        sock.connect(address)
        return sock

    def handshake(self, login):
        """Sends the login bytes; answers the capability agreed on. Raises ConnectionError when refused."""
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
        """Sends a sync message and waits for its answer; an error answer raises KdbError."""
        self.raw(wire.message(k, wire.SYNC, **options))
        return self.answer()

    def answer_or_error(self):
        """The next answer, an error as the value that it is."""
        self._read_until(self.answers)
        return self.answers.popleft()

    def answer(self):
        """The next answer."""
        k = self.answer_or_error()
        if k.t == kdb.ERROR:
            raise KdbError(k.v)
        return k

    def push(self):
        """The next pushed message, that is one which is not an answer."""
        self._read_until(self.pushed)
        return self.pushed.popleft()

    def pushes(self, count):
        return [self.push() for _ in range(count)]

    def error_of(self, k, **options):
        """The text of the error that a sync message is answered with, or None if it is answered with a value."""
        try:
            self.ask(k, **options)
        except KdbError as error:
            return str(error)
        return None

    def is_closed_by_peer(self):
        """Reads on until the peer closes; False if the deadline comes first."""
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
        """Says that nothing more will be sent; what comes back can still be read."""
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
