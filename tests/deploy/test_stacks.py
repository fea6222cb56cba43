"""The templates on the API server: created resources, and tags of instances."""

import os
import subprocess
import unittest

from deploy import templates
from deploy.cloud import NOT_MADE, CloudTest, Refused

PAPER = {
    "TICKINSTANCETYPE": "t3a.small",
    "RDBINSTANCETYPE": "t3a.medium",
    "SCALETHRESHOLD": "60",
    "ROLLTHRESHOLD": "80",
}
SCHEDULE = {"TURNOFF": "0 20 * * FRI", "TURNON": "30 5 * * MON", "TIMEZONE": "America/New_York"}


class Everything(CloudTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack = cls.cloud.launch("elastick", "day", SSHKEY="", **PAPER)

    def test_every_resource_that_the_server_knows_is_made(self):
        self.assertEqual(self.stack.described["StackStatus"], "CREATE_COMPLETE")
        wanted = {
            key
            for key, found in templates.resources("elastick").items()
            if found["Type"] not in NOT_MADE and found.get("Condition", "HasTwo") == "HasTwo"
        }
        made = {key for key, found in self.stack.resources.items() if found["ResourceStatus"] == "CREATE_COMPLETE"}
        self.assertEqual(wanted, made)

    def test_groups_have_their_limits(self):
        tick, rdb = self.stack.group("TickGroup"), self.stack.group("RdbGroup")
        for group, limits in ((tick, (2, 2, 2)), (rdb, (1, 1, 50))):
            self.assertEqual((group["MinSize"], group["DesiredCapacity"], group["MaxSize"]), limits)
            self.assertEqual(len(group["Instances"]), limits[0])
            self.assertFalse(group["NewInstancesProtectedFromScaleIn"])

    def test_a_node_is_told_what_it_needs(self):
        tags = self.stack.instance_tags("RdbGroup")
        wanted = {
            "APP": "r-asg",
            "EFS": self.stack.outputs["FileSystem"],
            "ACCESSPOINT": self.stack.outputs["AccessPoint"],
            "TICKERPLANT": "tick.elastick.internal",
            "TICKPORT": "5010",
            "LOGGROUP": self.stack.outputs["LogGroup"],
            "CLUSTERSECRET": self.stack.outputs["ClusterSecret"],
            "USERSSECRET": "",
            "ELASTICK_OPEN": "true",
            "SCALETHRESHOLD": "60",
            "ROLLTHRESHOLD": "80",
            "ELASTICK_PORT": "5011",
            "ELASTICK_LAUNCH_TIMEOUT": "900s",
            "ELASTICK_OPTIONS": "",
            "Name": "day-rdb",
            "aws:autoscaling:groupName": self.stack.outputs["RdbGroup"],
        }
        self.assertEqual({key: tags.get(key) for key in wanted}, wanted)
        self.assertNotIn("HOSTEDZONE", tags)

    def test_the_tickerplant_is_told_what_it_needs(self):
        tags = self.stack.instance_tags("TickGroup")
        wanted = {
            "APP": "tick-asg",
            "EFS": self.stack.outputs["FileSystem"],
            "ACCESSPOINT": self.stack.outputs["AccessPoint"],
            "TICKERPLANT": "tick.elastick.internal",
            "HOSTEDZONE": self.stack.outputs["HostedZone"],
            "LEASETABLE": self.stack.resources["LeaseTable"]["PhysicalResourceId"],
            "CLUSTERSECRET": self.stack.outputs["ClusterSecret"],
            "USERSSECRET": "",
            "ELASTICK_OPEN": "true",
            "ELASTICK_PORT": "5010",
            "ELASTICK_SRC": "sym",
            "ELASTICK_ROLL": "00:00 Etc/UTC",
            "Name": "day-tick",
            "aws:autoscaling:groupName": self.stack.outputs["TickGroup"],
        }
        self.assertEqual({key: tags.get(key) for key in wanted}, wanted)
        self.assertNotIn("SCALETHRESHOLD", tags)

    def test_instances_are_of_the_types_asked_for(self):
        ec2 = self.cloud.client("ec2")
        for logical, wanted in (("TickGroup", "t3a.small"), ("RdbGroup", "t3a.medium")):
            instance = self.stack.group(logical)["Instances"][0]["InstanceId"]
            answer = ec2.describe_instances(InstanceIds=[instance])
            self.assertEqual(answer["Reservations"][0]["Instances"][0]["InstanceType"], wanted)

    def test_a_role_may_change_the_group_that_the_stack_made(self):
        """The policy names groups by a pattern, since the role is made before the group."""
        name = self.stack.group("RdbGroup")["AutoScalingGroupName"]
        self.assertTrue(name.startswith("day-RdbGroup-"), name)

    def test_the_tickerplant_has_its_name_before_it_runs(self):
        zone = self.stack.outputs["HostedZone"]
        records = self.cloud.client("route53").list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"]
        record = next(each for each in records if each["Type"] == "A")
        self.assertEqual(record["Name"].rstrip("."), "tick.elastick.internal")
        self.assertEqual((record["TTL"], record["ResourceRecords"]), (5, [{"Value": "127.0.0.1"}]))

    def test_the_name_can_be_taken_and_given_back(self):
        """The two batches that a tickerplant sends. That AWS refuses the second one whole is not shown by this server."""
        route53, zone = self.cloud.client("route53"), self.stack.outputs["HostedZone"]

        def record(address):
            values = [{"Value": address}]
            return {"Name": "tick.elastick.internal", "Type": "A", "TTL": 5, "ResourceRecords": values}

        def change(*changes):
            batch = {"Changes": [{"Action": action, "ResourceRecordSet": record(at)} for action, at in changes]}
            route53.change_resource_record_sets(HostedZoneId=zone, ChangeBatch=batch)

        def address():
            found = route53.list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"]
            return [each["ResourceRecords"][0]["Value"] for each in found if each["Type"] == "A"]

        change(("UPSERT", "10.0.1.5"))
        self.assertEqual(address(), ["10.0.1.5"])
        change(("DELETE", "10.0.1.5"), ("CREATE", "127.0.0.1"))
        self.assertEqual(address(), ["127.0.0.1"])

    def test_files_are_encrypted_and_there_is_a_mount_target(self):
        efs, files = self.cloud.client("efs"), self.stack.outputs["FileSystem"]
        (found,) = efs.describe_file_systems(FileSystemId=files)["FileSystems"]
        self.assertTrue(found["Encrypted"])
        self.assertEqual(found["ThroughputMode"], "elastic")
        self.assertEqual(len(efs.describe_mount_targets(FileSystemId=files)["MountTargets"]), 1)

    def test_log_group_is_kept_for_as_long_as_was_asked(self):
        groups = self.cloud.client("logs").describe_log_groups(logGroupNamePrefix=self.stack.outputs["LogGroup"])
        self.assertEqual(groups["logGroups"][0]["retentionInDays"], 365)

    def test_a_node_can_be_asked_for_and_tells_the_same(self):
        scaling, name = self.cloud.client("autoscaling"), self.stack.outputs["RdbGroup"]
        scaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)
        self.addCleanup(scaling.set_desired_capacity, AutoScalingGroupName=name, DesiredCapacity=1)
        ids = [each["InstanceId"] for each in self.stack.group("RdbGroup")["Instances"]]
        self.assertEqual(len(ids), 2)
        reservations = self.cloud.client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
        instances = [instance for reservation in reservations for instance in reservation["Instances"]]
        told = [{tag["Key"]: tag["Value"] for tag in instance["Tags"]} for instance in instances]
        self.assertEqual(told[0], told[1])


    def test_the_cluster_secret_is_random_and_long(self):
        secrets = self.cloud.client("secretsmanager")
        value = secrets.get_secret_value(SecretId=self.stack.outputs["ClusterSecret"])["SecretString"]
        self.assertRegex(value, r"\A[A-Za-z0-9]{48}\Z")


class Variants(CloudTest):
    def test_with_users_no_server_is_open(self):
        secrets = self.cloud.client("secretsmanager")
        arn = secrets.create_secret(Name="users", SecretString="[users.ann]\n")["ARN"]
        stack = self.cloud.launch("elastick", "users", ZONENAME="users.internal", USERSSECRET=arn, **PAPER)
        more = self.cloud.launch("rdb-cluster", "users-too", TICKSTACK="users", USERSSECRET=arn, **PAPER)
        for tags in (stack.instance_tags("TickGroup"), stack.instance_tags("RdbGroup"), more.instance_tags("RdbGroup")):
            self.assertEqual((tags["USERSSECRET"], tags["ELASTICK_OPEN"]), (arn, "false"))
            self.assertEqual(tags["CLUSTERSECRET"], stack.outputs["ClusterSecret"])

    def test_several_zones_have_a_mount_target_each(self):
        _, subnets = self.cloud.needed()
        zones = {"SUBNETID2": subnets[1], "SUBNETID3": subnets[2]}
        stack = self.cloud.launch("elastick", "zones", ZONENAME="zones.internal", **PAPER, **zones)
        targets = self.cloud.client("efs").describe_mount_targets(FileSystemId=stack.outputs["FileSystem"])
        self.assertEqual({each["SubnetId"] for each in targets["MountTargets"]}, set(subnets[:3]))
        # The tickerplant's group is created after all of them.
        told = stack.instance_tags("TickGroup")["MOUNTTARGETS"].split()
        self.assertEqual(set(told), {each["MountTargetId"] for each in targets["MountTargets"]})
        for logical in ("TickGroup", "RdbGroup"):
            self.assertEqual(set(stack.group(logical)["VPCZoneIdentifier"].split(",")), set(subnets[:3]))

    def test_one_tickerplant_has_no_lease(self):
        stack = self.cloud.launch("elastick", "alone", ZONENAME="alone.internal", TICKERPLANTS="1", **PAPER)
        group = stack.group("TickGroup")
        self.assertEqual((group["MinSize"], group["MaxSize"], len(group["Instances"])), (1, 1, 1))
        self.assertEqual(stack.instance_tags("TickGroup")["LEASETABLE"], "")
        self.assertNotIn("LeaseTable", stack.resources)

    def test_a_schedule_turns_the_cluster_off_and_on(self):
        stack = self.cloud.launch("elastick", "weekend", ZONENAME="weekend.internal", **PAPER, **SCHEDULE)
        scaling = self.cloud.client("autoscaling")
        found = scaling.describe_scheduled_actions(AutoScalingGroupName=stack.outputs["RdbGroup"])
        actions = {
            each["Recurrence"]: (each["MinSize"], each["DesiredCapacity"], each.get("MaxSize"), each["TimeZone"])
            for each in found["ScheduledUpdateGroupActions"]
        }
        zone = "America/New_York"
        self.assertEqual(actions, {"0 20 * * FRI": (0, 0, None, zone), "30 5 * * MON": (1, 1, None, zone)})

    def test_without_a_schedule_there_is_none(self):
        stack = self.cloud.launch("elastick", "always", ZONENAME="always.internal", **PAPER)
        found = self.cloud.client("autoscaling").describe_scheduled_actions(
            AutoScalingGroupName=stack.outputs["RdbGroup"]
        )
        self.assertEqual(found["ScheduledUpdateGroupActions"], [])

    def test_clusters_of_different_risk_over_one_tickerplant(self):
        tick = self.cloud.launch("tickerplant", "plant", ZONENAME="plant.internal", **PAPER)
        careful = self.cloud.launch("rdb-cluster", "careful", TICKSTACK="plant", **PAPER | {"SCALETHRESHOLD": "20"})
        cheap = self.cloud.launch(
            "rdb-cluster", "cheap", TICKSTACK="plant", **PAPER | {"RDBINSTANCETYPE": "t3a.micro", "ROLLTHRESHOLD": "90"}
        )
        for stack, scale, roll in ((careful, "20", "80"), (cheap, "60", "90")):
            tags = stack.instance_tags("RdbGroup")
            self.assertEqual((tags["SCALETHRESHOLD"], tags["ROLLTHRESHOLD"]), (scale, roll))
            self.assertEqual(tags["TICKERPLANT"], "tick.plant.internal")
            self.assertEqual(tags["EFS"], tick.outputs["FileSystem"])
        self.assertNotEqual(careful.outputs["RdbGroup"], cheap.outputs["RdbGroup"])

    def test_a_further_cluster_over_the_stack_that_holds_everything(self):
        whole = self.cloud.launch("elastick", "whole", ZONENAME="whole.internal", **PAPER)
        second = self.cloud.launch("rdb-cluster", "second", TICKSTACK="whole", **PAPER)
        first, other = whole.instance_tags("RdbGroup"), second.instance_tags("RdbGroup")
        same = ("EFS", "ACCESSPOINT", "TICKERPLANT", "TICKPORT", "LOGGROUP", "ELASTICK_PORT")
        self.assertEqual({key: first[key] for key in same}, {key: other[key] for key in same})

    def test_options_reach_the_instances(self):
        options = {"TICKOPTIONS": "--durability group(5ms)", "RDBOPTIONS": "--tables trade"}
        stack = self.cloud.launch("elastick", "options", ZONENAME="options.internal", **PAPER, **options)
        self.assertEqual(stack.instance_tags("TickGroup")["ELASTICK_OPTIONS"], "--durability group(5ms)")
        self.assertEqual(stack.instance_tags("RdbGroup")["ELASTICK_OPTIONS"], "--tables trade")

    def test_nothing_is_made_of_parameters_out_of_range(self):
        for number, wrong in enumerate(({"ROLLTHRESHOLD": "101"}, {"SCALETHRESHOLD": "many"}, {"MAXNODES": "0"})):
            with self.assertRaises(Refused):
                self.cloud.launch("elastick", f"wrong-{number}", **PAPER | wrong)
        stacks = self.cloud.client("cloudformation").describe_stacks()["Stacks"]
        self.assertEqual([stack for stack in stacks if stack["StackName"].startswith("wrong")], [])


class Reversed(unittest.TestCase):
    def test_a_node_refuses_thresholds_that_are_reversed(self):
        """A template cannot compare two numbers; the node does, and says so before it joins anything."""
        binary = os.environ.get("ELASTICK_BIN")
        if binary is None:
            self.skipTest("ELASTICK_BIN is not set; tests/run sets it")
        environment = {"PATH": os.environ["PATH"], "SCALETHRESHOLD": "80", "ROLLTHRESHOLD": "60"}
        done = subprocess.run([binary, "rdb", ":1"], env=environment, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the scale threshold, 80, is above the roll threshold, 60", done.stderr)
