"""Clients that stop reading, or send one byte at a time: they must neither use memory nor delay others."""

import socket
import time

from harness import kdb, wire
from harness.client import Connection
from harness.scene import trades, update

from .others import MB, Others

ROWS = 500


class StopsReading(Others):
    def setUp(self):
        outbox = getattr(getattr(self, self._testMethodName), "outbox", "1MiB")
        self.tick_options = (*self.tick_options, "--limit-outbox", outbox)
        super().setUp()

    def lazy(self, question):
        """A subscriber with a small receive buffer that is not read."""
        h = Connection(self.tp.port, user=None)
        self.connections.append(h)
        h.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        h.handshake(b"lazy:\3\0")
        h.ask(question)
        return h

    def publish(self, updates):
        first = self.published
        for i in range(updates):
            self.feed.ask(update("trade", trades(first + i * ROWS, ROWS)))
            self.assertEqual(self.subscriber.push()[2]["seq"].v[0], first + i * ROWS)
        self.published += updates * ROWS

    def seqs_of(self, h, rows):
        """Reads from the slow subscriber until this many rows have arrived."""
        seqs = []
        while len(seqs) < rows:
            seqs += h.push()[2]["seq"].v
        return seqs

    def test_memory_is_bounded_and_it_catches_up_exactly(self):
        lazy = [self.lazy(kdb.syms(".u.sub", "trade", "")) for _ in range(10)]
        one = self.lazy(kdb.lst(kdb.sym(".u.sub"), kdb.sym("trade"), kdb.syms("AAA")))
        before = self.tp.memory_bytes()
        self.publish(1500)
        grown = self.tp.memory_bytes("VmHWM") - before
        self.assertLess(grown, 15 * MB, f"11 lazy subscribers, behind by 30 MB, cost {grown / MB:.0f} MB")
        for h in lazy:
            self.assertEqual(self.seqs_of(h, self.published), list(range(self.published)))
        mine = [seq for seq in range(self.published) if seq % 3 == 0]
        self.assertEqual(self.seqs_of(one, len(mine)), mine)
        self.publish(2)
        for h in lazy:
            self.assertEqual(self.seqs_of(h, 2 * ROWS), list(range(self.published - 2 * ROWS, self.published)))

    def test_what_waited_is_given_back_to_the_system(self):
        lazy = self.lazy(kdb.syms(".u.sub", "trade", ""))
        before = self.tp.memory_bytes()
        self.publish(2500)
        self.assertGreater(self.tp.memory_bytes(), before + 30 * MB, "much waits for one who does not read")
        self.assertEqual(self.seqs_of(lazy, self.published), list(range(self.published)))
        # Up to 16 MB of freed send buffers may stay in the allocator.
        self.eventually(lambda: self.tp.memory_bytes() < before + 20 * MB, "the tickerplant is small again")

    test_what_waited_is_given_back_to_the_system.outbox = "256MiB"

    def test_a_live_node_that_hangs_catches_up_exactly(self):
        node = self.rdb(self.tp)
        h = self.connect(node)
        self.publish(1)
        self.eventually(lambda: h.ask("count trade").v == ROWS, "the node is live")
        node.pause()
        before = self.tp.memory_bytes()
        self.publish(1500)
        grown = self.tp.memory_bytes("VmHWM") - before
        self.assertLess(grown, 15 * MB, f"a node that is behind by 30 MB costs {grown / MB:.0f} MB")
        node.resume()
        self.eventually(lambda: h.ask("count trade").v >= self.published, "the node has caught up")
        self.assertEqual(h.ask("exec seq from trade").v, list(range(self.published)))

    def test_one_that_never_reads_its_answers_is_closed_or_held_back(self):
        """Questions whose answers nobody reads: 200 times 8 MB."""
        h = self.lazy("1")
        before = self.tp.memory_bytes()
        h.socket.settimeout(0.2)
        try:
            for _ in range(200):
                h.raw(wire.message("til 1000000"))
        except OSError:
            pass
        self.publish(20)
        self.assertLess(self.tp.memory_bytes() - before, 200 * MB)


class SendsSlowly(Others):
    tick_options = ("--limit-handshake-time", "400ms")

    def test_a_login_that_does_not_end_is_closed(self):
        h = self.connect(self.tp, user=None)
        h.socket.settimeout(20)
        closed = False
        end = time.monotonic() + 20
        while not closed and time.monotonic() < end:
            try:
                h.raw(b"x")
                h.socket.settimeout(0.05)
                closed = h.socket.recv(1) == b""
            except TimeoutError:
                pass
            except OSError:
                closed = True
        self.assertTrue(closed, "a login of one byte now and then is kept for ever")
        self.assert_unharmed()

    def test_silent_connections_do_not_keep_others_out(self):
        silent = [self.connect(self.tp, user=None) for _ in range(100)]
        self.assert_unharmed()
        for h in silent:
            self.assertTrue(h.is_closed_by_peer())

    def test_a_message_byte_by_byte_is_taken_while_others_go_on(self):
        slow = [self.connect(self.tp, user=f"slow{i}:") for i in range(10)]
        messages = [wire.message(update("quote", self.quote(i))) for i in range(10)]
        for at in range(max(map(len, messages))):
            for h, message in zip(slow, messages):
                h.raw(message[at : at + 1])
            if at % 40 == 0:
                self.feed.ask("1")
        for h in slow:
            h.answer()
        self.assertEqual(self.feed.ask(".u.i").v, 10)

    def quote(self, seq):
        return kdb.lst(kdb.syms("A"), kdb.floats([1.0]), kdb.floats([2.0]), kdb.longs([seq]))
