"""Nodes that claim windows and do not prove them: wrongly, too late, twice, or over a kill of the tickerplant. Another node rebuilds each window
from the log, once."""

from harness.scene import Scene, trades, update

from .claims import join, proved

UPDATES, CLAIMED = 10, (0, 6)


class Claims(Scene):
    def setUp(self):
        super().setUp()
        self.tp = self.run_tick("60s")
        self.feed = self.connect(self.tp)
        for number in range(UPDATES):
            self.feed.ask(update("trade", trades(number, 1)))
        self.date = self.feed.ask(".u.d").v

    def run_tick(self, proof_timeout, name="tick", port=0):
        return self.tick("--proof-timeout", proof_timeout, "--node-grace", "300ms", name=name, port=port)

    def restart(self, proof_timeout, name):
        """Kills the tickerplant and starts it again, on the same port."""
        port = self.tp.port
        self.tp.kill()
        self.tp = self.run_tick(proof_timeout, name, port)
        self.feed = self.connect(self.tp)

    def claim(self, name="liar", held=CLAIMED):
        """A node that claims these windows. Returns its connection, and whether it must drop all rows."""
        h = self.connect(self.tp)
        return h, h.ask(join(name, "rdb", held, self.date))["drop"].v

    def is_dropped(self, h):
        """Waits until the tickerplant takes the claimed window away from a node."""
        while h.push()[0].v != ".u.asg.recheck":
            pass

    def two_nodes(self):
        """Two nodes, the second of which finds nothing to do but what others have lost."""
        nodes = [self.rdb(self.tp, name=f"node{number}") for number in range(2)]
        return [self.connect(node) for node in nodes]

    def assert_held_once(self, nodes):
        held = lambda: sorted(seq for node in nodes for seq in node.ask("exec seq from trade").v)
        self.eventually_equal(held, list(range(UPDATES)), "the nodes hold each row once")
        unverified = "exec node from .u.asg.tab where state=`rolled,verified<>`yes"
        self.eventually_equal(lambda: self.feed.ask(unverified).v, [], "each closed window is verified")
        self.assertNotIn("panicked", self.tp.printed())

    def test_a_claim_that_is_proved_too_late(self):
        self.restart("300ms", "second")
        liar, _ = self.claim()
        self.is_dropped(liar)
        nodes = self.two_nodes()
        for _ in range(100):
            liar.send(proved(*CLAIMED, self.date, trade=(6, 6, 1)))
        self.assert_held_once(nodes)
        self.assertEqual(self.feed.ask(".u.stats`differing").v, 0, "what is not expected is not compared")

    def test_a_claim_that_is_proved_wrongly(self):
        for number, tables in enumerate(({}, {"trade": (6, 6, 1)}, {"trade": (5, 5, 1), "x" * 1000: (1, 1, 1)})):
            liar, drops = self.claim(f"liar{number}")
            self.assertFalse(drops)
            liar.send(proved(*CLAIMED, self.date, **tables))
            self.is_dropped(liar)
        self.assertNotIn("xxxx", self.tp.printed(), "a name that only the node knows is in no log line")
        self.assertEqual(self.feed.ask(".u.stats`differing").v, 3)

    def test_of_two_that_claim_one_window_the_second_must_drop_it(self):
        self.claim("first")
        for held in (CLAIMED, (0, 3), (3, 6), (0, UPDATES), (5, 7), (0, UPDATES + 1)):
            with self.subTest(held=held):
                self.assertTrue(self.claim("second", held)[1])

    def test_a_claim_over_a_kill_of_the_tickerplant(self):
        self.claim()
        self.restart("300ms", "second")
        # The same node claims it again, and proves it no more than before.
        liar, drops = self.claim()
        self.assertFalse(drops)
        self.is_dropped(liar)
        self.assert_held_once(self.two_nodes())

    def test_a_claim_whose_node_does_not_come_back_after_a_kill(self):
        self.claim()
        self.restart("60s", "second")
        self.assert_held_once(self.two_nodes())
