"""Tickerplants under a lease in Swift, fenced by their common log: Swift elects nobody, so the log's lock decides who writes."""

import os
import pathlib
import threading

from harness.process import reserve_port

from .cloud import swift
from .cloud.front import DROP_AFTER, DROP_BEFORE, Front
from .cloud.lease_behaviours import HandsOver, Operated
from .cloud.swift_scene import SwiftLeaseScene


class Pair(HandsOver, SwiftLeaseScene):
    TAKES_S = 80

    def test_one_is_active_and_the_record_is_metadata_with_an_end(self):
        (_, port), (_, other), feed = self.pair()
        self.publish(feed)
        state = self.state(port)
        self.assertEqual((state["role"], state["tip"], self.role(other)), ("active", 20, "passive"))
        self.eventually(lambda: self.epoch(port) == self.epoch(other), "the passive one knows the epoch")
        self.eventually_equal(lambda: self.state(other)["owner"], state["owner"], "the passive one knows the owner")
        self.assertEqual((state["trouble"], state["lease"]), ("", self.url()))
        self.eventually(lambda: "copies" in self.record(), "the lease names its log")
        record = self.record()
        self.assertEqual((record["owner"], record["duration"], record["fence"]), (state["owner"], "6000", str(self.epoch(port))))
        self.assertTrue(record["copies"].startswith("log:sym/"), record)
        self.assertEqual(set(record), {"owner", "version", "duration", "fence", "copies"})
        metrics = self.page(port, "/metrics")[1], self.page(other, "/metrics")[1]
        self.assertIn("\nelastick_lease_owned 1\n", metrics[0])
        self.assertIn("\nelastick_lease_owned 0\n", metrics[1])
        self.assertEqual((self.page(port, "/health")[0], self.page(other, "/health")[0]), (200, 503))
        self.assertEqual(self.page(other, "/health?role=passive")[0], 200)

    def test_every_write_gives_the_object_its_end_again(self):
        (_, port), _, feed = self.pair()
        ends, versions = set(), set()

        def looked():
            fields = self.head()
            self.assertIsNotNone(fields, "it is renewed before its end")
            self.assertIsNotNone(fields["X-Delete-At"], "the lease always has an end")
            ends.add(fields["X-Delete-At"])
            versions.add(fields["X-Object-Meta-Version"])
            return len(ends) > 4 and len(versions) > 6

        self.eventually(looked, "renewals move the end")
        self.publish(feed)
        self.assertEqual(self.epoch(port), 1)

    def test_after_a_kill_the_other_continues_the_log(self):
        (one, _), (two, other), feed = self.pair()
        self.publish(feed)
        one.kill()
        self.publish(self.active(two, other))
        self.assertEqual(self.logged(), list(range(40)))
        self.assertGreater(self.epoch(other), 1)
        self.eventually(lambda: self.record()["fence"] == str(self.epoch(other)), "the record has its number")

    def test_a_leader_stopped_past_its_lease_writes_nothing_that_counts(self):
        (one, port), (two, other), feed = self.pair()
        publisher = self.publisher([port, other])
        self.more_accepted(publisher)
        one.pause()
        two.wait_for("this process has the lease, but the log is still locked")
        self.assertEqual(self.role(other), "passive")
        self.assertEqual(self.page(other, "/health?role=passive")[0], 503)
        self.assertIn("if that one hangs, end it", self.state(other)["trouble"])
        one.resume()
        self.active(two, other)
        self.more_accepted(publisher)
        self.eventually_equal(lambda: self.role(port), "passive", "the old leader is passive")
        self.assertGreater(self.epoch(other), 1)
        self.assertEqual(self.role(other), "active")
        self.check_log(publisher)

    def test_without_the_store_the_leader_steps_down_and_one_comes_back(self):
        (one, port), (_, other), feed = self.pair()
        self.publish(feed)
        resume = self.server.pause()
        self.addCleanup(resume)
        one.wait_for("the lease is renewed late")
        one.wait_for("stepping down: the lease was not renewed in time")
        self.eventually_equal(lambda: self.role(port), "passive", "it is passive")
        self.assertEqual(self.role(other), "passive")
        self.eventually(lambda: self.state(other)["trouble"], "it says so")
        resume()
        active = lambda: next((number for number in (port, other) if self.role(number) == "active"), None)
        active = self.eventually(active, "one of them is active again")
        self.publish(self.connect(active))
        self.assertEqual(self.logged(), list(range(40)))
        # The object had ended meanwhile: the number is the log's.
        self.assertGreaterEqual(self.epoch(active), 2)

    def test_with_failsafe_it_stays_active_by_the_log_and_says_so(self):
        one, port = self.plant("one", "--lease-failsafe")
        feed = self.active(one, port)
        _, other = self.plant("two", "--lease-failsafe")
        self.publish(feed)
        resume = self.server.pause()
        self.addCleanup(resume)
        one.wait_for("staying active by the lock of the log alone")
        self.publish(feed)
        resume()
        self.eventually(lambda: self.state(port)["trouble"] == "" or self.role(other) == "active", "the store is back")
        self.eventually(lambda: "active" in (self.role(port), self.role(other)), "one of them is active")
        self.assertEqual(self.logged(), list(range(40)))

    def test_take_overs_after_the_end_of_the_object_have_higher_epochs(self):
        epoch = 0
        for number in range(3):
            one, port = self.plant(f"one{number}")
            self.publish(self.active(one, port))
            before, epoch = epoch, self.epoch(port)
            self.assertGreater(epoch, before)
            one.kill()
            self.eventually(self.is_gone, "the lease ends without its owner")
        self.assertEqual(self.logged(), list(range(60)))

    def test_a_passive_one_that_ends_harms_nobody(self):
        (_, port), (two, _), feed = self.pair()
        self.assertEqual(two.terminate(), 0)
        self.publish(feed)
        self.assertEqual(self.epoch(port), 1)

    def test_another_directory_under_the_lease_is_not_continued(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        self.eventually(lambda: "copies" in self.record(), "the lease names its log")
        other = reserve_port()
        options = ("-p", other, "--schemas", self.directory / "sym.q", "--lease", self.url(), *self.lease_options)
        process = self.start("elsewhere", "tick", "sym", self.directory / "elsewhere", *options)
        process.wait_for(rf"is passive on {other}")
        self.eventually(lambda: "the lease is one of another log, log:sym/" in self.state(other)["trouble"], "it says why")
        one.kill()
        self.eventually(self.is_gone, "the lease is over")
        self.assertEqual((self.role(other), self.page(other, "/health?role=passive")[0]), ("passive", 503))
        one, port = self.plant("again")
        self.publish(self.active(one, port))
        self.assertEqual((self.logged(), self.role(other)), (list(range(40)), "passive"))


class Ends(SwiftLeaseScene):
    """What others do to the object."""

    def test_an_end_that_another_program_has_taken_away_comes_back_with_the_next_renewal(self):
        one, port = self.plant("one")
        feed = self.active(one, port)
        self.publish(feed)

        def is_endless():
            self.post(**self.meta())
            return self.head()["X-Delete-At"] is None

        self.eventually(is_endless, "the object has no end")
        self.eventually(lambda: self.head()["X-Delete-At"], "it has one again")
        self.publish(feed)
        self.assertEqual(self.epoch(port), 1)

    def test_a_lease_without_an_end_is_over_once_nobody_renews_it(self):
        (one, port), (two, other), feed = self.pair()
        self.publish(feed)
        one.pause()
        self.post(**self.meta())
        self.assertIsNone(self.head()["X-Delete-At"])
        two.wait_for("has written the lease without X-Delete-After")
        two.wait_for("this process has the lease, but the log is still locked")
        self.assertIsNotNone(self.head()["X-Delete-At"], "the new owner gives it an end")
        one.resume()
        self.publish(self.active(two, other))
        self.assertEqual(self.logged(), list(range(40)))

    def test_an_object_of_another_kind_is_not_overwritten(self):
        self.assertEqual(self.server.request("PUT", self.path("tick"), X_Object_Meta_By="hand", **self.fields)[0], 201)
        process = self.tick("--lease", self.url(), *self.lease_options, name="refused")
        self.assertEqual(process.wait(), 1)
        self.assertIn("the object tick is not a lease: it has no X-Object-Meta-", process.printed())
        self.assertEqual(list(self.logs.iterdir()), [], "nothing is written")
        self.assertEqual(self.head()["X-Object-Meta-By"], "hand")

    def test_metadata_that_another_program_has_dropped_is_not_written_over(self):
        one, port = self.plant("one")
        self.publish(self.active(one, port))

        def is_seen():
            # A renewal already under way puts the record back: Swift has no condition for a POST.
            self.post(X_Object_Meta_By="hand")
            return "is not a lease: it has no X-Object-Meta-" in one.printed()

        self.eventually(is_seen, "the owner finds no record")
        self.assertEqual(one.wait(), 1, "it stepped down, and does not start again without a lease")
        self.assertEqual((set(self.record()), self.logged()), ({"by"}, list(range(20))))

    def test_without_an_expirer_leases_end_all_the_same(self):
        self.server.stop_expirer()
        self.addCleanup(self.server.start_expirer)
        (one, port), (two, other), feed = self.pair()
        self.publish(feed)
        one.kill()
        self.publish(self.active(two, other))
        two.kill()
        self.eventually(self.is_gone, "the lease ends without its owner")
        three, port = self.plant("three")
        self.publish(self.active(three, port))
        self.assertGreaterEqual(self.epoch(port), 3)
        self.assertEqual(self.logged(), list(range(60)))

    def test_an_object_that_an_operator_deletes_costs_a_take_over(self):
        (_, port), (_, other), _ = self.pair()
        publisher = self.publisher([port, other])
        self.more_accepted(publisher)
        self.assertEqual(self.server.request("DELETE", self.path("tick"), **self.fields)[0], 204)
        self.eventually(lambda: max(self.active_of([port, other]).values(), default=0) > 1, "the log has another epoch")
        self.more_accepted(publisher)
        self.check_log(publisher)


class NotAtomic(SwiftLeaseScene):
    """Through a proxy that holds requests and loses answers."""

    def setUp(self):
        super().setUp()
        self.front = Front(self.server.port)
        self.addCleanup(self.front.close)

    def url(self, terms=None, **more):
        return super().url(terms, port=self.front.port, **more)

    def both_believe(self, two):
        """Both `PUT`s pass their checks before either is made; that of the port is made once the returned event is set, so that each process reads its own
        one."""
        puts, both, lock = set(), threading.Event(), threading.Lock()
        held, free = [], threading.Event()
        self.addCleanup(free.set)

        def hook(method, fields):
            if method != "PUT":
                return
            port = fields["x-object-meta-owner"].split("/")[0].split(":")[1]
            with lock:
                puts.add(port)
                if len(puts) == 2:
                    both.set()
            both.wait(60)
            if port == str(two) and not held:
                held.append(port)
                free.wait(60)

        self.front.hook = hook
        return free

    def test_of_two_that_both_believe_to_have_the_lease_the_log_lets_one_write(self):
        # A call may take 3 s.
        terms = "duration=9s&heartbeat=3s"
        one, two = reserve_port(), reserve_port()
        free = self.both_believe(two)
        publisher = self.publisher([one, two])
        plants = [
            self.tick("--lease", self.url(terms), *self.lease_options, name=f"p{port}", port=port) for port in (one, two)
        ]
        # Once it has named its log, its next renewal is a heartbeat away.
        plants[0].wait_for("the lease is one of this log")
        free.set()
        # With the same number as the log, or with the next one if its write has had no answer in time.
        plants[1].wait_for("this process has the lease, with epoch [12]")
        plants[1].wait_for("this process has the lease, but the log is still locked")
        self.more_accepted(publisher)
        # Its renewal shows the first one that it has lost the lease. The second one has, or takes, a higher number than the log's.
        plants[0].wait_for("stepping down: another process owns the lease")
        plants[1].wait_for(rf"is listening on {two}")
        self.more_accepted(publisher)
        self.eventually_equal(lambda: (self.role(one), self.role(two)), ("passive", "active"), "one is active")
        self.assertEqual((self.epoch(two), self.record()["fence"]), (2, "2"))
        self.check_log(publisher)

    def test_a_renewal_that_arrives_after_a_take_over_costs_one_and_no_update(self):
        """The old owner's `POST` puts its record over that of the new one."""
        (one, port), (two, other), _ = self.pair()
        publisher = self.publisher([port, other])
        self.more_accepted(publisher)
        held, due, free = threading.Event(), threading.Event(), threading.Event()
        self.addCleanup(free.set)
        is_the_old_owners = lambda: f":{port}/" in self.record()["owner"]

        def hook(method, fields):
            if method == "POST" and f":{port}/" in fields["x-object-meta-owner"] and not held.is_set():
                held.set()
                free.wait(60)
            elif method == "HEAD" and due.is_set() and not free.is_set():
                # A renewal is a look and a write: what comes between the two is overwritten unseen. So it comes before.
                free.set()
                self.eventually(is_the_old_owners, "the record is the old owner's again")

        self.front.hook = hook
        self.assertTrue(held.wait(60))
        one.kill()
        self.active(two, other)
        self.more_accepted(publisher)
        due.set()
        two.wait_for("stepping down: another process owns the lease")
        # Nobody renews that record: it ends.
        self.more_accepted(publisher)
        self.assertGreaterEqual(self.epoch(other), 3)
        self.check_log(publisher)

    def test_lost_answers_and_requests_cost_no_lease(self):
        (_, port), (_, other), feed = self.pair()
        for method, loss in (("POST", DROP_AFTER), ("POST", DROP_BEFORE), ("HEAD", DROP_AFTER), ("POST", DROP_AFTER)):
            before, lost = self.record()["version"], []

            def hook(called, fields, method=method, loss=loss, lost=lost):
                if called == method and not lost:
                    lost.append(called)
                    return loss

            self.front.hook = hook
            self.eventually(lambda: lost and self.record()["version"] != before, "it is renewed")
            self.publish(feed, 2)
        self.eventually_equal(lambda: self.state(port)["trouble"], "", "all is well")
        self.assertEqual((self.epoch(port), self.role(other)), (1, "passive"))
        self.assertEqual(self.logged(), list(range(8)))

    def test_a_lost_answer_to_the_first_write_costs_no_lease(self):
        lost = []
        self.front.hook = lambda method, fields: (lost.append(method), DROP_AFTER)[1] if method == "PUT" and not lost else None
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        self.assertEqual((self.record()["owner"], lost), (self.state(port)["owner"], ["PUT"]))


class Races(SwiftLeaseScene):
    contenders = 5
    rounds = int(os.environ.get("ELASTICK_LEASE_ROUNDS", "6"))
    terms = "duration=6s&heartbeat=500ms"

    def test_of_all_one_writes_each_round(self):
        ports = {}
        for number in range(self.contenders):
            port = reserve_port()
            ports[port] = self.begin(number, port)
        publisher, before = self.publisher(list(ports)), 0
        for number in range(self.rounds):
            self.eventually(lambda: max(self.active_of(ports).values(), default=0) > before, "one is active under a higher epoch")
            self.more_accepted(publisher)
            active = self.eventually(lambda: self.active_of(ports), "one is active")
            self.assertEqual(len(active), 1, "only one has the log")
            [(winner, before)] = active.items()
            if number % 2:
                ports[winner].kill()
            else:
                self.assertEqual(ports[winner].terminate(), 0)
            ports[winner] = self.begin(number, winner)
        self.more_accepted(publisher)
        self.check_log(publisher)

    def begin(self, number, port):
        return self.tick("--lease", self.url(), *self.lease_options, "--quiet", name=f"p{number}-{port}", port=port)


class BadStores(SwiftLeaseScene):
    def refused(self, *options, lease=None, logs=None):
        logs = self.logs if logs is None else logs
        options = ("-p", 0, "--schemas", self.directory / "sym.q", "--lease", lease or self.url(), *options)
        process = self.start("refused", "tick", "sym", logs, *options)
        self.assertNotEqual(process.wait(), 0)
        self.assertEqual(list(self.logs.iterdir()), [], "nothing is written")
        return process.printed()

    def test_a_lease_without_a_fence(self):
        said = self.refused()
        self.assertIn("a lease there alone elects nobody", said)
        self.assertIn("--lease-fence file:", said)

    def test_a_copy_of_the_log_each(self):
        follow = ("--follow", f"127.0.0.1:{reserve_port()}")
        for options in (follow, (*follow, *self.lease_options)):
            self.assertIn("each copy has a lock of its own", self.refused(*options))

    def test_a_fence_for_a_lease_that_has_one(self):
        self.assertIn("leave it out", self.refused(*self.lease_options, lease="file:"))
        self.assertIn("leave it out", self.refused(*self.lease_options, lease="dynamodb://leases/tick?region=us-east-1"))
        self.assertIn("is not a fence", self.refused("--lease-fence", "none"))

    def test_a_container_that_is_missing(self):
        said = self.refused(*self.lease_options, lease=self.url(container="nowhere"))
        self.assertIn("container nowhere: there is no such container: create it", said)
        self.assertEqual(self.server.request("HEAD", f"{self.account}/nowhere", **self.fields)[0], 404)

    def test_a_lease_shorter_than_twice_its_heartbeat(self):
        terms = self.url(terms="duration=3s&heartbeat=2s")
        self.assertIn("shorter than twice its heartbeat", self.refused(*self.lease_options, lease=terms))
        self.assertTrue(self.is_gone())

    def test_a_server_that_is_away(self):
        one, port = self.plant("one", lease=self.away())
        one.wait_for("Swift at 127.0.0.1")
        self.assertEqual(self.role(port), "passive")
        self.assertEqual(self.page(port, "/health?role=passive")[0], 503)


class Tool(Operated, SwiftLeaseScene):
    def test_the_owner_its_renewals_and_its_end(self):
        self.assertIn("nobody has taken this lease yet", self.lease("show").stderr)
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        self.eventually(lambda: "copies" in self.record(), "the lease names its log")
        shown = self.lease("show")
        self.assertRegex(shown.stdout, r"state +held: changed")
        self.assertRegex(shown.stdout, r"of +log:sym/")
        self.assertIn(self.record()["owner"], shown.stdout)
        one.kill()
        self.assertRegex(self.lease("show").stdout, r"state +over: ")
        self.eventually(self.is_gone, "the lease ends")
        self.assertIn("nobody has taken this lease yet", self.lease("show").stderr)

    def test_the_lease_of_one_that_is_gone_is_given_back(self):
        self.terms = "duration=6s&heartbeat=1s"
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        owner = self.record()["owner"]
        self.assertIn("is not gone, the lease changed after", self.lease("release", "--owner", owner).stderr)
        one.kill()
        done = self.lease("release", "--owner", owner, "--now")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.record()["released"], "1")
        self.assertIsNotNone(self.head()["X-Delete-At"])
        two, port = self.plant("two")
        self.publish(self.active(two, port))
        self.assertEqual((self.record()["fence"], self.logged()), ("2", list(range(40))))


class WithLogins(swift.AccountWithLogin, SwiftLeaseScene):
    """With tempauth's tokens."""

    def test_take_overs_and_tokens_that_the_server_has_forgotten(self):
        (one, port), (two, other), feed = self.pair()
        self.publish(feed)
        before = self.record()["version"]
        self.server.tokens.held.clear()
        self.fields, _ = self.login()
        self.eventually(lambda: self.record()["version"] != before, "it has another token, and renews")
        self.assertEqual(self.epoch(port), 1)
        one.kill()
        self.publish(self.active(two, other))
        self.assertEqual(self.logged(), list(range(40)))

    def test_a_wrong_login_is_named_and_waited_for(self):
        lease = self.url().replace("key-testing", "key-wrong")
        path = self.key_file("wrong")
        one, port = self.plant("one", lease=lease)
        one.wait_for("rejects the login of test:tester: the user or its key is wrong")
        self.eventually(lambda: "rejects the login" in self.state(port)["trouble"], "the state says why")
        pathlib.Path(path).write_text("testing\n")
        self.publish(self.active(one, port))
