"""Updates that do not match the schema: rejected with kdb+'s error and an explanation, neither logged nor published."""

from harness import kdb, tplog
from harness.scene import trades, update

from .others import Others


def without(columns, place):
    return kdb.lst(*(c for i, c in enumerate(columns.v) if i != place))


def replaced(columns, place, column):
    return kdb.lst(*(column if i == place else c for i, c in enumerate(columns.v)))


GOOD = trades(1_000_000, 3)
CASES = {
    "a column is missing": (update("trade", without(GOOD, 3)), r"^length.*trade"),
    "a column too many": (update("trade", kdb.lst(*GOOD.v, kdb.longs([1, 2, 3]), kdb.longs([1, 2, 3]))), r"^length.*trade"),
    "longs for floats": (update("trade", replaced(GOOD, 1, kdb.longs([1, 2, 3]))), r"^type.*trade.*price"),
    "strings for symbols": (update("trade", replaced(GOOD, 0, kdb.chars("abc"))), r"^type.*trade.*sym"),
    "a list of atoms": (update("trade", replaced(GOOD, 1, kdb.lst(*(kdb.sym("x"),) * 3))), r"^type.*trade.*price"),
    "unequal lengths": (update("trade", replaced(GOOD, 2, kdb.longs([1, 2]))), r"^length.*trade.*size"),
    "an unknown table": (update("nosuch", GOOD), r"^nosuch"),
    "no list": (update("trade", kdb.long(42)), r"^type.*trade"),
    "a table with other columns": (update("trade", kdb.table(sym=kdb.syms("a"), seq=kdb.longs([1]))), r"^(mismatch|length|type).*trade"),
    "a dictionary": (update("trade", kdb.K(kdb.DICT, (kdb.syms("a"), kdb.longs([1])))), r"^type.*trade"),
    "no columns at all": (update("trade", kdb.lst()), r"^length.*trade"),
    "a name that is a number": (kdb.lst(kdb.sym(".u.upd"), kdb.long(1), GOOD), r"^type"),
    "too few arguments": (kdb.lst(kdb.sym(".u.upd"), kdb.sym("trade")), r"^(rank|type|length)"),
    "too many arguments": (kdb.lst(kdb.sym(".u.upd"), kdb.sym("trade"), GOOD, GOOD), r"^rank"),
}  # fmt: skip


class BadUpdates(Others):
    def test_a_sync_publisher_is_told_what_is_wrong(self):
        for what, (message, words) in CASES.items():
            with self.subTest(what):
                error = self.feed.error_of(message)
                self.assertIsNotNone(error, "the update was accepted")
                self.assertRegex(error, words)
        self.assert_unharmed()
        self.assertEqual(len(tplog.read(self.log_path(self.feed))), 1, "only the good update is in the log")

    def test_an_async_publishers_bad_updates_are_counted_and_kept_with_the_reason(self):
        bad = self.connect(self.tp, user="careless:")
        for message, _ in CASES.values():
            bad.send(message)
        bad.ask("1")
        kept = self.feed.ask("select from .u.quarantine").py()
        self.assertEqual(len(kept["reason"]), len(CASES))
        self.assertEqual(self.feed.ask(".u.refused").v, len(CASES))
        self.assertIn("nosuch", kept["tab"])
        self.assertEqual(set(kept["feed"]), {"careless"})
        self.assert_unharmed()
        self.assertEqual(len(tplog.read(self.log_path(self.feed))), 1, "only the good update is in the log")

    def test_good_and_bad_in_one_segment_are_told_apart(self):
        from harness import wire

        good = [update("trade", trades(i, 1)) for i in range(10)]
        bad = [message for message, _ in CASES.values()]
        together = [m for pair in zip(good, bad) for m in pair]
        self.feed.raw(b"".join(wire.message(m, wire.ASYNC) for m in together))
        seqs = [self.subscriber.push()[2]["seq"].v for _ in good]
        self.assertEqual(seqs, [[i] for i in range(10)])
        self.assertEqual(self.feed.ask(".u.i").v, 10)


class QuarantineIsBounded(Others):
    tick_options = ("--limit-quarantine-updates", "5", "--limit-quarantine", "64KiB")

    def test_it_keeps_so_many_and_counts_all(self):
        for _ in range(50):
            self.feed.send(CASES["longs for floats"][0])
        self.assertEqual(self.feed.ask(".u.refused").v, 50)
        self.assertEqual(self.feed.ask("count .u.quarantine").v, 5)
        self.assert_unharmed()
