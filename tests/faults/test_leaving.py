"""Draining: a terminating node hands its windows over first, and queries over all nodes stay exact meanwhile."""

import signal

from harness.cluster import Cluster
from harness.feeder import Feeder
from harness.whole import Probe


class Leaving(Cluster):
    # A rolled node has some hundreds of updates; the live one has room for all updates that a test publishes afterwards.
    node_options = ("--memory", "64MiB", "--scale", "90", "--roll-threshold", "95", "--leave-within", "600s")

    def answering(self):
        return self.running()

    def tell_to_leave(self, node):
        node.signal(signal.SIGTERM)

    def rolled_and_live(self, waiting=1):
        """One rolled node, one live node, and some standbys."""
        first = self.start_node("--memory", "8MiB", "--scale", "30", "--roll-threshold", "60", "--leave-within", "600s")
        self.joined(1)
        live = self.start_node()
        self.joined(2)
        while "rolled" not in self.states():
            self.publish(20)
        for _ in range(waiting):
            self.start_node()
        self.joined(2 + waiting)
        self.publish(20)
        return first, live, self.nodes[2:]

    def has_left(self, node):
        self.assertEqual(node.wait(), 0)
        node.wait_for("left the queue")
        self.eventually(lambda: node.name not in [name for _, name, _ in self.queue() or []], "it is out of the queue")

    def test_a_rolled_node_and_then_the_live_one_leave_under_load(self):
        first, live, [heir] = self.rolled_and_live()
        feeder = Feeder(self)
        probe = Probe(self, lambda: feeder.allow(3))
        feeder.start()
        probe.start()
        try:
            self.eventually(lambda: probe.failure or probe.whole > 0, "an account with all nodes")
            self.tell_to_leave(first)
            self.has_left(first)
            self.assertEqual(self.node_in("rolled"), heir)
            seen = probe.whole
            self.eventually(lambda: probe.failure or probe.whole > seen + 3, "the account goes on")
            self.tell_to_leave(live)
            self.eventually(lambda: self.states().count("leaving") == 1, "it is about to leave")
            self.assertTrue(live.is_running())
            for _ in range(2):
                self.start_node()
            self.has_left(live)
            seen = probe.whole
            self.eventually(lambda: probe.failure or probe.whole > seen + 3, "the account goes on")
        finally:
            feeder.stop()
            probe.stop()
        self.assertEqual(self.states(), ["live", "rolled", "rolled"])
        self.assert_held_once("two have left")
        self.assertGreaterEqual(probe.seen, {node.name for node in self.nodes}, "each node was seen with a window")

    def test_it_answers_for_its_window_until_the_other_has_proved_it(self):
        first, _, [heir] = self.rolled_and_live()
        heir.pause()
        self.tell_to_leave(first)
        self.eventually(lambda: "taking" in self.states(), "the other is told")
        self.assert_held_by(first)
        heir.resume()
        self.has_left(first)
        self.assert_held_once("handed on")

    def assert_held_by(self, node):
        [held] = [windows for _, name, windows in self.queue() if name == node.name]
        self.assertTrue(held)
        rows = self.ask(node, "count trade").v
        self.assertEqual(rows, (held[1] - held[0]) * self.rows_at_once)

    def test_one_that_is_killed_while_it_leaves_is_rebuilt_by_who_had_begun(self):
        first, _, [heir] = self.rolled_and_live()
        heir.pause()
        self.tell_to_leave(first)
        self.eventually(lambda: "taking" in self.states(), "the other is told")
        first.kill()
        self.eventually(lambda: "rebuilding" in self.states(), "the other holds it now")
        heir.resume()
        self.assert_held_once("killed in between")
        self.assertEqual(self.states(), ["live", "rolled"])

    def test_a_tickerplant_that_restarts_in_between_knows_who_leaves(self):
        first, _, [heir] = self.rolled_and_live()
        heir.pause()
        self.tell_to_leave(first)
        self.eventually(lambda: "taking" in self.states(), "the other is told")
        self.tp.kill()
        self.start_tick()
        heir.resume()
        self.has_left(first)
        self.assert_held_once("restarted in between")

    def test_with_nobody_to_take_over_it_stays_until_its_time_is_over(self):
        first = self.start_node(*self.node_options[:-1], "1s")
        self.publish(50)
        self.in_step()
        self.tell_to_leave(first)
        self.assertEqual(first.wait(), 0)
        first.wait_for("before another one has taken over")
        self.start_node()
        self.start_node()
        self.assert_held_once("rebuilt from the log")

    def test_a_second_word_ends_it_at_once(self):
        node = self.start_node()
        self.publish(5)
        self.in_step()
        self.tell_to_leave(node)
        self.eventually(lambda: self.states() == ["leaving"], "it waits for another")
        node.signal(signal.SIGINT)
        self.assertEqual(node.wait(), 0)

    def test_one_that_waits_leaves_at_once(self):
        _, _, [waiting] = self.rolled_and_live()
        self.tell_to_leave(waiting)
        self.has_left(waiting)
        self.assert_held_once("it held no windows")

    def test_the_end_of_the_day_lets_it_go(self):
        first, *_ = self.rolled_and_live(waiting=0)
        self.tell_to_leave(first)
        self.eventually(lambda: "leaving" in self.states(), "it waits for another")
        self.ask(self.tp, ".u.endofday[]")
        self.assertEqual(first.wait(), 0)
        self.eventually(lambda: self.states() == ["live"], "a new day")

    def test_without_a_time_it_ends_at_once(self):
        node = self.start_node("--memory", "8MiB")
        self.publish(5)
        self.in_step()
        self.assertEqual(node.terminate(), 0)
