"""The simulated AWS (`../shared/aws`), and stacks launched in it as by an operator."""

import functools
import os
import pathlib
import socket
import subprocess
import sys
import time
import unittest

from deploy import templates
from deploy.parameters import refusal

SCRIPTS = pathlib.Path(os.environ.get("ELASTICK_AWS_SCRIPTS", templates.ROOT.parent / "shared" / "aws" / "scripts"))
SERVER = pathlib.Path(__file__).with_name("server.py")
ACCESS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
# Resource types that the server ignores.
NOT_MADE = {
    "AWS::AutoScaling::WarmPool",
    "AWS::CloudWatch::Alarm",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::Scheduler::Schedule",
}


class Refused(Exception):
    """CloudFormation would reject the request before it begins."""


class Cloud:
    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.server = subprocess.Popen(
            [sys.executable, SERVER, SCRIPTS / "moto_run.py", "-H", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # With stricter groups the server cannot delete them with their stack.
            env={**os.environ, "MOTO_STRICT_ASG": "0"},
        )
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if time.monotonic() > end or self.server.poll() is not None:
                    raise AssertionError(f"the API server did not start: {self.server.poll()}")
                time.sleep(0.05)

    def close(self):
        self.server.kill()
        self.server.wait()

    @functools.cache
    def client(self, service):
        import boto3

        return boto3.client(service, endpoint_url=self.url, **ACCESS)

    @functools.cache
    def needed(self):
        """The paper's parameters that name resources of the account."""
        ec2 = self.client("ec2")
        vpc = next(vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"] if vpc["IsDefault"])
        subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]
        image = ec2.describe_images()["Images"][0]["ImageId"]
        return {"AMI": image, "VPCID": vpc, "SUBNETID": subnets[0]["SubnetId"]}, [s["SubnetId"] for s in subnets]

    def launch(self, template, stack, **parameters):
        """Launches a template with those of the parameters that it has, and waits for completion."""
        known = templates.load(template)["Parameters"]
        given = {key: value for key, value in {**self.needed()[0], **parameters}.items() if key in known}
        if reason := refusal(templates.load(template), given):
            raise Refused(reason)
        formation = self.client("cloudformation")
        formation.create_stack(
            StackName=stack,
            TemplateBody=templates.path(template).read_text(),
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
        )
        return Stack(self, template, stack)


class Stack:
    def __init__(self, cloud, template, name):
        self.cloud = cloud
        self.template = template
        self.name = name
        formation = cloud.client("cloudformation")
        (self.described,) = formation.describe_stacks(StackName=name)["Stacks"]
        made = formation.describe_stack_resources(StackName=name)["StackResources"]
        # An ignored resource has no name here.
        self.resources = {found["LogicalResourceId"]: found for found in made if "LogicalResourceId" in found}
        self.outputs = {found["OutputKey"]: found["OutputValue"] for found in self.described["Outputs"]}

    def group(self, logical):
        name = self.resources[logical]["PhysicalResourceId"]
        groups = self.cloud.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])
        return groups["AutoScalingGroups"][0]

    def instance_tags(self, logical):
        """{key: value} of the first instance of a group."""
        instance = self.group(logical)["Instances"][0]["InstanceId"]
        answer = self.cloud.client("ec2").describe_instances(InstanceIds=[instance])
        return {tag["Key"]: tag["Value"] for tag in answer["Reservations"][0]["Instances"][0]["Tags"]}


class CloudTest(unittest.TestCase):
    """One server for all tests of a class; each test launches stacks with unique names."""

    @classmethod
    def setUpClass(cls):
        if not (SCRIPTS / "moto_run.py").exists():
            raise unittest.SkipTest(f"{SCRIPTS / 'moto_run.py'} is not there")
        try:
            import boto3
            import moto
        except ImportError as error:
            raise unittest.SkipTest(f"{error}; tests/run deploy installs it")
        assert boto3 and moto
        cls.cloud = Cloud()
        cls.addClassCleanup(cls.cloud.close)
