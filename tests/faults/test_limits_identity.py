"""Limits of logins that identity services decide, at a tickerplant and at a node."""

import contextlib
import threading

from harness.tokens import ISSUER, Issuer, KeyServer

from .limits import USERS, Limited, over

TABLE = """
[oidc]
jwks = "{jwks}"
issuer = "{issuer}"
audience = "elastick"
user_claim = "preferred_username"
keys_refetch = "0s"
every_user = ["query"]
"""


class Identity:
    def setUp(self):
        """The users file names a server of this test, which is there before the processes are."""
        self.release = threading.Event()
        self.addCleanup(self.release.set)
        super().setUp()

    def start(self, name, *arguments, **options):
        if "-U" not in arguments:
            self.issuer = Issuer(self.directory / f"issuer-{name}", ("p", "ES256"))
            self.server = KeyServer(self.issuer)
            self.addCleanup(self.server.stop)
            path = self.directory / f"{name}.toml"
            path.write_text(USERS.read_text() + TABLE.format(jwks=self.server.url, issuer=ISSUER))
            arguments = (*arguments, "-U", path)
        return super().start(name, *arguments, **options)

    def hang(self, handler):
        self.release.wait()
        self.server.keys(handler)

    def log_in(self):
        h = self.connect(self.target, user=None)
        h.raw(f"tia:{self.issuer.token()}".encode() + b"\3\0")
        return h

    @over("limit-identity-logins", "1", "--limit-identity-time", "1h", "--limit-handshake-time", "1h")
    def test_logins_that_wait_for_an_issuer(self):
        self.server.answer = self.hang
        with self.refused():
            first = self.log_in()
            self.eventually(lambda: self.server.asked, "its keys are requested")
            self.assert_closed(self.log_in())
            self.assert_said("login rejected: too many logins wait for an identity service .--limit-identity-logins")
            self.release.set()
            self.assertEqual(first.socket.recv(1), b"\3")

    @over("limit-identity-time", "1s")
    def test_an_issuer_that_does_not_answer(self):
        self.server.answer = self.hang
        with self.refused():
            self.assert_closed(self.log_in())
            self.assert_said("no answer in time .--limit-identity-time")

    @over("limit-identity-answer", "4KiB")
    def test_an_answer_too_long(self):
        def long(handler):
            handler.send_response(200)
            handler.end_headers()
            # The reader closes in the middle.
            with contextlib.suppress(OSError):
                while True:
                    handler.wfile.write(b" " * 65536)

        self.server.answer = long
        with self.refused():
            self.assert_closed(self.log_in())
            self.assert_said("more than 4096 bytes .--limit-identity-answer")
            self.server.answer = None
            self.assertEqual(self.log_in().socket.recv(1), b"\3")


class AtTheTickerplant(Identity, Limited):
    program = "tick"


class AtANode(Identity, Limited):
    program = "rdb"
