"""Limits of HTTP and WebSocket, which are separate from those of kdb+ clients."""

import os
import socket
import struct

from harness.client import KdbError

from .limits import Limited, get, http, over, rest_of

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Http:
    def dial(self, request=b""):
        sock = socket.create_connection(("127.0.0.1", self.target.port), timeout=30)
        self.addCleanup(sock.close)
        sock.sendall(request)
        return sock

    @over("limit-http-connections", "3")
    def test_a_connection_too_many(self):
        with self.refused():
            begun = [self.dial(b"GET /metrics HTTP/1.1\r\n") for _ in range(4)]
            self.assertRegex(rest_of(begun[0]), "^HTTP/1.1 503 ")
            self.assert_said("'limit: 3 HTTP connections are open .--limit-http-connections.")
            self.assert_unharmed()
            begun[-1].sendall(b"Host: localhost\r\nConnection: close\r\n\r\n")
            self.assertIn("elastick_limit_items", rest_of(begun[-1]))

    @over("limit-http-request", "1KiB")
    def test_a_head_too_long(self):
        with self.refused():
            self.assertRegex(http(self.target, get("/metrics", "X: " + "x" * 2000)), "^HTTP/1.1 431 ")

    @over("limit-http-body", "100B")
    def test_a_body_too_long(self):
        with self.refused():
            request = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n"
            self.assertRegex(http(self.target, request), "^HTTP/1.1 413 ")

    @over("limit-http-time", "1s")
    def test_a_request_that_does_not_end(self):
        with self.refused():
            slow = self.dial(b"GET /metrics HTTP/1.1\r\n")
            self.assert_unharmed()
            self.assertRegex(rest_of(slow), "^HTTP/1.1 408 ")
            self.assert_said("'limit: no complete request within 1s .--limit-http-time.")

    @over("limit-http-idle", "300ms")
    def test_a_connection_that_asks_nothing_more(self):
        with self.refused():
            idle = self.dial(get("/health"))
            self.assert_unharmed()
            self.assertRegex(rest_of(idle), "^HTTP/1.1 200 .*\n(.*\n)*ok")


class AtTheTickerplant(Http, Limited):
    pass


class AtANode(Http, Limited):
    program = "rdb"
    script = ".z.ws:{neg[.z.w]x}\n"

    @over("limit-web-message", "100B")
    def test_a_message_of_a_browser_too_long(self):
        fields = "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"
        upgrade = get("/", *fields, f"Sec-WebSocket-Key: {KEY}")
        with self.refused():
            other, greedy = self.dial(upgrade), self.dial(upgrade)
            for sock in (other, greedy):
                self.assertRegex(sock.recv(4096), b"^HTTP/1.1 101 ")
            greedy.sendall(frame(b"x" * 101))
            self.assertEqual(greedy.recv(4, socket.MSG_WAITALL), b"\x88\x02" + struct.pack(">H", 1009))
            other.sendall(frame(b"short"))
            self.assertEqual(other.recv(7, socket.MSG_WAITALL), b"\x81\x05short")

    @over("limit-http-response", "1KiB", "--remote-may", "sockets")
    def test_a_response_too_long(self):
        with self.refused():
            with self.assertRaisesRegex(KdbError, "limit"):
                # The tickerplant's page of metrics is longer.
                self.reader.ask(f'.Q.hg"http://127.0.0.1:{self.tp.port}/metrics"')
            self.assertEqual(self.reader.ask(f'count .Q.hg"http://127.0.0.1:{self.tp.port}/none"').v > 0, True)


def frame(text):
    """A masked text frame."""
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(text))
    return bytes((0x81, 0x80 | len(text))) + mask + masked
