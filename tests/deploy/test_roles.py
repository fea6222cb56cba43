"""Permissions of the roles of launched stacks, as evaluated by the simulated AWS of `tests/aws`; and the hooks."""

import pathlib
import tempfile
import unittest

from aws.cloud import api
from deploy import templates

PAPER = {
    "TICKINSTANCETYPE": "t3a.small",
    "RDBINSTANCETYPE": "t3a.medium",
    "SCALETHRESHOLD": "60",
    "ROLLTHRESHOLD": "80",
}


class Roles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := api.missing():
            raise unittest.SkipTest(f"no stand-in for AWS: {reason}")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.api = api.Api(pathlib.Path(folder.name))
        cls.addClassCleanup(cls.api.close)
        image, subnet = cls.api.place()
        given = {"AMI": image, "SUBNETID": subnet["SubnetId"], **PAPER}
        cls.whole = cls.launch("elastick", "whole", VPCID=subnet["VpcId"], **given)
        cls.other = cls.launch("rdb-cluster", "other", TICKSTACK="whole", **given)
        cls.sleeping = cls.launch("rdb-cluster", "sleeping", TICKSTACK="whole", MINNODES="0", **given)

    @classmethod
    def launch(cls, template, name, **parameters):
        """Launches a stack; returns its outputs."""
        known = templates.load(template)["Parameters"]
        formation = cls.api.client("cloudformation")
        formation.create_stack(
            StackName=name,
            TemplateBody=templates.path(template).read_text(),
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items() if key in known
            ],
        )
        (stack,) = formation.describe_stacks(StackName=name)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def as_instance_of(self, group, service):
        """A client with the credentials of a group's first instance."""
        import boto3

        described = self.api.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        instance = described["AutoScalingGroups"][0]["Instances"][0]["InstanceId"]
        # The credentials that its metadata service would return.
        access = {
            "aws_access_key_id": "ASIA" + instance.removeprefix("i-")[-16:].upper(),
            "aws_secret_access_key": "secret",
            "aws_session_token": f"token-of-{instance}",
        }
        return instance, boto3.client(service, endpoint_url=self.api.direct, region_name=api.REGION, **access)

    def refused(self, call, **parameters):
        from botocore.exceptions import ClientError

        with self.assertRaises(ClientError) as caught:
            call(**parameters)
        self.assertIn("is not authorized to perform", str(caught.exception))

    def test_a_node_looks_at_groups_and_protects_itself(self):
        instance, scaling = self.as_instance_of(self.whole["RdbGroup"], "autoscaling")
        group = {"AutoScalingGroupName": self.whole["RdbGroup"]}
        scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[self.whole["RdbGroup"]])
        scaling.describe_lifecycle_hooks(**group)
        scaling.describe_scaling_activities(**group)
        scaling.set_instance_protection(InstanceIds=[instance], ProtectedFromScaleIn=False, **group)
        scaling.set_desired_capacity(DesiredCapacity=1, **group)

    def test_a_node_does_nothing_to_the_groups_of_other_stacks_or_of_the_tickerplant(self):
        _, scaling = self.as_instance_of(self.other["RdbGroup"], "autoscaling")
        victim, _ = self.as_instance_of(self.whole["RdbGroup"], "autoscaling")
        for group in (self.whole["RdbGroup"], self.whole["TickGroup"]):
            self.refused(scaling.set_desired_capacity, AutoScalingGroupName=group, DesiredCapacity=1)
        self.refused(
            scaling.terminate_instance_in_auto_scaling_group, InstanceId=victim, ShouldDecrementDesiredCapacity=False
        )

    def test_a_tickerplant_starts_nodes_of_a_sleeping_cluster_and_does_nothing_else_to_groups(self):
        _, scaling = self.as_instance_of(self.whole["TickGroup"], "autoscaling")
        scaling.describe_auto_scaling_groups()
        for group in (self.whole["RdbGroup"], self.whole["TickGroup"], self.other["RdbGroup"]):
            self.refused(scaling.set_desired_capacity, AutoScalingGroupName=group, DesiredCapacity=1)
        scaling.set_desired_capacity(AutoScalingGroupName=self.sleeping["RdbGroup"], DesiredCapacity=1)
        node, _ = self.as_instance_of(self.whole["RdbGroup"], "autoscaling")
        self.refused(
            scaling.terminate_instance_in_auto_scaling_group, InstanceId=node, ShouldDecrementDesiredCapacity=True
        )

    def test_a_tickerplant_has_instances_of_its_own_group_replaced_and_no_others(self):
        instance, scaling = self.as_instance_of(self.whole["TickGroup"], "autoscaling")
        node, of_node = self.as_instance_of(self.whole["RdbGroup"], "autoscaling")
        scaling.set_instance_health(InstanceId=instance, HealthStatus="Healthy")
        self.refused(scaling.set_instance_health, InstanceId=node, HealthStatus="Unhealthy")
        self.refused(of_node.set_instance_health, InstanceId=instance, HealthStatus="Unhealthy")

    def test_tickerplants_use_the_lease_of_their_stack_and_nodes_do_not(self):
        tables = self.api.client("dynamodb")
        (table,) = tables.list_tables()["TableNames"]
        key = {"key": {"S": "tick"}}
        _, lease = self.as_instance_of(self.whole["TickGroup"], "dynamodb")
        lease.update_item(TableName=table, Key=key, AttributeUpdates={"fence": {"Value": {"N": "1"}}})
        self.assertEqual(lease.get_item(TableName=table, Key=key)["Item"]["fence"], {"N": "1"})
        self.refused(lease.delete_item, TableName=table, Key=key)
        self.refused(lease.get_item, TableName="payroll", Key=key)
        _, of_node = self.as_instance_of(self.whole["RdbGroup"], "dynamodb")
        self.refused(of_node.get_item, TableName=table, Key=key)

    def test_metrics_go_to_one_namespace(self):
        data = [{"MetricName": "MemoryUsage", "Value": 1.0, "Unit": "Percent"}]
        for group in (self.whole["RdbGroup"], self.whole["TickGroup"]):
            _, watch = self.as_instance_of(group, "cloudwatch")
            watch.put_metric_data(Namespace="RdbCluster", MetricData=data)
            self.refused(watch.put_metric_data, Namespace="Other", MetricData=data)

    def test_nobody_launches_instances_or_writes_tags(self):
        for group in (self.whole["RdbGroup"], self.whole["TickGroup"]):
            instance, ec2 = self.as_instance_of(group, "ec2")
            ec2.describe_instances(InstanceIds=[instance])
            self.refused(ec2.terminate_instances, InstanceIds=[instance])
            self.refused(ec2.create_tags, Resources=[instance], Tags=[{"Key": "APP", "Value": "x"}])

    def test_instances_read_the_cluster_s_secret_and_no_other(self):
        own = self.whole["ClusterSecret"]
        other = self.api.client("secretsmanager").create_secret(Name="payroll", SecretString="42")["ARN"]
        for group in (self.whole["RdbGroup"], self.whole["TickGroup"], self.other["RdbGroup"]):
            _, secrets = self.as_instance_of(group, "secretsmanager")
            self.assertEqual(len(secrets.get_secret_value(SecretId=own)["SecretString"]), 48)
            self.refused(secrets.get_secret_value, SecretId=other)
            self.refused(secrets.put_secret_value, SecretId=own, SecretString="mine")

    def test_a_node_has_hooks_and_a_tickerplant_has_none(self):
        scaling = self.api.client("autoscaling")
        found = scaling.describe_lifecycle_hooks(AutoScalingGroupName=self.whole["RdbGroup"])["LifecycleHooks"]
        hooks = {
            hook["LifecycleTransition"].rpartition("_")[2]: (hook["HeartbeatTimeout"], hook["DefaultResult"])
            for hook in found
        }
        self.assertEqual(hooks, {"LAUNCHING": (900, "ABANDON"), "TERMINATING": (120, "CONTINUE")})
        found = scaling.describe_lifecycle_hooks(AutoScalingGroupName=self.whole["TickGroup"])["LifecycleHooks"]
        self.assertEqual(found, [])
