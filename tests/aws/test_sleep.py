"""A cluster on AWS with no node: the tickerplant asks the Auto Scaling group for the first one."""

from harness.client import Connection
from harness.whole import Probe, is_whole

from .cloud.scene import NodeScene, instance_environment

POLL = "while :; do sleep 0.1; done"


class Sleep(NodeScene):
    answering = NodeScene.running

    def start_tick(self):
        """Once there is an instance for it to run on."""

    def program(self, machine):
        """The first instance is the tickerplant's host."""
        if machine is self.machines.all()[0]:
            return ["bash", "-c", POLL], {}
        return super().program(machine)

    def begin(self, *options):
        """A group without instances, and a tickerplant that may ask it. Returns the group."""
        self.group(1, 1, hooks=False)
        host = self.eventually(lambda: self.machines.all(running=True), "the tickerplant's instance runs")[0]
        group = self.group(0, 4)
        self.environment = instance_environment(host, self.api.url)
        self.tp = self.tick("--start-grace", "3s", "--node-fleet", f"aws:{group}", *options, port=self.port)
        self.tp.port
        return group

    def whole(self, why):
        """Waits until nodes hold every acknowledged row of the day once, in windows from 0 on without a gap."""

        def look():
            rows, windows = Probe(self).look()
            return is_whole([span for _, *span in windows]) and sorted(rows) == self.acknowledged

        self.eventually(look, why)

    def test_the_first_update_launches_the_first_instance(self):
        group = self.begin("--wake", "first-update")
        self.assertEqual(self.launches(group), [])
        self.publish(5)
        self.whole("the node replays what it has missed")
        self.assertEqual(len(self.launches(group)), 1)

    def test_an_idle_cluster_has_no_instance_until_queries_are_announced(self):
        group = self.begin("--wake", "first-update", "--idle-off", "4s")
        self.publish(3)
        self.whole("the first node")
        self.eventually(lambda: self.api.group(group)["desired"] == 0 and not self.members(group), "the group is empty")
        with Connection(self.port) as h:
            self.assertIn("requested 1 node", str(h.ask(".u.asg.wake[]").v))
        self.whole("the day is there again")
        self.assertEqual(len(self.launches(group)), 2, "none was launched for the one that ended")

    def test_a_request_that_aws_refuses_is_made_again(self):
        group = self.begin("--wake", "first-update")
        self.api.fault("SetDesiredCapacity", "throttle", count=2)
        self.publish(1)
        self.whole("the node comes")
        self.assertEqual((self.api.faults_left(), len(self.launches(group))), (0, 1))
