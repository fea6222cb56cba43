"""Limits that only the tickerplant has: subscriptions, queues, the quarantine, and its clients' expressions."""

from harness import kdb
from harness.process import reserve_port
from harness.scene import trades, update

from .evaluations import Evaluations
from .limits import USED, USERS, Slow, figure, over


class AtTheTickerplant(Evaluations, Slow):
    @over("limit-message", "64KiB")
    def test_an_update_whose_record_is_too_long(self):
        """With the time that it is given."""
        with self.refused():
            self.assertRegex(self.feed.error_of(update("trade", trades(0, 1850))), "^limit: trade: a record of 66.* bytes")
            self.assertRegex(self.feed.ask("exec reason from .u.quarantine").v[0].v, "^limit: ")
            self.assertEqual(self.feed.ask(".u.i").v, 0)

    @over("limit-depth", "10")
    def test_an_update_nested_too_deep(self):
        deep = kdb.longs([1])
        for _ in range(12):
            deep = kdb.lst(deep)
        with self.refused():
            self.assertRegex(self.feed.error_of(update("trade", deep)), "^limit: nested more than 6 levels")

    @over("limit-outbox", "256KiB")
    def test_a_subscriber_too_slow_is_fed_from_the_log(self):
        """Nobody is told an error: it misses nothing."""
        with self.refused():
            lazy = self.lazy()
            seqs = self.publish_until(lambda: self.refusals("limit-outbox") > 0)
            waiting = figure(self.tp, USED, "limit-outboxes")
            # The send buffer up to its limit, which then drains, plus a chunk of the log.
            self.assertLess(waiting, 512 << 10)
            self.assertEqual(self.read(lazy, len(seqs)), seqs)

    @over("limit-outboxes", "4MiB")
    def test_subscribers_too_slow_together_are_fed_from_the_log(self):
        """Each is within its own limit of 64 MiB."""
        with self.refused():
            lazy = [self.lazy() for _ in range(8)]
            seqs = self.publish_until(lambda: self.refusals("limit-outboxes") >= len(lazy))
            self.assertEqual(self.refusals("limit-outbox"), 0)
            waiting = figure(self.tp, USED, "limit-outboxes")
            # The send buffers up to their limit, plus a chunk of the log for each.
            self.assertLess(waiting, (4 + len(lazy) * 2) << 20)
            for h in lazy:
                self.assertEqual(self.read(h, len(seqs)), seqs)

    @over("limit-publishers", "2")
    def test_an_id_of_a_publisher_too_many(self):
        seq = lambda publisher: kdb.lst(kdb.sym(".u.seq"), kdb.sym(publisher))
        with self.refused():
            for publisher in ("a", "b"):
                self.feed.ask(seq(publisher))
            self.assertRegex(self.feed.error_of(seq("c")), "^limit: there are 2 publisher ids already")
            # One from which nothing was accepted ends with its connection.
            brief = self.connect(self.tp)
            brief.ask(seq("b"))
            brief.close()
            self.eventually(lambda: self.feed.error_of(seq("c")) is None, "there is room for another id")

    @over("limit-held-responses", "1B")
    def test_a_response_that_does_not_wait_for_the_file_of_rejected_updates(self):
        """It is the same; only a power cut could lose the update's entry after it."""
        with self.refused():

            def does_not_wait():
                self.assertRegex(self.feed.error_of(update("trade", kdb.longs([1]))), "^length|^type")
                return self.refusals("limit-held-responses") > 0

            self.eventually(does_not_wait, "one comes before the file is written")

    @over("limit-publisher-id", "8")
    def test_an_id_of_a_publisher_too_long(self):
        seq = lambda publisher: kdb.lst(kdb.sym(".u.seq"), kdb.sym(publisher))
        with self.refused():
            self.assertRegex(self.feed.error_of(seq("123456789")), "^limit: a publisher id of 9 bytes is longer than 8")
            self.feed.ask(seq("12345678"))

    @over("limit-lanes", "2")
    def test_a_subscription_too_many(self):
        """What others have already may be had by anyone; one that is refused leaves what was there before."""
        some, other = self.connect(self.tp), self.connect(self.tp)
        sub = lambda *syms: kdb.lst(kdb.sym(".u.sub"), kdb.sym("trade"), kdb.syms(*syms))
        some.ask(sub("AAA"))
        other.ask(sub("AAA"))
        before = self.feed.ask(".u.w")
        with self.refused():
            self.assertRegex(other.error_of(sub("BBB")), "^limit: more than 2 distinct subscriptions")
            self.assertRegex(other.error_of(kdb.lst(kdb.sym(".u.add"), kdb.sym("trade"), kdb.syms("BBB"))), "^limit")
            self.assertRegex(self.connect(self.tp).error_of(sub("BBB")), "^limit")
            self.assertEqual(self.feed.ask(".u.w"), before)
        for h in (some, other):
            self.assertEqual(h.push()[2]["sym"].v, ["AAA"])

    def follower(self, name):
        leader = f"127.0.0.1:{self.tp.port}"
        return self.tick("--follow", leader, name=name, logs=self.directory / name, port=reserve_port())

    @over("limit-followers", "1", "-U", USERS)
    def test_a_follower_too_many(self):
        with self.refused():
            first = self.follower("first")
            first.wait_for("following the tickerplant")
            second = self.follower("second")
            second.wait_for("1 followers are connected .--limit-followers")
            self.assert_unharmed()
            first.kill()
            second.wait_for("following the tickerplant")

    @over("limit-queue-subscribers", "1", "--node-grace", "300ms", "-U", USERS)
    def test_a_node_too_many_in_queues(self):
        with self.refused():
            node = self.rdb(self.tp, name="first")
            reader = self.connect(node)
            self.eventually(lambda: reader.ask("count trade").v == 0, "the node has joined")
            join = kdb.lst(kdb.sym(".u.asg.sub"), kdb.sym(""), kdb.sym(""), kdb.sym("other"))
            self.assertRegex(self.connect(self.tp).error_of(join), "^limit: more than 1 subscribers in queues")
            second = self.rdb(self.tp, name="second")
            second.wait_for("the tickerplant rejects this node: .*limit")
            self.assert_unharmed()
            self.eventually(lambda: reader.ask("count trade").v == self.published, "the first one goes on")
            node.kill()
            live = "exec string node from .u.asg.tab where state=`live"
            self.eventually(lambda: self.feed.ask(live).py() == ["second"], "its turn comes")

    @over("limit-quarantine-updates", "5")
    def test_refused_updates_too_many_to_keep(self):
        self.assert_kept(5, rows=1)

    @over("limit-quarantine", "16KiB")
    def test_refused_updates_too_long_to_keep(self):
        self.assert_kept(3, rows=200)

    def assert_kept(self, count, rows):
        """Asserts that the quarantine keeps `count` of twelve rejected updates with this many rows."""
        with self.refused():
            for _ in range(12):
                self.assertRegex(self.feed.error_of(update("nosuch", trades(0, rows))), "^nosuch")
            self.assertEqual(self.feed.ask("count .u.quarantine").v, count)
            self.assertEqual(self.feed.ask(".u.refused").v, 12)

    @over("limit-core-calls", "10")
    def test_calls_of_an_expression_too_many_for_one_iteration(self):
        """Nobody is told an error: further ones are performed later."""
        with self.refused():
            h = self.connect(self.tp)
            self.assertEqual(h.ask("r:{.u.sub[`quote;`]}each til 100;(count r;count .u.w`quote)").v, [100, 1])

    @over("limit-globals", "64KiB")
    def test_definitions_too_long_together(self):
        with self.refused():
            h = self.connect(self.tp)
            h.ask("a:til 5000")
            self.assertRegex(h.error_of("b:til 5000"), "^wsfull")
            h.ask("a:1")
            h.ask("b:til 5000")

    @over("limit-symbols", "8000")
    def test_symbols_of_updates_are_no_symbols_of_the_tickerplant(self):
        """It does not look into updates: whoever asks may be refused, publishers never are."""
        with self.refused():
            self.assertRegex(self.connect(self.tp).error_of("`$string til 10000"), "^limit")
            new = [f"new{i}" for i in range(10_000)]
            self.feed.ask(update("trade", trades(self.published, len(new), new)))
            self.assertEqual(self.subscriber.push()[2]["sym"].v, new)
            self.published += len(new)
