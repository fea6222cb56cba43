"""Two nodes configured with one name: the second is rejected with an explanation, and the first is unaffected."""

from harness import kdb
from harness.pages import health
from harness.scene import Scene, trades, update

from .claims import join


class Names(Scene):
    def node(self, tp, process):
        arguments = ("rdb", f"127.0.0.1:{tp.port}", "-p", "0", "--queue", "rdb", "--node", "same")
        return self.start(process, *arguments)

    def test_the_second_of_a_name_is_refused_and_takes_over_once_the_first_has_ended(self):
        tp = self.tick()
        h = self.connect(tp)
        first = self.node(tp, "first")
        self.eventually_equal(lambda: h.ask("exec state from .u.asg.tab").v, ["live"], "the first is live")
        handle = h.ask("exec handle from .u.asg.tab").v
        second = self.node(tp, "second")
        words = r"rejects this node.*a node named same is already connected.*--node"
        # It retries repeatedly, and nothing changes.
        self.eventually(lambda: len(second.printed().split("already connected")) > 3, "the second is refused")
        second.wait_for(words)
        status, said = health(second.port)
        self.assertEqual(status, 503)
        self.assertRegex(said, words)
        self.assertNotIn("lost the connection", first.printed())
        self.assertEqual(h.ask("exec handle from .u.asg.tab").v, handle)
        h.ask(update("trade", trades(0, 4)))
        asked = self.connect(first)
        self.eventually_equal(lambda: asked.ask("count trade").v, 4, "the first takes updates")
        first.kill()
        asked = self.connect(second)
        self.eventually_equal(lambda: asked.ask("count trade").v, 4, "the second takes over")
        self.assertEqual(h.ask("exec state from .u.asg.tab where state<>`lost").v, ["live"])

    def test_a_stranger_does_not_take_over_the_name_of_a_node_that_is_connected(self):
        """Neither of one with a configured name nor of one without."""
        tp = self.tick()
        h = self.connect(tp)
        self.node(tp, "configured")
        self.start("named", "rdb", f"127.0.0.1:{tp.port}", "-p", "0", "--queue", "rdb")
        nodes = "select node,handle from .u.asg.tab"
        self.eventually(lambda: len(h.ask(nodes)) == 2, "both have joined")
        before = h.ask(nodes).py()
        for name in before["node"]:
            for more in ({}, {"process": kdb.sym("0123456789abcdef")}):
                self.assertRegex(self.connect(tp).error_of(join(name, "rdb", **more)), "already connected")
        self.assertEqual(h.ask(nodes).py(), before)
