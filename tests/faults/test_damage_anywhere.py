"""Logs that are truncated, bit-flipped, or followed by garbage, at and between the boundaries of every record. The harness's own reader
computes the one correct outcome of each case: the tickerplant starts with every readable record and reports the size of the cut, and a
node then has exactly the logged rows; or the start fails, names the damaged range, and changes nothing."""

import random
import re
import shutil
import struct
from dataclasses import dataclass

from harness import kdb, tplog
from harness.scene import Scene, trades, update

RECORDS = 5
ROWS = 3
# The first bytes of every record.
CALL = kdb.encode(tplog.update("trade", kdb.lst()))[:11]
# Writers of the log: a tickerplant that closed it, so that the side file has one block for all of it; one that was killed before a
# block was full; q, which has no side file.
WRITERS = "closed", "killed", "q"


@dataclass
class Due:
    """Correct outcome of a log: either the first `records`, which end at byte `end`, are kept and the rest is cut off, or it is rejected."""

    records: int
    end: int
    refused: bool


def message_at(data, at):
    """The end of the message at a byte. ValueError if none begins there, IndexError or struct.error if the bytes end inside it."""
    if data[at] == kdb.GENERAL:
        (count,) = struct.unpack_from("<i", data, at + 2)
        if count < 1 or data[at + 6] not in (256 - kdb.SYMBOL, kdb.CHAR, *range(100, 112)):
            raise ValueError(f"the list at byte {at} calls nothing")
    elif data[at] not in (kdb.CHAR, kdb.SYMBOL):
        raise ValueError(f"no message begins at byte {at}")
    try:
        return kdb.decode(data, "<", at)[1]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no object at byte {at}") from error


def whole_behind(data, at):
    """Whether a readable record follows somewhere after a byte, itself followed by another one or by the end."""
    while (at := data.find(CALL, at + 1)) > 0:
        try:
            end = message_at(data, at)
        except (IndexError, ValueError, struct.error):
            continue
        if end == len(data) or data.startswith(CALL, end):
            return True
    return False


def due(data):
    """The correct outcome of a log without a side file."""
    records, at = 0, len(tplog.MAGIC)
    while at < len(data):
        try:
            at = message_at(data, at)
        except (IndexError, struct.error):
            # The log ends inside a record; or, if others follow, this record's length is wrong.
            return Due(records, at, whole_behind(data, at))
        except ValueError:
            return Due(records, at, any(data[at:]))
        records += 1
    return Due(records, at, False)


class Damage(Scene):
    """Logs of `RECORDS` updates."""

    def setUp(self):
        super().setUp()
        self.cases = 0
        self.templates = {writer: self.directory / writer for writer in WRITERS}
        logs = self.templates["closed"]
        logs.mkdir()
        tp = self.tick("--durability", "each", name="writer", logs=logs)
        feed = self.connect(tp)
        for i in range(RECORDS):
            feed.ask(update("trade", trades(i * ROWS, ROWS)))
        self.log_name = self.log_path(feed).name
        shutil.copytree(logs, self.templates["killed"])
        self.assertEqual(tp.terminate(), 0)
        self.templates["q"].mkdir()
        self.whole = (logs / self.log_name).read_bytes()
        self.edges = [len(tplog.MAGIC)]
        while self.edges[-1] < len(self.whole):
            self.edges.append(message_at(self.whole, self.edges[-1]))
        self.assertEqual(len(self.edges), RECORDS + 1)

    def places(self):
        """Test positions: record boundaries and adjacent bytes; in each record the ends of names, counts and columns, and its middle."""
        near = {edge + by for edge in self.edges for by in (-1, 0, 1, 6, 9, 10, 20)}
        between = {(a + b) // 2 for a, b in zip(self.edges, self.edges[1:])}
        return sorted(at for at in {0, 2} | near | between if at < len(self.whole))

    def start_on(self, data, writer):
        """Starts a tickerplant on a directory whose log is `data`."""
        self.cases += 1
        self.logs = self.directory / f"logs{self.cases}"
        shutil.copytree(self.templates[writer], self.logs)
        self.path = self.logs / self.log_name
        self.path.write_bytes(data)
        tp = self.tick(name=f"tick{self.cases}")
        self.eventually(lambda: not tp.is_running() or "listening on" in tp.printed(), "it starts or refuses")
        self.assertNotIn("panicked", tp.printed())
        return tp

    def play(self, data, writer, at, what=None):
        """Starts a tickerplant on a log damaged at byte `at`, and asserts the correct outcome."""
        tp = self.start_on(data, writer)
        # If records follow unreadable bytes, the length of the record before them may be wrong.
        what, first = what or due(data), max((edge for edge in self.edges if edge < at), default=self.edges[0])
        if writer == "closed" and data[: len(self.whole)] != self.whole and len(data) >= len(self.whole):
            # The block is complete with changed bytes; if all its records are readable, the error names the whole block.
            what, first = Due(0, what.end, refused=True), self.edges[0]
        if what.refused:
            self.is_refused(tp, data, first, what.end)
        else:
            self.holds_what_the_log_says(tp, data, what)
        self.done()
        return what

    def done(self):
        """Stops this case's processes."""
        for process in self.processes:
            process.close()
        for connection in self.connections:
            connection.close()
        self.processes.clear()
        self.connections.clear()

    def is_refused(self, tp, data, least, most):
        """Asserts that the start failed without changes and named the file and a range. The range must begin between `least`, the start
        of the damaged record, and `most`, the first unreadable byte."""
        self.assertNotEqual(tp.wait(), 0, f"started{tp.tail()}")
        self.assertEqual(self.path.read_bytes(), data, "a refused log is left as it was")
        said = re.search(r"\bbytes (\d+) to (\d+) \(updates (?:from )?(\d+)[ ,]", tp.printed())
        self.assertTrue(said and str(self.path) in tp.printed(), f"no range{tp.tail()}")
        first, last, updates = map(int, said.groups())
        self.assertTrue(least <= first <= most and first < last <= len(data), f"not from {least} to {most}{tp.tail()}")
        if first in self.edges:
            self.assertEqual(updates, self.edges.index(first))
        self.range = first, last

    def holds_what_the_log_says(self, tp, data, what):
        """Asserts that the log has exactly the expected bytes, accepts updates, and that a node has its rows."""
        self.assertTrue(tp.is_running(), f"refused{tp.tail()}")
        feed = self.connect(tp)
        self.assertEqual(feed.ask(".u.i").v, what.records)
        self.assertEqual(self.path.read_bytes(), data[: what.end] if what.records else tplog.MAGIC)
        if (cut := len(data) - what.end) > 0:
            self.assertRegex(tp.printed(), rf"\bcut off {cut} bytes at byte {what.end}\b", "how much was cut is told")
        feed.ask(update("trade", trades(900, 1)))
        records = tplog.read(self.path)
        self.assertEqual(len(records), what.records + 1)
        wanted = [seq for record in records if fits(record) for seq in record[2][4].v]
        node = self.connect(self.rdb(tp, name=f"node{self.cases}"))
        self.eventually_equal(lambda: node.ask("exec seq from trade").v, wanted, "the node holds what the log says")

    def each_place(self, play):
        for writer in WRITERS:
            for at in self.places():
                with self.subTest(at=at, writer=writer):
                    play(at, writer)

    def before(self, at):
        """Number of records that end at or before a byte."""
        return sum(edge <= at for edge in self.edges[1:])

    def test_cut_anywhere(self):
        def play(at, writer):
            before = self.before(at)
            self.assertEqual(self.play(self.whole[:at], writer, at), Due(before, self.edges[before], refused=False))

        self.each_place(play)

    def test_flipped_anywhere(self):
        def play(at, writer):
            bit = random.Random(at).randrange(8)
            data = self.whole[:at] + bytes([self.whole[at] ^ 1 << bit]) + self.whole[at + 1 :]
            if at < self.edges[0]:
                self.play_head(data, at, writer)
                return
            flipped = self.before(at)
            what = self.play(data, writer, at)
            if what.refused:
                self.assertGreater(self.range[1], at, "the flipped byte is in the range, or before it in the same record")
            elif what.end < len(data):
                self.assertEqual((flipped, what.end), (RECORDS - 1, self.edges[-2]), "only a last record can look unfinished")

        self.each_place(play)

    def play_head(self, data, at, writer):
        """Damage in the head: only the first three bytes identify a log; the others are not read."""
        tp = self.start_on(data, writer)
        if at < 3:
            self.assertNotEqual(tp.wait(), 0)
            self.assertIn(f"{self.path} ", tp.printed())
        else:
            self.assertEqual(self.connect(tp).ask(".u.i").v, RECORDS)
        self.assertEqual(self.path.read_bytes(), data)
        self.done()

    def test_garbage_behind_any_place(self):
        record = self.whole[self.edges[-2] :]
        noise = random.Random(7)
        tails = {
            "noise": noise.randbytes(300),
            "one byte": b"\x01",
            "zeros": bytes(4096),
            "half a record": record[: len(record) // 2],
            "text": b"2026.11.21 no space left on device\n",
            "noise, then a record": noise.randbytes(50) + record,
            "another log": self.whole,
        }
        places = [*self.edges, *((a + b) // 2 for a, b in zip(self.edges[::2], self.edges[1::2])), self.edges[-1] - 1]
        for writer in WRITERS:
            for name, tail in tails.items():
                for at in places:
                    with self.subTest(name, at=at, writer=writer):
                        self.play(self.whole[:at] + tail, writer, at, self.due_before_zeros(at, tail) if name == "zeros" else None)

    def due_before_zeros(self, at, tail):
        """The correct outcome with zeros appended: a record completed by these zeros does not count, unless its bytes are unchanged."""
        data = self.whole[:at] + tail
        kept = sum(data.startswith(self.whole[:edge]) for edge in self.edges[1:])
        torn = self.edges[kept] == at or kept > self.before(at)
        return Due(kept, self.edges[kept], refused=not torn)


def fits(record):
    """Whether a record is an update that matches the table."""
    try:
        head, table, columns = record.v
        types = [column.t for column in columns.v]
        lengths = {len(column) for column in columns.v}
    except (AttributeError, TypeError, ValueError):
        return False
    wanted = [kdb.TIMESPAN, kdb.SYMBOL, kdb.FLOAT, kdb.LONG, kdb.LONG]
    return (head.v, table.v) == ("upd", "trade") and types == wanted and len(lengths) == 1
