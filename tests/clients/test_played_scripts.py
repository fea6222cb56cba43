"""The emulated q scripts work with each other without elastick, so that failures elsewhere are not theirs."""

from harness.qtick import QTick
from harness.scene import Scene, trades
from harness.subscribers import PaperRdb, StockRdb

from .test_foreign_ticks import TABLES, timed


class PlayedScripts(Scene):
    def setUp(self):
        super().setUp()
        self.tp = QTick(self.logs / "sym2026.11.20", TABLES, paper=True)
        self.addCleanup(self.tp.close)

    def publish(self, first, count):
        for i in range(first, first + count):
            self.tp.upd("trade", timed(trades(i, 1)))

    def test_stock_r_q_under_stock_tick_q(self):
        self.publish(0, 10)
        r = StockRdb(self.connect(self.tp.port))
        self.publish(10, 10)
        r.take_until(lambda r: r.rows.updates == 20)
        self.assertEqual(r.rows.seqs(), list(range(20)))

    def test_the_papers_rdbs_under_the_papers_tick(self):
        first = PaperRdb(self.connect(self.tp.port), "q").take_until(lambda r: r.live)
        second = PaperRdb(self.connect(self.tp.port), "q")
        self.eventually(lambda: len(self.tp.asg) == 2, "both are in the queue")
        self.publish(0, 10)
        first.take_until(lambda r: r.i == 10)
        first.roll()
        self.publish(10, 5)
        second.take_until(lambda r: r.live)
        self.publish(15, 5)
        second.take_until(lambda r: r.i == 20)
        self.assertEqual(first.rows.seqs() + second.rows.seqs(), list(range(20)))
        self.assertEqual(self.tp.rolled_at(), [10])
