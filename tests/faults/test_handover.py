"""Handover of a window: rolls during replay, subscribers that disconnect or hang in between."""

from harness import kdb
from harness.cluster import Cluster
from harness.subscribers import PaperRdb


class Handover(Cluster):
    rows_at_once = 1000

    def test_nodes_that_are_full_during_their_replay_roll_and_the_next_goes_on(self):
        """The log holds what three nodes can hold before the first of them joins."""
        self.publish(330)
        for _ in range(5):
            self.start_node()
        self.joined(5)
        self.assert_held_once("the log was longer than one node")
        self.assertGreaterEqual(self.states().count("rolled"), 1)
        self.publish(20)
        self.assert_held_once("after the replay")

    def test_nodes_that_come_one_after_the_other_share_a_log(self):
        self.publish(300)
        self.start_node()
        self.eventually(lambda: self.states() == ["rolled"], "the first is full during its replay")
        for count in range(2, 6):
            self.publish(5)
            self.start_node()
            self.joined(count)
        self.assert_held_once("nodes came late")

    def paper(self):
        """A paper subscriber that the test steps message by message."""
        return PaperRdb(self.connect(self.port), "rdb")

    def test_a_successor_that_vanishes_in_its_handover_leaves_the_window_to_the_next(self):
        first = self.paper().take_until(lambda r: r.live)
        vanishing = self.paper()
        self.joined(2)
        self.publish(5)
        first.take_until(lambda r: r.i == 5)
        first.roll()
        vanishing.take_until(lambda r: r.live)
        self.assertEqual(vanishing.window, (5, 5))
        vanishing.connection.close()
        self.publish(5)
        self.start_node("--memory", "0")
        self.eventually(lambda: self.held_count() == 5 * self.rows_at_once, "the third takes the window")
        self.assertEqual(sorted(first.rows.seqs() + self.held()), self.acknowledged)

    def test_a_successor_that_closes_at_the_moment_of_the_roll(self):
        for _ in range(5):
            first = self.paper()
            vanishing = self.paper()
            first.take_until(lambda r: r.live)
            self.publish(2)
            vanishing.connection.close()
            first.connection.close()
        self.eventually(lambda: self.queue() == [], "all are gone")
        self.start_node("--memory", "0")
        self.assert_held_once("nobody had kept anything")

    def test_a_successor_that_hangs_in_its_handover_holds_its_window_when_it_goes_on(self):
        self.start_node()
        self.joined(1)
        hanging = self.start_node()
        self.joined(2)
        hanging.pause()
        for _ in range(60):
            self.publish(20)
            if "rolled" in self.states():
                break
        self.assertIn("rolled", self.states())
        self.publish(10)
        hanging.resume()
        self.assert_held_once("the successor hung for a while", fleet=True)

    def test_a_roll_beyond_the_tip_or_before_the_window_is_refused(self):
        """A subscriber that miscounts must not tear a hole into the day."""
        from harness import wire
        from harness.subscribers import ROLL

        first = self.paper().take_until(lambda r: r.live)
        self.publish(3)
        first.take_until(lambda r: r.i == 3)
        for wrong in (4, -1, kdb.NULL_LONG, 10**12):
            first.connection.raw(wire.message(kdb.lst(ROLL, kdb.long(wrong))))
            self.assertEqual(first.connection.answer_or_error().t, kdb.ERROR, wrong)
        self.assertEqual(self.states(), ["live"])
        self.publish(2)
        first.take_until(lambda r: r.i == 5)
        self.assertEqual(first.rows.seqs(), self.acknowledged)
