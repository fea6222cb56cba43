"""An intraday write-down in q beside nodes: what it has written, nodes need to hold no longer."""

import pathlib
import subprocess

from harness import kdb
from harness.client import Connection
from harness.process import binary
from harness.whole import Probe

from .test_sleep import Sleeper

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "write-down" / "intraday.q"
# Rows of a table that are written at once.
AT_ONCE = 20_000


class WriteDown(Sleeper):
    sleeps = ("--idle-off", "1h")

    def of_tick(self, expression):
        with Connection(self.port) as h:
            return h.ask(expression).v

    def on_disk(self):
        """The rows of the partition on disk, by their numbers."""
        (partition,) = (path for path in (self.directory / "db").iterdir() if path.is_dir())
        at = lambda path: f'(hsym `$"{path}")'
        script = f'load {at(self.directory / "db" / "sym")}; -1 " " sv string exec seq from get {at(f"{partition}/trade/")};'
        done = subprocess.run([binary(), "q"], input=script, capture_output=True, text=True, timeout=60, check=True)
        return [int(word) for word in done.stdout.split()]

    def test_nodes_end_once_what_they_hold_is_on_disk_and_nothing_is_missing(self):
        self.start("writer", "q", SCRIPT, f"127.0.0.1:{self.port}", self.directory / "db", str(AT_ONCE), "-p", "0W")
        self.eventually(lambda: self.of_tick("count raze value .u.w") >= 1, "the write-down process subscribes")
        self.call("set", kdb.sym("rdb"), kdb.long(1))
        self.joined(1)

        def has_let_go():
            self.publish(20)
            windows = Probe(self).look()[1]
            return bool(windows) and min(first for _, first, *_ in windows) > 0

        self.eventually(has_let_go, "the node of the first window ends")
        rows, windows = Probe(self).look()
        self.assertLessEqual(min(first for _, first, *_ in windows), self.of_tick(".u.asg.written[.u.d;0N]"))
        written = self.on_disk()
        self.assertEqual(written, self.acknowledged[: len(written)], "each row once and in order")
        self.assertEqual(sorted({*written, *rows}), self.acknowledged)
