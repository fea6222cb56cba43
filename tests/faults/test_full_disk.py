"""A full disk: acknowledgements stop at once and say why; what was acknowledged is there after the restart."""

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
                self.play(durability)

    def play(self, durability):
        self.acknowledged.clear()
        for path in self.logs.iterdir():
            path.unlink()
        self.filler.write_bytes(bytes(400_000))
        name = durability[:4]
        tp = self.tick("--durability", durability, name=f"full-{name}")
        feed, subscriber = self.connect(tp), self.connect(tp)
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
        tp.terminate()
        again = self.tick("--durability", durability, name=f"again-{name}")
        h = self.connect(again)
        h.ask(update("trade", trades(950_000, 1)))
        logged = [seq for record in tplog.read(self.log_path(h)) for seq in record[2][4].v]
        self.assertEqual(logged[: len(self.acknowledged)], self.acknowledged)
        self.assertEqual(logged[-1], 950_000)
        self.assertLessEqual(len(logged), len(self.acknowledged) + 101)
        again.kill()
