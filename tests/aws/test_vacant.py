"""`elastick gc --instances`: instances in service on which no node lives."""

import subprocess

from .cloud.scene import NodeScene, binary, instance_environment

POLL = "while :; do sleep 0.1; done"


class Vacant(NodeScene):
    def program(self, machine):
        """The first instance has a node, the second one a program that is none."""
        if self.machines.all() and machine is not self.machines.all()[0]:
            return ["bash", "-c", POLL], instance_environment(machine, self.api.url)
        command, environment = super().program(machine)
        return [*command, "--owner-lease", self.store()], environment

    def store(self):
        return f"file:{self.directory / 'owners'}"

    def gc(self, *options, time="300ms"):
        command = [binary(), "gc", f"127.0.0.1:{self.port}", "--owner-lease", self.store(), f"--instances={time}", *options]
        environment = instance_environment(self.machines.all()[0], self.api.url)
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, env=environment)

    def in_service(self, group, instance):
        self.eventually(lambda: instance in self.members(group, "InService"), f"{instance} is in service")

    def test_an_instance_without_a_node_is_ended_and_launched_again(self):
        group = self.group(2, 4)
        self.eventually(lambda: len(self.machines.all(running=True)) == 2, "both instances run")
        node, other = self.machines.all()
        self.in_service(group, node.id)
        self.assertEqual(self.gc().stdout.count(other.id), 0, "it is not in service yet")
        self.autoscaling.complete_lifecycle_action(
            AutoScalingGroupName=group, LifecycleHookName="launching", InstanceId=other.id, LifecycleActionResult="CONTINUE"
        )
        self.in_service(group, other.id)
        dry = self.gc("--dry-run")
        self.assertEqual(dry.returncode, 0, dry.stderr)
        self.assertRegex(dry.stdout, rf"(?m)^{other.id} .* no node lives on this instance: would be ended")
        self.assertIn(other.id, self.members(group, "InService"))
        done = self.gc()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"(?m)^{other.id} .* ended: its group launches another one")
        self.eventually(lambda: len(self.launches(group)) == 3, "another one is launched")
        self.assertNotIn(other.id, self.members(group, "InService"))
        self.assertIn(node.id, self.members(group, "InService"))
