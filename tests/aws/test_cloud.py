"""Tests of the simulated AWS: it behaves as AWS documents wherever tests of elastick rely on it."""

import json
import unittest
import urllib.error
import urllib.request

from botocore.exceptions import ClientError
from aws.cloud.role import policy
from aws.cloud.scene import CloudScene, instance_environment
from aws.cloud.server import cron

POLL = "while :; do sleep 0.1; done"


class Cron(unittest.TestCase):
    def minutes(self, line, *moments):
        from datetime import datetime

        return [cron.matches(line, datetime.fromisoformat(moment)) for moment in moments]

    def test_a_weekend_line_names_its_minute_and_day(self):
        self.assertEqual(
            self.minutes("30 21 * * 5", "2026-07-03T21:30", "2026-07-03T21:31", "2026-07-04T21:30"),
            [True, False, False],
        )

    def test_names_ranges_and_steps(self):
        self.assertEqual(
            self.minutes("*/15 6-8 * * MON-FRI", "2026-07-06T06:45", "2026-07-06T06:50", "2026-07-05T06:45"),
            [True, False, False],
        )

    def test_sunday_is_nought_and_seven(self):
        self.assertEqual(self.minutes("0 0 * * 7", "2026-07-05T00:00"), self.minutes("0 0 * * 0", "2026-07-05T00:00"))


class Groups(CloudScene):
    def program(self, machine):
        return ["bash", "-c", POLL], instance_environment(machine, self.api.url)

    def one_instance(self, **options):
        group = self.group(1, 4, **options)
        self.eventually(lambda: len(self.machines.all(running=True)) == 1, "the first instance runs")
        return group, self.machines.all()[0]

    def complete(self, group, machine, hook, result="CONTINUE"):
        self.autoscaling.complete_lifecycle_action(
            AutoScalingGroupName=group, LifecycleHookName=hook, InstanceId=machine.id, LifecycleActionResult=result
        )

    def lifecycle(self, group, machine):
        return {member["id"]: member["lifecycle"] for member in self.api.group(group)["instances"]}.get(machine.id)

    def test_an_instance_waits_for_its_launching_hook(self):
        group, machine = self.one_instance()
        self.assertEqual(self.lifecycle(group, machine), "Pending:Wait")
        self.complete(group, machine, "launching")
        self.eventually(lambda: self.lifecycle(group, machine) == "InService", "the instance is in service")

    def test_a_terminating_hook_holds_an_unhealthy_instance_while_another_is_launched(self):
        group, machine = self.one_instance()
        self.complete(group, machine, "launching")
        self.eventually(lambda: self.lifecycle(group, machine) == "InService", "the instance is in service")
        self.autoscaling.set_instance_health(
            InstanceId=machine.id, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False
        )
        self.eventually(lambda: len(self.machines.all(running=True)) == 2, "another instance is launched")
        self.assertEqual(self.lifecycle(group, machine), "Terminating:Wait")
        target = "/latest/meta-data/autoscaling/target-lifecycle-state"
        self.eventually(lambda: machine.metadata.find(target) == "Terminated", "the instance can see it")
        self.complete(group, machine, "terminating")
        self.eventually(lambda: not machine.is_running(), "the instance ends")
        with self.assertRaisesRegex(ClientError, f"No active Lifecycle Action found with instance ID {machine.id}"):
            self.complete(group, machine, "terminating")

    def test_a_hook_that_nobody_completes_lets_go_after_its_time(self):
        self.api.set(time_scale=0.001)
        group, machine = self.one_instance()
        self.eventually(lambda: self.lifecycle(group, machine) == "InService", "the launching hook's time is over")
        self.assertEqual(self.events("hook-timeout", instance=machine.id)[0]["result"], "CONTINUE")

    def test_a_protected_instance_survives_a_scale_in_until_the_protection_ends(self):
        group, machine = self.one_instance(hooks=False)
        self.eventually(lambda: self.lifecycle(group, machine) == "InService", "the instance is in service")
        protect = lambda on: self.autoscaling.set_instance_protection(
            InstanceIds=[machine.id], AutoScalingGroupName=group, ProtectedFromScaleIn=on
        )
        protect(True)
        self.autoscaling.update_auto_scaling_group(AutoScalingGroupName=group, MinSize=0, DesiredCapacity=0)
        self.autoscaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=0)
        self.assertEqual(self.lifecycle(group, machine), "InService")
        protect(False)
        self.eventually(lambda: not machine.is_running(), "the instance ends")

    def test_a_termination_without_decrement_is_replaced_and_one_with_is_not(self):
        group, machine = self.one_instance(hooks=False)
        end = self.autoscaling.terminate_instance_in_auto_scaling_group
        end(InstanceId=machine.id, ShouldDecrementDesiredCapacity=False)
        self.eventually(lambda: len(self.launches(group)) == 2, "another is launched")
        with self.assertRaisesRegex(ClientError, "min size constraint"):
            end(InstanceId=self.launches(group)[1], ShouldDecrementDesiredCapacity=True)

    def test_a_scheduled_action_runs_when_the_clock_passes_its_minute(self):
        group, machine = self.one_instance(hooks=False)
        self.autoscaling.put_scheduled_update_group_action(
            AutoScalingGroupName=group, ScheduledActionName="off", Recurrence="0 22 * * FRI", TimeZone="Europe/London",
            MinSize=0, MaxSize=0, DesiredCapacity=0,
        )  # fmt: skip
        self.api.clock("2026-07-01T00:00:00Z")
        self.assertIn({"at": "2026-07-03T21:00:00+00:00", "action": "off"}, self.api.clock("2026-07-04T00:00:00Z"))
        self.eventually(lambda: not machine.is_running(), "the instance ends")

    def test_metadata_want_a_token(self):
        _, machine = self.one_instance()
        url = f"{machine.metadata.url}/latest/meta-data/instance-id"
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url)
        self.assertEqual(refused.exception.code, 401)

    def instance_client(self, machine, service="autoscaling"):
        """A client with the credentials from the instance's metadata."""
        import boto3

        found = json.loads(machine.metadata.find(f"/latest/meta-data/iam/security-credentials/{machine.view['role']}"))
        return boto3.client(
            service, endpoint_url=self.api.url, region_name="us-east-1", aws_access_key_id=found["AccessKeyId"],
            aws_secret_access_key=found["SecretAccessKey"], aws_session_token=found["Token"],
        )  # fmt: skip

    def test_a_role_allows_what_its_policy_names_and_nothing_else(self):
        group, machine = self.one_instance(policy=policy(without=["autoscaling:SetDesiredCapacity"]))
        client = self.instance_client(machine)
        described = client.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        self.assertEqual(len(described["AutoScalingGroups"]), 1)
        refused = "not authorized to perform: autoscaling:SetDesiredCapacity on resource"
        with self.assertRaisesRegex(ClientError, refused):
            client.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)
        self.assertEqual(self.api.group(group)["desired"], 1)

    def test_a_role_for_one_group_may_not_change_another(self):
        document = policy()
        document["Statement"].append({
            "Effect": "Deny", "Action": "autoscaling:SetDesiredCapacity", "Resource": "*",
            "Condition": {"StringEquals": {"aws:ResourceTag/APP": "r-asg"}},
        })  # fmt: skip
        group, machine = self.one_instance(policy=document)
        with self.assertRaisesRegex(ClientError, "AccessDenied"):
            self.instance_client(machine).set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)

    def test_an_answer_lost_after_the_call_took_effect_is_a_launch_all_the_same(self):
        group, machine = self.one_instance()
        self.api.fault("SetDesiredCapacity", "drop_after")
        self.instance_client(machine).set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)
        self.eventually(lambda: len(self.launches(group)) == 2, "one is launched")
        self.assertEqual([call["by"] for call in self.calls("SetDesiredCapacity", ok=True)], [machine.id] * 2)

    def test_a_program_that_fails_is_started_again(self):
        _, machine = self.one_instance()
        machine.kill()
        self.eventually(lambda: machine.started == 2 and machine.is_running(), "the unit starts it again")


