"""Tickerplants under a lease in a DynamoDB table: one active at a time, whatever happens to them, to the store and to answers."""

import os
import socket

from harness.process import reserve_port
from harness.scene import trades, update

from .cloud import leases
from .cloud.lease_behaviours import HandsOver
from .cloud.lease_scene import KEYS, LeaseScene


def received(manager):
    """Messages to the service manager so far."""
    try:
        while True:
            yield manager.recv(4096).decode()
    except BlockingIOError:
        return


class Pair(HandsOver, LeaseScene):
    def test_one_is_active_and_the_other_says_so(self):
        (_, port), (_, other), feed = self.pair()
        self.publish(feed)
        state, passive = self.state(port), self.state(other)
        self.assertEqual((state["role"], state["epoch"], state["tip"]), ("active", 1, 20))
        self.assertEqual((passive["role"], passive["epoch"]), ("passive", 1))
        self.eventually_equal(lambda: self.state(other)["owner"], state["owner"], "the passive one knows the owner")
        self.assertTrue(state["owner"].startswith(f"127.0.0.1:{port}/"), state["owner"])
        self.assertEqual((state["trouble"], state["lease"]), ("", self.url()))
        item = self.item()
        self.assertEqual(item["ownerName"]["S"], state["owner"])
        self.assertEqual((item["leaseDuration"]["S"], item["fence"]["N"]), ("3000", "1"))
        self.assertEqual(item["data"]["B"], f"127.0.0.1:{port}".encode())
        self.assertNotIn("isReleased", item)
        metrics = self.page(port, "/metrics")[1], self.page(other, "/metrics")[1]
        self.assertIn("\nelastick_lease_owned 1\n", metrics[0])
        self.assertIn("\nelastick_lease_owned 0\n", metrics[1])
        self.assertEqual(self.page(port, "/health")[0], 200)
        self.assertEqual(self.page(other, "/health")[0], 503)
        self.assertEqual(self.page(other, "/health?role=passive")[0], 200)

    def test_after_a_kill_the_other_continues_the_log(self):
        (one, _), (two, other), feed = self.pair()
        self.publish(feed)
        one.kill()
        self.publish(self.active(two, other))
        self.assertEqual(self.logged(), list(range(40)))
        self.assertEqual(self.state(other)["epoch"], 2)
        self.assertEqual(self.item()["fence"]["N"], "2")

    def test_an_orderly_end_does_not_wait_for_a_store_that_is_away(self):
        long = self.url(terms="duration=10m&heartbeat=1s")
        one, port = self.plant("one", lease=long)
        self.publish(self.active(one, port))
        resume = leases.paused(self.store, "proxy")
        self.addCleanup(resume)
        # The deadline of waiting is far below the lease.
        self.assertEqual(one.terminate(), 0)
        self.assertEqual(self.logged(), list(range(20)))

    def test_two_with_one_address_are_told(self):
        one, port = self.plant("one", "--advertise", "127.0.0.1:9999")
        self.publish(self.active(one, port))
        _, other = self.plant("two", "--advertise", "127.0.0.1:9999")
        said = "owns the lease under this process's own address"
        self.eventually(lambda: said in self.state(other)["trouble"], "it says so")

    def test_a_passive_one_that_ends_harms_nobody(self):
        (_, port), (two, _), feed = self.pair()
        self.assertEqual(two.terminate(), 0)
        self.publish(feed)
        self.assertEqual(self.state(port)["epoch"], 1)

    def test_a_leader_stopped_past_its_lease_writes_nothing_that_counts(self):
        (one, port), (two, other), feed = self.pair()
        self.publish(feed)
        one.pause()
        # What is sent to a stopped process waits in its socket.
        feed.send(update("trade", trades(777, 1)))
        two.wait_for("this process has the lease, but the log is still locked")
        self.assertEqual(self.role(other), "passive")
        self.assertEqual(self.page(other, "/health?role=passive")[0], 503)
        self.assertIn("if that one hangs, end it", self.state(other)["trouble"])
        one.resume()
        self.publish(self.active(two, other))
        self.assertEqual(self.logged(), list(range(40)), "the update of the old leader is not in the log")
        self.eventually_equal(lambda: self.role(port), "passive", "the old leader is passive")
        self.assertEqual(self.state(port)["active"], f"127.0.0.1:{other}")
        self.assertEqual(self.state(other)["epoch"], 2)

    def test_without_the_store_the_leader_steps_down_and_comes_back(self):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(str(self.directory / "notify"))
        manager.setblocking(False)
        self.environment = {**KEYS, "NOTIFY_SOCKET": str(self.directory / "notify")}
        one, port = self.plant("one")
        feed = self.active(one, port)
        self.environment = KEYS
        two, other = self.plant("two")
        self.publish(feed)
        resume = leases.paused(self.store, "proxy")
        self.addCleanup(resume)
        one.wait_for("the lease is renewed late")
        one.wait_for("stepping down: the lease was not renewed in time")
        self.eventually_equal(lambda: self.role(port), "passive", "it is passive")
        self.assertEqual(self.role(other), "passive")
        notices = list(received(manager))
        self.assertIsNone(one.popen.poll(), "it is still the same process")
        self.assertFalse([notice for notice in notices if "STOPPING=1" in notice], "the service manager would kill it")
        self.assertIn("READY=1\nSTATUS=passive", "".join(notices))
        resume()
        self.eventually(lambda: "active" in (self.role(port), self.role(other)), "one of them is active again")
        ports = {self.role(number): number for number in (port, other)}
        self.publish(self.connect(ports["active"]))
        self.assertEqual(self.logged(), list(range(40)))

    def test_with_failsafe_it_stays_active_by_the_log_and_says_so(self):
        one, port = self.plant("one", "--lease-failsafe")
        feed = self.active(one, port)
        two, other = self.plant("two", "--lease-failsafe")
        self.publish(feed)
        resume = leases.paused(self.store, "proxy")
        self.addCleanup(resume)
        one.wait_for("staying active by the lock of the log alone")
        self.publish(feed)
        status, text = self.page(port, "/health")
        self.assertEqual((status, "--lease-failsafe" in text), (200, True), text)
        self.assertIn("\nelastick_lease_held 1\n", self.page(port, "/metrics")[1])
        resume()
        self.eventually(lambda: self.state(port)["trouble"] == "" or self.role(other) == "active", "the store is back")
        self.eventually(lambda: "active" in (self.role(port), self.role(other)), "one of them is active")
        self.assertEqual(self.logged(), list(range(40)))

    def test_lost_answers_and_errors_cost_no_lease(self):
        (_, port), (_, other), feed = self.pair()
        for action in ("drop_after", "drop_before", "error500", "throttle", "drop_after"):
            before = self.item()["recordVersionNumber"]["S"]
            self.store.fault("UpdateItem", action)
            self.eventually(lambda: self.item()["recordVersionNumber"]["S"] != before, "it is renewed")
            self.publish(feed, 2)
        self.eventually_equal(lambda: self.state(port)["trouble"], "", "all is well")
        self.assertEqual((self.state(port)["epoch"], self.role(other)), (1, "passive"))
        self.assertEqual(self.logged(), list(range(10)))

    def test_a_lost_answer_to_the_first_write_costs_no_lease(self):
        self.store.fault("UpdateItem", "drop_after")
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        self.assertEqual(self.item()["ownerName"]["S"], self.state(port)["owner"])


class Races(LeaseScene):
    contenders = 16
    rounds = int(os.environ.get("ELASTICK_LEASE_ROUNDS", "12"))
    # Contenders read a hundred times a second, so that all of them see a released lease at about the same time.
    terms = "duration=5s&heartbeat=20ms"

    def test_of_all_one_wins_each_round(self):
        ports = {}
        for number in range(self.contenders):
            port = reserve_port()
            ports[port] = self.tick("--lease", self.url(), "--quiet", name=f"p{number}", port=port)
        for epoch in range(1, self.rounds + 1):
            self.eventually(lambda: self.leaders(ports) >= epoch, f"round {epoch} has a winner")
            self.eventually(lambda: any(self.role(port) == "active" for port in ports), "it is active")
            [winner] = [port for port in ports if self.role(port) == "active"]
            self.publish(self.connect(winner), 3)
            self.assertEqual(self.leaders(ports), epoch, "one winner in each round")
            self.assertEqual(ports[winner].terminate(), 0)
            ports[winner] = self.tick("--lease", self.url(), "--quiet", name=ports[winner].name, port=winner)
        self.assertEqual(self.logged(), list(range(3 * self.rounds)))

    def leaders(self, ports):
        """Times that a process got the lease."""
        texts = {(self.directory / f"{process.name}.out").read_text() for process in ports.values()}
        return sum(text.count("this process has the lease, with epoch") for text in texts)


class Interoperation(LeaseScene):
    """The Lock Client's requests and ours respect one another."""

    def client(self, owner="java", **options):
        return leases.LockClient(self.db, self.table, owner, **{"lease_ms": 3000, **options})

    def test_a_lock_of_the_java_client_is_respected_until_it_is_deleted(self):
        java = self.client()
        self.assertTrue(java.acquire("tick"))
        one, port = self.plant("one")
        for _ in java.hold("tick", leases=2):
            self.assertEqual(self.role(port), "passive")
        self.assertEqual(self.state(port)["owner"], "java")
        self.assertTrue(java.release("tick"))
        self.publish(self.active(one, port))
        self.assertEqual(self.state(port)["epoch"], 1)

    def test_a_lock_that_the_java_client_does_not_renew_is_taken(self):
        self.assertTrue(self.client().acquire("tick"))
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        self.assertTrue(self.item()["ownerName"]["S"].startswith("127.0.0.1:"))

    def test_a_lock_that_lasts_a_year_is_told_and_taken_once_it_is_released(self):
        java = self.client(lease_ms=31_536_000_000)
        self.assertTrue(java.acquire("tick"))
        one, port = self.plant("one")
        self.eventually(lambda: "lasts 31536000 s" in self.state(port)["note"], "it says how long it waits")
        self.assertTrue(java.release("tick", delete=False))
        self.publish(self.active(one, port))

    def test_a_released_lock_is_taken_at_once(self):
        java = self.client(lease_ms=600_000)
        self.assertTrue(java.acquire("tick") and java.release("tick", delete=False))
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        self.assertNotIn("isReleased", self.item())

    def test_the_java_client_respects_our_lease_and_takes_it_after_a_kill(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        java = self.client()
        self.assertFalse(java.acquire("tick"), "it waits a lease and a second")
        self.assertEqual(self.role(port), "active")
        one.kill()
        self.assertTrue(java.acquire("tick"))

    def test_the_java_client_takes_a_lease_that_was_released(self):
        one, port = self.plant("one", lease=self.url(terms="duration=10m&heartbeat=500ms"))
        self.publish(self.active(one, port))
        self.assertEqual(one.terminate(), 0)
        item = self.item()
        self.assertEqual((item["isReleased"]["S"], item["fence"]["N"]), ("1", "1"))
        self.assertTrue(self.client().acquire("tick"))

    def test_numbers_rise_over_locks_of_the_java_client_that_drop_them(self):
        before = 0
        for delete, keep in ((True, False), (False, False), (False, True)):
            one, port = self.plant(f"one-{delete}-{keep}")
            self.publish(self.active(one, port))
            # A write whose answer is late costs a number.
            epoch = self.state(port)["epoch"]
            self.assertGreater(epoch, before)
            before = epoch
            self.assertEqual(one.terminate(), 0)
            java = self.client(keep_attributes=keep)
            self.assertTrue(java.acquire("tick"))
            self.assertTrue(java.release("tick", delete=delete))
        self.assertEqual(self.logged(), list(range(60)))

    def test_attributes_of_other_programs_stay(self):
        key = {"key": {"S": "tick"}}
        one, port = self.plant("one")
        self.active(one, port)
        self.db.update_item(
            TableName=self.table,
            Key=key,
            UpdateExpression="SET #n = :n",
            ExpressionAttributeNames={"#n": "note"},
            ExpressionAttributeValues={":n": {"S": "ours"}},
        )
        two, other = self.plant("two")
        self.assertEqual(one.terminate(), 0)
        self.active(two, other)
        self.assertEqual(self.item()["note"]["S"], "ours")

    def test_a_sort_key_separates_leases(self):
        table = f"{self.table}-sorted"
        leases.create(self.db, table, key="id", sort="part")
        for part in "ab":
            lease = self.url(table=table, more=f"&key-name=id&sort-name=part&sort={part}")
            logs = self.directory / f"logs-{part}"
            port = reserve_port()
            process = self.tick("--lease", lease, name=part, logs=logs, port=port)
            process.wait_for(rf"is listening on {port}")
        items = self.db.scan(TableName=table)["Items"]
        self.assertEqual(sorted(item["part"]["S"] for item in items), ["a", "b"])


class BadStores(LeaseScene):
    def refused(self, lease, *options, environment=KEYS):
        process = self.start(
            "refused", "tick", "sym", self.logs, "-p", 0, "--schemas", self.directory / "sym.q", "--lease", lease,
            *options, **environment,
        )  # fmt: skip
        self.assertNotEqual(process.wait(), 0)
        self.assertEqual(list(self.logs.iterdir()), [], "nothing is written")
        return process.printed()

    def test_a_table_with_another_key(self):
        leases.create(self.db, self.table + "-id", key="id")
        self.assertIn("is not one for leases with the key key", self.refused(self.url(table=self.table + "-id")))
        if self.kind == "dynalite":
            # The API server finds this only at the first write.
            leases.create(self.db, self.table + "-n", kind="N")
            self.assertIn("is not one for leases", self.refused(self.url(table=self.table + "-n")))
        leases.create(self.db, self.table + "-s", sort="part")
        self.assertIn("is not one for leases", self.refused(self.url(table=self.table + "-s")))

    def test_a_table_that_is_missing(self):
        self.assertRegex(self.refused(self.url(table="nowhere")), "there is no table nowhere in us-east-1")

    def test_an_item_of_another_kind_under_the_key(self):
        item = {"key": {"S": "tick"}, "price": {"N": "7"}}
        self.db.put_item(TableName=self.table, Item=item)
        self.assertRegex(self.refused(self.url()), 'the item "tick" of table .* is not a lease: it has no attribute')
        self.assertEqual(self.item(), item)

    def test_another_directory_or_source_under_the_lease_is_not_continued(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        others = []
        for name, src, logs in [("elsewhere", "sym", self.directory / "elsewhere"), ("source", "other", self.logs)]:
            other = reserve_port()
            options = ("-p", other, "--schemas", self.directory / "sym.q", "--lease", self.url())
            process = self.start(name, "tick", src, logs, *options)
            process.wait_for(rf"is passive on {other}")
            others.append(other)
        self.eventually(lambda: "copies" in self.item(), "the lease names its log")
        one.kill()
        for other in others:
            self.eventually(lambda: "the lease is one of another log, log:sym/" in self.state(other)["trouble"], "it says why")
            self.eventually(lambda: self.state(other)["renewed"] > 6_000_000_000, "the lease is over")
            self.assertEqual(self.state(other)["role"], "passive")
            self.assertEqual(self.page(other, "/health?role=passive")[0], 503)
        one, port = self.plant("again")
        self.publish(self.active(one, port))
        self.assertEqual(self.logged(), list(range(40)))

    def test_another_schema_under_the_lease_is_not_continued(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        schema = (self.directory / "sym.q").read_text()
        (self.directory / "sym.q").write_text(schema.replace("size", "volume"))
        two, other = self.plant("two")
        self.eventually(lambda: "trade" in self.state(other)["trouble"], "it says why")
        one.kill()
        self.eventually(lambda: self.state(other)["renewed"] > 6_000_000_000, "the lease is over")
        self.assertEqual(self.state(other)["role"], "passive")
        self.assertIsNone(two.popen.poll())
        (self.directory / "sym.q").write_text(schema)
        one, port = self.plant("again")
        self.publish(self.active(one, port))
        self.assertEqual(self.logged(), list(range(40)))

    def test_a_lease_shorter_than_twice_its_heartbeat(self):
        self.assertIn("shorter than twice its heartbeat", self.refused(self.url(terms="duration=3s&heartbeat=2s")))
        self.assertIsNone(self.item())

    def test_an_item_that_becomes_another_kind_is_not_overwritten(self):
        one, port = self.plant("one")
        feed = self.active(one, port)
        self.publish(feed)
        item = {"key": {"S": "tick"}, "price": {"N": "7"}}
        self.db.put_item(TableName=self.table, Item=item)
        one.wait_for("is not a lease: it has no attribute")
        self.assertEqual(one.wait(), 1, "it stepped down, and does not start again without a lease")
        self.assertEqual(self.item(), item)
        self.assertEqual(self.logged(), list(range(20)))

    def test_credentials_that_are_missing_or_rejected(self):
        """A tickerplant waits for credentials: they may be renewed."""
        port = reserve_port()
        gone = {"AWS_ACCESS_KEY_ID": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{reserve_port()}"}
        self.environment = {**KEYS, **gone}
        process = self.tick("--lease", self.url(), name="gone", port=port)
        process.wait_for(rf"is passive on {port}")
        process.wait_for("no credentials")
        self.eventually(lambda: "no credentials" in self.state(port)["trouble"], "the state says why")
        self.assertEqual(process.terminate(), 0)


class OnTheApiServer(Pair):
    """The same on the other stand-in."""

    kind = "moto"


class InteroperationOnTheApiServer(Interoperation):
    kind = "moto"


class RacesOnTheApiServer(Races):
    kind = "moto"
    # It answers some hundred requests a second.
    terms = "duration=10s&heartbeat=1s"
    contenders = 4
    rounds = 5


class BadStoresOnTheApiServer(BadStores):
    kind = "moto"

