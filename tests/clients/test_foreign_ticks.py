"""`elastick rdb` under tickerplants that are not elastick: stock `tick.q`, and the paper's `tickasg.q`."""

from harness import kdb
from harness.qtick import QTick
from harness.scene import SMALL, Scene, quotes, trades

G = 4
TABLES = {
    "quote": kdb.table(time=kdb.timespans([]), sym=kdb.K(kdb.SYMBOL, [], G), bid=kdb.floats([]), ask=kdb.floats([]), seq=kdb.longs([])),
    "trade": kdb.table(time=kdb.timespans([]), sym=kdb.K(kdb.SYMBOL, [], G), price=kdb.floats([]), size=kdb.longs([]), seq=kdb.longs([])),
}  # fmt: skip


def timed(columns, at=1_000_000):
    """Prepends a time column, as tick.q does."""
    return kdb.lst(kdb.timespans([at] * len(columns[0])), *columns.v)


class ForeignTick(Scene):
    def q_tick(self, paper):
        tp = QTick(self.directory / "logs" / "sym2026.11.20", TABLES, paper)
        self.addCleanup(tp.close)
        return tp

    def seqs(self, node, table="trade"):
        h = self.connect(node)
        try:
            return h.ask(f"exec seq from {table}").v
        finally:
            h.close()

    def publish(self, tp, first, count):
        for i in range(first, first + count):
            tp.upd("quote" if i % 4 == 0 else "trade", timed((quotes if i % 4 == 0 else trades)(i * 10, 10)))

    def sent(self, table, count):
        updates = (i for i in range(count) if (table == "quote") == (i % 4 == 0))
        return [seq for i in updates for seq in range(i * 10, i * 10 + 10)]

    def assert_held_once(self, nodes, count):
        for table in TABLES:
            held = lambda: sorted(seq for node in nodes for seq in self.seqs(node, table))
            self.eventually_equal(held, self.sent(table, count), f"{table} is held exactly once")


class UnderStockTick(ForeignTick):
    def test_it_replays_and_follows_as_r_q_does(self):
        tp = self.q_tick(paper=False)
        self.publish(tp, 0, 20)
        node = self.rdb(tp.port)
        node.port
        self.eventually(lambda: tp.w["trade"], "the node subscribes")
        self.publish(tp, 20, 20)
        self.assert_held_once([node], 40)
        self.assertIn("(.u.sub[`;`];`.u `i`L)", [k.v for k in tp.asked], "the start-up string of r.q")

    def test_single_rows_are_tables_of_one_row_live_and_atoms_in_the_log(self):
        tp = self.q_tick(paper=False)
        atoms = kdb.lst(kdb.K(-kdb.TIMESPAN, 5), kdb.sym("AAA"), kdb.K(-kdb.FLOAT, 1.0), kdb.long(1), kdb.long(77))
        with open(tp.log_path, "ab") as log:
            log.write(kdb.encode(kdb.lst(kdb.sym("upd"), kdb.sym("trade"), atoms)))
        tp.i += 1
        node = self.rdb(tp.port)
        self.eventually_equal(lambda: self.seqs(node), [77], "the logged single row is held")

    def test_end_of_day_empties_it_and_it_stays(self):
        tp = self.q_tick(paper=False)
        node = self.rdb(tp.port)
        self.eventually(lambda: tp.w["trade"], "the node subscribes")
        self.publish(tp, 0, 8)
        self.assert_held_once([node], 8)
        tp.end(9820)
        self.eventually_equal(lambda: self.seqs(node), [], "the day's rows are gone")
        self.assertTrue(node.is_running())


class UnderThePapersTick(ForeignTick):
    def test_it_waits_in_the_queue_and_becomes_live_by_sub_rep(self):
        tp = self.q_tick(paper=True)
        self.publish(tp, 0, 12)
        first = self.rdb(tp.port, name="first", queue="cluster.r-asg")
        self.eventually(lambda: tp.live_count() == 1, "the first node is made live")
        self.assert_held_once([first], 12)
        self.rdb(tp.port, name="second", queue="cluster.r-asg")
        self.eventually(lambda: len(tp.asg) == 2, "the second node waits")
        self.assertEqual((tp.live_count(), {row["queue"] for row in tp.asg}), (1, {"cluster.r-asg"}))
        self.publish(tp, 12, 12)
        self.assert_held_once([first], 24)

    def test_full_nodes_roll_with_the_papers_lambda_and_hold_everything_once(self):
        tp = self.q_tick(paper=True)
        nodes = [self.rdb(tp.port, *SMALL, name=f"rdb{i}") for i in range(3)]
        self.eventually(lambda: len(tp.asg) == 3, "all nodes are in the queue")
        sent = []
        while len(tp.rolled_at()) < 2 and len(sent) < 400:
            first = len(sent) * 1000
            tp.upd("trade", timed(trades(first, 1000)))
            sent.append(first)
            if len(sent) % 10 == 0:
                self.in_step(tp, nodes, len(sent))
        self.assertEqual(len(tp.rolled_at()), 2, f"two nodes are full after {len(sent)} updates of 1000 rows")
        wanted = [seq for first in sent for seq in range(first, first + 1000)]
        held = lambda: sorted(seq for node in nodes for seq in self.seqs(node))
        self.eventually(lambda: len(held()) == len(wanted), "every row is held somewhere, once")
        self.assertTrue(held() == wanted, "the rows held are the rows sent")
        self.assertEqual(tp.rolled_at(), sorted(tp.rolled_at()))

    def in_step(self, tp, nodes, updates):
        """Waits until the nodes have ingested all updates, so that none is overrun before it can roll."""
        counts = lambda: sum(self.count(node) for node in nodes)
        self.eventually(lambda: counts() >= updates * 1000, f"{updates} updates are taken in")

    def count(self, node):
        h = self.connect(node)
        try:
            return h.ask("count trade").v
        finally:
            h.close()

    def test_a_dead_live_node_is_followed_by_the_one_that_waits(self):
        tp = self.q_tick(paper=True)
        first = self.rdb(tp.port, name="first")
        self.eventually(lambda: tp.live_count() == 1, "the first node is made live")
        second = self.rdb(tp.port, name="second")
        self.eventually(lambda: len(tp.asg) == 2, "the second node waits")
        self.publish(tp, 0, 10)
        self.assert_held_once([first], 10)
        first.kill()
        self.assert_held_once([second], 10)
        self.publish(tp, 10, 10)
        self.assert_held_once([second], 20)

    def test_a_waiting_node_ends_with_the_day_and_the_live_one_goes_on(self):
        tp = self.q_tick(paper=True)
        live = self.rdb(tp.port, name="live")
        self.eventually(lambda: tp.live_count() == 1, "the first node is made live")
        waiting = self.rdb(tp.port, name="waiting")
        self.eventually(lambda: len(tp.asg) == 2, "the second node waits")
        self.publish(tp, 0, 6)
        tp.end(9820)
        self.assertEqual(waiting.wait(), 0)
        self.eventually_equal(lambda: self.seqs(live), [], "the live node has dropped the day")
        self.assertTrue(live.is_running())
