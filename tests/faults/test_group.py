"""A group's nodes: the day is replayed by those that come late, and an instance that is ended is left first."""

from harness import kdb
from harness.feeder import Feeder
from harness.group import GroupCluster
from harness.whole import Probe, is_whole

SMALL = ("--memory", "8MiB", "--scale", "30", "--roll-threshold", "60")


class Group(GroupCluster):
    def is_whole(self):
        """All that was acknowledged has been taken in, and the windows have no gaps."""
        rows, windows = Probe(self).look()
        return is_whole([span for _, *span in windows]) and sorted(rows) == self.acknowledged

    def settled(self, what):
        self.eventually(self.is_whole, what, 60)

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
            self.call("replace", kdb.sym("rdb-1"))
            gone = lambda: probe.failure or "rdb-1" not in [node.name for node in self.running()]
            self.eventually(gone, "it has left", 60)
            self.fleet.wait_for(r"rdb-1 has ended")
            seen = probe.whole
            self.eventually(lambda: probe.failure or probe.whole > seen + 3, "the account goes on")
        finally:
            feeder.stop()
            probe.stop()
        self.settled("handed on")
        self.assertLessEqual(self.states().count("waiting"), 1, "nobody was launched in vain")

    def test_all_end_at_once_when_the_group_does(self):
        self.start_group(*SMALL, "--leave-within", "600s", least=3, options=("--grace", "600s"))
        self.joined(3)
        self.publish(20)
        self.in_step()
        self.assertEqual(self.fleet.terminate(), 0)
