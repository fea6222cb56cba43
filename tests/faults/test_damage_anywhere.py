"""A log cut, flipped or with garbage behind it, at the edges of every record and between them: a tickerplant starts with what is
whole and says what it cut, or refuses and says where; a node then holds exactly what the log says."""

import random
import re
import shutil

from harness import kdb, tplog
from harness.scene import Scene, trades, update

RECORDS = 5
ROWS = 3


class Damage(Scene):
    """Logs of `RECORDS` updates, written by elastick, with its side file and its journal, or by q, without."""

    def setUp(self):
        super().setUp()
        self.cases = 0
        self.template = self.directory / "template"
        self.template.mkdir()
        tp = self.tick("--durability", "each", name="writer", logs=self.template)
        feed = self.connect(tp)
        for i in range(RECORDS):
            feed.ask(update("trade", trades(i * ROWS, ROWS)))
        self.log_name = self.log_path(feed).name
        tp.kill()
        self.whole = (self.template / self.log_name).read_bytes()
        self.edges = [len(tplog.MAGIC)]
        while self.edges[-1] < len(self.whole):
            self.edges.append(kdb.decode(self.whole, "<", self.edges[-1])[1])
        self.assertEqual(len(self.edges), RECORDS + 1)

    def places(self):
        """Every edge, the byte at either side of it, and places between."""
        near = {edge + by for edge in self.edges for by in (-1, 0, 1, 6, 9)}
        between = {(a + b) // 2 for a, b in zip(self.edges, self.edges[1:])}
        return sorted(at for at in near | between if 0 < at < len(self.whole))

    def case(self, data, with_side_file):
        """A directory whose log is `data`, and a tickerplant on it."""
        self.cases += 1
        self.logs = self.directory / f"logs{self.cases}"
        if with_side_file:
            shutil.copytree(self.template, self.logs)
        else:
            self.logs.mkdir()
        self.path = self.logs / self.log_name
        self.path.write_bytes(data)
        tp = self.tick(name=f"tick{self.cases}")
        self.eventually(lambda: not tp.is_running() or "listening on" in tp.printed(), "it starts or refuses")
        self.assertNotIn("panicked", tp.printed())
        return tp

    def refused(self, tp, data, *within):
        """Whether the start was refused: then nothing was changed, and the words name the file and a range around the damage."""
        if tp.is_running():
            return False
        self.assertNotEqual(tp.wait(), 0)
        self.assertEqual(self.path.read_bytes(), data, "a refused log is left as it was")
        self.assertIn(str(self.path), tp.printed())
        if within:
            said = [int(number) for number in re.findall(r"\b\d+\b", tp.printed().replace(str(self.path), ""))]
            ranges = [(a, b) for a in said for b in said if a <= within[0] < b]
            self.assertTrue(ranges, f"no range around byte {within[0]} in: {tp.printed()}")
        return True

    def holds_what_the_log_says(self, tp, least):
        """The log is whole, has the first `least` records as they were, goes on, and a node holds its rows."""
        feed = self.connect(tp)
        count = feed.ask(".u.i").v
        self.assertGreaterEqual(count, least)
        self.assertEqual(tplog.whole_bytes(self.path), (count, self.path.stat().st_size))
        self.assertEqual(self.path.read_bytes()[: self.edges[least]], self.whole[: self.edges[least]])
        feed.ask(update("trade", trades(900, 1)))
        records = tplog.read(self.path)
        self.assertEqual(len(records), count + 1)
        wanted = [seq for record in records if fits(record) for seq in record[2][4].v]
        node = self.connect(self.rdb(tp, name=f"node{self.cases}"))
        self.eventually_equal(lambda: node.ask("exec seq from trade").v, wanted, "the node holds what the log says")
        return count

    def done(self, tp):
        """Ends this case's processes."""
        for process in [*self.processes]:
            process.close()
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def each_place(self, play):
        for with_side_file in (True, False):
            for at in self.places():
                with self.subTest(at=at, with_side_file=with_side_file):
                    play(at, with_side_file)

    def test_cut_anywhere(self):
        def play(at, with_side_file):
            before = sum(edge <= at for edge in self.edges[1:])
            data = self.whole[:at]
            tp = self.case(data, with_side_file)
            self.assertTrue(tp.is_running(), f"a log cut at {at} is refused{tp.tail()}")
            self.assertEqual(self.holds_what_the_log_says(tp, before), before)
            torn = at - max([edge for edge in [0, *self.edges] if edge <= at])
            if torn and at > self.edges[0]:
                self.assertRegex(tp.printed(), rf"\b{torn}\b", "how much was cut is told")
            self.done(tp)

        self.each_place(play)

    def test_flipped_anywhere(self):
        def play(at, with_side_file):
            before = sum(edge <= at for edge in self.edges[1:])
            bit = random.Random(at).randrange(8)
            data = self.whole[:at] + bytes([self.whole[at] ^ 1 << bit]) + self.whole[at + 1 :]
            tp = self.case(data, with_side_file)
            if at < self.edges[0]:
                # Of the head only its first bytes are looked at: the count of the list that it begins is not kept by q.
                held = None if self.refused(tp, data) else self.connect(tp).ask(".u.i").v
                self.assertIn(held, (None, RECORDS))
            elif not self.refused(tp, data, at):
                self.holds_what_the_log_says(tp, before)
            self.done(tp)

        self.each_place(play)

    def test_garbage_behind_it(self):
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
        for with_side_file in (True, False):
            for what, tail in tails.items():
                with self.subTest(what, with_side_file=with_side_file):
                    tp = self.case(self.whole + tail, with_side_file)
                    if not self.refused(tp, self.whole + tail, len(self.whole)):
                        self.holds_what_the_log_says(tp, RECORDS)
                        self.assertRegex(tp.printed(), rf"\b{len(tail)}\b", "how much was cut is told")
                    self.done(tp)


def fits(record):
    """Whether a record is an update that the table takes."""
    try:
        head, table, columns = record.v
        types = [column.t for column in columns.v]
        lengths = {len(column) for column in columns.v}
    except (AttributeError, TypeError, ValueError):
        return False
    wanted = [kdb.TIMESPAN, kdb.SYMBOL, kdb.FLOAT, kdb.LONG, kdb.LONG]
    return (head.v, table.v) == ("upd", "trade") and types == wanted and len(lengths) == 1
