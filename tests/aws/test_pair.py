"""Two tickerplants as the template launches them: the lease in the stack's table, one name, a take-over and a new instance."""

import http.client

from aws.test_day import SETTLE_S, Stack
from harness import pages
from harness.client import Connection
from harness.process import reserve_port

ACTIVE, PASSIVE = (200, 503), (503, 200)
UPDATE = '(.u.upd)[`trade;(enlist `a;enlist 1.5;enlist 100;enlist "B";enlist `N)]'


class Pair(Stack):
    def program(self, machine):
        command, environment = super().program(machine)
        (found,) = self.api.client("ec2").describe_instances(InstanceIds=[machine.id])["Reservations"]
        machine.metadata.address = found["Instances"][0]["PrivateIpAddress"]
        # All instances share an address here: each has a port of its own.
        port = str(reserve_port())
        machine.overrides |= {"ELASTICK_PORT": port, "ELASTICK_ADVERTISE": f"127.0.0.1:{port}"}
        # The private addresses of instances lead nowhere here: no instance may probe the other one.
        return command, {**environment, "BOOT_WATCH_EVERY": "0.5", "BOOT_UNHEALTHY_PROBES": "1000000"}

    def health(self, machine):
        """Statuses of the health page, for an active and for a passive tickerplant; None before it listens."""

        def status(path):
            try:
                return pages.text(int(machine.overrides["ELASTICK_PORT"]), path)[0]
            except (OSError, http.client.HTTPException):
                return None

        return status("/health"), status("/health?role=passive")

    def standing(self, health):
        """The running instances whose health page is this."""
        return [machine for machine in self.machines.all("tick-asg", running=True) if self.health(machine) == health]

    def name(self):
        """Addresses of the tickerplants' DNS name."""
        records = self.api.client("route53").list_resource_record_sets(HostedZoneId=self.outputs["HostedZone"])
        return {value["Value"] for each in records["ResourceRecordSets"] if each["Type"] == "A" for value in each["ResourceRecords"]}

    def addresses(self):
        """Private addresses of the group's running instances."""
        filters = [
            {"Name": "tag:aws:autoscaling:groupName", "Values": [self.tick_group]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        found = self.api.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return {instance["PrivateIpAddress"] for each in found for instance in each["Instances"]}

    def named_right(self):
        return len(self.addresses()) == 2 and self.name() == self.addresses()

    def one_of_each(self):
        return len(self.standing(ACTIVE)) == len(self.standing(PASSIVE)) == 1

    def owner(self):
        """Address of the tickerplant that owns the lease in the stack's table."""
        table = self.machines.all("tick-asg")[0].view["tags"]["LEASETABLE"]
        item = self.api.client("dynamodb").get_item(TableName=table, Key={"key": {"S": "tick"}}, ConsistentRead=True)["Item"]
        return item["ownerName"]["S"].partition("/")[0]

    def test_the_passive_one_takes_over_and_the_group_brings_another(self):
        self.deploy("tickerplant", TICKERPLANTS="2")
        self.eventually(self.one_of_each, "one is active and the other one could take over", SETTLE_S)
        self.eventually(self.named_right, "the name has the addresses of both", SETTLE_S)
        (active,), (passive,) = self.standing(ACTIVE), self.standing(PASSIVE)
        self.assertEqual(self.owner(), active.overrides["ELASTICK_ADVERTISE"])
        # A client that knows the passive one's address.
        port = int(passive.overrides["ELASTICK_PORT"])
        with Connection(port) as connection:
            connection.ask(UPDATE)
        active.crash()
        self.eventually(lambda: self.standing(ACTIVE) == [passive], "the other one takes over", SETTLE_S)
        with Connection(port) as connection:
            self.assertEqual(connection.ask(".u.i").v, 1)
        self.assertEqual(self.owner(), passive.overrides["ELASTICK_ADVERTISE"])
        # What EC2's status check does with a dead host.
        self.autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=active.id, ShouldDecrementDesiredCapacity=False)
        self.eventually(self.one_of_each, "the new instance could take over", SETTLE_S)
        self.eventually(self.named_right, "the name has its address instead of the dead one's", SETTLE_S)
        self.assertEqual([call for call in self.calls("SetInstanceHealth")], [], "a passive one is healthy")
