"""Limits on the bytes of a log that are read or buffered at once. They reject nothing."""

import contextlib
import pathlib
import re

from harness import kdb, tplog
from harness.scene import Scene, trades, update

from .limits import COUNT, USED, Slow, figure, over
from .others import MB, Others

RECORDS, ROWS = 400, 1000


def readings(process):
    """(bytes, number of calls) of a process's file reads so far."""
    text = pathlib.Path(f"/proc/{process.pid}/io").read_text()
    return tuple(int(re.search(rf"{name}: (\d+)", text).group(1)) for name in ("rchar", "syscr"))


def record(seq, rows=ROWS):
    columns = trades(seq, rows)
    return tplog.update("trade", kdb.lst(kdb.timespans(range(seq, seq + rows)), *columns.v))


class AtTheTickerplant(Slow):
    @over("limit-log-read-chunk", "8KiB", "--limit-outbox", "128KiB")
    def test_the_log_is_read_in_pieces_for_who_is_behind(self):
        """Each update is longer than a piece."""
        lazy = self.lazy()
        seqs = self.publish_until(lambda: figure(self.tp, COUNT, "limit-outbox") > 0)
        seqs += self.publish_until(lambda: self.updates >= 150)
        before = readings(self.tp)
        self.assertEqual(self.read(lazy, len(seqs)), seqs)
        total, times = (after - start for after, start in zip(readings(self.tp), before))
        self.assertGreater(times, 100, "it was behind by more than a few pieces")
        self.assertLess(total / times, 32 << 10, "by their size alone pieces would be of 64 KiB")
        self.assert_unharmed()

    @over("limit-log-buffer", "64KiB", "--durability", "none")
    def test_no_more_of_the_log_is_held_back(self):
        log = self.log_path(self.feed)
        for _ in range(20):
            self.feed.ask(update("trade", trades(self.published, 500)))
            self.subscriber.push()
            self.published += 500
            self.assertLessEqual(figure(self.tp, USED, "limit-log-buffer"), 64 << 10)
        self.assertGreater(log.stat().st_size, 20 * 500 * 36 - (64 << 10))
        self.assert_unharmed()
        self.assertEqual(self.tp.terminate(), 0)
        self.assertEqual(len(tplog.read(log)), 21)


class AtANode(Others):
    program = "rdb"

    @over("limit-log-read-chunk", "64KiB")
    def test_a_window_is_replayed_in_pieces(self):
        """On a server of this size a piece would be 1 MiB."""
        for _ in range(200):
            self.feed.ask(update("trade", trades(self.published, 500)))
            self.published += 500
        # An update longer than a chunk.
        self.feed.ask(update("trade", trades(self.published, 5000)))
        self.published += 5000
        pieces = self.readings_of_a_node("small", *self.test_a_window_is_replayed_in_pieces.limit_options)
        self.assertGreater(pieces, self.readings_of_a_node("large") + 30, "the log has 4 MB")

    def readings_of_a_node(self, name, *options):
        node = self.rdb(self.tp, "--memory", "1GiB", *options, name=name, queue=name)
        reader = self.connect(node)
        self.eventually(lambda: reader.ask("count trade").v == self.published, "the window is replayed")
        self.assertEqual(reader.ask("exec seq from trade").v, list(range(self.published)))
        return readings(node)[1]


class Programs(Scene):
    """Programs that exit and report errors as text."""

    def made(self, records=RECORDS):
        """Writes a log of 14 MB."""
        log = self.directory / "made"
        log.write_bytes(tplog.MAGIC + kdb.encode(record(0)) * records)
        return log

    def run_to_end(self, *arguments):
        """Runs a program. Returns exit code, output and the observed peak memory."""
        running = self.start("program", *arguments)
        most = 0
        while running.is_running():
            with contextlib.suppress(OSError, AttributeError):
                most = max(most, running.memory_bytes("VmHWM"))
        return running.wait(), running.printed(), most


class TheLogTools(Programs):
    program = "log verify"

    @over("limit-log-read-chunk", "4KiB")
    def test_a_log_is_read_in_pieces(self):
        log = self.made()
        code, text, little = self.run_to_end("log", "verify", *self.test_a_log_is_read_in_pieces.limit_options, log)
        self.assertEqual(code, 0, text)
        self.assertIn(f"{RECORDS}", text)
        much = lambda: self.run_to_end("log", "verify", "--limit-log-read-chunk", "64MiB", log)[2]
        # On a busy machine a program may exit before its memory is sampled.
        self.eventually(lambda: little + 8 * MB < much(), "more is held at once of a log of 14 MB")

    @over("limit-message", "16KiB")
    def test_a_record_too_long(self):
        code, text, _ = self.run_to_end("log", "verify", *self.test_a_record_too_long.limit_options, self.made(3))
        self.assertNotEqual(code, 0)
        self.assertIn("a record of more than 16384 bytes (--limit-message)", text)

    @over("limit-depth", "10")
    def test_a_record_nested_too_deep(self):
        deep = kdb.longs([1])
        for _ in range(12):
            deep = kdb.lst(deep)
        log = self.directory / "deep"
        tplog.write(log, [record(0), tplog.update("trade", deep), record(ROWS)])
        code, text, _ = self.run_to_end("log", "verify", *self.test_a_record_nested_too_deep.limit_options, log)
        self.assertNotEqual(code, 0)
        self.assertIn("nested more than 10 levels deep", text)


class TheFeed(Programs):
    program = "feed"

    def setUp(self):
        super().setUp()
        self.tp = self.tick()

    @over("limit-log-read-chunk", "4KiB")
    def test_a_log_is_replayed_in_pieces(self):
        log = self.made()
        arguments = "feed", f"127.0.0.1:{self.tp.port}", "--replay", log, "--confirm", 5, "--speed", 0
        feed = lambda *more: self.run_to_end(*arguments, *more)
        code, text, little = feed(*self.test_a_log_is_replayed_in_pieces.limit_options)
        self.assertEqual(code, 0, text)
        self.assertEqual(self.connect(self.tp).ask(".u.i").v, RECORDS)
        much = lambda: feed("--limit-log-read-chunk", "64MiB")[2]
        self.eventually(lambda: little + 8 * MB < much(), "more is held at once of a log of 14 MB")

    @over("limit-message", "16KiB")
    def test_a_record_too_long(self):
        options = "--replay", self.made(3), *self.test_a_record_too_long.limit_options
        code, text, _ = self.run_to_end("feed", f"127.0.0.1:{self.tp.port}", *options)
        self.assertNotEqual(code, 0)
        self.assertIn("a record of more than 16384 bytes (--limit-message)", text)
        self.assertEqual(self.connect(self.tp).ask(".u.i").v, 0)
