"""A tickerplant copies the log of another one into a directory of its own."""

import unittest

from harness import kdb
from harness.client import KdbError
from harness.followers import Followers
from harness.process import reserve_port
from harness.scene import trades, update


def pairs(**values):
    return kdb.K(kdb.DICT, (kdb.syms(*values), kdb.lst(*values.values())))


def follow(h, name):
    """Connects as a follower. Returns the leader's day."""
    greeting = pairs(proto=kdb.long(1), src=kdb.sym("sym"), node=kdb.sym(name))
    return h.ask(kdb.lst(kdb.sym(".u.follow.open"), greeting))["date"].v


def confirmation(day, updates):
    numbers = {key: kdb.long(0) for key in ("next", "bytes", "proved")}
    asked = pairs(date=kdb.K(-kdb.DATE, day), durable=kdb.long(updates), held=kdb.longs([0] * 6), wait=kdb.long(0), **numbers)
    return kdb.lst(kdb.sym(".u.follow.copy"), asked)


class Copy(Followers):
    def test_it_copies_what_is_there_and_what_comes(self):
        leader = self.leader()
        self.publish(leader, 50)
        _, port = self.follower(leader)
        self.copied(port, 50)
        self.publish(leader, 50)
        self.copied(port, 100)
        self.same("logs", "copy")
        state = self.state(port)
        self.assertEqual((state["role"], state["epoch"], state["lag"], state["note"]), ("passive", 1, 0, ""))
        self.assertEqual(state["active"], f"127.0.0.1:{leader.port}")
        self.assertEqual(self.page(port, "/health?role=passive")[0], 200)
        self.assertEqual(self.page(port, "/health")[0], 503)
        metrics = self.page(port, "/metrics")[1]
        self.assertIn("\nelastick_follow_connected 1\n", metrics)
        self.assertIn("\nelastick_follow_lag_updates 0\n", metrics)
        metrics = self.page(leader.port, "/metrics")[1]
        self.assertIn("\nelastick_followers 1\n", metrics)
        self.assertIn(f'\nelastick_follower_lag_updates{{follower="127.0.0.1:{port}"}} 0\n', metrics)

    def test_it_refuses_publishers_with_the_address_of_its_leader(self):
        leader = self.leader()
        _, port = self.follower(leader)
        self.copied(port, 0)
        with self.connect(port) as h, self.assertRaisesRegex(KdbError, f"^passive: this tickerplant follows 127.0.0.1:{leader.port}"):
            h.ask(update("trade", trades(0, 1)))
        h = self.connect(port)
        h.send(update("trade", trades(0, 1)))
        self.assertTrue(h.is_closed_by_peer())

    def test_large_batches_and_every_durability(self):
        for durability in ("none", "os", "group(1ms)", "each"):
            logs = self.directory_of(f"of-{durability[:4]}")
            leader = self.leader("--durability", durability, name=durability, logs=logs)
            _, port = self.follower(leader, logs=f"copy-{durability[:4]}")
            h = self.connect(leader)
            for _ in range(40):
                h.send(update("trade", trades(self.seq, 3000)))
                self.seq += 3000
            h.ask(".u.i")
            self.copied(port, 40)
            leader.terminate()
            self.assertEqual(self.bytes_of(logs), self.bytes_of(self.directory / f"copy-{durability[:4]}"))

    def test_it_goes_on_after_a_restart_of_either_side(self):
        port_of_leader = reserve_port()
        leader = self.leader(port=port_of_leader)
        follower, port = self.follower(port_of_leader)
        self.publish(leader, 30)
        self.copied(port, 30)
        follower.kill()
        self.publish(leader, 30)
        follower, port = self.follower(port_of_leader)
        self.copied(port, 60)
        self.assertEqual(follower.terminate(), 0)
        self.publish(leader, 10)
        follower, port = self.follower(port_of_leader)
        self.copied(port, 70)
        for end in ("kill", "terminate"):
            getattr(leader, end)()
            leader = self.leader(name="leader again", port=port_of_leader)
            self.publish(leader, 10)
            self.copied(port, self.seq)
        self.same("logs", "copy")
        self.assertEqual(self.state(port)["epoch"], 3)

    def test_a_torn_end_of_the_copy_is_copied_again(self):
        leader = self.leader()
        self.publish(leader, 30)
        follower, port = self.follower(leader)
        self.copied(port, 30)
        follower.kill()
        [log] = self.files(self.directory / "copy")
        log.write_bytes(log.read_bytes()[:-7])
        _, port = self.follower(leader)
        self.copied(port, 30)
        self.same("logs", "copy")

    def test_it_follows_the_day(self):
        leader = self.leader()
        follower, port = self.follower(leader)
        self.publish(leader, 30)
        # A follower without a copy begins with the current day.
        self.copied(port, 30)
        self.connect(leader).ask(kdb.lst(kdb.sym(".u.endofday"), kdb.NIL))
        self.publish(leader, 5)
        self.copied(port, 5)
        self.same("logs", "copy")
        self.assertEqual(len(self.files(self.logs)), 2)
        # The day ends while it is away.
        follower.kill()
        self.publish(leader, 5)
        self.connect(leader).ask(kdb.lst(kdb.sym(".u.endofday"), kdb.sym("force")))
        self.publish(leader, 3)
        _, port = self.follower(leader)
        self.copied(port, 3)
        self.same("logs", "copy")
        self.assertEqual(len(self.files(self.logs)), 3)

    def test_files_beside_the_log_are_copied(self):
        leader = self.leader()
        _, port = self.follower(leader)
        h = self.connect(leader)
        self.numbered(h, 1, 4)
        node = self.rdb(leader, name="node")
        self.eventually(lambda: h.ask("count .u.asg.tab").v == 1, "the node joins")
        self.copied(port, 8)
        [log] = self.files(self.logs)
        for name in ("sym.publishers", log.name + ".queue", log.name + ".schema"):
            own, copy = (directory / name for directory in (self.logs, self.directory / "copy"))
            self.eventually(lambda: copy.exists() and own.read_bytes() == copy.read_bytes(), name)
        node.terminate()

    def test_it_ends_and_starts_before_its_leader(self):
        port_of_leader = reserve_port()
        follower, port = self.follower(port_of_leader)
        self.assertEqual(self.page(port, "/health?role=passive")[0], 503)
        self.eventually(lambda: "cannot connect" in self.state(port)["trouble"], "it says so")
        leader = self.leader(port=port_of_leader)
        self.publish(leader)
        self.copied(port, 20)
        self.assertEqual(follower.terminate(), 0)

    def test_the_first_of_several_addresses_that_is_active_is_followed(self):
        leader = self.leader()
        _, first = self.follower(leader, logs="first")
        nobody = reserve_port()
        _, port = self.follower(f"127.0.0.1:{nobody},127.0.0.1:{first},127.0.0.1:{leader.port}", logs="second")
        self.publish(leader)
        self.copied(port, 20)
        self.copied(first, 20)
        self.same("logs", "first", "second")


class BadPeers(Followers):
    def refused(self, port, words):
        self.eventually(lambda: words in self.state(port)["trouble"], words)
        self.assertEqual(self.page(port, "/health?role=passive")[0], 503)

    def test_another_source_schema_or_directory(self):
        leader = self.leader()
        self.publish(leader)
        port = reserve_port()
        other = self.start("fx", "tick", "fx", self.directory_of("fx"), "-p", port, "--schemas", self.directory / "sym.q", "--follow", f"127.0.0.1:{leader.port}")
        other.wait_for("is passive on")
        self.refused(port, "source is sym, not fx")

        (self.directory / "schema").mkdir()
        (self.directory / "schema" / "sym.q").write_text(self.schema.replace("size:`long$()", "size:`int$()"))
        port = reserve_port()
        logs = self.directory_of("typed")
        other = self.start("typed", "tick", "sym", logs, "-p", port, "--schemas", self.directory / "schema", "--follow", f"127.0.0.1:{leader.port}")
        other.wait_for("is passive on")
        self.refused(port, "another schema: column 4 of table trade")
        self.assertEqual(self.files(logs), [])

        own = self.leader(name="own", logs=self.directory_of("own"))
        self.publish(own)
        own.terminate()
        before = self.bytes_of(self.directory / "own")
        _, port = self.follower(leader, logs="own")
        self.refused(port, "are of another tickerplant")
        self.assertEqual(self.bytes_of(self.directory / "own"), before)

    def test_a_directory_that_another_process_has(self):
        leader = self.leader()
        _, port = self.follower(leader)
        self.copied(port, 0)
        second, _ = self.follower(leader, waits=False)
        self.assertNotEqual(second.wait(), 0)
        self.assertIn("sym.lock", second.printed())
        taken = self.tick(name="taken", logs=self.directory / "copy")
        self.assertNotEqual(taken.wait(), 0)

    def test_the_cluster_secret(self):
        secret, wrong = self.directory / "secret", self.directory / "wrong"
        for path, text in ((secret, "a" * 32), (wrong, "b" * 32)):
            path.write_text(text)
            path.chmod(0o600)
        leader = self.leader("--cluster-secret-file", secret)
        self.publish(leader)
        _, port = self.follower(leader, logs="without")
        self.refused(port, "secret")
        _, port = self.follower(leader, "--cluster-secret-file", wrong, logs="wrong-copy")
        self.refused(port, "proof is wrong")
        _, port = self.follower(leader, "--cluster-secret-file", secret)
        self.copied(port, 20)

    def test_options_that_do_not_fit(self):
        for options, words in (
            (("--follow", "127.0.0.1:1", "--lease", "file:"), "--follow with --lease file:"),
            (("--follow", "nowhere"), "is not an address"),
            (("--follow", "127.0.0.1:1,127.0.0.1:1"), "is in the list twice"),
            (("--durability", "replica(0)"), "1 to 8 followers"),
            (("--replica-missing", "hope"), "use continue or refuse"),
        ):
            process = self.tick(*options, name=words)
            self.assertNotEqual(process.wait(), 0)
            self.assertIn(words, process.printed())
        process = self.start("no directory", "tick", "sym", "-p", 0, "--schemas", self.directory / "sym.q", "--follow", "127.0.0.1:1")
        self.assertNotEqual(process.wait(), 0)
        self.assertIn("needs a directory", process.printed())

    def test_calls_of_another_kind_cost_the_leader_nothing(self):
        leader = self.leader()
        h = self.connect(leader)
        next_ = kdb.lst(kdb.sym(".u.follow.copy"), kdb.chars("x"))
        for call in (
            kdb.lst(kdb.sym(".u.follow.open"), kdb.NIL),
            kdb.lst(kdb.sym(".u.follow.checksums"), kdb.long(1), kdb.longs([1])),
            kdb.lst(kdb.sym(".u.follow.checksums"), kdb.longs([1]), kdb.longs([-1])),
            next_,
        ):
            with self.assertRaises(KdbError):
                h.ask(call)
        h.send(next_)
        # A day beyond any calendar.
        follow(h, "other:1")
        for day in (2**31 - 1, -(2**31) + 1):
            for call in (
                kdb.lst(kdb.sym(".u.follow.checksums"), kdb.K(-kdb.DATE, day), kdb.longs([8])),
                confirmation(day, 0),
            ):
                with self.assertRaisesRegex(KdbError, "^(os|domain): "):
                    h.ask(call)
        self.publish(leader)

    def test_a_leader_whose_log_has_changed_on_its_disk(self):
        leader = self.leader()
        h = self.connect(leader)
        for _ in range(8):
            h.ask(update("trade", trades(self.seq, 3000)))
            self.seq += 3000
        [log] = self.files(self.logs)
        # A number of the last column that nobody sent.
        with open(log, "r+b") as file:
            file.seek(-8 * 2000, 2)
            file.write(b"\x55")
        _, port = self.follower(leader)
        self.refused(port, "have another checksum than when the leader wrote them")


if __name__ == "__main__":
    unittest.main()
