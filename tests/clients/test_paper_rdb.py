"""The paper's `asg/r.q` in one queue and `elastick rdb` in another, under elastick's tickerplant."""

from harness import kdb
from harness.scene import Scene, quotes, trades, update
from harness.subscribers import PaperRdb

PAPERS_COLUMNS = ["time", "handle", "tabs", "syms", "ip", "queue", "live", "rolled", "firstI", "lastI"]


class PaperRdbUnderElastick(Scene):
    def setUp(self):
        super().setUp()
        self.tp = self.tick()
        self.feed = self.connect(self.tp)
        self.sent = 0

    def publish(self, count):
        """Publishes bulk updates and single rows, alternating trades and quotes."""
        for i in range(self.sent, self.sent + count):
            if i % 3 == 0:
                self.feed.ask(update("quote", quotes(i * 10, 10)))
            elif i % 3 == 1:
                self.feed.ask(update("trade", trades(i * 10, 10)))
            else:
                one = [column.v[0] for column in trades(i * 10, 1).v]
                atoms = [kdb.sym(one[0]), kdb.K(-kdb.FLOAT, one[1]), kdb.long(one[2]), kdb.long(one[3])]
                self.feed.ask(update("trade", kdb.lst(*atoms)))
        self.sent += count

    def seqs_sent(self, table):
        seqs = []
        for i in range(self.sent):
            if i % 3 == 0 and table == "quote" or i % 3 == 1 and table == "trade":
                seqs += range(i * 10, i * 10 + 10)
            elif i % 3 == 2 and table == "trade":
                seqs.append(i * 10)
        return seqs

    def paper_rdb(self, queue="paper.r-asg"):
        return PaperRdb(self.connect(self.tp), queue)

    def asg(self, queue="paper.r-asg"):
        """The rows of `.u.asg.tab` as dicts."""
        table = self.feed.ask(f"select from .u.asg.tab where queue=`$\"{queue}\"").py()
        return [dict(zip(table, row)) for row in zip(*table.values())]

    def waits(self, count):
        self.eventually(lambda: len(self.asg()) == count, f"{count} subscribers are in the queue")

    def assert_held_once(self, *rdbs):
        for table in ("trade", "quote"):
            held = [seq for rdb in rdbs if table in rdb.rows.tables for seq in rdb.rows.seqs(table)]
            self.assertEqual(sorted(held), self.seqs_sent(table), table)

    def test_a_first_subscriber_is_told_to_replay_everything(self):
        self.publish(9)
        rdb = self.paper_rdb()
        message = rdb.take()
        self.assertEqual([item.t for item in message.v[1:]], [kdb.GENERAL, -kdb.SYMBOL, kdb.LONG])
        self.assertEqual(rdb.window, (0, 9))
        self.assertEqual(sorted(rdb.schemas), ["quote", "trade"])
        self.assertEqual(message[2], self.feed.ask(".u.L"))
        self.publish(9)
        rdb.take_until(lambda r: r.i == 18)
        self.assert_held_once(rdb)

    def test_a_day_of_rolls_is_held_exactly_once_by_both_queues(self):
        node = self.rdb(self.tp, queue="native")
        first = self.paper_rdb()
        first.take_until(lambda r: r.live)
        second, third = self.paper_rdb(), self.paper_rdb()
        self.waits(3)
        rdbs = [first, second, third]
        for rdb, following in zip(rdbs, rdbs[1:]):
            self.publish(20)
            rdb.take_until(lambda r: r.i == self.sent)
            rolled_at = rdb.roll()
            self.publish(6)
            following.take_until(lambda r: r.live)
            self.assertEqual(following.window[0], rolled_at)
            self.assertIsNot(following.live, rdb.live)
        self.publish(10)
        third.take_until(lambda r: r.i == self.sent)
        self.assert_held_once(*rdbs)
        h = self.connect(node)
        for table in ("trade", "quote"):
            wanted = self.seqs_sent(table)
            held = lambda: sorted(h.ask(f"exec seq from {table}").v)
            self.eventually_equal(held, wanted, f"the native queue holds every {table}")

    def test_a_roll_with_nobody_waiting_is_made_up_from_the_log(self):
        first = self.paper_rdb().take_until(lambda r: r.live)
        self.publish(7)
        first.take_until(lambda r: r.i == 7)
        first.roll()
        self.publish(13)
        second = self.paper_rdb().take_until(lambda r: r.live)
        self.assertEqual(second.window, (7, 20))
        self.publish(4)
        second.take_until(lambda r: r.i == 24)
        self.assert_held_once(first, second)

    def test_the_table_of_subscribers_shows_what_the_paper_prints(self):
        first = self.paper_rdb().take_until(lambda r: r.live)
        self.paper_rdb()
        self.waits(2)
        self.publish(5)
        first.take_until(lambda r: r.i == 5)
        columns = self.feed.ask("cols .u.asg.tab").v
        self.assertEqual(columns[:10], PAPERS_COLUMNS)
        live, waiting = self.asg()
        self.assertEqual((live["firstI"], live["lastI"]), (0, kdb.NULL_LONG))
        self.assertNotEqual(live["live"], kdb.NULL_LONG)
        self.assertEqual((live["rolled"], waiting["live"], waiting["rolled"]), (kdb.NULL_LONG,) * 3)
        self.assertEqual((waiting["firstI"], waiting["lastI"]), (kdb.NULL_LONG,) * 2)
        self.assertEqual((live["queue"], live["ip"]), ("paper.r-asg", "127.0.0.1"))
        first.roll()
        self.eventually(lambda: self.asg()[0]["lastI"] == 5, "lastI of the rolled one is what it sent")
        rolled, live = self.asg()
        self.assertEqual(live["firstI"], 5)
        self.assertNotEqual(rolled["rolled"], kdb.NULL_LONG)
        types = {name: self.feed.ask(f"type .u.asg.tab`{name}").v for name in ("time", "live", "rolled", "firstI", "lastI")}
        self.assertEqual(types, dict(time=12, live=12, rolled=12, firstI=7, lastI=7))

    def test_a_live_one_that_dies_leaves_its_share_to_the_next(self):
        first = self.paper_rdb().take_until(lambda r: r.live)
        second = self.paper_rdb()
        self.waits(2)
        self.publish(10)
        first.connection.close()
        second.take_until(lambda r: r.live)
        self.assertEqual(second.window, (0, 10))
        self.publish(5)
        second.take_until(lambda r: r.i == 15)
        self.assert_held_once(second)

    def test_the_share_of_a_rolled_one_that_dies_is_rebuilt_beside_the_live_one(self):
        """The paper's code makes a second one live here, and loses the share."""
        first = self.paper_rdb().take_until(lambda r: r.live)
        second = self.paper_rdb()
        self.waits(2)
        self.publish(10)
        first.take_until(lambda r: r.i == 10)
        first.roll()
        second.take_until(lambda r: r.live)
        third = self.paper_rdb()
        first.connection.close()
        third.take_until(lambda r: r.window)
        self.assertEqual(third.window, (0, 10))
        self.publish(10)
        second.take_until(lambda r: r.i == 20)
        self.assert_held_once(second, third)
        live = [row for row in self.asg() if row["state"] == "live"]
        self.assertEqual(len(live), 1, live)

    def test_end_of_day_is_told_to_live_rolled_and_waiting(self):
        rdbs = [self.paper_rdb().take_until(lambda r: r.live), self.paper_rdb(), self.paper_rdb()]
        self.waits(3)
        self.publish(5)
        rdbs[0].take_until(lambda r: r.i == 5)
        rdbs[0].roll()
        rdbs[1].take_until(lambda r: r.live)
        today = self.feed.ask(".u.d").v
        self.feed.ask(".u.endofday[]")
        for rdb in rdbs:
            rdb.take_until(lambda r: r.ended)
            self.assertEqual(rdb.ended, [today])
        (left,) = self.asg()
        self.assertEqual((left["firstI"], left["rolled"]), (0, kdb.NULL_LONG))
        self.publish(3)
        rdbs[1].take_until(lambda r: r.i == 3)

    def test_wrong_subscriptions_are_refused_in_words(self):
        tables = kdb.syms("trade", "quote")
        for tabs, symbols, words in [(tables, kdb.lst(kdb.sym("")), "match"), (kdb.sym("nosuch"), kdb.sym(""), "nosuch")]:
            error = self.feed.error_of(kdb.lst(kdb.sym(".u.asg.sub"), tabs, symbols, kdb.sym("paper")))
            self.assertIsNotNone(error)
            self.assertIn(words, error)


class PaperNames(Scene):
    """What code written for the paper's scripts calls by name."""

    def setUp(self):
        super().setUp()
        self.tp = self.tick()
        self.h = self.connect(self.tp)

    def subscribed(self, table="trade"):
        """The handles and symbols of a table's subscriptions."""
        return self.h.ask(f".u.w`{table}").py()

    def test_a_subscription_may_name_its_handle(self):
        table = self.h.ask("{.u.subInner[`trade;`A;.z.w]}[]")
        self.assertEqual(table.v[0].v, "trade")
        self.h.ask(kdb.lst(kdb.sym(".u.add"), kdb.sym("trade"), kdb.sym("B"), self.h.ask(".z.w")))
        self.h.ask("{.u.add[`trade;`C;.z.w]}[]")
        ((_, symbols),) = self.subscribed()
        self.assertEqual(sorted(symbols), ["A", "B", "C"])

    def test_an_operator_may_subscribe_another_handle(self):
        other = self.connect(self.tp)
        handle = other.ask(".z.w").v
        self.h.ask(f".u.subInner[`trade;`;{handle}i]")
        self.assertEqual([of for of, _ in self.subscribed()], [handle])
        with self.assertRaisesRegex(Exception, "domain"):
            self.h.ask(".u.subInner[`trade;`;999i]")
        with self.assertRaisesRegex(Exception, "type"):
            self.h.ask(".u.subInner[`trade;`;`x]")
        with self.assertRaisesRegex(Exception, "rank"):
            self.h.ask(".u.add[`trade;`;1i;2]")

    def test_the_queues_own_functions_are_there_or_rejected(self):
        self.assertEqual(self.h.ask(".u.asg.zpc 7i").t, kdb.UNARY)
        with self.assertRaisesRegex(Exception, "nyi"):
            self.h.ask(".u.asg.add[`;`;7i]")

    def test_a_node_has_the_papers_figures_and_none_of_its_switches(self):
        node = self.connect(self.rdb(self.tp, "--scale", "60", "--roll-threshold", "80"))
        self.h.ask(update("trade", trades(0, 10)))
        self.eventually(lambda: node.ask(".sub.i").v == 1, "it has the update")
        figures = node.ask("(.sub.live;.sub.rolled;.sub.scaled;.sub.start;.sub.scaleThreshold;.sub.rollThreshold)").py()
        self.assertEqual(list(figures), [True, False, False, 0, 60.0, 80.0])
        self.assertGreater(node.ask(".util.getMemUsage[]").v, 0)
        self.assertEqual(node.ask(".aws.groupName").v, "")
        self.assertEqual(node.ask(".aws.instanceId~.util.aws.getInstanceId[]").v, True)
        for call in (".sub.roll[]", ".sub.clear .z.p", ".util.aws.scale `g", ".util.aws.terminate `i"):
            with self.assertRaisesRegex(Exception, "nyi"):
                node.ask(call)
        with self.assertRaisesRegex(Exception, "noupdate"):
            node.ask(".sub.live:0b")

    def test_what_a_start_up_file_defines_under_such_a_name_counts(self):
        own = self.directory / "own.q"
        own.write_text(".sub.i:42\n.util.getMemUsage:{7}\n.sub.mine:`x\n")
        node = self.connect(self.rdb(self.tp, "--load", own))
        self.assertEqual([node.ask(text).v for text in (".sub.i", ".util.getMemUsage[]", ".sub.mine")], [42, 7, "x"])
