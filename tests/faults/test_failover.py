"""`elastick failover`: the active tickerplant hands its log over to a passive one, and is passive afterwards."""

import json
import subprocess
import unittest

from harness import kdb, tplog
from harness.client import Connection, KdbError
from harness.cluster import GONE
from harness.process import binary, reserve_port
from harness.scene import Scene, trades, update

LEASE = ("--lease", "file:")


class Pair(Scene):
    options = ()

    def setUp(self):
        super().setUp()
        self.ports = [reserve_port(), reserve_port()]
        self.one, self.two = [self.plant(name, port) for name, port in zip(("one", "two"), self.ports)]
        self.seq = 0

    def plant(self, name, port, *options):
        process = self.tick(*LEASE, *self.options, *options, name=name, port=port)
        process.wait_for(rf"is (passive|listening) on {port}")
        return process

    @property
    def addresses(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def failover(self, *options, addresses=None):
        command = [binary(), "failover", addresses or self.addresses, *options]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=110)

    def publish(self, port, count=20):
        with Connection(port) as feed:
            for _ in range(count):
                feed.ask(update("trade", trades(self.seq, 1)))
                self.seq += 1

    def state(self, port):
        try:
            with Connection(port) as connection:
                return connection.ask(kdb.lst(kdb.sym(".u.state"), kdb.NIL)).py()
        except GONE:
            return {"role": None}

    def roles(self):
        return [self.state(port)["role"] for port in self.ports]

    def logged(self):
        [log] = [path for path in self.logs.iterdir() if path.name.startswith("sym2") and path.name[-1].isdigit()]
        return [seq for record in tplog.read(log) for seq in record[2][4].v]


class HandOver(Pair):
    def test_there_and_back_with_updates_in_between(self):
        pid = self.one.popen.pid
        for source, target in ((0, 1), (1, 0), (0, 1)):
            self.publish(self.ports[source])
            done = self.failover()
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            to = f"127.0.0.1:{self.ports[target]}"
            self.assertRegex(done.stdout, rf"{to} is active after .*: epoch \d+, {self.seq} updates in its log")
            self.eventually_equal(lambda: self.roles()[target], "active", "the other one is active")
            self.eventually_equal(lambda: self.roles()[source], "passive", "the old one is passive")
        self.publish(self.ports[1])
        self.assertEqual(self.logged(), list(range(80)))
        self.assertTrue(self.one.is_running() and self.one.popen.pid == pid)

    def test_a_dry_run_shows_the_roles_and_changes_nothing(self):
        self.publish(self.ports[0])
        done = self.failover("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.assertIn([f"127.0.0.1:{self.ports[0]}", "active", "1", "20"], [line[:4] for line in lines])
        self.assertIn(f"would hand over to 127.0.0.1:{self.ports[1]}", done.stdout)
        self.assertEqual(self.roles(), ["active", "passive"])
        self.assertEqual(self.state(self.ports[0])["epoch"], 1)

    def test_json_says_who_is_active_now(self):
        done = self.failover("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual([summary[key] for key in ("from", "to", "epoch")],
                         [*(f"127.0.0.1:{port}" for port in self.ports), 2])  # fmt: skip

    def test_subscribers_and_nodes_learn_of_it_as_of_an_orderly_end(self):
        node = self.start("node", "rdb", self.addresses, "-p", "0", "--queue", "q")
        self.eventually(lambda: self.live(0), "the node is live")
        self.publish(self.ports[0])
        self.assertEqual(self.failover().returncode, 0)
        self.publish(self.ports[1])
        self.eventually(lambda: self.live(1), "the node is live at the other one")

        def held():
            with Connection(node.port) as connection:
                return list(connection.ask("exec seq from trade").v)

        self.eventually_equal(held, list(range(40)), "the node has every row once")

    def live(self, at):
        with Connection(self.ports[at]) as connection:
            return list(connection.ask("exec state from .u.asg.tab").v) == ["live"]

    def test_it_ends_when_asked_to_while_nobody_takes_over(self):
        own = self.directory / "own"
        own.mkdir()
        process = self.tick("--lease", "file:", name="alone", logs=own)
        self.connect(process).ask(kdb.lst(kdb.sym(".u.failover"), kdb.NIL))
        process.wait_for("handing over on request")
        self.assertEqual(process.terminate(), 0)
        self.assertNotIn("starting again", process.printed())


class Forwarding(Pair):
    options = ("--forward",)

    def test_the_passive_one_is_asked_itself(self):
        done = self.failover("--dry-run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"would hand over to 127.0.0.1:{self.ports[1]}", done.stdout)
        self.assertEqual(self.failover().returncode, 0)
        # Through the one that is passive now; before it knows the address of the active one, it answers itself.
        through = lambda: (self.state(self.ports[0])["role"], self.state(self.ports[0]).get("epoch"))
        self.eventually_equal(through, ("active", 2), "it forwards to the other one")
        self.publish(self.ports[0])
        self.assertEqual(self.logged(), list(range(20)))


class Refused(Pair):
    def refused(self, *options, addresses=None):
        done = self.failover(*options, addresses=addresses)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.roles()[0], "active")
        return done.stderr

    def test_nobody_to_take_over(self):
        self.two.kill()
        self.assertIn("no passive tickerplant of the list can take over", self.refused())

    def test_a_named_one_that_is_away_active_or_no_member(self):
        self.assertIn("is active already", self.refused("--to", f"127.0.0.1:{self.ports[0]}"))
        self.assertIn("not one of the tickerplants of the list", self.refused("--to", f"127.0.0.1:{reserve_port()}"))
        self.two.kill()
        self.assertIn("cannot take over", self.refused("--to", f"127.0.0.1:{self.ports[1]}"))

    def test_two_that_do_not_share_a_lease(self):
        stranger = self.tick(*LEASE, name="stranger", logs=self.directory / "elsewhere", port=reserve_port())
        addresses = f"127.0.0.1:{self.ports[0]},127.0.0.1:{stranger.port}"
        self.assertIn("are both active", self.refused(addresses=addresses))

    def test_calls_that_make_no_sense(self):
        with Connection(self.ports[0]) as client:
            for call, wanted in [(".u.failover 7", "type"), ('.u.failover "somebody"', "nyi"), (".u.failover[`a;`b]", "rank")]:
                with self.subTest(call), self.assertRaisesRegex(KdbError, wanted):
                    client.ask(call)
        alone = self.tick(name="alone", logs=self.directory / "alone")
        with Connection(alone.port) as client, self.assertRaisesRegex(KdbError, "nyi"):
            client.ask(".u.failover[]")
        self.assertEqual(self.roles(), ["active", "passive"])

    def test_one_that_nobody_succeeds_is_active_again(self):
        self.two.kill()
        with Connection(self.ports[0]) as client:
            client.ask(".u.failover[]")
        self.one.wait_for("no other tickerplant has taken the log")
        self.eventually_equal(lambda: self.state(self.ports[0]).get("epoch"), 2, "it has the log again")
        self.publish(self.ports[0])
        self.assertEqual(self.logged(), list(range(20)))


USERS = """
[users.ann]
password = "a"
roles = ["publish", "query"]
[users.ops]
password = "o"
roles = ["operator"]
"""


class Roles(Pair):
    def plant(self, name, port, *options):
        users = self.directory / "users.toml"
        users.write_text(USERS)
        return super().plant(name, port, "-U", users, *options)

    def login(self, text):
        file = self.directory / "login"
        file.write_text(text)
        file.chmod(0o600)
        return "--login-file", file

    def test_only_an_operator_hands_over(self):
        refused = self.failover(*self.login("ann:a"))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("'access", refused.stderr)
        done = self.failover(*self.login("ops:o"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"127.0.0.1:{self.ports[1]} is active after", done.stdout)


if __name__ == "__main__":
    unittest.main()
