"""A full disk: acknowledgements stop at once with the reason; after a restart all acknowledged updates are in the log and on a node."""

import os
import subprocess

from harness import kdb, tplog
from harness.client import KdbError
from harness.scene import Scene, trades, update

MOUNT = "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"


class FullDisk(Scene):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or subprocess.run([*MOUNT, self.logs], capture_output=True).returncode:
            self.skipTest("a small file system cannot be mounted here (this needs root)")
        self.addCleanup(subprocess.run, ["umount", "-l", self.logs])
        self.filler = self.logs / "filler"
        self.filler.write_bytes(bytes(400_000))
        self.acknowledged = []

    def publish_until_refused(self, feed):
        for i in range(2000):
            try:
                feed.ask(update("trade", trades(i * 100, 100)))
            except KdbError as error:
                return str(error)
            self.acknowledged += range(i * 100, i * 100 + 100)
        self.fail("1 MB took 2000 updates of 100 rows")

    def test_nothing_is_acknowledged_any_more_and_all_that_was_is_kept(self):
        for durability in ("os", "each", "group(2ms)"):
            with self.subTest(durability):
                logged = self.play("--durability", durability)
                self.assertGreaterEqual(logged, len(self.acknowledged))

    def test_without_durability_no_more_is_lost_than_the_buffer_holds(self):
        logged = self.play("--durability", "none", "--limit-log-buffer", "64KiB")
        self.assertLess(36 * (len(self.acknowledged) - logged), 64 << 10)

    def play(self, *options):
        """Fills the disk and restarts. Returns how many of the first rows the log has kept."""
        self.acknowledged.clear()
        for path in self.logs.iterdir():
            path.unlink()
        self.filler.write_bytes(bytes(400_000))
        name = options[1][:4]
        tp = self.tick(*options, name=f"full-{name}")
        feed, subscriber = self.connect(tp), self.connect(tp)
        member = self.rdb(tp, name=f"node-{name}")
        node = self.connect(member)
        self.eventually(lambda: node.ask("count trade").v == 0, "the node has joined")
        subscriber.ask(kdb.syms(".u.sub", "trade", ""))
        error = self.publish_until_refused(feed)
        self.assertRegex(error, r"(?i)log|space|disk|full")
        self.filler.unlink()
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
