"""Bystanders: a publisher and a subscriber that must be unaffected by a bad client of the tickerplant."""

from harness import kdb
from harness.scene import Scene, trades, update

MB = 1 << 20


class Others(Scene):
    """A tickerplant with one well-behaved publisher and subscriber."""

    tick_options = ()

    def setUp(self):
        super().setUp()
        self.tp = self.tick(*self.tick_options)
        self.feed = self.connect(self.tp)
        self.subscriber = self.connect(self.tp)
        self.subscriber.ask(kdb.syms(".u.sub", "trade", ""))
        self.published = 0

    def assert_unharmed(self):
        """Asserts that an update is accepted, counted and published exactly once."""
        self.feed.ask(update("trade", trades(self.published, 2)))
        _, table, data = self.subscriber.push().v
        self.assertEqual((table.v, data["seq"].v), ("trade", [self.published, self.published + 1]))
        self.published += 2
        self.assertEqual(self.feed.ask(".u.i").v, self.published // 2)
        self.assertTrue(self.tp.is_running())
        self.assertNotIn("panicked", self.tp.printed())
