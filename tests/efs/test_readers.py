"""Readers in another kernel, of a log that lags, shrinks, is replaced, or does not exist yet."""

import datetime

from harness.process import binary

from .cluster import EfsCluster, long
from .lab import DEFAULTS, EFS


class StaleSizes(EfsCluster):
    """The nodes' kernel caches sizes for ten minutes, and another process there keeps the log open."""

    of_nodes = f"{DEFAULTS},actimeo=600"

    def log(self):
        """The day's log on the server."""
        return next(path for path in self.path.glob("sym????.??.??"))

    def test_a_tip_announced_before_the_file_shows_it_is_replayed_by_path(self):
        self.publish(20)
        first = self.start_node()
        self.assert_held_once("the first node")
        path = f"{EFS}/{self.path.name}/{self.log().name}"
        watcher = self.there.ask("start", arguments=["tail", "-f", path], output="/dev/null")
        self.addCleanup(lambda: self.there.ask("kill", pid=watcher))
        old = self.there.run(f"stat -c %s {path}")
        self.publish(100)
        self.in_step()
        first.kill()
        node = self.start_node()
        self.assert_held_once("the file had grown since it was looked at here")
        self.assertNotRegex(node.printed(), "cannot continue|will stream|receiving the feed from update 0 on")
        self.assertRegex(node.printed(), "live from update 0")
        self.assertLess(int(old), self.log().stat().st_size)


@long
class StaleOpens(StaleSizes):
    """A mount without close-to-open consistency: opening a file does not ask the server."""

    of_nodes = f"{DEFAULTS},actimeo=600,nocto"


class Shrinking(EfsCluster):
    def cat_stopped_in_the_middle(self):
        """`elastick log cat` in the nodes' guest, blocked by the reader of its output until the file `go` exists."""
        path = f"{EFS}/{self.path.name}/{self.log().name}"
        command = (
            f"{binary()} log cat {path} 2>/mnt/work/{self.label}.err | "
            f"(head -c 100 >/dev/null; touch /mnt/work/{self.label}.begun; "
            f"while [ ! -e /mnt/work/{self.label}.go ]; do sleep 0.1; done; cat >/dev/null)"
        )
        pid = self.there.ask("start", arguments=["bash", "-o", "pipefail", "-c", command], output="/dev/null")
        self.eventually((self.lab.work / f"{self.label}.begun").exists, "the log is being read")
        return pid

    log = StaleSizes.log

    def go_on(self, pid):
        """Lets it continue. Returns exit code and output."""
        (self.lab.work / f"{self.label}.go").touch()
        self.eventually(lambda: self.there.ask("poll", pid=pid) is not None, "the reader ends")
        return self.there.ask("poll", pid=pid), (self.lab.work / f"{self.label}.err").read_text()

    def test_a_reader_of_a_log_that_is_cut_says_so(self):
        self.publish(400)
        self.tp.terminate()
        pid = self.cat_stopped_in_the_middle()
        with self.log().open("r+b") as file:
            file.truncate(1000)
        code, said = self.go_on(pid)
        self.assertRegex(said, "shrank from [0-9]+ to 1000 bytes")
        self.assertEqual(code, 1)

    def test_a_log_that_was_cut_under_its_tickerplant_kills_nobody(self):
        """Rows are gone, which nobody can undo; every process lives and says what it cannot read."""
        self.publish(400)
        with self.log().open("r+b") as file:
            file.truncate(self.log().stat().st_size // 2)
        node = self.start_node()
        node.wait_for("cannot continue the replay|will stream|receiving the feed from")
        for process in (self.tp, node):
            self.assertNotIn(EFS, process.guest.run(f"cat /proc/{process.pid}/maps"), "a file of the log is mapped")
            self.assertEqual(self.ask(process, "1+1").v, 2)
        self.assertTrue(node.is_running() and self.tp.is_running())


class NewDay(EfsCluster):
    """A new day's log whose name was looked up before it existed."""

    of_nodes = DEFAULTS

    def look_for_it(self):
        """Starts a process on the nodes' host that repeatedly looks up the name of tomorrow's log."""
        looked = self.lab.work / f"{self.label}.looked"
        command = f"while :; do [ -e {EFS}/{self.path.name}/{self.tomorrow()} ]; touch /mnt/work/{looked.name}; done"
        pid = self.there.ask("start", arguments=["bash", "-c", command], output="/dev/null")
        self.addCleanup(lambda: self.there.ask("kill", pid=pid))
        self.eventually(looked.exists, "the name has been looked for")

    def tomorrow(self):
        log = next(path for path in self.path.glob("sym????.??.??"))
        day = datetime.date(*map(int, log.name[3:].split(".")))
        return f"sym{day + datetime.timedelta(days=1):%Y.%m.%d}"

    def test_the_day_rolls_and_a_late_node_has_the_new_day_whole(self):
        first = self.start_node()
        self.publish(20)
        self.assert_held_once("the old day")
        self.look_for_it()
        self.ask(self.tp, ".u.endofday[]")
        self.acknowledged.clear()
        self.publish(20)
        self.assert_held_once("the new day")
        late = self.start_node()
        late.port
        self.joined(2)
        first.kill()
        self.assert_held_once("the late node replayed the new day")
        self.publish(5)
        self.assert_held_once("and takes the feed")


@long
class NewDayByName(NewDay):
    """The same with the recommended options, which do not cache missing names."""

    of_nodes = EfsCluster.of_nodes
