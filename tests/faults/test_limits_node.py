"""Limits that only nodes have."""

import re

from harness import kdb, wire
from harness.scene import trades, update

from .evaluations import Evaluations
from .limits import COUNT, Limited, figure, over


class AtANode(Evaluations, Limited):
    program = "rdb"
    script = Evaluations.script + ".u.end:{[date]while[date=date;]}\n"

    @over("limit-day-end-time", "1s")
    def test_an_owners_end_of_day_too_long(self):
        """The new day goes on while the function runs and after it was ended."""
        limit = "limit-day-end-time"
        self.feed.ask(".u.endofday[]")
        self.eventually(lambda: self.refusals(limit) > 0, "the function is ended, and counted")
        self.feed.ask(update("trade", trades(0, 3)))
        self.eventually(lambda: self.reader.ask("count trade").v == 3, "the node has the new day's rows")

    @over("limit-client-wait", "300ms")
    def test_a_client_that_does_not_respond_to_its_query(self):
        with self.refused():
            self.assertRegex(self.connect(self.target).error_of('.z.w"1+1"'), "^timeout")

    @over("limit-client-waits", "1")
    def test_queries_too_many_that_wait_for_clients(self):
        with self.refused():
            idle = self.connect(self.target)
            idle.raw(wire.message(kdb.chars('.z.w"1+1"')))
            self.assertEqual(idle.push().v, "1+1")
            self.assertRegex(self.connect(self.target).error_of('.z.w"1+1"'), "^limit")

    @over("limit-symbols", "3000")
    def test_symbols_of_updates_too_many(self):
        """A node whose table of symbols is full is full: its successor, a process of its own, goes on."""
        self.start_successor()
        rows = 500
        while not re.search("to the successor", self.target.printed()):
            names = [f"name{i}" for i in range(self.published, self.published + rows)]
            self.feed.ask(update("trade", trades(self.published, rows, names)))
            self.assertEqual(self.subscriber.push()[2]["sym"].v, names)
            self.published += rows
            held = lambda: self.reader.ask("count trade").v + self.successor.ask("count trade").v
            self.eventually(lambda: held() == self.published, "every row is held")
            self.assertLess(self.published, 6000, "its table of symbols is full")
        self.assert_said(r"to the successor: .*trade.*sym.*limit: more than 3000 distinct symbols")
        self.assertGreater(figure(self.target, COUNT, "limit-symbols"), 0)
        seqs = self.reader.ask("exec seq from trade").v + self.successor.ask("exec seq from trade").v
        self.assertEqual(seqs, list(range(self.published)))
        self.assertEqual(self.feed.ask("exec state from .u.asg.tab").v, ["rolled", "live"])
        self.assertEqual(self.reader.ask("exec last sym from trade").v, f"name{self.reader.ask('count trade').v - 1}")

    def start_successor(self):
        successor = self.rdb(self.tp, name="successor")
        self.successor = self.connect(successor)
        self.eventually(lambda: self.successor.ask("count trade").v == 0, "the successor waits")
