"""An update is acknowledged once followers have it on their disks."""

import random
import unittest

from faults.test_follow import confirmation, follow
from harness import kdb
from harness.client import KdbError
from harness.followers import Followers, Publisher
from harness.scene import trades, update


class Replica(Followers):
    def test_everything_acknowledged_is_in_the_copy_after_a_kill(self):
        for round in range(4):
            logs = self.directory_of(f"logs{round}")
            leader = self.leader("--durability", "replica(1)", name=f"leader{round}", logs=logs)
            follower, port = self.follower(leader, logs=f"copy{round}")
            self.copied(port, 0)
            publishers = [Publisher(leader.port, first * 1_000_000) for first in range(4)]
            [publisher.start() for publisher in publishers]
            self.eventually(lambda: all(len(publisher.acknowledged) > 50 for publisher in publishers), "they publish")
            leader.kill()
            [publisher.join(30) for publisher in publishers]
            acknowledged = sorted(seq for publisher in publishers for seq in publisher.acknowledged)
            self.assertEqual(follower.terminate(), 0)
            copied = self.rows(self.directory / f"copy{round}")
            self.assertEqual(len(copied), len(set(copied)), "nothing twice")
            self.assertLessEqual(set(acknowledged), set(copied))
            # It takes over, under a higher epoch.
            taken = self.leader(name=f"taken{round}", logs=self.directory / f"copy{round}")
            state = self.state(taken.port)
            self.assertEqual((state["role"], state["epoch"], state["tip"]), ("active", 2, len(copied)))
            self.seq = 10_000_000
            self.publish(taken, 5)
            self.assertEqual(self.rows(self.directory / f"copy{round}"), copied + list(range(10_000_000, 10_000_005)))
            taken.terminate()

    def test_a_stopped_follower_is_missed_and_counts_again(self):
        leader = self.leader("--durability", "replica(1)", "--replica-timeout", "200ms")
        follower, port = self.follower(leader)
        self.copied(port, 0)
        self.publish(leader)
        self.assertEqual(self.page(leader.port, "/health")[1].count("followers"), 0)
        follower.pause()
        self.publish(leader, 3)
        leader.wait_for("too few followers confirm in time")
        self.assertIn("too few followers confirm in time", self.page(leader.port, "/health")[1])
        self.assertIn("\nelastick_replicas_missing 1\n", self.page(leader.port, "/metrics")[1])
        follower.resume()
        self.publish(leader, 3)
        self.eventually(lambda: "\nelastick_replicas_missing 0\n" in self.page(leader.port, "/metrics")[1], "it is back")
        self.copied(port, 26)
        self.same("logs", "copy")

    def test_updates_are_rejected_without_a_follower_if_so_chosen(self):
        leader = self.leader("--durability", "replica(1)", "--replica-timeout", "200ms", "--replica-missing", "refuse")
        follower, port = self.follower(leader)
        self.copied(port, 0)
        self.publish(leader, 5)
        follower.kill()
        h = self.connect(leader)
        with self.assertRaisesRegex(KdbError, "^io: too few followers confirm in time.*this update is logged here"):
            h.ask(update("trade", trades(5, 1)))
        with self.assertRaisesRegex(KdbError, "^io: trade: too few followers confirm|^io: .*too few followers confirm, and"):
            h.ask(update("trade", trades(6, 1)))
        self.assertEqual(h.ask(".u.i").v, 6)
        _, port = self.follower(leader)
        self.copied(port, 6)
        self.eventually(lambda: "\nelastick_replicas_missing 0\n" in self.page(leader.port, "/metrics")[1], "it is back")
        self.seq = 7
        self.publish(leader, 5)
        self.copied(port, 11)

    def test_two_followers_are_both_waited_for(self):
        leader = self.leader("--durability", "replica(2)", "--replica-timeout", "30s")
        one, first = self.follower(leader, logs="one")
        two, second = self.follower(leader, logs="two")
        self.copied(first, 0), self.copied(second, 0)
        self.publish(leader)
        for copy in ("one", "two"):
            self.assertEqual(self.rows(self.directory / copy), list(range(20)))
        two.pause()
        h = self.connect(leader)
        h.send(update("trade", trades(20, 1)))
        publisher = Publisher(leader.port, 21)
        publisher.start()
        self.copied(first, 22)
        self.assertEqual(publisher.acknowledged, [])
        two.resume()
        self.eventually(lambda: len(publisher.acknowledged) > 3, "both confirm")
        publisher.stop()

    def test_the_end_of_a_day_is_confirmed(self):
        leader = self.leader("--durability", "replica(1)", "--replica-timeout", "30s")
        _, port = self.follower(leader)
        self.copied(port, 0)
        publisher = Publisher(leader.port)
        publisher.start()
        self.eventually(lambda: len(publisher.acknowledged) > 20, "it publishes")
        self.connect(leader).ask(kdb.lst(kdb.sym(".u.endofday"), kdb.NIL))
        before = len(publisher.acknowledged)
        self.eventually(lambda: len(publisher.acknowledged) > before + 20, "it goes on")
        publisher.stop()
        self.assertIsNone(publisher.error)
        self.same("logs", "copy")
        self.assertEqual(self.rows(self.logs), publisher.acknowledged)


    def test_updates_to_come_cannot_be_confirmed(self):
        leader = self.leader("--durability", "replica(1)", "--replica-timeout", "200ms", "--replica-missing", "refuse")
        h = self.connect(leader)
        day = follow(h, "other:1")
        for wrong in ((day, 1), (day + 1, 0), (2**31 - 1, 2**62)):
            with self.assertRaisesRegex(KdbError, "^domain: "):
                h.ask(confirmation(*wrong))
        h.ask(confirmation(day, 0))
        h.close()
        with self.assertRaisesRegex(KdbError, "^io: "):
            self.connect(leader).ask(update("trade", trades(0, 1)))

    def test_without_a_log_nobody_is_waited_for(self):
        leader = self.start("no log", "tick", "sym", "-p", 0, "--schemas", self.directory / "sym.q", "--durability", "replica(1)")
        self.publish(leader)


class Swaps(Followers):
    def test_both_take_over_in_turn_and_lose_nothing_acknowledged(self):
        """At each kill publishers are in the middle of their calls: whatever only the old leader has is cut off when it comes back."""
        draw = random.Random(11)
        options = ("--durability", "replica(1)", "--replica-timeout", "60s", "--replica-missing", "refuse")
        names = ["left", "right"]
        acknowledged = []
        leader = self.leader(*options, logs=self.directory_of("left"))
        follower, port = self.follower(leader, logs="right")
        for round in range(6):
            earlier = len(self.rows(self.directory / names[0]))
            publishers = [Publisher(leader.port, (3 * round + of) * 1_000_000) for of in range(3)]
            [publisher.start() for publisher in publishers]
            wanted = draw.randrange(1, 60)
            self.eventually(lambda: sum(len(publisher.acknowledged) for publisher in publishers) > wanted, "they publish")
            if draw.random() < 0.5:
                # Most of the last updates reach the leader's log only.
                follower.pause()
                h = self.connect(leader)
                acked = lambda: sum(len(publisher.acknowledged) for publisher in publishers)
                self.eventually(lambda: h.ask(".u.i").v == earlier + acked() + 3, "each publisher waits for the follower")
            leader.kill()
            [publisher.join(30) for publisher in publishers]
            acknowledged += [seq for publisher in publishers for seq in publisher.acknowledged]
            follower.kill() if draw.random() < 0.5 or follower.is_paused() else follower.terminate()
            names.reverse()
            leader = self.leader(*options, name=f"leader{round}", logs=self.directory / names[0])
            leader.wait_for("is listening on")
            follower, port = self.follower(leader, logs=names[1])
            self.eventually(lambda: self.state(port)["lag"] == 0, "it has all")
            rows = self.rows(self.directory / names[0])
            self.assertEqual(len(rows), len(set(rows)), "nothing twice")
            self.assertLessEqual(set(acknowledged), set(rows))
            self.same(*names)
        self.assertEqual(self.state(leader.port)["epoch"], 7)


if __name__ == "__main__":
    unittest.main()
