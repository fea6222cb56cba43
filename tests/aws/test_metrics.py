"""Metrics that tickerplant and nodes publish to CloudWatch, also while it is unreachable."""

import datetime

from aws.cloud.role import policy
from aws.cloud.scene import CloudScene, NodeScene, binary, instance_environment

NAMESPACE = "RdbCluster"


def hours(count):
    return datetime.timedelta(hours=count)


class Published:
    """Helpers: metrics received by CloudWatch."""

    def setUp(self):
        super().setUp()
        self.cloudwatch = self.api.client("cloudwatch")

    def published(self, **wanted):
        """Names of the metrics with exactly these dimensions."""
        wanted = {"AutoScalingGroupName": wanted["group"], **({"InstanceId": wanted["of"]} if "of" in wanted else {})}
        pages = self.cloudwatch.get_paginator("list_metrics").paginate(Namespace=NAMESPACE)
        metrics = [metric for page in pages for metric in page["Metrics"]]
        of = [({pair["Name"]: pair["Value"] for pair in metric["Dimensions"]}, metric["MetricName"]) for metric in metrics]
        return {name for dimensions, name in of if dimensions == wanted}

    def points(self, name, group, instance=None):
        """All published values of a metric, with their unit."""
        dimensions = [{"Name": "AutoScalingGroupName", "Value": group}]
        if instance:
            dimensions.append({"Name": "InstanceId", "Value": instance})
        now = datetime.datetime.now(datetime.timezone.utc)
        answer = self.cloudwatch.get_metric_statistics(
            Namespace=NAMESPACE, MetricName=name, Dimensions=dimensions, Period=3600, StartTime=now - hours(1),
            EndTime=now + hours(1), Statistics=["Sum", "Maximum", "SampleCount"],
        )  # fmt: skip
        return answer["Datapoints"]

    def total(self, name, group, instance=None):
        return sum(point["Sum"] for point in self.points(name, group, instance))


class Node(Published, NodeScene):
    """A group of one node that publishes every second."""

    node_options = ("--memory", "64MiB", "--scale", "30", "--roll-threshold", "60", "--cloudwatch", "1s")

    def node(self, **options):
        group = self.group(1, 4, **options)
        self.eventually(lambda: "live" in self.states(), "the first node is live")
        return group, self.node_in("live")

    def scrape(self, machine, name):
        """A metric on a node's own page."""
        return machine.metrics().get(name)

    def test_a_node_publishes_the_papers_metrics_of_itself_and_of_its_group(self):
        group, machine = self.node()
        self.publish(30)
        self.eventually(lambda: self.total("UpdateCount", group, machine.id) == 30, "each update is counted once")
        known = {"MemoryUsage", "MemoryUsed", "Capacity", "UpdateCount", "QueueLength", "LiveAge", "LagToTip",
                 "ScaleOutsRefused", "LaunchesLate", "DesiredCapacity", "MaxCapacity", "DesiredAtMax"}  # fmt: skip
        self.eventually(lambda: known <= self.published(group=group, of=machine.id), "all that is known is published")
        alarmed = {"Health", "MemoryUsage", "LagToTip", "ScaleOutsRefused", "LaunchesLate", "DesiredAtMax"}
        self.assertEqual(self.published(group=group) - {"Cushion"}, alarmed)
        for name, unit in [("MemoryUsage", "Percent"), ("Capacity", "Bytes"), ("LiveAge", "Seconds"), ("LagToTip", "Count")]:
            self.assertEqual({point["Unit"] for point in self.points(name, group, machine.id)}, {unit}, name)
        self.assertEqual(self.points("Capacity", group, machine.id)[0]["Maximum"], 64 << 20)
        self.assertEqual(self.points("MaxCapacity", group, machine.id)[0]["Maximum"], 4)

    def test_a_throttled_api_costs_no_update_of_the_count(self):
        group, machine = self.node()
        self.api.fault("PutMetricData", "throttle", count=3)
        self.publish(25)
        self.eventually(lambda: self.api.faults_left() == 0, "the API is asked again and again")
        self.eventually(lambda: self.total("UpdateCount", group, machine.id) == 25, "all are counted once")
        self.said("cannot publish metrics; retrying .*[Tt]hrottl", machine)
        self.said("publishing metrics works again", machine)
        self.assertGreaterEqual(self.scrape(machine, "elastick_cloudwatch_failures_total"), 3)

    def test_a_role_without_the_permission_is_told_which(self):
        _, machine = self.node(policy=policy(without=("cloudwatch:PutMetricData",)))
        self.said("cannot publish metrics; retrying .*cloudwatch:PutMetricData", machine)
        self.publish(5)
        self.eventually(lambda: self.scrape(machine, "elastick_updates_total") == 5, "the node does its work")


class Tickerplant(Published, CloudScene):
    """A tickerplant in its own group that publishes every second."""

    def program(self, machine):
        options = ("-p", "127.0.0.1:0", "--schemas", self.directory / "sym.q", "--fleet", "aws", "--cloudwatch", "1s")
        command = [binary(), "tick", "sym", self.directory / "aws-logs", *options]
        return command, instance_environment(machine, self.api.url)

    def test_a_tickerplant_of_a_group_publishes_what_its_alarms_look_at(self):
        group = self.group(1, 1, tags={"APP": "tick-asg"})
        alarmed = {"Health", "TickerplantUp", "QueuesWithoutLive", "WindowsLost", "LogBytes", "LogFreeBytes", "LogFileHarmed",
                   "Quarantined"}  # fmt: skip
        self.eventually(lambda: self.published(group=group) == alarmed, "what alarms look at is published")
        instance = self.machines.all(app="tick-asg")[0].id
        own = alarmed | {"UpdateCount", "Connections"}
        self.eventually(lambda: self.published(group=group, of=instance) == own, "and all of the instance")
        self.assertEqual(self.points("TickerplantUp", group)[0]["Maximum"], 1)

    def test_an_api_that_hangs_does_not_hold_up_the_end(self):
        group = self.group(1, 1, tags={"APP": "tick-asg"})
        self.eventually(lambda: self.published(group=group), "something is published")
        machine = self.machines.all(app="tick-asg")[0]
        self.api.fault("PutMetricData", "hang", count=1000)
        self.eventually(lambda: self.api.faults_left() < 1000, "a call hangs")
        machine.shut_down()
        # A call may take 8 seconds, but the machine would be killed after 5.
        self.eventually(lambda: machine.exits == [0], "the tickerplant ends in order")
