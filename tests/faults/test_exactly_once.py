"""A publisher with an id resends after each cut what it is not sure of: whatever is killed when, every row is in the log exactly once."""

import os
import random
import subprocess

from harness import kdb, points, tplog, wire
from harness.client import KdbError
from harness.process import binary, reserve_port
from harness.scene import Scene, trades

SEEDS = [int(seed) for seed in os.environ.get("ELASTICK_SEEDS", "1 2").split()]
# Where the tickerplant dies, and for which time that it gets there.
POINTS = [
    ("log-before-write", 5),
    ("log-half-written", 5),
    ("log-written", 5),
    ("log-before-sync", 4),
    ("log-synced", 4),
    ("sockets-before-write", 12),
    ("socket-half-written", 12),
    ("sockets-written", 12),
]
# At the end of the day.
ROLLS = [("log-before-roll", 1), ("log-before-name", 1), ("log-rolled", 1)]
NULL = -(2**63)
CUT = (ConnectionError, OSError)


def numbered(first, last, publisher="feed1"):
    """The rows [first, last) as the update with the number `last`."""
    rows = trades(first, last - first)
    return kdb.lst(kdb.chars(".u.upd"), kdb.sym("trade"), rows, kdb.sym(publisher), kdb.long(last))


class Publisher:
    """Publishes the rows 0, 1, 2, …: the recipe of docs/exactly-once.md. An update's number is the number of rows up to its end."""

    def __init__(self, scene, dice, publisher="feed1"):
        self.scene, self.dice, self.publisher = scene, dice, publisher
        self.h, self.done = None, 0

    def ask_done(self):
        return max(self.h.ask(kdb.lst(kdb.sym(".u.seq"), kdb.sym(self.publisher))).v, 0)

    def connect(self, port):
        self.h = self.scene.connect(port)
        self.done = self.ask_done()

    def updates(self, first, last):
        while first < last:
            end = min(last, first + self.dice.randrange(1, 30))
            yield end, numbered(first, end, self.publisher)
            first = end

    def sync_until(self, last):
        for end, update in self.updates(self.done, last):
            self.scene.assertGreaterEqual(self.h.ask(update).v, 0)
            self.done = end

    def async_until(self, last):
        """Many at once, without a look at what becomes of them."""
        while self.done < last:
            some = self.updates(self.done, min(last, self.done + 2000))
            self.h.raw(b"".join(wire.message(update, wire.ASYNC) for _, update in some))
            self.done = self.ask_done()


class ExactlyOnce(Scene):
    def setUp(self):
        super().setUp()
        self.port = reserve_port()
        self.ran = 0
        self.tp = None

    def run_tick(self, *options, **environment):
        self.ran += 1
        arguments = ("tick", "sym", self.logs, "-p", self.port, "--schemas", self.directory / "sym.q", *options)
        self.tp = self.start(f"tick{self.ran}", *arguments, **environment)
        self.tp.port

    def logged(self):
        """Every row's number in all logs, in order."""
        logs = sorted(path for path in self.logs.iterdir() if path.suffix[1:].isdigit())
        updates = (record for log in logs for record in tplog.read(log) if record[0] == kdb.sym("upd"))
        return [seq for update in updates for seq in update[2][4].v]

    def publish(self, publisher, last, how, deadline=40):
        """Until all rows are accepted, over as many kills as happen."""
        for _ in range(deadline):
            try:
                publisher.connect(self.tp if self.tp.is_running() else self.port)
                return getattr(publisher, how)(last)
            except CUT:
                self.tp.wait()
                self.run_tick(*self.options)
        self.fail("cut off too often")

    def play(self, options, how, environment):
        """One kill while rows are published, and an end of the day."""
        self.options = options
        self.run_tick(*options, **environment)
        publisher = Publisher(self, random.Random(7))
        self.publish(publisher, 400, how)
        try:
            publisher.h.ask(".u.endofday[]")
        except CUT:
            self.tp.wait()
            self.run_tick(*options)
        self.publish(publisher, 800, how)
        # What .u.seq returns is in the file, also under durability none.
        self.assertEqual(publisher.ask_done(), 800)
        self.tp.kill()
        self.tp.wait()
        self.assertEqual(self.logged(), list(range(800)))
        # It goes on where the log ends.
        self.run_tick(*options)
        publisher.connect(self.tp)
        self.assertEqual(publisher.done, 800)
        self.assertEqual(self.tp.terminate(), 0)
        self.run_tick(*options)
        publisher.connect(self.tp)
        self.assertEqual(publisher.done, 800)
        self.tp.kill()
        self.tp.wait()

    def test_killed_at_every_point(self):
        if points.binary() is None:
            self.skipTest("no binary with failpoints")
        self.executable = points.binary()
        for number, (point, nth) in enumerate(POINTS + ROLLS):
            for how in ("sync_until", "async_until"):
                durability = ("os", "each", "group(1ms)", "none")[number % 4]
                if "sync" in point.split("-")[-1] or point == "log-synced":
                    durability = "group(1ms)"
                with self.subTest(point=point, how=how, durability=durability):
                    self.logs = self.directory / f"logs-{point}-{how}"
                    self.logs.mkdir()
                    self.play(("--durability", durability), how, points.environment(point, nth))

    def test_killed_at_random_over_ends_of_days_and_a_node_holds_every_row_once(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                dice = random.Random(seed)
                self.logs = self.directory / f"logs-{seed}"
                self.logs.mkdir()
                self.options = ("--durability", dice.choice(("none", "os", "group(1ms)", "each")), "--node-grace", "60s")
                self.run_tick(*self.options)
                # A node that is there from the start gets the live form, one that joins late the log's.
                nodes = [self.rdb(self.port, name=f"node{seed}", queue="one")]
                publisher = Publisher(self, dice)
                reached, ends, first_of_day = 0, 0, 0
                for _ in range(15):
                    reached += dice.randrange(1, 3000)
                    self.publish(publisher, reached, dice.choice(("sync_until", "async_until")))
                    # What was in flight before a kill may have been accepted.
                    reached = publisher.done
                    what = dice.random()
                    if what < 0.5:
                        publisher.h.raw(b"".join(
                            wire.message(update, wire.ASYNC) for _, update in publisher.updates(reached, reached + 2000)
                        ))
                        self.tp.kill()
                        self.tp.wait()
                        self.run_tick(*self.options)
                    elif what < 0.6:
                        self.tp.terminate()
                        self.run_tick(*self.options)
                    elif what < 0.8 and ends < 3:
                        publisher.h.ask(".u.endofday[`force]")
                        ends, first_of_day = ends + 1, reached
                reached += 3000
                self.publish(publisher, reached, "sync_until")
                reached = publisher.done
                # What .u.seq returns is in the file, also under durability none.
                self.assertEqual(publisher.ask_done(), reached)
                self.assertEqual(self.logged(), list(range(reached)))
                nodes.append(self.rdb(self.port, name=f"late{seed}", queue="two"))
                # Under durability none a node may keep what it got before the log lost it, until its window is compared.
                for node in nodes if "none" not in self.options else ():
                    h = self.connect(node)
                    rows = lambda: h.ask("exec seq from trade").v
                    self.eventually_equal(rows, list(range(first_of_day, reached)), f"{node.name} has the day's rows")
                tp = self.connect(self.tp)
                self.assertEqual(tp.ask(".u.stats`differing").v, 0)
                self.tp.kill()
                self.tp.wait()
                for node in nodes:
                    node.kill()

    def test_kdbs_replay_sees_the_plain_updates(self):
        self.options = ()
        self.run_tick()
        publisher = Publisher(self, random.Random(3))
        publisher.connect(self.tp)
        publisher.sync_until(500)
        log = self.log_path(publisher.h)
        script = f"trade:([]time:`timespan$();sym:`$();price:`float$();size:`long$();seq:`long$())\nupd:insert\n-11!hsym`$\"{log}\"\n"
        script += "(exec seq from trade)~til 500\n"
        said = subprocess.run([binary(), "q"], input=script, capture_output=True, text=True, timeout=60)
        self.assertTrue(said.stdout.strip().endswith("1b"), said.stdout + said.stderr)

    def test_what_is_answered_and_what_is_rejected(self):
        self.run_tick()
        h, other = self.connect(self.tp), self.connect(self.tp)
        seq = lambda publisher="feed1": kdb.lst(kdb.sym(".u.seq"), kdb.sym(publisher))
        self.assertRegex(h.error_of(numbered(0, 5)), r"^seq: call \.u\.seq\[`feed1\] on this connection before the first number")
        self.assertEqual(h.ask(seq()).v, NULL)
        self.assertEqual([h.ask(numbered(0, 5)).v, h.ask(numbered(5, 9)).v], [1, 3])
        # The last one again, and an earlier one.
        self.assertEqual([h.ask(numbered(5, 9)).v, h.ask(numbered(0, 5)).v], [3, NULL])
        self.assertEqual(h.ask(".u.stats`duplicates").v, 2)
        # An update that is invalid takes no number.
        invalid = kdb.lst(kdb.chars(".u.upd"), kdb.sym("trade"), kdb.lst(kdb.longs([1])), kdb.sym("feed1"), kdb.long(20))
        self.assertRegex(h.error_of(invalid), "^length: ")
        self.assertEqual(h.ask(seq()).v, 9)
        # 0W would be the id's last number for good.
        infinite = kdb.lst(kdb.chars(".u.upd"), kdb.sym("trade"), trades(9, 3), kdb.sym("feed1"), kdb.long(2**63 - 1))
        self.assertRegex(h.error_of(infinite), "^domain: ")
        self.assertEqual(h.ask(seq()).v, 9)
        # Whoever asks last may go on; what the first one has in flight is rejected.
        self.assertEqual(other.ask(seq()).v, 9)
        self.assertRegex(h.error_of(numbered(9, 12)), "^seq: another connection holds feed1")
        self.assertEqual(other.ask(numbered(9, 12)).v, 5)
        # The publisher sends these again, so the quarantine has none of them: only the invalid one.
        self.assertEqual(h.ask(".u.refused").v, 4)
        self.assertEqual(h.ask("count .u.quarantine").v, 1)
        # The index alone, and the answer of kdb+.
        plain = (kdb.chars(".u.upd"), kdb.sym("trade"), trades(12, 2))
        self.assertEqual(h.ask(kdb.lst(*plain, kdb.sym(""))).v, 6)
        self.assertEqual(h.ask(kdb.lst(*plain)).t, 101)
        self.assertEqual(h.ask(".u.i").v, 8)
        self.assertRegex(h.error_of(kdb.lst(*plain, kdb.sym("feed1"))), "^rank: ")
        self.assertRegex(h.error_of(kdb.lst(*plain, kdb.sym("feed1"), kdb.floats([1.0]))), "^type: ")
        # A tickerplant whose log has numbers has no place for a subscriber that counts messages.
        paper = kdb.lst(kdb.sym(".u.asg.sub"), kdb.sym(""), kdb.sym(""), kdb.sym("rdb"))
        self.assertRegex(h.error_of(paper), "^nyi: ")

    def test_an_id_belongs_to_its_user(self):
        users = self.directory / "users.toml"
        users.write_text("".join(
            f'[users.{name}]\npassword = "{name}"\nroles = ["{role}"]\n'
            for name, role in (("ann", "publish"), ("bob", "publish"), ("eve", "subscribe"))
        ))
        self.run_tick("-U", users)
        ann, bob, eve = (self.connect(self.tp, user=f"{name}:{name}") for name in ("ann", "bob", "eve"))
        seq = kdb.lst(kdb.sym(".u.seq"), kdb.sym("feed1"))
        ann.ask(seq)
        ann.ask(numbered(0, 5))
        self.assertRegex(bob.error_of(seq), "^access: publisher feed1 belongs to the user ann")
        self.assertRegex(bob.error_of(numbered(5, 9)), "^access: ")
        self.assertRegex(eve.error_of(seq), "^access: ")
        self.assertEqual(ann.ask(numbered(5, 9)).v, 3)
        self.tp.kill()
        self.tp.wait()
        self.run_tick("-U", users)
        ann, bob = (self.connect(self.tp, user=f"{name}:{name}") for name in ("ann", "bob"))
        self.assertRegex(bob.error_of(seq), "^access: ")
        self.assertEqual(ann.ask(seq).v, 9)
