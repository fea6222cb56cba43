"""Nodes of a fleet group: late nodes replay the day, and a node is drained before its instance terminates."""

import os
import signal

from harness import kdb
from harness.feeder import Feeder
from harness.group import GroupCluster
from harness.whole import Probe, is_whole

SMALL = ("--memory", "8MiB", "--scale", "30", "--roll-threshold", "60")


class Group(GroupCluster):
    # Longer than the pause of a node.
    tick_options = ("--start-grace", "30s")

    def is_whole(self):
        """Whether nodes have ingested all acknowledged rows, in windows without gaps."""
        rows, windows = Probe(self).look()
        return is_whole([span for _, *span in windows]) and sorted(rows) == self.acknowledged

    def settled(self, what):
        self.eventually(self.is_whole, what)

    def test_a_group_that_comes_late_replays_the_day_on_as_many_nodes_as_it_takes(self):
        """As after a weekend at zero: the log holds what several nodes can hold, and the first comes into an empty queue."""
        for _ in range(12):
            self.publish(200)
        self.start_group(*SMALL)
        self.settled("the day is replayed")
        states = self.states()
        self.assertGreaterEqual(states.count("rolled"), 3, states)
        self.assertEqual(states.count("live"), 1, states)
        self.publish(50)
        self.settled("the day goes on")

    def test_an_instance_that_is_replaced_hands_on_what_it_holds_first(self):
        self.start_group(*SMALL, options=("--notice", "600s"))
        self.joined(1)
        while "rolled" not in self.states():
            self.publish(20)
        self.eventually(lambda: "live" in self.states(), "the second is live")
        feeder = Feeder(self)
        probe = Probe(self, feeder.allow_one)
        feeder.start()
        probe.start()
        try:
            first = self.instance(1)
            self.call("replace", kdb.sym(first))
            gone = lambda: probe.failure or first not in [node.name for node in self.running()]
            self.eventually(gone, "it has left")
            self.fleet.wait_for(f"{first} has ended")
            seen = probe.whole
            self.eventually(lambda: probe.failure or probe.whole > seen + 3, "the account goes on")
        finally:
            feeder.stop()
            probe.stop()
        self.settled("handed on")
        self.assertLessEqual(self.states().count("waiting"), 1, "nobody was launched in vain")

    def rolled_and_live(self):
        """Starts two instances. Returns the processes of the rolled and of the live one."""
        self.start_group(*SMALL)
        self.joined(1)
        while "rolled" not in self.states():
            self.publish(20)
            # What the first has not ingested when it rolls fills the second, which then asks for a third.
            self.in_step()
        self.eventually(lambda: self.states() == ["live", "rolled"], "the second is live")
        self.assertEqual(self.capacity(), (2, 2))
        name = {state: name for state, name, _ in self.queue()}
        return self.process(name["rolled"]), self.process(name["live"])

    def process(self, name):
        return int(self.fleet.wait_for(rf"{name} started as process (\d+)").group(1))

    def capacity(self):
        """Desired capacity of the group, and the number of launches so far."""
        return self.description()["desired"].v, self.launched()

    def test_a_rolled_node_that_is_told_to_end_is_replaced_by_one(self):
        rolled, _ = self.rolled_and_live()
        os.kill(rolled, signal.SIGTERM)
        self.fleet.wait_for(f"{self.instance(1)} has ended")
        self.settled("handed on")
        self.assertEqual(self.states(), ["live", "rolled"])
        self.assertEqual(self.capacity(), (2, 3), "one in its place")

    def test_a_rolled_node_that_is_killed_is_replaced_by_one(self):
        rolled, _ = self.rolled_and_live()
        os.kill(rolled, signal.SIGKILL)
        self.fleet.wait_for(f"{self.instance(1)} has ended")
        self.settled("rebuilt")
        self.assertEqual(self.states(), ["live", "rolled"])
        self.assertEqual(self.capacity(), (2, 3), "one in its place")

    def test_a_rolled_node_that_is_back_before_the_live_one_asks_for_nobody(self):
        _, live = self.rolled_and_live()
        os.kill(live, signal.SIGSTOP)
        try:
            self.tp.kill()
            self.start_tick()
            self.eventually(lambda: self.states() == ["away", "rolled"], "the rolled one is back")
        finally:
            os.kill(live, signal.SIGCONT)
        self.eventually(lambda: self.states() == ["live", "rolled"], "both are back")
        self.publish(1)
        self.settled("the day goes on")
        self.assertEqual(self.capacity(), (2, 2), "nobody was launched")

    def test_all_end_at_once_when_the_group_does(self):
        self.start_group(*SMALL, "--leave-within", "600s", least=3, options=("--grace", "600s"))
        self.joined(3)
        self.publish(20)
        self.in_step()
        self.assertEqual(self.fleet.terminate(), 0)
