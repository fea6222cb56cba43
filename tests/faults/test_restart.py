"""One writer per log; graceful shutdown of a tickerplant, and a restart on the same day."""

import signal

from harness import kdb, tplog, wire
from harness.client import KdbError
from harness.process import reserve_port
from harness.scene import trades, update

from .others import Others


class OneWriter(Others):
    def test_a_second_tickerplant_on_the_same_directory_is_refused_in_words(self):
        self.assert_unharmed()
        second = self.tick(name="second")
        self.assertNotEqual(second.wait(), 0)
        self.assertIn(str(self.logs), second.printed())
        self.assertRegex(second.printed(), r"(?i)another|in use|already|held|lock")
        self.assert_unharmed()

    def test_the_directory_is_free_after_a_kill(self):
        self.assert_unharmed()
        self.tp.kill()
        h = self.connect(self.tick(name="second"))
        self.assertEqual(h.ask(".u.i").v, 1)

    def test_a_port_that_is_taken_is_told(self):
        logs = self.directory / "elsewhere"
        logs.mkdir()
        second = self.tick(name="second", logs=logs, port=self.tp.port)
        self.assertNotEqual(second.wait(), 0)
        self.assertIn(str(self.tp.port), second.printed())
        self.assert_unharmed()


class End(Others):
    def test_what_comes_with_the_end_is_logged_or_not_acknowledged(self):
        """Told to end while more updates wait than one turn reads, again and again: whoever was answered finds it in the log."""
        for beginning in range(0, 60_000, 10_000):
            publishers = [self.connect(self.tp) for _ in range(5)]
            self.tp.pause()
            self.tp.signal(signal.SIGTERM)
            for i, publisher in enumerate(publishers):
                rows = range(beginning + i * 2000, beginning + (i + 1) * 2000)
                publisher.raw(b"".join(wire.message(update("trade", trades(row, 1)), wire.SYNC) for row in rows))
            self.tp.resume()
            acknowledged = set()
            for i, publisher in enumerate(publishers):
                first = beginning + i * 2000
                acknowledged |= set(range(first, first + self.acknowledgements(publisher)))
            self.assertEqual(self.tp.wait(), 0)
            [log] = [path for path in self.logs.iterdir() if path.name[-1].isdigit()]
            logged = {seq for record in tplog.read(log) for seq in record[2][4].v}
            lost = sorted(acknowledged - logged)
            self.assertEqual(lost, [], f"{len(lost)} updates were acknowledged and not logged")
            self.tp = self.tick(name=f"tick{beginning}")

    def acknowledgements(self, publisher):
        """Number of its updates with a reply before the connection ended."""
        count = 0
        try:
            while True:
                publisher.answer()
                count += 1
        except (ConnectionError, KdbError, OSError):
            return count


class Restart(Others):
    """Restarts on a fixed port, so that nodes find it again."""

    def tick(self, *options, name="tick", **more):
        self.port = getattr(self, "port", None) or reserve_port()
        return super().tick(*options, name=name, port=self.port, **more)

    def node_holds(self, h, count):
        wanted = list(range(count))
        self.eventually_equal(lambda: h.ask("exec seq from trade").v, wanted, "the node holds the day once")

    def test_it_continues_log_and_queue(self):
        live = self.rdb(self.tp, name="live")
        h = self.connect(live)
        self.eventually(lambda: self.feed.ask("count .u.asg.tab").v == 1, "the node joins")
        waiting = self.rdb(self.tp, name="waiting")
        self.eventually(lambda: self.feed.ask("count .u.asg.tab").v == 2, "the second joins")
        for _ in range(50):
            self.assert_unharmed()
        self.node_holds(h, 100)
        self.assertEqual(self.tp.terminate(), 0)
        self.assertTrue(self.subscriber.is_closed_by_peer())

        again = self.tick(name="again")
        feed = self.connect(again)
        self.assertEqual(feed.ask(".u.i").v, 50)
        live_names = "exec count i from .u.asg.tab where not null live, null rolled, not null handle"
        self.eventually(lambda: feed.ask(live_names).v == 1, "one node resumes as the live one")
        self.eventually(lambda: feed.ask("exec count i from .u.asg.tab where not null handle").v == 2, "both are back")
        for i in range(50, 60):
            feed.ask(update("trade", trades(2 * i, 2)))
        self.node_holds(h, 120)
        w = self.connect(waiting)
        self.assertEqual(w.ask("count trade").v, 0, "the one that waited holds nothing")
        self.assertEqual(len(tplog.read(self.log_path(feed))), 60)

    def test_subscribers_are_told_and_the_log_is_whole(self):
        for i in range(300):
            self.feed.send(update("trade", trades(i, 1)))
        self.feed.ask("1")
        self.assertEqual(self.tp.terminate(), 0)
        for i in range(300):
            self.assertEqual(self.subscriber.push()[2]["seq"].v, [i])
        self.assertTrue(self.subscriber.is_closed_by_peer())
        (log,) = [p for p in self.logs.iterdir() if p.name.startswith("sym2") and p.name[-1].isdigit()]
        self.assertEqual(tplog.whole_bytes(log), (300, log.stat().st_size))

    def test_a_node_that_was_up_first_finds_the_tickerplant(self):
        self.assertEqual(self.tp.terminate(), 0)
        node = self.rdb(self.port, name="early")
        again = self.tick(name="again")
        feed = self.connect(again)
        feed.ask(update("trade", trades(0, 5)))
        self.node_holds(self.connect(node), 5)

    def test_without_a_log_directory_it_still_publishes(self):
        elsewhere = self.start("plain", "tick", "sym", "-p", "0", "--schemas", self.directory / "sym.q")
        feed, s = self.connect(elsewhere), self.connect(elsewhere)
        s.ask(kdb.syms(".u.sub", "trade", ""))
        feed.ask(update("trade", trades(0, 3)))
        self.assertEqual(s.push()[2]["seq"].v, [0, 1, 2])
        answer = s.ask("(.u.sub[`;`];`.u `i`L)")
        self.assertEqual([item.t for item in answer[1].v], [kdb.UNARY, kdb.UNARY])
