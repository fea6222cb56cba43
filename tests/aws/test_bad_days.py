"""Failures of the AWS fleet: their visibility to an operator, and no launch without a request."""

import json
import os
import time

from aws.cloud.role import policy
from aws.cloud.scene import NodeScene


class Surge(NodeScene):
    """Helpers: a first, live node, and updates that fill it."""

    def first_node(self, **options):
        group = self.group(**{"minimum": 1, "maximum": 6, **options})
        self.eventually(lambda: "live" in self.states(), "the first node is live")
        return group, self.node_in("live")

    def fill_up(self):
        """Publishes until the first node is full, without a successor: later updates are only in the log."""
        for _ in range(80):
            self.publish(20)
            if "rolled" in self.states():
                return
        self.fail(f"the live node is not full after {self.next_seq} rows; {self.picture()}")

    def has_successor(self, count=1):
        return lambda: len(self.queue() or []) >= count + 1

    def assert_launches(self, group, wanted):
        """Asserts exactly this many launches, and none afterwards."""
        self.eventually(lambda: len(self.launches(group)) >= wanted, f"{wanted} launches")
        self.assertEqual(len(self.launches(group)), wanted, self.events("desired", group=group))


class Api(Surge):
    def test_an_answer_lost_after_the_launch_succeeded_is_one_launch(self):
        group, _ = self.first_node()
        self.api.fault("SetDesiredCapacity", "drop_after")
        self.fill_until(self.has_successor(), "a second node")
        self.assertEqual(self.api.faults_left(), 0, "the fault was not met")
        self.assert_launches(group, 2)
        self.assertEqual(self.api.group(group)["desired"], 2)
        self.assert_held_once("an answer was lost")

    def test_a_request_lost_before_it_took_effect_is_made_again(self):
        group, _ = self.first_node()
        self.api.fault("SetDesiredCapacity", "drop_before", count=3)
        self.fill_until(self.has_successor(), "a second node")
        self.assert_launches(group, 2)

    def test_throttling_during_a_surge_delays_a_launch_and_does_not_lose_it(self):
        group, live = self.first_node()
        self.api.fault("*", "throttle", count=1_000_000)
        self.fill_up()
        self.said(r"throttled by the fleet: .*[Tt]hrottl", live)
        self.assertGreaterEqual(live.metrics()["elastick_fleet_calls_throttled_total"], 1)
        self.assertEqual(len(self.launches(group)), 1)
        # Five minutes of it were tested by hand, with as many updates as a second node can hold.
        until = time.monotonic() + float(os.environ.get("ELASTICK_THROTTLE_S", "0"))
        while time.monotonic() < until:
            self.publish(1)
            self.machines.stopped.wait(1)
        self.publish(20)
        self.api.heal()
        self.eventually(self.has_successor(), "a second node")
        self.assert_launches(group, 2)
        self.assert_held_once("the API was throttled")

    def test_a_server_error_leaves_it_open_and_is_one_launch(self):
        group, _ = self.first_node()
        self.api.fault("SetDesiredCapacity", "error500", count=2)
        self.fill_until(self.has_successor(), "a second node")
        self.assert_launches(group, 2)

    def test_an_api_that_hangs_does_not_hold_up_updates(self):
        group, live = self.first_node()
        self.api.fault("SetDesiredCapacity", "hang")
        self.fill_until(self.has_successor(), "a second node")
        self.assert_launches(group, 2)
        self.assert_held_once("a call hung")


class Permissions(Surge):
    def test_a_role_that_may_not_scale_names_the_call_and_the_permission(self):
        group, live = self.first_node(policy=policy(without=["autoscaling:SetDesiredCapacity"]))
        self.fill_up()
        said = self.said(r"the role of this instance needs the permission (\S+)", live)
        self.assertEqual(said[1], "autoscaling:SetDesiredCapacity")
        self.assertEqual(len(self.launches(group)), 1)

    def test_a_permission_given_later_is_used(self):
        group, live = self.first_node(policy=policy(without=["autoscaling:SetDesiredCapacity"]))
        self.fill_up()
        self.said(r"needs the permission autoscaling:SetDesiredCapacity", live)
        self.api.client("iam").put_role_policy(RoleName=group, PolicyName="node", PolicyDocument=json.dumps(policy()))
        self.eventually(self.has_successor(), "a second node")
        self.assert_launches(group, 2)
        self.assert_held_once("the permission was missing for a while")

    def test_a_role_that_may_not_describe_names_the_permission(self):
        self.group(policy=policy(without=["autoscaling:DescribeAutoScalingGroups"]))
        self.said(r"needs the permission autoscaling:DescribeAutoScalingGroups")


class Limits(Surge):
    TAKES_S = 70

    def test_a_group_at_its_maximum_refuses_visibly_and_goes_on_when_it_is_raised(self):
        group, live = self.first_node(maximum=1)
        self.fill_up()
        self.said(r"the fleet stays at 1 nodes .*max", live)
        self.assertGreaterEqual(live.metrics()["elastick_fleet_scale_outs_refused_total"], 1)
        self.eventually(lambda: live.metrics()["elastick_fleet_desired_at_max"] == 1, "the metrics say so")
        self.publish(10)
        self.autoscaling.update_auto_scaling_group(AutoScalingGroupName=group, MaxSize=3)
        self.eventually(self.has_successor(), "a second node")
        self.assert_launches(group, 2)
        self.assert_held_once("the group was at its maximum")


class TwoQueues(Surge):
    """Every instance runs a node of each queue; both fill up at the same time."""

    def program(self, machine):
        command, environment = super().program(machine)
        line = " ".join(map(str, command))
        return ["bash", "-c", f"{line} --queue a & {line} --queue b & wait"], environment

    def test_two_queues_that_ask_at_once_launch_one_instance_for_both(self):
        group = self.group(1, 6)
        self.eventually(lambda: self.states() == ["live", "live"], "both queues have a live node")
        self.fill_until(lambda: self.states().count("rolled") == 2, "both live nodes have rolled")
        self.eventually(lambda: len(self.queue()) >= 4, "both queues have a second node")
        self.publish(5)
        desired = self.api.group(group)["desired"]
        self.assert_launches(group, desired)
        live = sum(state == "live" for state in self.states())
        self.assertEqual((live, desired), (2, 2), self.queue())

    def in_step(self):
        """Waits until both queues have each row."""
        self.eventually(self.all_taken, "the nodes keep up with the feed")

    def all_taken(self):
        tip = self.ask(self.tp, ".u.j")
        table = self.ask(self.tp, "select from .u.asg.tab where state=`live")
        return tip is not None and table is not None and all(next_ >= tip.v for next_ in table.v["nextI"].v)


class Launches(Surge):
    node_options = (*Surge.node_options, "--launch-timeout", "4s")

    def setUp(self):
        self.seen = 0
        super().setUp()

    def dead_on_arrival(self, view):
        """Makes the group's second instance never come up."""
        self.seen += 1
        return self.seen == 2

    def test_a_launched_instance_that_never_comes_up_is_named_and_replaced(self):
        group, live = self.first_node()
        # However long the launch takes: updates without a live node are in the log.
        self.fill_up()
        self.eventually(lambda: len(self.launches(group)) >= 2, "a second launch")
        dead = self.launches(group)[1]
        self.said(rf"replacing {dead}: .* has not joined", live)
        self.eventually(self.has_successor(), "its replacement joins")
        self.assert_launches(group, 3)
        self.assertEqual(self.api.group(group)["desired"], 2)
        figures = live.metrics()
        late, replaced = "elastick_fleet_launches_late_total", "elastick_fleet_launches_replaced_total"
        self.assertEqual((figures[late], figures[replaced]), (1, 1))
        ended = self.calls("TerminateInstanceInAutoScalingGroup")
        self.assertEqual([call["params"]["ShouldDecrementDesiredCapacity"] for call in ended], ["false"])
        self.assert_held_once("an instance never came up")


class Notices(Surge):
    def rolled_over(self):
        """A live node with rows, and a standby."""
        group, live = self.first_node()
        self.fill_until(self.has_successor(), "a second node waits")
        return group, live

    def test_a_spot_notice_moves_the_window_before_the_instance_goes(self):
        group, live = self.rolled_over()
        self.machines.spot_notice(live, 120)
        self.said("the fleet is about to terminate this node: spot interruption", live)
        self.eventually(lambda: live.id not in [name for _, name, _ in self.queue()], "the node has left the queue")
        self.publish(10)
        self.assert_held_once("a spot notice")

    def test_an_unhealthy_node_hands_its_window_on_before_it_is_ended(self):
        group, live = self.rolled_over()
        self.autoscaling.set_instance_health(
            InstanceId=live.id, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False
        )
        self.said("the fleet is about to terminate this node: (terminating|unhealthy)", live)
        self.eventually(lambda: self.events("hook-completed", instance=live.id), "the node lets go of the hook")
        self.eventually(lambda: not live.is_running(), "the instance ends")
        self.assertEqual(self.events("hook-timeout", instance=live.id), [])
        self.publish(10)
        self.assert_held_once("an unhealthy instance")

    def test_a_rolled_node_that_is_ended_by_name_hands_its_window_on(self):
        group, first = self.first_node()
        self.fill_until(lambda: "rolled" in self.states() and "live" in self.states(), "the first node has rolled")
        self.autoscaling.terminate_instance_in_auto_scaling_group(
            InstanceId=first.id, ShouldDecrementDesiredCapacity=False
        )
        self.eventually(lambda: not first.is_running(), "the instance ends")
        self.assertEqual(self.events("hook-timeout", instance=first.id), [])
        self.assert_held_once("ended by name")


class Ends(Surge):
    def grown(self):
        """A group of two, the first full."""
        group, first = self.first_node()
        self.fill_until(lambda: "rolled" in self.states() and "live" in self.states(), "the first node has rolled")
        return group

    def end_of_day(self):
        self.assertIsNotNone(self.ask(self.tp, ".u.endofday[]"))

    def test_the_group_is_back_at_its_minimum_after_the_day(self):
        group = self.grown()
        self.end_of_day()
        self.eventually(lambda: self.api.group(group)["desired"] == 1, "the desired capacity is the minimum")
        self.eventually(lambda: len(self.members(group)) == 1, "one instance is left")

    def test_a_terminate_whose_answer_is_lost_is_not_counted_twice(self):
        group = self.grown()
        before = self.api.group(group)["desired"]
        self.api.fault("TerminateInstanceInAutoScalingGroup", "drop_after")
        self.end_of_day()
        self.eventually(lambda: len(self.members(group)) == 1, "one instance is left")
        self.assertEqual(self.api.group(group)["desired"], 1)
        lowered = [e for e in self.events("desired", group=group) if (e["before"] or 0) > e["after"]]
        self.assertEqual(len(lowered), before - 1)
        self.assertEqual(len(self.launches(group)), before)

    def test_a_terminate_that_fails_is_tried_again(self):
        group = self.grown()
        self.api.fault("TerminateInstanceInAutoScalingGroup", "throttle", count=4)
        self.end_of_day()
        self.eventually(lambda: len(self.members(group)) == 1, "one instance is left")
        self.assertEqual(self.api.group(group)["desired"], 1)

    def test_protection_is_set_while_a_node_holds_rows_and_lifted_before_it_goes(self):
        group = self.grown()
        # The second one is live, and holds nothing yet if the first one rolled with the last update.
        self.publish(20)
        protected = lambda: [member["protected"] for member in self.api.group(group)["instances"]]
        self.eventually(lambda: all(protected()), "both nodes that hold rows are protected")
        self.end_of_day()
        self.eventually(lambda: protected() == [False], "what is left holds nothing and is not protected")


class Schedules(Surge):
    def test_a_switch_off_leaves_nodes_that_hold_rows_until_the_day_has_ended(self):
        group, live = self.first_node()
        self.publish(20)
        self.in_step()
        self.eventually(lambda: self.api.group(group)["instances"][0]["protected"], "the node is protected")
        self.autoscaling.put_scheduled_update_group_action(
            AutoScalingGroupName=group, ScheduledActionName="off", Recurrence="0 20 * * FRI",
            MinSize=0, DesiredCapacity=0,
        )  # fmt: skip
        self.api.clock("2027-01-01T00:00:00Z")
        self.api.clock("2027-01-02T00:00:00Z")
        self.assertEqual(self.api.group(group)["desired"], 0)
        self.publish(5)
        self.assert_held_once("the cluster was switched off in the middle of the day")
        self.assertEqual(self.members(group), [live.id])
        self.assertIsNotNone(self.ask(self.tp, ".u.endofday[]"))
        self.eventually(lambda: self.members(group) == [], "the group is empty")


class Starts(NodeScene):
    def one_machine(self, **options):
        self.group(**options)
        self.eventually(lambda: self.machines.all(), "an instance")
        return self.machines.all()[0]

    def test_no_metadata_service(self):
        silent = lambda machine: {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}
        self.node_environment = silent
        machine = self.one_machine()
        self.said(r"instance metadata|metadata service|IMDS", machine)
        self.assertNotIn("live", self.states())

    def test_an_instance_outside_any_group(self):
        image, subnet = self.api.place()
        role = self.role(f"outside-{os.getpid()}")
        tags = [{"ResourceType": "instance", "Tags": [{"Key": "APP", "Value": "r-asg"}]}]
        made = self.api.client("ec2").run_instances(
            ImageId=image, MinCount=1, MaxCount=1, IamInstanceProfile={"Name": role}, TagSpecifications=tags
        )
        instance = made["Instances"][0]["InstanceId"]
        self.said(rf"instance {instance} in us-east-1 is not in an Auto Scaling group")
        self.assertEqual(self.states(), [])

    def test_a_group_that_does_not_exist(self):
        self.overrides = {"aws:autoscaling:groupName": "gone"}
        machine = self.one_machine()
        self.said(r"gone.* (does not exist|not found)|no .*group.* gone", machine)

    def program(self, machine):
        machine.overrides = getattr(self, "overrides", {})
        return super().program(machine)

    def test_a_tickerplant_whose_file_system_is_not_mounted_refuses_to_write_a_local_log(self):
        local = self.directory / "not-mounted"
        local.mkdir()
        process = self.start("local", "tick", "sym", local, "-p", 0, "--schemas", self.directory / "sym.q",
                             "--require-mount", "nfs")  # fmt: skip
        self.assertNotEqual(process.wait(), 0)
        self.assertRegex(process.printed(), r"not-mounted.*nfs")
        self.assertEqual(list(local.iterdir()), [])

    def test_thresholds_that_make_no_sense(self):
        for tags, wanted in [
            ({"SCALETHRESHOLD": "80", "ROLLTHRESHOLD": "60"}, r"80.*60|60.*80"),
            ({"SCALETHRESHOLD": "much"}, r"much"),
            ({"ROLLTHRESHOLD": "101"}, r"101"),
        ]:
            with self.subTest(tags=tags):
                self.node_options = ("--memory", "8MiB")
                before = len(self.machines.all())
                group = self.group(tags=tags)
                self.eventually(lambda: len(self.machines.all()) > before, "an instance")
                machine = self.machines.all()[before]
                self.said(wanted, machine)
                self.eventually(lambda: 2 in machine.exits or 1 in machine.exits, "it ends with an error")
                self.autoscaling.delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)


