"""`elastick failover` under a lease in a DynamoDB table: the chosen tickerplant takes over, the others leave it the lease."""

import subprocess

from harness.process import reserve_port

from .cloud.lease_scene import LeaseScene
from .cloud.scene import binary


class HandOver(LeaseScene):
    def setUp(self):
        super().setUp()
        self.ports = []
        for name in ("one", "two", "three"):
            process, port = self.plant(name)
            self.ports.append(port)
            if name == "one":
                self.publish(self.active(process, port))
                self.pid = process.popen.pid

    def failover(self, *options):
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        command = [binary(), "failover", addresses, *options]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=110)

    def roles(self):
        return [self.role(port) for port in self.ports]

    def test_the_named_one_takes_over_however_often(self):
        for epoch, (target, roles) in enumerate(
            [(2, ["passive", "passive", "active"]), (0, ["active", "passive", "passive"]), (1, ["passive", "active", "passive"])],
            2,
        ):
            done = self.failover("--to", f"127.0.0.1:{self.ports[target]}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, rf"127.0.0.1:{self.ports[target]} is active after .*: epoch {epoch}, {self.seq} updates")
            self.eventually_equal(self.roles, roles, "the chosen one is active, and the others are passive")
            self.publish(self.connect(self.ports[target]))
        self.assertEqual(self.logged(), list(range(80)))
        self.assertEqual(self.item()["fence"]["N"], "4")

    def test_a_successor_that_does_not_exist_costs_one_lease_at_most(self):
        with self.connect(self.ports[0]) as client:
            client.ask('.u.failover "nobody"')
        self.eventually(lambda: "active" in self.roles(), "one of them is active")
        self.publish(self.connect(self.ports[self.roles().index("active")]))
        self.assertEqual(self.logged(), list(range(40)))

    def test_one_whose_lease_is_lost_meanwhile_writes_nothing_more(self):
        """The operator's call arrives at a process that another one has succeeded."""
        item = self.item()
        other = {**item, "ownerName": {"S": "another"}, "recordVersionNumber": {"S": "x"}, "fence": {"N": "9"}}
        self.db.put_item(TableName=self.table, Item=other)
        with self.connect(self.ports[0]) as client:
            client.ask(".u.failover[]")
        self.eventually(lambda: "active" in self.roles(), "one of them is active after the other's lease")
        self.assertEqual(self.item()["fence"]["N"], "10")
        self.assertEqual(self.logged(), list(range(20)))


class HandOverOnTheApiServer(HandOver):
    """The same on the other stand-in."""

    kind = "moto"
