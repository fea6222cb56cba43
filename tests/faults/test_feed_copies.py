"""A feed whose tickerplants have logs of their own: a copy that lacks what was confirmed, and another cluster's log."""

import re
import unittest

from harness import tplog
from harness.followers import Followers
from harness.process import reserve_port


class Feed(Followers):
    def feed(self, *ports):
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        return self.start("feed", "feed", addresses, "--rate", "1000", "--rows", "1", "--confirm", "10")

    def reported(self, feed):
        """Numbers of updates in the last lines of an ended feed: accepted, unconfirmed, and at most lost."""
        printed = feed.printed().replace(",", "")
        accepted, unconfirmed = re.search(r"sent \d+ updates: (\d+) accepted \d+ rejected (\d+) unconfirmed", printed).groups()
        lost = re.search(r"lost in a take-over: up to (\d+) confirmed updates", printed)
        return int(accepted), int(unconfirmed), int(lost.group(1)) if lost else 0

    def logged(self, directory):
        return sum(1 for log in self.files(directory) for _ in tplog.read(log))

    def test_what_a_copy_lacks_is_reported(self):
        leader = self.leader()
        follower, port = self.follower(leader)
        feed = self.feed(leader.port, port)
        self.eventually(lambda: self.state(port)["tip"] > 100, "the copy grows")
        follower.pause()
        h = self.connect(leader)
        tip = h.ask(".u.i").v
        self.eventually(lambda: h.ask(".u.i").v > tip + 500, "the leader goes on alone")
        leader.kill()
        follower.kill()
        copy = self.directory / "copy"
        held = self.logged(copy)
        self.tick(name="successor", logs=copy, port=port).wait_for("is listening on")
        self.eventually(lambda: self.state(port)["tip"] > held + 100, "the feed goes on")
        feed.terminate()
        self.assertEqual(feed.wait(), 1)
        accepted, unconfirmed, lost = self.reported(feed)
        self.assertGreater(lost, 300)
        self.assertEqual((accepted - lost, unconfirmed), (self.logged(copy), 0))

    def test_a_copy_that_has_everything_loses_nothing(self):
        leader = self.leader("--durability", "replica(1)", "--replica-missing", "refuse")
        follower, port = self.follower(leader)
        feed = self.feed(leader.port, port)
        self.eventually(lambda: self.state(port)["tip"] > 100, "the copy grows")
        leader.kill()
        follower.kill()
        copy = self.directory / "copy"
        held = self.logged(copy)
        self.tick(name="successor", logs=copy, port=port).wait_for("is listening on")
        self.eventually(lambda: self.state(port)["tip"] > held + 100, "the feed goes on")
        feed.terminate()
        self.assertEqual(feed.wait(), 0)
        self.assertEqual(self.reported(feed), (self.logged(copy), 0, 0))

    def test_tickerplants_that_share_no_log(self):
        one = self.leader()
        other = self.leader(name="other", logs=self.directory_of("other"), port=reserve_port())
        feed = self.feed(one.port, other.port)
        h = self.connect(one)
        self.eventually(lambda: h.ask(".u.i").v > 100, "the feed publishes")
        one.kill()
        self.assertEqual(feed.wait(), 1)
        self.assertRegex(feed.printed(), "this tickerplant writes another log")
        self.assertEqual(self.logged(self.directory / "other"), 0)


if __name__ == "__main__":
    unittest.main()
