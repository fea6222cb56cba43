"""Base test case: groups on the API server, their instances as processes, and a tickerplant."""

import atexit
import itertools
import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from harness import points
from harness.cluster import Cluster
from harness.process import ROOT, eventually
from harness.scene import Scene

from . import api
from .machines import Machines
from .role import POLICY

_shared = {}
_numbers = itertools.count(1)


def shared_api():
    """One API server for all tests of a run, because it takes seconds to start."""
    if "api" not in _shared:
        directory = pathlib.Path(tempfile.mkdtemp(prefix="elastick-aws-"))
        _shared["api"] = api.Api(directory)
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        atexit.register(_shared["api"].close)
    return _shared["api"]


def binary():
    """The elastick binary under test, with the feature `aws`."""
    path = pathlib.Path(os.environ.get("ELASTICK_AWS_BIN", ROOT / points.BUILT)).resolve()
    if not path.exists():
        raise FileNotFoundError(f"{path} is not built; tests/run aws builds it, or set ELASTICK_AWS_BIN")
    return path


def instance_environment(machine, url, **more):
    """Environment of a program on an instance, without the tests' own AWS variables."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "ELASTICK_"))}
    metadata = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": machine.metadata.url, "AWS_ENDPOINT_URL": url}
    return {**kept, **metadata, "RUST_BACKTRACE": "1", **more}


class CloudScene(Scene):
    """`group` creates a group; `self.machines` are its instances; `program` is their command."""

    # AWS's time limits are not scaled, except in tests that wait for one, because elastick's own heartbeats are not scaled.
    time_scale = 1.0
    boot_delay_s = 0.2
    dead_on_arrival = staticmethod(lambda view: False)

    @classmethod
    def setUpClass(cls):
        reason = api.missing()
        if reason:
            raise unittest.SkipTest(f"no stand-in for AWS: {reason}")
        os.environ["ELASTICK_BIN"] = str(binary())
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.api = shared_api()
        self.api.heal()
        self.api.set(boot_delay_s=self.boot_delay_s, time_scale=self.time_scale, out_of_capacity=False)
        self.api.clock(None)
        self.first_call, self.first_event = len(self.api.ask("calls")), len(self.api.ask("events"))
        self.autoscaling = self.api.client("autoscaling")
        self.names = []
        self.machines = Machines(self.api, self.directory, self.program, dead_on_arrival=self.dead_on_arrival)
        self.addCleanup(self._close_cloud)

    def _close_cloud(self):
        self.api.heal()
        if self.failed():
            print(f"\n-- {self.id()} failed; its instances said:")
            for machine in self.machines.all():
                print(f"  {machine.id} {machine.app} exits {machine.exits}:")
                print("\n".join("    " + line for line in machine.printed().splitlines()[-25:]))
            print("-- events:")
            for event in self.api.ask("events", self.first_event)[-60:]:
                print("   ", event)
        for name in self.names:
            if self.api.group(name):
                self.autoscaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
        self.machines.close()

    def failed(self):
        return len(self._result.failures) + len(self._result.errors) > self._failed_before

    def program(self, machine):
        """Command and environment of an instance."""
        raise NotImplementedError

    def role(self, name, policy=POLICY):
        """Creates an instance profile whose role has this policy."""
        iam = self.api.client("iam")
        trust = {"Version": "2012-10-17", "Statement": []}
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        iam.put_role_policy(RoleName=name, PolicyName="node", PolicyDocument=json.dumps(policy))
        iam.create_instance_profile(InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        return name

    def group(self, minimum=1, maximum=8, desired=None, policy=POLICY, hooks=True, tags=None, name=None):
        """Creates a group of nodes like the template's. Returns its name."""
        name = name or f"{self._testMethodName[:40]}-{os.getpid()}-{next(_numbers)}"
        image, subnet = self.api.place()
        data = {
            "ImageId": image,
            "InstanceType": "t3a.medium",
            "IamInstanceProfile": {"Name": self.role(name, policy)},
            "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
        }
        self.api.client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        tags = {"APP": "r-asg", "SCALETHRESHOLD": "30", "ROLLTHRESHOLD": "60", **(tags or {})}
        # Create the hooks before the first instance, as the template does.
        self.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=maximum,
            DesiredCapacity=0,
            LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
            VPCZoneIdentifier=subnet["SubnetId"],
            Tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
        )
        self.names.append(name)
        for hook, transition in (("launching", "LAUNCHING"), ("terminating", "TERMINATING")) if hooks else ():
            self.autoscaling.put_lifecycle_hook(
                LifecycleHookName=hook,
                AutoScalingGroupName=name,
                LifecycleTransition=f"autoscaling:EC2_INSTANCE_{transition}",
                HeartbeatTimeout=600,
                DefaultResult="CONTINUE",
            )
        desired = minimum if desired is None else desired
        self.autoscaling.update_auto_scaling_group(AutoScalingGroupName=name, MinSize=minimum, DesiredCapacity=desired)
        return name

    def calls(self, action, **wanted):
        """Calls of this test."""
        return [call for call in self.api.calls(action, **wanted) if call["n"] >= self.first_call]

    def events(self, event, **wanted):
        return [seen for seen in self.api.events(event, **wanted) if seen["n"] >= self.first_event]

    def launches(self, group):
        """Ids of all instances that the group ever launched."""
        return [event["instance"] for event in self.events("launch", group=group)]

    def members(self, group, lifecycle=None):
        shown = self.api.group(group)["instances"]
        return [member["id"] for member in shown if lifecycle is None or member["lifecycle"] == lifecycle]

    def machine(self, instance):
        return self.machines.machines[instance]

    def said(self, pattern, machine=None):
        """Waits until the given or any instance has printed a match. Returns the match."""
        pattern = re.compile(pattern)

        def found():
            for one in [machine] if machine else self.machines.all():
                match = pattern.search(one.printed())
                if match:
                    return match
            return None

        return eventually(found, f"an instance prints {pattern.pattern!r}")


class NodeScene(CloudScene, Cluster):
    """The group's instances are nodes of one queue; the tickerplant is in no group."""

    # A node that is full after some tens of thousands of rows.
    node_options = ("--memory", "8MiB", "--scale", "30", "--roll-threshold", "60")

    @property
    def nodes(self):
        return self.machines.all("r-asg") if hasattr(self, "machines") else []

    @nodes.setter
    def nodes(self, _):
        """Starts no nodes: the group does."""

    def running(self):
        return [machine for machine in self.nodes if machine.is_running() and machine.port]

    def program(self, machine):
        command = [binary(), "rdb", f"127.0.0.1:{self.port}", "-p", "0", "--fleet", "aws", *self.node_options]
        return command, instance_environment(machine, self.api.url, **self.node_environment(machine))

    def node_environment(self, machine):
        return {}

    def fill_until(self, done, what, turns=80):
        """Publishes until a condition holds."""
        for _ in range(turns):
            self.publish(20)
            self.in_step()
            if done():
                return
        self.fail(f"not after {self.next_seq} rows: {what}; {self.picture()}")
