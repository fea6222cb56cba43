"""A full disk: acknowledgements stop at once with the reason; once there is room, or after a restart, all acknowledged updates are in the
log and on a node."""

import json
import os
import subprocess

from harness import kdb, tplog
from harness.client import KdbError
from harness.pages import health
from harness.process import binary, reserve_port
from harness.scene import Scene, trades, update

MOUNT = "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"


class FullDisk(Scene):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or subprocess.run([*MOUNT, self.logs], capture_output=True).returncode:
            self.skipTest("a small file system cannot be mounted here (this needs root)")
        self.addCleanup(subprocess.run, ["umount", "-l", self.logs])
        self.filler = self.logs / "filler"
        self.empty_the_disk()

    def empty_the_disk(self):
        """Removes the logs, and leaves little room."""
        for path in self.logs.iterdir():
            path.unlink()
        self.filler.write_bytes(bytes(400_000))
        self.acknowledged = []

    def start_both(self, options, name):
        """Starts a tickerplant and a node; returns both, and connections of a feed, to the node and of a subscriber of trade."""
        tp = self.tick(*options, name=name)
        feed, subscriber = self.connect(tp), self.connect(tp)
        member = self.rdb(tp, name=f"{name}-node")
        node = self.connect(member)
        self.eventually(lambda: node.ask("count trade").v == 0, "the node has joined")
        subscriber.ask(kdb.syms(".u.sub", "trade", ""))
        return tp, member, feed, node, subscriber

    def publish_until_refused(self, feed, first=0):
        for i in range(2000):
            start = first + i * 100
            try:
                feed.ask(update("trade", trades(start, 100)))
            except KdbError as error:
                return str(error)
            self.acknowledged += range(start, start + 100)
        self.fail("1 MB took 2000 updates of 100 rows")

    def test_nothing_is_acknowledged_any_more_and_all_that_was_is_kept(self):
        for durability in ("os", "each", "group(2ms)"):
            with self.subTest(durability):
                logged = self.play("--durability", durability)
                self.assertGreaterEqual(logged, len(self.acknowledged))

    def test_without_durability_no_more_is_lost_than_the_buffer_holds(self):
        logged = self.play("--durability", "none", "--limit-log-buffer", "64KiB")
        self.assertLess(36 * (len(self.acknowledged) - logged), 64 << 10)

    def test_a_publisher_with_numbers_continues_where_the_log_ends(self):
        number = lambda i: kdb.lst(
            kdb.chars(".u.upd"), kdb.sym("trade"), trades(i * 100, 100), kdb.sym("feed1"), kdb.long(i)
        )
        seq = kdb.lst(kdb.sym(".u.seq"), kdb.sym("feed1"))
        for durability in ("os", "group(2ms)"):
            with self.subTest(durability):
                self.empty_the_disk()
                name = durability[:2]
                tp = self.tick("--durability", durability, name=f"numbers-{name}")
                feed = self.connect(tp)
                feed.ask(seq)
                for sent in range(2000):
                    if error := feed.error_of(number(sent)):
                        break
                self.assertRegex(error, r"(?i)log|space|disk|full")
                log = self.log_path(feed)
                self.filler.unlink()
                # A later number must not be accepted before the publisher knows that this one was not.
                self.assertRegex(feed.error_of(number(sent + 1)), "^(io|seq): ")
                tp.terminate()
                again = self.tick("--durability", durability, name=f"numbers-again-{name}")
                feed = self.connect(again)
                last = feed.ask(seq).v
                self.assertIn(last, (sent - 1, sent), "the rejected one may have been written")
                for i in range(last + 1, sent + 5):
                    feed.ask(number(i))
                again.terminate()
                updates = [record for record in tplog.read(log) if record[0] == kdb.sym("upd")]
                seqs = [seq for record in updates for seq in record[2][4].v]
                self.assertEqual(seqs, list(range((sent + 5) * 100)))

    def test_a_feed_and_the_counters_report_what_the_log_has(self):
        for durability in ("none", "os", "each", "group(2ms)"):
            with self.subTest(durability):
                self.empty_the_disk()
                name = durability[:4]
                tp = self.tick("--durability", durability, "--limit-log-buffer", "64KiB", name=f"count-{name}")
                many = ("--updates", "8000", "--rows", "5", "--rate", "1000000", "--tables", "trade")
                feed = self.start(f"feed-{name}", "feed", f"127.0.0.1:{tp.port}", "--json", *many)
                self.assertEqual(feed.wait(), 1, "updates were rejected")
                told = json.loads(next(line for line in feed.printed().splitlines() if line.startswith("{")))
                h = self.connect(tp)
                stats = h.ask("{(x`updates;x`rows)}.u.stats").py()
                log = self.log_path(h)
                # While the disk is full: with room the log would continue, and have what was buffered.
                tp.terminate()
                self.filler.unlink()
                again = self.tick(name=f"counted-{name}")
                self.connect(again).ask(".u.i")
                again.terminate()
                records = list(tplog.read(log))
                logged, rows = len(records), sum(len(record[2][0]) for record in records)
                self.assertEqual(told["sent"], 8000)
                self.assertEqual(sum(told[count] for count in ("updates", "unconfirmed", "refused")), 8000, told)
                self.assertLessEqual(told["updates"], logged, told)
                # What was written and not synced before the failure is in the log, and was not confirmed.
                unsynced = told["unconfirmed"] if name == "grou" else 0
                self.assertLessEqual(logged, told["updates"] + unsynced, told)
                self.assertGreater(told["refused"], 0)
                self.assertRegex(" ".join(told["reasons"]), r"(?i)space|disk|full|log")
                self.assertEqual(stats, [logged, rows])

    def test_updates_are_accepted_again_once_there_is_room_and_nothing_acknowledged_is_lost_or_held_twice(self):
        for durability in ("none", "os", "each", "group(2ms)"):
            with self.subTest(durability):
                self.empty_the_disk()
                name = durability[:4]
                options = ("--durability", durability, "--limit-log-buffer", "64KiB")
                tp, member, feed, node, subscriber = self.start_both(options, f"room-{name}")
                for cycle in range(2):
                    first = 1_000_000 * cycle
                    self.publish_until_refused(feed, first)
                    self.assertIsNotNone(feed.error_of(update("trade", trades(900_000, 1))), "acknowledged while full")
                    status, said = health(tp.port)
                    self.assertEqual((status, "accepted again" in said), (503, True), said)
                    self.filler.unlink()
                    self.eventually(lambda: health(tp.port)[0] == 200, "there is room")
                    last = first + 999_999
                    feed.ask(update("trade", trades(last, 1)))
                    self.acknowledged.append(last)
                    if cycle == 0:
                        room = os.statvfs(self.logs).f_bavail * os.statvfs(self.logs).f_frsize
                        self.filler.write_bytes(bytes(max(room - 100_000, 0)))
                has_all = lambda: node.ask("exec seq from trade").v[-1:] == self.acknowledged[-1:]
                self.eventually(has_all, "the node has the last")
                held = node.ask("exec seq from trade").v
                seen = []
                while seen[-1:] != self.acknowledged[-1:]:
                    seen += subscriber.push()[2]["seq"].v
                path = self.log_path(feed)
                tp.terminate()
                logged = [seq for record in tplog.read(path) for seq in record[2][4].v]
                self.assertEqual(held, logged)
                self.assertEqual(seen, logged)
                self.assertEqual([seq for seq in logged if seq in set(self.acknowledged)], self.acknowledged)
                self.assertEqual(len(set(logged)), len(logged), "nothing twice")
                self.assertRegex(tp.printed(), "has room again")
                member.kill()
                self.filler.unlink(missing_ok=True)

    def test_a_day_that_cannot_end_goes_on_after_a_restart_with_the_updates_since(self):
        tp, _, feed, node, _ = self.start_both(("--durability", "each"), "roll")
        feed.ask(update("trade", trades(0, 1)))
        # What follows fits the page that the log has, and no other file gets one.
        with self.filler.open("ab", buffering=0) as filler, self.assertRaises(OSError):
            while True:
                filler.write(bytes(4096))
        path = self.log_path(feed)
        error = feed.error_of(kdb.lst(kdb.sym(".u.endofday"), kdb.sym("force")))
        self.assertRegex(error, "^os: .*(?i:space)")
        feed.ask(update("trade", trades(1, 1)))
        tp.kill()
        tp.wait()
        self.filler.unlink()
        again = self.tick("--durability", "each", name="roll-again", port=tp.port)
        h = self.connect(again)
        self.assertEqual((self.log_path(h), h.ask(".u.i").v), (path, 2))
        h.ask(update("trade", trades(2, 1)))
        self.eventually_equal(lambda: node.ask("exec seq from trade").v, [0, 1, 2], "the node has the day")
        h.ask(kdb.lst(kdb.sym(".u.endofday"), kdb.sym("force")))
        self.eventually(lambda: node.ask("count trade").v == 0, "the day has ended")
        self.assertNotEqual(self.log_path(h), path)

    def test_a_node_and_a_console_with_two_addresses_use_one_that_cannot_log_now(self):
        tp = self.tick(name="full")
        feed = self.connect(tp)
        self.publish_until_refused(feed)
        self.assertEqual(feed.ask("(.u.state[])`role").v, "passive")
        both = f"127.0.0.1:{reserve_port()},127.0.0.1:{tp.port}"
        self.start("late", "rdb", both, "-p", "0", "--node", "late")
        self.eventually(lambda: feed.ask("count .u.asg.tab").v == 1, "the node joins")
        console = subprocess.run([binary(), "q", both], input="1+1\n", capture_output=True, text=True, timeout=60)
        self.assertEqual(console.stdout, "2\n", console.stderr)

    def play(self, *options):
        """Fills the disk and restarts. Returns how many of the first rows the log has kept."""
        self.empty_the_disk()
        name = options[1][:4]
        tp, member, feed, node, subscriber = self.start_both(options, f"full-{name}")
        error = self.publish_until_refused(feed)
        self.assertRegex(error, r"(?i)log|space|disk|full")
        self.assertIsNotNone(feed.error_of(update("trade", trades(900_000, 1))), "acknowledged after a failed write")
        self.assertEqual(feed.ask("1+1").v, 2, "questions are still answered")
        self.assertRegex(tp.printed(), r"(?i)space|disk|full")
        seen = []
        while len(seen) < len(self.acknowledged):
            seen += subscriber.push()[2]["seq"].v
        self.assertEqual(seen[: len(self.acknowledged)], self.acknowledged)
        has_all = lambda: node.ask("exec seq from trade").v[: len(self.acknowledged)] == self.acknowledged
        self.eventually(has_all, "the node has all that was acknowledged")
        tp.terminate()
        self.filler.unlink()
        again = self.tick(*options, name=f"again-{name}", port=tp.port)
        h = self.connect(again)
        h.ask(update("trade", trades(950_000, 1)))
        path = self.log_path(h)
        self.eventually(lambda: node.ask("last exec seq from trade").v == 950_000, "the node is back")
        again.terminate()
        logged = [seq for record in tplog.read(path) for seq in record[2][4].v]
        held = node.ask("exec seq from trade").v
        self.assertEqual(held, logged, "what the node had and the log has not is dropped")
        # The rejected update may have been written or not.
        kept = len(logged) - 1
        self.assertIn(kept, range(len(self.acknowledged) + 101))
        self.assertEqual(logged, [*range(kept), 950_000])
        member.kill()
        return kept
