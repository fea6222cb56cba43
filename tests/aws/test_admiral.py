"""Tickerplants under Admiral's lease (`--lease admiral:`), beside its pods and among themselves."""

from harness.process import reserve_port

from .cloud import leases
from .cloud.admiral import SKIP, Pod, Running
from .cloud.lease_scene import KEYS, LeaseScene

WAIT_S = 1
THRESHOLD = 4


class Admiral(LeaseScene):
    def setUp(self):
        super().setUp()
        self.table += "-admiral"
        leases.create(self.db, self.table, key="leaseName")
        self.environment = {**KEYS, "AWS_ENDPOINT_URL_DYNAMODB": self.store.url, "AWS_ENDPOINT_URL_STS": self.store.url}

    def file(self, name, **changed):
        settings = {
            "leaseName": "tick",
            "podIdentifier": name,
            "waitTimeInSeconds": WAIT_S,
            "failureThreshold": THRESHOLD,
            "tableName": self.table,
            "region": "us-east-1",
            **changed,
        }
        lines = [f"  {key}: {value}\n" for key, value in settings.items() if value is not None]
        path = self.directory / f"{name}.yaml"
        path.write_text("dynamoDB:\n" + "".join(lines))
        return f"admiral:{path}"

    def plant(self, name, *options, **changed):
        return super().plant(name, *options, lease=self.file(name, **changed))

    def item(self):
        answer = self.db.get_item(TableName=self.table, Key={"leaseName": {"S": "tick"}}, ConsistentRead=True)
        return answer.get("Item")

    def pod(self, name="pod"):
        return Pod(self.db, self.table, name, WAIT_S, THRESHOLD)

    def test_the_passive_one_takes_over_after_a_kill_and_at_once_after_a_termination(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        two, other = self.plant("two")
        item = self.item()
        self.assertEqual((item["leaseOwner"]["S"], item["fence"]["N"]), ("one", "1"))
        self.assertRegex(item["notes"]["S"], r"^Created at \d+$")
        one.kill()
        self.publish(self.active(two, other))
        self.assertEqual((self.item()["leaseOwner"]["S"], self.item()["notes"]), ("two", item["notes"]))
        one, port = self.plant("one")
        two.terminate()
        self.publish(self.active(one, port))
        self.assertEqual(self.logged(), list(range(60)))
        self.assertEqual(self.state(port)["epoch"], 3)

    def test_pods_respect_our_lease_and_take_it_after_a_kill(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        pod = Running(self.pod())
        pod.start()
        self.addCleanup(pod.stop)
        updated = self.item()["updatedTime"]
        self.eventually(lambda: int(self.item()["updatedTime"]["N"]) > int(updated["N"]) + 2, "it is renewed")
        self.assertFalse(pod.pod.may_write)
        self.assertEqual((self.role(port), self.item()["leaseOwner"]["S"]), ("active", "one"))
        one.kill()
        self.eventually(lambda: pod.pod.may_write, "the pod takes over")

    def test_pods_take_a_lease_that_was_released(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        one.terminate()
        pod = self.pod()
        self.assertFalse(pod.check())
        self.assertTrue(pod.check(), "at once: its next check finds itself as the owner")

    def test_the_lease_of_a_pod_is_respected_until_it_stops(self):
        pod = Running(self.pod())
        pod.start()
        self.addCleanup(pod.stop)
        self.eventually(lambda: pod.pod.may_write, "the pod has the lease")
        one, port = self.plant("one")
        self.eventually_equal(lambda: self.state(port)["owner"], "pod", "it knows the owner")
        updated = int(self.item()["updatedTime"]["N"])
        self.eventually(lambda: int(self.item()["updatedTime"]["N"]) > updated + THRESHOLD, "the pod goes on")
        self.assertEqual(self.role(port), "passive")
        pod.stop()
        self.publish(self.active(one, port))
        self.assertEqual(self.item()["leaseOwner"]["S"], "one")

    def test_numbers_rise_over_pods_that_drop_them(self):
        for epoch in (1, 2, 3):
            one, port = self.plant(f"one{epoch}")
            self.publish(self.active(one, port))
            self.assertEqual(self.state(port)["epoch"], epoch)
            one.terminate()
            self.pod().check()
            self.assertNotIn("fence", self.item())
        self.assertEqual(self.logged(), list(range(60)))

    def test_a_pod_that_overrides_our_lease_is_noticed_at_the_next_renewal(self):
        """Its clock is far ahead, or it has read an old record: it puts itself over a lease that is renewed."""
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        pod = Running(self.pod())
        pod.pod.put({}, int(self.item()["updatedTime"]["N"]))
        pod.start()
        self.addCleanup(pod.stop)
        self.eventually_equal(lambda: self.role(port), "passive", "it has stepped down")
        self.eventually(lambda: pod.pod.may_write, "the pod has the lease")
        pod.stop()
        one.wait_for(rf"(?s)is listening on {port}.*is listening on {port}")
        self.publish(self.connect(port))
        self.assertEqual(self.logged(), list(range(40)))

    def test_a_drill_makes_all_passive_until_it_ends(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        two, other = self.plant("two")
        key = {"leaseName": {"S": "tick"}}

        def own(owner):
            names, values = {"#o": "leaseOwner"}, {":o": {"S": owner}}
            self.db.update_item(
                TableName=self.table,
                Key=key,
                UpdateExpression="SET #o = :o",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
            )

        own(SKIP)
        self.eventually_equal(lambda: [self.role(port), self.role(other)], ["passive", "passive"], "all are passive")
        self.eventually_equal(lambda: self.state(other)["owner"], SKIP, "and know why")
        pod = self.pod()
        self.assertFalse(pod.check() or pod.check(), "a pod as well")
        own("one")
        self.eventually(lambda: "active" in (self.role(port), self.role(other)), "the drill is over")
        self.publish(self.connect(port if self.role(port) == "active" else other))
        self.assertEqual(self.logged(), list(range(40)))

    def test_the_lease_is_given_to_another_by_hand(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        self.db.update_item(
            TableName=self.table,
            Key={"leaseName": {"S": "tick"}},
            UpdateExpression="SET #o = :o",
            ExpressionAttributeNames={"#o": "leaseOwner"},
            ExpressionAttributeValues={":o": {"S": "pod"}},
        )
        pod = self.pod()
        self.assertTrue(pod.check(), "it finds itself as the owner")
        self.eventually_equal(lambda: self.role(port), "passive", "it has stepped down")

    def test_a_role_is_assumed(self):
        if self.kind != "moto":
            self.skipTest("this stand-in has no roles")
        one, port = self.plant("one", role="arn:aws:iam::123456789012:role/lease")
        self.publish(self.active(one, port))
        self.assertTrue([call for call in self.store.ask("calls") if call["action"] == "AssumeRole"], "no role was assumed")

    def test_files_that_are_wrong(self):
        for changed, reason in [
            ({"leaseNam": "x"}, "leaseNam"),
            ({"tableName": None}, "tableName"),
            ({"waitTimeInSeconds": "soon"}, "line 4"),
            ({"failureThreshold": 1}, "failureThreshold at least 2"),
            ({"podIdentifier": SKIP}, "which nobody may be called"),
        ]:
            lease = self.file("wrong", **changed)
            process = self.start("refused", "tick", "sym", self.logs, "-p", reserve_port(), "--schemas", self.directory / "sym.q", "--lease", lease)
            self.assertEqual(process.wait(), 2, reason)
            self.assertIn(reason, process.printed())
            self.assertIn("wrong.yaml", process.printed())
        self.assertEqual(list(self.logs.iterdir()), [], "nothing is written")

    def test_an_item_of_another_kind(self):
        self.db.put_item(TableName=self.table, Item={"leaseName": {"S": "tick"}, "leaseOwner": {"S": "x"}})
        lease = self.file("one")
        process = self.start("refused", "tick", "sym", self.logs, "-p", reserve_port(), "--schemas", self.directory / "sym.q", "--lease", lease)
        self.assertEqual(process.wait(), 1)
        self.assertIn("is not a lease: it has no attribute updatedTime", process.printed())


class AdmiralOnTheApiServer(Admiral):
    """The same on the other stand-in."""

    kind = "moto"
