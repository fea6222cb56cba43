"""Logs found at start: torn, damaged in the middle, of another schema. The exact range that is cut off or rejected is reported."""

import datetime

from harness import kdb, tplog
from harness.scene import Scene, trades, update


def record(first, rows=4):
    columns = trades(first, rows)
    return tplog.update("trade", kdb.lst(kdb.timespans([1] * rows), *columns.v))


class BadLogs(Scene):
    def today(self):
        return self.logs / f"sym{datetime.date.today():%Y.%m.%d}"

    def whole_log(self, records=20):
        tplog.write(self.today(), [record(i * 4) for i in range(records)])
        return self.today().read_bytes()

    def one_record(self):
        return len(kdb.encode(record(0)))

    def goes_on(self, tp, held):
        """Asserts that updates after the existing ones are accepted, and that a node gets all of them."""
        h = self.connect(tp)
        self.assertEqual(h.ask(".u.i").v, held)
        h.ask(update("trade", trades(10_000, 2)))
        records = tplog.read(self.today())
        self.assertEqual(len(records), held + 1)
        node = self.connect(self.rdb(tp, name=f"node-{tp.name}"))
        wanted = [seq for r in records for seq in r[2][4].v]
        self.eventually_equal(lambda: node.ask("exec seq from trade").v, wanted, "the node holds the log")

    def test_a_whole_log_of_q_is_continued(self):
        self.whole_log()
        self.goes_on(self.tick(), 20)

    def test_a_torn_tail_is_cut_and_the_cut_is_told(self):
        whole = self.whole_log()
        size = self.one_record()
        for torn in (1, 9, size // 2, size - 1):
            with self.subTest(torn=torn):
                self.clean(whole[: len(whole) - size + torn])
                tp = self.tick(name=f"tick{torn}")
                tp.port
                self.assertEqual(tplog.whole_bytes(self.today()), (19, len(whole) - size))
                self.assertRegex(tp.printed(), rf"(?i)(torn|cut|truncat).*\b{torn}\b|\b{torn}\b.*(torn|cut|truncat)")
                self.goes_on(tp, 19)
                tp.kill()

    def test_a_log_shorter_than_its_head_is_begun_anew(self):
        for size in (0, 3):
            with self.subTest(size=size):
                self.clean(tplog.MAGIC[:size])
                tp = self.tick(name=f"tick{size}")
                self.goes_on(tp, 0)
                tp.kill()

    def test_a_file_that_is_no_log_is_left_alone(self):
        self.clean(b"#!/bin/sh\necho this is not a log\n")
        tp = self.tick()
        self.assertNotEqual(tp.wait(), 0)
        self.assertIn(str(self.today()), tp.printed())
        self.assertEqual(self.today().read_bytes(), b"#!/bin/sh\necho this is not a log\n")

    def damaged(self):
        """A log of 20 records; record 10 is overwritten at the start of its columns."""
        whole, size = self.whole_log(), self.one_record()
        at = len(tplog.MAGIC) + 10 * size
        bad = at + len(kdb.encode(kdb.lst(kdb.sym("upd"), kdb.sym("trade"))))
        data = whole[:bad] + b"\xee" * 12 + whole[bad + 12 :]
        self.clean(data)
        return data, at, size

    def test_damage_in_the_middle_stops_the_start_with_its_exact_range(self):
        data, at, size = self.damaged()
        tp = self.tick()
        self.assertNotEqual(tp.wait(), 0)
        for number in (at, at + size):
            self.assertRegex(tp.printed(), rf"\b{number}\b")
        self.assertEqual(self.today().read_bytes(), data, "nothing was changed")

    def test_the_operator_may_keep_what_is_before_the_damage(self):
        self.damaged()
        self.goes_on(self.tick("--damage", "keep-before"), 10)

    def test_the_operator_may_leave_the_damage_out(self):
        self.damaged()
        self.goes_on(self.tick("--damage", "skip"), 19)

    def test_a_log_with_a_table_that_the_schema_lacks_is_refused_in_words(self):
        orders = tplog.update("orders", kdb.lst(kdb.timespans([1]), kdb.syms("a"), kdb.longs([1])))
        tplog.write(self.today(), [record(0), orders, record(4)])
        before = self.today().read_bytes()
        tp = self.tick()
        self.assertEqual(tp.wait(), 1)
        self.assertIn("record 1 is of a missing table orders", tp.printed())
        self.assertEqual(self.today().read_bytes(), before, "the log is as it was")

    def test_an_update_of_other_columns_is_left_out_and_missed(self):
        """One whose columns are others, good updates around it: what the table's last record has decides at the start."""
        other = tplog.update("trade", kdb.lst(kdb.timespans([1]), kdb.syms("a"), kdb.longs([1])))
        tplog.write(self.today(), [record(0), other, record(4)])
        before = self.today().read_bytes()
        tp = self.tick()
        h = self.connect(tp)
        self.assertEqual(h.ask(".u.i").v, 3)
        node = self.rdb(tp, name="node")
        n = self.connect(node)
        self.eventually_equal(lambda: n.ask("exec seq from trade").v, list(range(8)), "the good updates are held")
        self.assertEqual(n.ask(".rdb.stats[`missing]").v, 1)
        self.assertEqual(self.today().read_bytes()[: len(before)], before, "the log is as it was")
        h.ask(update("trade", trades(8, 2)))
        self.eventually_equal(lambda: n.ask("exec seq from trade").v, list(range(10)), "the feed goes on")

    def clean(self, data):
        for path in self.logs.iterdir():
            path.unlink()
        self.today().write_bytes(data)
