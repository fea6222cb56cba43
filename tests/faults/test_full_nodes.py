"""Nodes that cannot ingest: full before they are live, an update larger than a node, another log at the log's path."""

from harness import kdb, tplog
from harness.cluster import Cluster
from harness.group import GroupCluster
from harness.pages import health
from harness.scene import Scene, trades, update

# 60 % of 8 MiB are some 5 MB; this is 5.6 MB in one variable.
FILL = "junk:til 700000"


class FullStandbys(Cluster):
    def filled(self, name):
        """A standby that a client's global has filled to its roll level."""
        node = self.start_node(name=name)
        self.eventually(lambda: name in [shown for _, shown, _ in self.queue() or []], f"{name} waits")
        self.ask(node, FILL)
        self.eventually(lambda: health(node.port)[0] == 503, "it says that it is full")
        self.assertIn("waiting, but full", health(node.port)[1])
        return node

    def first(self):
        node = self.start_node(name="first")
        self.eventually_equal(self.states, ["live"], "the first is live")
        self.publish(3)
        self.in_step()
        return node

    def test_a_full_standby_leaves_the_window_of_a_killed_node_to_a_healthy_one(self):
        first = self.first()
        full = self.filled("full")
        self.start_node(name="healthy")
        self.joined(3)
        first.kill()
        self.eventually(lambda: ("live", "healthy") in [q[:2] for q in self.queue() or []], "the healthy one is live")
        self.publish(3)
        self.assert_held_once("the window of the one that was killed is whole")
        self.assertIn(("waiting", "full"), [q[:2] for q in self.queue()], "it is no zombie")
        self.assertEqual(self.ask(full, "count trade").v, 0)
        self.eventually(lambda: health(self.port)[1].startswith("ok"), "all can be queried")

    def test_a_full_standby_alone_is_told_and_serves_once_it_has_room(self):
        first = self.first()
        full = self.filled("full")
        first.kill()
        self.eventually(lambda: "(1 standby is full)" in health(self.port)[1], "the tickerplant's health tells")
        self.assertTrue(health(self.port)[1].startswith("degraded: no live node in queue rdb"))
        self.tp.wait_for(r"(?i)ERROR.*(full|roll threshold)")
        self.publish(2)
        self.ask(full, "delete junk from `.")
        self.eventually(lambda: ("live", "full") in [q[:2] for q in self.queue() or []], "it is live with room")
        self.assert_held_once("everything is back")
        self.eventually(lambda: health(self.port)[1].startswith("ok"), "all can be queried")


    def test_a_live_node_that_is_full_before_it_has_taken_anything_waits_again(self):
        only = self.start_node(name="only")
        self.eventually_equal(self.states, ["live"], "it is live")
        self.ask(only, FILL)
        self.eventually_equal(self.states, ["waiting"], "it gives its empty window back")
        self.publish(2)
        self.ask(only, "delete junk from `.")
        self.eventually(lambda: ("live", "only") in [q[:2] for q in self.queue() or []], "it is live with room")
        self.assert_held_once("what came meanwhile is held")
        self.eventually(lambda: health(self.port)[1].startswith("ok"), "all can be queried")


class LargeUpdates(GroupCluster):
    rows_at_once = 2

    def test_an_update_larger_than_a_node_is_left_out_and_told_and_nobody_is_launched_for_it(self):
        self.start_group("--memory", "1MiB", most=4)
        self.eventually_equal(self.states, ["live"], "one is live")
        h = self.connect(self.port)
        h.ask(update("trade", trades(0, 200_000)))
        for i in range(5):
            h.ask(update("trade", trades(200_000 + i, 1)))
        node = self.connect(self.running()[0].port)
        self.eventually_equal(lambda: node.ask("exec seq from trade").v, [*range(200_000, 200_005)], "the rest is taken")
        self.fleet.wait_for(r"ERROR.*skipping update 0.*exceeds the capacity of an empty node")
        self.assertEqual((self.launched(), self.states()), (1, ["live"]))
        status, said = health(self.running()[0].port)
        self.assertEqual((status, "1 updates of its windows were rejected" in said), (503, True), said)
        self.eventually(lambda: "could not store 1 updates" in health(self.port)[1], "the tickerplant tells as well")
        self.assertEqual(h.ask("exec refused from .u.asg.tab").v, [1])


class OtherLogs(Scene):
    """Tickerplant and node see different files at the same path, as in two containers."""

    def test_another_log_at_the_same_path_is_not_read(self):
        here, there = self.directory / "here", self.directory / "there"
        for place in (here, there):
            (place / "logs").mkdir(parents=True)
        arguments = ("-p", 0, "--schemas", self.directory / "sym.q")
        tp = self.start(
            "tick", "tick", "sym", "/proc/self/cwd/logs", *arguments, wrapper=("env", "-C", here)
        )
        h = self.connect(tp)
        path = self.log_path(h)
        self.assertEqual(str(path.parent), "/proc/self/cwd/logs")
        for i in range(50):
            h.ask(update("trade", trades(i * 4, 4)))
        rows = trades(1_000_000, 4)
        times = kdb.timespans([1] * 4)
        other = [tplog.update("trade", kdb.lst(times, *rows.v)) for _ in range(50)]
        for records in (other, other[:10], []):
            with self.subTest(records=len(records)):
                tplog.write(there / "logs" / path.name, records)
                name = f"node{len(records)}"
                node = self.rdb(tp, name=name, queue=name, wrapper=("env", "-C", there))
                self.assertEqual(node.popen.poll(), None)
                asked = self.connect(node)
                self.eventually_equal(lambda: asked.ask("exec seq from trade").v, [*range(200)], "the tickerplant's rows")
                node.wait_for(r"(?i)not the tickerplant's log|another log|will stream")
