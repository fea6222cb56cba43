"""Clusters at zero: no node is there until the day's first update, or until queries are announced, and idle ones end."""

import datetime
import pathlib
import signal
import tempfile

from harness import kdb
from harness.client import Connection, KdbError
from harness.clock import Clock
from harness.group import GroupCluster
from harness.pages import health, metrics
from harness.process import binary, reserve_port
from harness.whole import Probe, is_whole

SMALL = ("--memory", "8MiB", "--scale", "30", "--roll-threshold", "60")


class Sleeper(GroupCluster):
    """A group that may have no instances, and a tickerplant that knows its supervisor."""

    sleeps = ()
    least = 0
    launches = ()

    def setUp(self):
        self.fleet_port = reserve_port()
        self.tick_options = ("--start-grace", "3s", "--node-fleet", f"127.0.0.1:{self.fleet_port}/rdb", *self.sleeps)
        super().setUp()
        node = (binary(), "rdb", f"127.0.0.1:{self.port}", "-p", "0", *SMALL)
        at = ("-p", f"127.0.0.1:{self.fleet_port}", "--group", "rdb", "--min", self.least, "--max", 8)
        self.fleet = self.start("fleet", "fleet", *at, *self.launches, "--", *node)
        self.fleet.wait_for(r"answers at port")

    def rows_and_windows(self):
        rows, windows = Probe(self).look()
        return sorted(rows), [span for _, *span in windows]

    def whole(self, why):
        """Waits until nodes hold every acknowledged row of the day once, in windows from 0 on without a gap."""

        def look():
            rows, windows = self.rows_and_windows()
            return is_whole(windows) and rows == self.acknowledged

        self.eventually(look, why)

    def comes_to_rest(self, why):
        """Waits until no instance is left or to come."""
        self.eventually(lambda: self.description()["desired"].v == 0 and not self.instances(), why)
        self.assertEqual(self.states(), [])

    def instances(self):
        return self.description()["members"].v["instance"].v

    def end_day(self):
        with Connection(self.port) as h:
            h.ask(".u.endofday[]")
        self.acknowledged = []


class FirstUpdate(Sleeper):
    sleeps = ("--wake", "first-update")

    def test_the_first_update_starts_the_first_node_which_has_all_updates(self):
        self.assertEqual(self.launched(), 0)
        self.publish(5)
        self.whole("the first node replays what it has missed")
        self.assertEqual(self.launched(), 1)
        while "rolled" not in self.states():
            self.publish(20)
            self.in_step()
        self.whole("nodes request their successors themselves")

    def test_all_nodes_end_with_the_day_and_the_next_days_first_update_starts_one(self):
        self.publish(3)
        self.whole("the first day")
        before = self.launched()
        self.end_day()
        self.comes_to_rest("all nodes end with the day")
        self.assertEqual(self.launched(), before)
        status, text = health(self.port)
        self.assertEqual((status, text[:3]), (200, "ok:"), text)
        self.assertEqual(metrics(self.port)["elastick_queues_asleep"], 1)
        self.publish(4)
        self.whole("the second day from its first update on")
        self.assertEqual(self.launched(), before + 1)

    def test_a_tickerplant_that_is_killed_while_its_cluster_sleeps_wakes_it_all_the_same(self):
        self.publish(3)
        self.whole("the first day")
        self.end_day()
        self.comes_to_rest("all nodes end with the day")
        self.tp.popen.send_signal(signal.SIGKILL)
        self.tp.popen.wait()
        self.feed = None
        self.start_tick()
        self.publish(2)
        self.whole("the second day from its first update on")

    def test_a_supervisor_that_is_down_is_asked_again(self):
        self.fleet.popen.send_signal(signal.SIGTERM)
        self.fleet.popen.wait()
        self.publish(2)
        self.tp.wait_for("cannot request nodes of group rdb")
        node = (binary(), "rdb", f"127.0.0.1:{self.port}", "-p", "0", *SMALL)
        at = ("-p", f"127.0.0.1:{self.fleet_port}", "--group", "rdb", "--min", 0, "--max", 8)
        self.fleet = self.start("fleet2", "fleet", *at, "--", *node)
        self.whole("the node comes once the supervisor is back")


class KeptNode(Sleeper):
    """The group's minimum is one: its last instance may not end."""

    sleeps = ("--wake", "first-update")
    least = 1

    def test_a_node_that_the_fleet_keeps_goes_on_with_the_next_day(self):
        self.publish(3)
        self.whole("the first day")
        self.end_day()
        self.publish(3)
        self.whole("the second day")
        self.assertEqual(len(self.instances()), 1)


class IdleOff(Sleeper):
    sleeps = ("--idle-off", "4s")

    def fill(self):
        """Starts a node and publishes until it has rolled and its successor is live."""
        self.call("set", kdb.sym("rdb"), kdb.long(1))
        self.joined(1)
        while "rolled" not in self.states():
            self.publish(20)
            self.in_step()
        self.whole("two nodes hold the day")

    def test_an_idle_cluster_ends_and_an_update_brings_a_node_for_each_window(self):
        self.fill()
        nodes = len(self.states())
        launched = self.launched()
        self.comes_to_rest("nothing has happened for so long")
        self.assertEqual(self.launched(), launched, "no instance is launched for one that ends")
        self.assertNotIn("starting its replacement", self.fleet.printed())
        self.publish(1)
        self.whole("the day is there again")
        self.assertGreaterEqual(len(self.states()), nodes)

    def test_announced_queries_wake_an_idle_cluster(self):
        self.fill()
        self.comes_to_rest("nothing has happened for so long")
        with Connection(self.port) as h:
            answer = h.ask(".u.asg.wake[]")
        answer = dict(zip(answer.v[0].v, answer.v[1].v))
        self.assertGreaterEqual(answer["nodes"].v, 2)
        self.assertRegex(answer["text"].v, r"requested \d+ nodes: ready in about \d+ s; then the log is replayed: [\d,]+ updates")
        self.whole("the day is there again")

    def test_queries_keep_a_cluster_awake(self):
        self.fill()
        here = self.states()
        ages = lambda: [age for age in self.description()["members"].v["age"].v]
        # Each look queries every node.
        self.eventually(lambda: (self.rows_and_windows(), min(ages()) > 10_000_000_000)[1], "it is older than --idle-off")
        self.assertEqual(self.states(), here)


class SlowLaunches(Sleeper):
    """An instance takes longer to launch than the cluster takes to fall asleep."""

    sleeps = ("--idle-off", "2s")
    launches = ("--launch-delay", "6s")

    def test_an_instance_that_was_still_launching_ends_as_its_node_joins(self):
        self.call("set", kdb.sym("rdb"), kdb.long(1))
        self.joined(1)
        while self.description()["desired"].v < 2:
            self.publish(5)
            self.in_step()
        self.assertEqual(self.states(), ["live"], "its successor is on its way")
        self.tp.wait_for("the queue sleeps")
        self.tp.wait_for("its instance was requested before the queue fell asleep")
        self.comes_to_rest("the successor has ended too")
        self.publish(1)
        self.whole("the day is there again")


class LogAway(Sleeper):
    """The directory of the log is moved away while the cluster sleeps."""

    sleeps = ("--wake", "first-query", "--idle-off", "4s")

    def test_a_cluster_that_wakes_without_its_log_says_so_and_has_everything_once_it_is_back(self):
        with Connection(self.port) as h:
            h.ask(".u.asg.wake[]")
        self.publish(40)
        self.whole("the nodes have the day")
        self.comes_to_rest("nothing has happened for so long")
        away = self.logs.with_name("away")
        self.logs.rename(away)
        with Connection(self.port) as h:
            h.ask(".u.asg.wake[]")
        self.joined(1)
        self.tp.wait_for("(cannot open|No such file|entity not found)")
        self.assertNotEqual(self.rows_and_windows()[0], self.acknowledged)
        away.rename(self.logs)
        self.whole("the log is back, and nothing is missing")
        self.assertNotIn("panicked", self.tp.printed())


class FirstQuery(Sleeper):
    sleeps = ("--wake", "first-query")

    def test_updates_alone_start_no_node(self):
        self.publish(50)
        self.assertEqual(self.launched(), 0)
        with Connection(self.port) as h:
            answer = h.ask(".u.asg.wake[]")
        self.assertEqual(dict(zip(answer.v[0].v, answer.v[1].v))["nodes"].v, 1)
        self.whole("the node replays the day")

    def test_as_many_nodes_come_as_the_log_needs(self):
        self.publish(1)
        with Connection(self.port) as h:
            h.ask(".u.asg.wake[]")
        self.joined(1)
        while "rolled" not in self.states():
            self.publish(20)
            self.in_step()
        fills = next(last for first, last, is_open in sorted(self.rows_and_windows()[1]) if not is_open)
        self.end_day()
        self.comes_to_rest("all nodes end with the day")
        self.publish(2 * fills + 5)
        with Connection(self.port) as h:
            answer = h.ask(".u.asg.wake[]")
        self.assertEqual(dict(zip(answer.v[0].v, answer.v[1].v))["nodes"].v, 3)
        self.whole("three nodes replay the day")


MARKET = """\
zone = "UTC"
open = "09:00"
close = "16:30"
end = "17:00"
prepare = "30m"
"""


class Market(Sleeper):
    """A trading calendar, and a wall clock that moves over a weekend."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="elastick-test-")
        self.addCleanup(directory.cleanup)
        self.clock = Clock(pathlib.Path(directory.name))
        calendar = pathlib.Path(directory.name) / "market.toml"
        calendar.write_text(MARKET)
        self.environment = {**self.clock.environment, "TZ": "UTC"}
        self.sleeps = ("--wake", "calendar", "--calendar", calendar)
        self.show(4, "16:00")
        super().setUp()

    def show(self, weekday, time):
        """Sets the clock to a time of next week's Friday (4), the Saturday after it, or the Monday after that (7)."""
        now = datetime.datetime.now(datetime.timezone.utc)
        monday = now.date() + datetime.timedelta(7 - now.weekday())
        self.date = monday + datetime.timedelta(weekday)
        hour, minute = (int(part) for part in time.split(":"))
        at = datetime.datetime.combine(self.date, datetime.time(hour, minute), datetime.timezone.utc)
        self.clock.set((at - now).total_seconds())

    def day(self):
        with Connection(self.port) as h:
            return h.ask("string .u.d").v.replace(".", "-")

    def test_a_cluster_follows_its_market_over_a_weekend(self):
        friday = self.date
        self.joined(1)
        self.publish(3)
        self.whole("the market is open")
        launched = self.launched()
        self.show(4, "17:01")
        self.comes_to_rest("the day ends with the market, and all nodes with it")
        self.acknowledged = []
        monday = friday + datetime.timedelta(3)
        self.assertEqual(self.day(), str(monday))
        self.show(5, "12:00")
        with Connection(self.port) as h:
            today = h.ask(".u.calendar[]")
            saturday = h.ask(f".u.calendar[{str(friday + datetime.timedelta(1)).replace('-', '.')}]")
        of = lambda answer, key: dict(zip(answer.v[0].v, answer.v[1].v))[key].v
        self.assertEqual((of(today, "date"), of(today, "trading")), (of(saturday, "next"), True))
        self.assertEqual((of(saturday, "trading"), self.launched()), (False, launched))
        self.show(7, "08:31")
        self.joined(1)
        self.assertEqual(self.launched(), launched + 1)
        self.publish(2)
        self.whole("Monday")
        logs = sorted(path.name for path in self.logs.iterdir() if path.name.startswith("sym2") and len(path.name) == 13)
        self.assertEqual(logs, [f"sym{date.strftime('%Y.%m.%d')}" for date in (friday, monday)])
        self.assertNotIn("WARN", self.tp.printed())


class WrittenDown(Sleeper):
    """An intraday write-down: another process has the rows of the earlier part of the day."""

    def written(self, index):
        with Connection(self.port) as h:
            return h.ask(f".u.asg.written[.u.d;{index}]").v

    def closed(self):
        """The closed windows of all nodes, in order."""
        return sorted((first, last) for first, last, is_open in self.rows_and_windows()[1] if not is_open)

    def test_nodes_that_hold_only_what_is_written_down_end_and_the_rest_of_the_day_stays(self):
        self.call("set", kdb.sym("rdb"), kdb.long(1))
        self.joined(1)
        while self.states().count("rolled") < 2:
            self.publish(20)
            self.in_step()
        self.whole("three nodes hold the day")
        (_, first), (_, second) = self.closed()[:2]
        self.assertEqual(self.written(first - 1), first - 1)
        self.assertEqual(len(self.closed()), 2, "a window that is written down in part stays")
        self.assertEqual(self.written(first), first)
        rest = self.acknowledged[first * self.rows_at_once :]

        def is_left():
            rows, windows = self.rows_and_windows()
            return rows == rest and min(windows)[0] == first

        self.eventually(is_left, "the first node has dropped its window")
        self.eventually(lambda: len(self.instances()) == 2, "and its instance has ended")
        self.tp.popen.send_signal(signal.SIGKILL)
        self.tp.popen.wait()
        self.feed = None
        self.start_tick()
        self.assertEqual(self.written("0N"), first, "it is in the journal")
        self.eventually(is_left, "no node rebuilds it")
        self.publish(3)
        rest = self.acknowledged[first * self.rows_at_once :]
        self.eventually(is_left, "the day goes on")
        self.written(second)
        self.eventually(lambda: len(self.instances()) == 1, "the second has ended too")
        self.assertEqual(self.closed(), [])
        self.assertTrue(health(self.port)[1].startswith("ok:"), health(self.port))
        with self.assertRaisesRegex(KdbError, "domain"):
            self.written(10**9)


class WithoutFleet(GroupCluster):
    def test_nothing_can_wake_a_cluster_without_a_fleet(self):
        with Connection(self.port) as h, self.assertRaises(KdbError) as raised:
            h.ask(".u.asg.wake[]")
        self.assertIn("domain", str(raised.exception))
