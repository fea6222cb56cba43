"""Invalid and malicious messages: the connection is closed, memory stays bounded, and other clients are unaffected."""

import random
import struct

from harness import kdb, wire
from harness.client import KdbError

from .others import MB, Others


def header(length, kind=wire.SYNC, packed=0):
    return struct.pack("<BBBBI", 1, kind, packed, length >> 32, length & 0xFFFFFFFF)


class Attacks:
    """Attacks on `self.target`, for any kind of process."""

    def setUp(self):
        super().setUp()
        self.target = self.tp
        self.choose_target()
        self.target.port
        self.memory_before = self.target.memory_bytes("VmHWM")

    def choose_target(self):
        """Sets the target: the tickerplant, unless a class overrides this."""

    def tearDown(self):
        self.assert_unharmed()
        self.assertTrue(self.target.is_running())
        self.assertNotIn("panicked", self.target.printed())
        grown = self.target.memory_bytes("VmHWM") - self.memory_before
        self.assertLess(grown, 150 * MB, f"the memory of {self.target.name} grew by {grown / MB:.0f} MB")

    def answer_or_close(self, h):
        """The error text in the reply to a bad message, or None if the connection was closed without a reply."""
        try:
            k = h.answer()
        except ConnectionError:
            return None
        except KdbError as error:
            return str(error)
        self.fail(f"answered with {k!r}")

    def assert_told(self, h, words):
        """Asserts that a sync caller gets this kdb+ error before the connection is closed."""
        told = self.answer_or_close(h)
        self.assertIsNotNone(told, "closed without a word")
        self.assertRegex(told, words)

    def test_a_length_of_a_gibibyte_in_twenty_bytes(self):
        h = self.connect(self.target)
        h.raw(header(1 << 30) + bytes(12))
        self.assert_told(h, "limit|length|badmsg")
        self.assertTrue(h.is_closed_by_peer())

    def test_a_vector_count_beyond_the_message(self):
        h = self.connect(self.target)
        for t in (kdb.LONG, kdb.SYMBOL, kdb.GENERAL, kdb.CHAR):
            with self.subTest(type=t):
                h = self.connect(self.target)
                h.raw(wire.frame(struct.pack("<bBI", t, 0, 0x7FFFFFFF) + bytes(8), wire.SYNC))
                self.assert_told(h, "badmsg|length|limit|type")

    def test_a_length_shorter_than_a_header(self):
        for length in (0, 7):
            h = self.connect(self.target)
            h.raw(header(length) + bytes(20))
            self.assertTrue(h.is_closed_by_peer())

    def test_a_bomb_that_says_it_is_ten_gibibytes(self):
        """Long-form compression: an 8-byte length. Ten MB of stream are sent of what would be 90."""
        h = self.connect(self.target)
        stream = b"\xff" + b"\x00\xff" * 8
        body = struct.pack("<Q", 10 << 30) + (b"\x00" + bytes(8)) + stream * (10 * MB // len(stream))
        self.send_as_far_as_taken(h, header(wire.HEADER + len(body), packed=2) + body)
        self.assert_told(h, "limit|badmsg|length")

    def test_a_bomb_that_says_it_is_four_gibibytes(self):
        h = self.connect(self.target)
        body = struct.pack("<I", 0xFFFFFFFF) + bytes(9) + (b"\xff" + b"\x00\xff" * 8) * 1000
        self.send_as_far_as_taken(h, header(wire.HEADER + len(body), packed=1) + body)
        self.assert_told(h, "limit|badmsg|length")

    def test_a_compressed_stream_that_ends_early_or_points_nowhere(self):
        good = wire.message(kdb.longs(range(3000)), compressed=True)
        for what, bad in {
            "cut": header(len(good) - 50, packed=1) + good[8:-50],
            "a match before anything was seen": header(40, packed=1) + struct.pack("<I", 3000) + b"\xff" * 28,
        }.items():
            with self.subTest(what):
                h = self.connect(self.target)
                h.raw(bad)
                self.assert_told(h, "badmsg|length|type")

    def test_nesting_a_hundred_thousand_deep(self):
        h = self.connect(self.target)
        h.raw(wire.frame(b"\0\0\1\0\0\0" * 100_000 + b"\x65\0", wire.SYNC))
        self.assert_told(h, "limit|badmsg|stack|depth|nest")

    def test_nesting_inside_an_update(self):
        deep = b"\0\0\1\0\0\0" * 100_000 + b"\x65\0"
        call = struct.pack("<bBI", 0, 0, 3) + kdb.encode(kdb.chars(".u.upd")) + kdb.encode(kdb.sym("trade")) + deep
        h = self.connect(self.target)
        h.raw(wire.frame(call, wire.SYNC))
        self.assert_told(h, "limit|badmsg|stack|depth|nest|type|length")

    def test_source_text_nested_as_deep(self):
        h = self.connect(self.target)
        for text in ("(" * 100_000, "{" * 100_000 + "}" * 100_000, "f[" * 50_000, "-" * 200_000 + "1"):
            self.assertIsNotNone(h.error_of(text), f"{text[:10]}...")

    def test_garbage_before_the_handshake(self):
        noise = random.Random(1)
        for garbage in (bytes(64), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", noise.randbytes(64), b"x" * 100_000):
            with self.subTest(garbage[:16]):
                h = self.connect(self.target, user=None)
                self.send_as_far_as_taken(h, garbage)
                h.finish()
                self.assertTrue(h.is_closed_by_peer())

    def test_garbage_after_the_handshake(self):
        for seed in range(40):
            noise = random.Random(seed)
            h = self.connect(self.target)
            self.send_as_far_as_taken(h, noise.randbytes(noise.randrange(8, 4000)))
            h.finish()
            self.assertTrue(h.is_closed_by_peer(), f"seed {seed}")

    def test_flipped_bytes_in_good_updates(self):
        """Whatever comes of them: the tickerplant answers or closes, and takes the next one."""
        from harness.scene import trades, update

        good = wire.message(update("nosuch", trades(0, 4)))
        for seed in range(200):
            noise = random.Random(seed)
            bad = bytearray(good)
            for _ in range(noise.randrange(1, 4)):
                bad[noise.randrange(8, len(bad))] = noise.randrange(256)
            h = self.connect(self.target)
            h.raw(bytes(bad))
            self.answer_or_close_any(h, seed)
            h.close()

    def answer_or_close_any(self, h, seed):
        try:
            h.answer()
        except (ConnectionError, KdbError):
            return
        except TimeoutError:
            self.fail(f"no answer to seed {seed}")

    def send_as_far_as_taken(self, h, data):
        """Sends bytes; the peer may close the connection before it has read all."""
        try:
            h.raw(data)
        except OSError:
            pass


class AtTheTickerplant(Attacks, Others):
    pass


class AtANode(Attacks, Others):
    def choose_target(self):
        self.target = self.rdb(self.tp)

    def assert_unharmed(self):
        super().assert_unharmed()
        h = self.connect(self.target)
        self.eventually(lambda: h.ask("count trade").v == self.published, "the node has every row")
