"""Schema files are q: timestamps as in TorQ, keyed tables, attributes, comments; and the shipped schemas."""

import pathlib

from harness import kdb, tplog
from harness.process import ROOT
from harness.scene import Scene, update

TORQ = """\
/ timestamps, as TorQ's schemas have them
quote:([]time:`timestamp$();sym:`g#`symbol$();bid:`float$();ask:`float$();bsize:`long$();asize:`long$();mode:`char$();ex:`char$();src:`symbol$())
trade:([]time:`timestamp$(); sym:`g#`symbol$(); price:`float$(); size:`int$(); stop:`boolean$(); cond:`char$(); ex:`char$();side:`symbol$())
"""

ODD = """\
/
a block comment
that ends with a backslash alone
\\
\\d .
trade:([] time:`timespan$(); sym:`symbol$(); / a comment inside
  price:`real$();
  when:`date$(); at:`time$(); id:`guid$(); flag:`boolean$(); b:`byte$(); h:`short$())
last_trade:([time:`timespan$(); sym:`symbol$()] price:`float$())
nested:flip `time`sym`levels!"ns*"$\\:()
n:3 / not a table
"""


class TorqSchema(Scene):
    schema = TORQ

    def row(self, time=None):
        columns = [
            kdb.syms("A", "B"), kdb.floats([1, 2]), kdb.K(kdb.INT, [3, 4]), kdb.K(kdb.BOOL, [0, 1]),
            kdb.chars("xy"), kdb.chars("NO"), kdb.syms("buy", "sell"),
        ]  # fmt: skip
        return kdb.lst(*([kdb.K(kdb.TIMESTAMP, time)] if time else []), *columns)

    def test_timestamps_are_kept_and_added(self):
        tp = self.tick()
        feed, s = self.connect(tp), self.connect(tp)
        s.ask(kdb.syms(".u.sub", "trade", ""))
        times = [848_000_000_000_000_001, 848_000_000_000_000_002]
        feed.ask(update("trade", self.row(times)))
        self.assertEqual(s.push()[2]["time"], kdb.K(kdb.TIMESTAMP, times))
        before = feed.ask(".z.P").v
        feed.ask(update("trade", self.row()))
        added = s.push()[2]["time"]
        self.assertEqual((added.t, len(set(added.v))), (kdb.TIMESTAMP, 1))
        self.assertTrue(before <= added.v[0] <= feed.ask(".z.P").v, "the tickerplant's own clock")
        self.assertEqual([r[2].v[0].t for r in tplog.read(self.log_path(feed))], [kdb.TIMESTAMP] * 2)

    def test_a_node_holds_them_and_answers_by_time(self):
        tp = self.tick()
        feed = self.connect(tp)
        node = self.rdb(tp)
        feed.ask(update("trade", self.row([848_000_000_000_000_001, 848_000_000_000_000_002])))
        h = self.connect(node)
        self.eventually(lambda: h.ask("count trade").v == 2, "the node has the rows")
        answer = h.ask("select price by sym from trade where time<2026.11.14D19:33:20.000000002").py()
        self.assertEqual(answer["sym"], ["A"])


class OddSchema(Scene):
    schema = ODD

    def test_any_q_that_a_schema_file_holds_is_loaded(self):
        h = self.connect(self.tick())
        self.assertIn("trade", h.ask(".u.t").v)
        self.assertEqual(h.ask("cols trade").v, ["time", "sym", "price", "when", "at", "id", "flag", "b", "h"])
        types = "".join(h.ask("exec t from meta trade").v)
        self.assertEqual(types, "nsedtgbxh")
        self.assertEqual(h.ask("keys last_trade").v, ["time", "sym"])
        self.assertEqual(h.ask("n").v, 3)


class ShippedSchemas(Scene):
    def test_each_is_loaded_and_begins_with_time_and_sym(self):
        schemas = sorted((ROOT / "schemas").glob("*.q"))
        self.assertIn("sym.q", [path.name for path in schemas])
        for path in schemas:
            with self.subTest(path.name):
                logs = pathlib.Path(self.directory) / path.stem
                logs.mkdir()
                tp = self.start(path.stem, "tick", path.stem, logs, "-p", "0", "--schemas", ROOT / "schemas")
                h = self.connect(tp)
                tables = h.ask(".u.t").v
                self.assertTrue({"trade", "quote"} <= set(tables), tables)
                for table in tables:
                    self.assertEqual(h.ask(f"2#cols {table}").v, ["time", "sym"])

    def test_a_table_that_does_not_begin_with_time_and_sym_stops_the_start_in_words(self):
        (self.directory / "sym.q").write_text("trade:([]sym:`symbol$();price:`float$())\n")
        tp = self.tick()
        self.assertNotEqual(tp.wait(), 0)
        self.assertRegex(tp.printed(), "(?s)timesym.*trade|trade.*timesym")

    def test_a_schema_file_that_is_missing_or_wrong_stops_the_start_in_words(self):
        (self.directory / "sym.q").write_text("trade:([]time:`timespan$();sym:`symbol$()\n")
        tp = self.tick(name="wrong")
        self.assertNotEqual(tp.wait(), 0)
        self.assertIn("sym.q", tp.printed())
        (self.directory / "sym.q").unlink()
        tp = self.tick(name="missing")
        self.assertNotEqual(tp.wait(), 0)
        self.assertIn("sym.q", tp.printed())
