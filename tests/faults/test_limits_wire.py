"""Limits of connections and messages, at a tickerplant and at a node."""

import contextlib
import re
import socket
import ssl
import struct

from harness import kdb, wire
from harness.certificates import Authority
from harness.client import Connection, KdbError

from .limits import Limited, USED, USERS, figure, metrics, over


def half(length, sent, kind=wire.SYNC):
    """The first `sent` bytes of a message of this length."""
    return struct.pack("<BBBBI", 1, kind, 0, 0, length) + bytes(sent - wire.HEADER)


def client_hello(version=ssl.TLSVersion.TLSv1_3):
    """The first bytes of a TLS client that knows no later version."""
    sent = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.maximum_version = version
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


class Wire:
    def start(self, name, *arguments, **options):
        if "-E" in arguments:
            authority = Authority(self.directory / f"{name}-authority")
            options |= authority.variables(authority.issue(name))
        return super().start(name, *arguments, **options)

    @over("limit-message", "64KiB")
    def test_a_message_too_long(self):
        self.assertEqual(self.connect(self.target).ask("count " + '"' + "x" * 60_000 + '"').v, 60_000)
        with self.refused():
            h = self.connect(self.target)
            h.raw(half(1 << 20, 20))
            self.assertRegex(self.told(h), "^limit")
            self.assert_closed(h)
            h = self.connect(self.target)
            h.raw(half(1 << 20, 20, wire.ASYNC))
            self.assert_closed(h)
            self.assert_said(r"closed .*'limit.* 65536")

    @over("limit-decompressed", "256KiB")
    def test_a_message_that_expands_too_far(self):
        with self.refused():
            h = self.connect(self.target)
            h.raw(wire.message(kdb.longs([7] * 100_000), compressed=True))
            self.assertRegex(self.told(h), "^limit")
            self.assert_closed(h)

    @over("limit-compression-ratio", "8")
    def test_a_message_that_expands_too_many_times(self):
        zeros = kdb.longs([0] * 300_000)
        with self.refused():
            h = self.connect(self.target)
            h.raw(wire.message(zeros, compressed=True))
            self.assertRegex(self.told(h), "^limit: .*more than 8 times")
            self.assertEqual(h.ask("1+1").v, 2)
            h.raw(wire.message(zeros, wire.ASYNC, compressed=True))
            self.assert_closed(h)

    @over("limit-pending", "1MiB")
    def test_messages_too_long_for_the_memory_of_all(self):
        """Whether they are compressed or not."""
        text = kdb.chars("count " + '"' + "x" * 1_200_000 + '"')
        with self.refused():
            for compressed in (False, True):
                h = self.connect(self.target)
                h.raw(wire.message(text, compressed=compressed))
                self.assertRegex(self.told(h), "^limit: .*--limit-")
                self.assertEqual(h.ask("1+1").v, 2)

    @over("limit-depth", "10")
    def test_a_message_nested_too_deep(self):
        deep = kdb.longs([1])
        for _ in range(8):
            deep = kdb.lst(deep, kdb.chars("x"))
        self.assertIsNone(self.connect(self.target).error_of(kdb.lst(kdb.chars("{count x}"), deep)))
        for _ in range(4):
            deep = kdb.lst(deep, kdb.chars("x"))
        with self.refused():
            self.assertRegex(self.connect(self.target).error_of(kdb.lst(kdb.chars("{count x}"), deep)), "^limit")

    @over("limit-tls-handshakes", "1", "-E", "1")
    def test_too_many_tls_handshakes_at_once(self):
        """Each client sends its whole hello, which is a step; the steps of a crowd come faster than they can be computed."""
        hello = client_hello()
        with self.refused():
            while not self.refusals("limit-tls-handshakes"):
                crowd = [socket.create_connection(("127.0.0.1", self.target.port), timeout=30) for _ in range(200)]
                for sock in crowd:
                    sock.sendall(hello)
                for sock in crowd:
                    sock.close()

    @over("limit-connections", "9")
    def test_a_connection_too_many(self):
        with self.refused():
            crowd = []
            with self.assertRaises(OSError):
                while len(crowd) < 20:
                    crowd.append(self.connect(self.target))
            self.assert_said("rejected: 9 are open .--limit-connections")
            self.assert_unharmed()
            self.assertEqual(crowd[0].ask("1+1").v, 2)
            for h in crowd:
                h.close()

    @over("limit-half-open", "5", "--limit-handshake-time", "10m")
    def test_connections_that_never_log_in(self):
        with self.refused():
            crowd = [self.connect(self.target, user=None) for _ in range(20)]
            self.assertEqual(self.connect(self.target).ask("1+1").v, 2)
            self.assert_closed(crowd[0])

    @over("limit-user-connections", "6", "-U", USERS)
    def test_connections_of_one_user(self):
        self.crowd(["ann:"], 6)

    @over("limit-address-connections", "12")
    def test_connections_of_one_address(self):
        self.crowd(["ann:", "bob:"], 12)

    @over("limit-reserved-connections", "8", "--limit-connections", "32", "-U", USERS)
    def test_connections_kept_for_nodes_and_operators(self):
        self.crowd(["ann:", "bob:"], 24)

    def crowd(self, users, most):
        """Connects until a connection is rejected, at the latest behind `most` of them."""
        with self.refused():
            crowd = []
            with self.assertRaises(OSError):
                while len(crowd) <= most:
                    crowd.append(self.connect(self.target, user=users[len(crowd) % len(users)]))
            for h in crowd:
                h.close()

    @over("limit-logins", "1", "-U", USERS)
    def test_logins_whose_password_is_slow_to_check(self):
        with self.refused():
            crowd = [self.connect(self.target, user=None) for _ in range(20)]
            for h in crowd:
                h.raw(b"slow:secret\3\0")
            self.eventually(lambda: self.refusals("limit-logins") > 0, "a login finds no room")
            self.assert_said("login rejected: too many logins at once .--limit-logins")

    @over("limit-user-queries", "1", "-U", USERS, "--limit-query-time", "3s")
    def test_queries_of_one_user(self):
        with self.refused():
            both = [self.connect(self.target, user="ann:") for _ in range(2)]
            bob = self.connect(self.target, user="bob:")

            def asked_at_once():
                for h in both:
                    h.raw(wire.message("while[1b;]"))
                self.assertEqual(bob.ask("1+1").v, 2)
                return [str(h.answer_or_error().v) for h in both]

            # Whichever comes first runs until its time is over; the other one comes meanwhile, unless the machine pauses for as long.
            rejected = re.compile("limit: user ann has 1 ").search
            self.eventually(lambda: any(map(rejected, asked_at_once())), "a rejection")

    @over("limit-user-symbols", "64KiB", "-U", USERS)
    def test_symbols_of_one_user(self):
        with self.refused():
            h = self.connect(self.target, user="ann:")
            self.assertRegex(h.error_of("count `$string til 5000"), "^limit: user ann: ")
            self.assertEqual(self.connect(self.target, user="bob:").ask("count `$string 10000+til 100").v, 100)

    @over("limit-user-outbox", "1MiB", "-U", USERS)
    def test_responses_that_one_user_does_not_read(self):
        with self.refused():
            h, other = (self.connect(self.target, user="ann:") for _ in range(2))
            for _ in range(3):
                h.raw(wire.message("til 4000000"))
            self.eventually(lambda: re.match("limit: the send .* user ann ", self.answer(other, "til 200000")), "a rejection")
            self.assertEqual(len(self.connect(self.target, user="bob:").ask("til 200000").v), 200000)

    def answer(self, h, question):
        """The error of a question, or nothing."""
        try:
            h.ask(question)
        except KdbError as error:
            return str(error)
        return ""

    @over("limit-idle", "5s")
    def test_a_client_that_is_idle(self):
        with self.refused():
            h = self.connect(self.target)
            while not self.refusals("limit-idle"):
                # The others are in use.
                self.assert_unharmed()
            self.assert_closed(h)

    @over("limit-audit-queue", "5", "--audit", "/dev/full")
    def test_records_that_cannot_be_written(self):
        with self.refused():
            h = self.connect(self.target)
            for _ in range(10):
                self.assertEqual(h.ask("1+1").v, 2)
            self.assertIn("\nelastick_audit_failing 1\n", metrics(self.target))

    @over("limit-audit-text", "16B", "--audit", "/dev/null")
    def test_a_query_too_long_for_its_record(self):
        with self.refused():
            self.assertEqual(self.connect(self.target).ask("count 1 2 3 4 5 6 7 8 9").v, 9)

    @over("limit-handshake", "64B")
    def test_a_login_too_long(self):
        with self.refused():
            h = self.connect(self.target, user=None)
            h.raw(b"x" * 200)
            self.assert_closed(h)
            h = self.connect(self.target, user=None)
            h.raw(b"x" * 100 + b":secret\3\0")
            self.assert_closed(h)
            self.assert_said("'limit: a handshake of more than 64 bytes .--limit-handshake.")

    @over("limit-handshake-time", "1s")
    def test_no_login_in_time(self):
        with self.refused():
            silent = self.connect(self.target, user=None)
            self.assert_unharmed()
            self.assert_closed(silent)
            self.assert_said("'limit: no handshake within 1s .--limit-handshake-time.")

    @over("limit-inbox", "64KiB")
    def test_an_unfinished_message_too_long_for_one_connection(self):
        with self.refused():
            h = self.connect(self.target)
            h.raw(half(1 << 20, 20))
            self.assertRegex(self.told(h), "^limit")
            self.assert_closed(h)

    @over("limit-inboxes", "256KiB")
    def test_unfinished_messages_too_long_together(self):
        """Whoever holds the most has to go, not whoever comes last."""
        question = wire.message("1+1")
        with self.refused():
            greedy, innocent, late = (self.connect(self.target) for _ in range(3))
            innocent.raw(question[:-1])
            greedy.raw(half(1 << 20, 200_000))
            self.eventually(lambda: figure(self.target, USED, "limit-inboxes") > 200_000, "it has been read")
            late.raw(half(1 << 20, 100_000))
            self.assertRegex(self.told(greedy), "^limit: the receive buffers of all connections exceed 262144 bytes")
            self.assert_closed(greedy)
            self.assert_said("'limit: the receive buffers of all connections exceed 262144 bytes .--limit-inboxes.")
            innocent.raw(question[-1:])
            self.assertEqual(innocent.answer().v, 2)

    @over("limit-outbox", "1MiB")
    def test_a_client_that_is_sent_more_than_it_reads(self):
        with self.refused():
            h = self.connect(self.target)
            h.raw(wire.message("do[400;neg[.z.w]til 1000]", wire.ASYNC))
            self.assert_closed(h)

    @over("limit-outboxes", "2MiB")
    def test_answers_too_long_together(self):
        """While somebody does not read a long answer, nobody else is given one, but short ones."""
        with self.refused():
            lazy, other = self.connect(self.target), self.connect(self.target)
            lazy.raw(wire.message("til 4000000"))
            self.eventually(lambda: figure(self.target, USED, "limit-outboxes") > 2 << 20, "an answer waits")
            self.assertRegex(other.error_of("til 400000"), "^limit: .*--limit-outboxes")
            self.assertEqual(other.ask("1+1").v, 2)
            self.assert_unharmed()
            self.assertEqual(len(lazy.answer()), 4_000_000)
            self.eventually(lambda: other.error_of("til 400000") is None, "it is given long ones again")


class AtTheTickerplant(Wire, Limited):
    pass


class AtANode(Wire, Limited):
    program = "rdb"
