"""Nodes and publishers on separate hosts: links cut in one or both directions, silently dropped connections, delay and loss."""

import pathlib
import unittest

from harness import audit, links
from harness.client import Connection, KdbError
from harness.cluster import GONE
from harness.publishers import Publisher
from harness.scene import SMALL, Scene, trades, update
from harness.whole import spans

PORT = 5010
ROWS = 200
REASON = links.missing()


@unittest.skipIf(REASON, f"links are not cut here: {REASON}")
class Links(Scene):
    """A tickerplant on a host; `far(name)` creates another host with a link to it."""

    def setUp(self):
        super().setUp()
        self.home = self.host("home")
        options = ("--open", "--unix-sockets", "", "--start-grace", "2s", "--node-grace", "1s")
        self.tp = self.start_at(self.home, "tick", "tick", "sym", self.logs, "-p", PORT, "--schemas", self.directory / "sym.q", *options)
        self.tp.port
        self.where, self.nodes = {self.tp: self.home}, []
        self.sent = 0
        self.feed = self.connect_at(self.home, ("127.0.0.1", PORT))

    def host(self, name):
        host = links.Host(name)
        self.addCleanup(host.close)
        return host

    def far(self, name, seed=0):
        host = self.host(name)
        link = links.Link(self.home, host, seed)
        self.addCleanup(link.close)
        return host, link

    def start_at(self, host, name, *arguments):
        return self.start(name, *arguments, wrapper=host.wrapper)

    def connect_at(self, host, address):
        with host.inside():
            return self.connect(address, deadline_s=20)

    def node(self, host, link=None, name=None, options=SMALL):
        """Starts a node on a host, which reaches the tickerplant over its link."""
        address = f"{link.near_address if link else '127.0.0.1'}:{PORT}"
        name = name or f"node{len(self.nodes)}"
        node = self.start_at(
            host, name, "rdb", address, "-p", "0", "--unix-sockets", "", "--queue", "rdb", "--node", name, *options
        )
        node.port
        self.nodes.append(node)
        self.where[node] = host
        return node

    def publish(self, updates):
        for _ in range(updates):
            self.feed.ask(update("trade", trades(self.sent, ROWS)))
            self.sent += ROWS

    def ask_at(self, process, question):
        """The result of a query from the process's own host; None without a reply."""
        try:
            with self.where[process].inside():
                h = Connection(process.port, deadline_s=5)
            with h:
                return h.ask(question)
        except (KdbError, *GONE):
            return None

    def states(self):
        table = self.ask_at(self.tp, "select node, state from .u.asg.tab where state<>`lost")
        return dict(zip(table.v["node"].v, table.v["state"].v)) if table is not None else {}

    def publish_until(self, node, state):
        for _ in range(200):
            if self.states().get(node.name) == state:
                return
            self.publish(10)
        self.fail(f"{node.name} is not {state}: {self.states()}")

    def wrong(self):
        """Current deviations according to the audit."""
        answers = [(node.name, self.ask_at(node, "(.rdb.windows;exec seq from trade)")) for node in self.nodes]
        if any(answer is None for _, answer in answers):
            return ["a node does not answer"]
        held = [(name, spans(answer.v[0]), {"trade": answer.v[1].v}) for name, answer in answers]
        return audit.of_nodes(audit.Logs(self.logs).today, held, ["trade"])

    def assert_right(self):
        wrong = []

        def right():
            wrong[:] = self.wrong()
            return not wrong

        try:
            self.eventually(right, "every update is held once")
        except AssertionError:
            self.fail("\n".join(wrong[:10]) + f"\n{self.states()}")

    def test_cut_both_ways_one_way_and_dropped_in_silence(self):
        """Four nodes, each on a host of its own, whose links fail at the same time, each in another way. What they hold is rebuilt
        at home; healed, they come back, forget what others hold by now, and wait."""
        fars = {name: self.far(name) for name in ("both", "out", "in", "silent")}
        nodes = {}
        for name, (host, link) in fars.items():
            # The last node is live when its connection dies.
            options = SMALL if name != "silent" else ("--memory", "256MiB", "--scale", "90", "--roll-threshold", "95")
            nodes[name] = self.node(host, link, name, options)
            if name != "silent":
                self.eventually(lambda: self.states().get(name) in ("live", "waiting"), f"{name} has joined")
        for name in ("both", "out", "in"):
            self.publish_until(nodes[name], "rolled")
        self.publish_until(nodes["silent"], "live")
        spares = [self.node(self.home, name=f"spare{i}", options=("--memory", "256MiB")) for i in range(4)]
        self.publish(20)
        self.assert_right()
        fars["both"][1].cut()
        fars["out"][1].to_far.cut = True
        fars["in"][1].to_near.cut = True
        local = self.local_port(fars["silent"][0])
        fars["silent"][1].dead_ports = {local}
        self.publish(50)
        gone = lambda: self.states().keys() == {"silent", *(spare.name for spare in spares)}
        self.eventually(gone, "those that are cut off are lost, the one whose connection died comes back or is replaced")
        self.publish(50)
        for name in ("both", "out", "in"):
            fars[name][1].heal()
        back = lambda: not {"both", "out", "in"} - self.states().keys()
        self.eventually(back, "all come back")
        self.publish(50)
        self.assert_right()
        logged = audit.Logs(self.logs).all_rows("trade")
        self.assertEqual(logged, list(range(self.sent)), "every acknowledged row is in the log, once, in order")

    def local_port(self, host):
        """Local port of this host's connection from its node to the tickerplant."""
        with host.inside():
            lines = pathlib.Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]
        pairs = [[int(end.split(":")[1], 16) for end in line.split()[1:3]] for line in lines]
        [local] = [local for local, remote in pairs if remote == PORT]
        return local

    def test_delay_loss_and_short_cuts(self):
        """Two nodes and a publisher far away, over links that are slow, lose packets, and are cut for moments."""
        near, far = self.far("near", seed=3), self.far("far", seed=5)
        for host, link in (near, far):
            self.node(host, link)
        self.node(self.home)
        for _, link in (near, far):
            for way in link.ways():
                way.delay_s, way.loss = 0.004, 0.01
        publisher = Publisher((far[1].near_address, PORT), "trade", trades, ROWS, dialling=far[0].inside)
        publisher.start()
        self.addCleanup(publisher.stop)
        for cut in (far[1].ways(), near[1].ways(), [far[1].to_far], [near[1].to_near], [far[1].to_near]):
            publisher.allow(40)
            done = publisher.done
            self.eventually(lambda: publisher.done > done + 10, "updates get through")
            for way in cut:
                way.cut = True
            dropped = sum(way.dropped for way in cut)
            # Wait until packets have been dropped: an idle direction drops none.
            self.eventually(lambda: sum(way.dropped for way in cut) > dropped + 3 or not publisher.allowed._value, "packets are lost")
            for way in cut:
                way.cut = False
        self.eventually(lambda: publisher.done == 200, "everything was sent")
        self.assertIsNone(publisher.failure)
        self.assert_right()
        books = audit.Logs(self.logs)
        self.assertEqual(audit.of_publisher(books, publisher), [])
        self.assertGreater(sum(way.dropped for _, link in (near, far) for way in link.ways()), 10)
