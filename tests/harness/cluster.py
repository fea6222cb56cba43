"""A tickerplant on a fixed port with nodes in one queue, and an audit of acknowledged rows against the rows on nodes."""

from . import kdb
from .client import Connection, KdbError
from .process import reserve_port
from .scene import SMALL, Scene, trades, update

GONE = (ConnectionError, TimeoutError, OSError)


class Cluster(Scene):
    """`publish` records acknowledged rows; `assert_held_once` compares them with the rows of all running nodes."""

    # Long enough for a running node to reconnect; with the default each lost node would cost half a minute.
    tick_options = ("--start-grace", "3s")
    rows_at_once = 200
    node_options = SMALL
    node_wrapper = ()

    def setUp(self):
        super().setUp()
        self.port = reserve_port()
        self.started = 0
        self.nodes = []
        self.acknowledged = []
        self.unsure = []
        self.next_seq = 0
        self.feed = None
        self.start_tick()

    def start_tick(self):
        self.started += 1
        self.tp = self.tick(*self.tick_options, name=f"tick{self.started}", port=self.port)
        self.tp.port
        return self.tp

    def start_node(self, *options, name=None):
        name = name or f"node{len(self.nodes)}"
        node = self.rdb(self.port, *(options or self.node_options), name=name, wrapper=self.node_wrapper)
        self.nodes.append(node)
        return node

    def running(self):
        return [node for node in self.nodes if node.is_running()]

    def ask(self, process, question):
        """The result of a query on a new connection; None if the process does not reply."""
        try:
            with Connection(process.port, deadline_s=20) as h:
                return h.ask(question)
        except GONE:
            return None

    def publish(self, updates=1):
        """Publishes sync updates. An update without a reply is not resent, and may be logged or not."""
        for _ in range(updates):
            if not self.connect_feed():
                continue
            first, self.next_seq = self.next_seq, self.next_seq + self.rows_at_once
            rows = range(first, first + self.rows_at_once)
            try:
                self.feed.ask(update("trade", trades(first, self.rows_at_once)))
                self.acknowledged += rows
            except KdbError as error:
                raise AssertionError(f"update {first} was refused: {error}") from None
            except GONE:
                self.feed.close()
                self.feed = None
                self.unsure += rows

    def connect_feed(self):
        """Whether the feed is connected; reconnects if the connection was lost."""
        try:
            if self.feed is None:
                self.feed = Connection(self.port, deadline_s=20)
                self.connections.append(self.feed)
        except GONE:
            return False
        return True

    def queue(self):
        """Subscribers that are not lost: list of (state, node name, closed windows); None while the tickerplant does not reply."""
        table = self.ask(self.tp, "select state, node, held from .u.asg.tab where state<>`lost")
        if table is None:
            return None
        t = table.v
        held = t["held"].v if t["held"].t == kdb.GENERAL else []
        return list(zip(t["state"].v, t["node"].v, [window.v for window in held]))

    def states(self):
        return sorted(state for state, *_ in self.queue() or [])

    def node_in(self, state):
        """A running node in this state according to the tickerplant, or None."""
        names = [name for shown, name, _ in self.queue() or [] if shown == state]
        return next((node for node in self.running() if node.name in names), None)

    def joined(self, count):
        here = lambda: len([state for state in self.states() if state != "away"]) == count
        self.eventually(here, f"{count} subscribers are in the queue")

    def replace_missing(self):
        """Acts as the fleet: starts a node if there is no standby."""
        queue = self.queue()
        if queue is not None and not {"waiting", "away"} & {state for state, *_ in queue}:
            self.start_node().port

    def held(self):
        seqs = []
        for node in self.running():
            answer = self.ask(node, "exec seq from trade")
            seqs += answer.v if answer is not None else []
        return seqs

    def held_count(self):
        counts = [self.ask(node, "count trade") for node in self.running()]
        return sum(count.v for count in counts if count is not None)

    def in_step(self):
        """Waits until nodes have ingested all acknowledged rows."""
        self.eventually(lambda: self.held_count() >= len(self.acknowledged), "the nodes keep up with the feed")

    def assert_held_once(self, why="", fleet=False):
        """Asserts that every acknowledged row is on exactly one node, every unacknowledged one at most once, and no other row is."""
        wrong = []

        def exact():
            wrong[:] = self.differences()
            if wrong and fleet:
                self.replace_missing()
            return not wrong

        try:
            self.eventually(exact, "every acknowledged row is held exactly once")
        except AssertionError:
            self.fail(f"{why}\n" + "\n".join(wrong) + self.picture())

    def differences(self):
        held = sorted(self.held())
        unique = set(held)
        lost = sorted(set(self.acknowledged) - unique)
        strange = sorted(unique - set(self.acknowledged) - set(self.unsure))
        twice = sorted({a for a, b in zip(held, held[1:]) if a == b})
        found = [("lost", lost), ("held more than once", twice), ("held but never sent", strange)]
        return [f"{len(rows)} rows {what}: {ranges(rows)}" for what, rows in found if rows]

    def picture(self):
        lines = [f"\nqueue: {self.queue()}"]
        for node in self.nodes:
            count = self.ask(node, "count trade") if node.is_running() else None
            lines.append(f"{node.name}: {'dead' if count is None else count.v}")
        return "\n".join(lines)


def ranges(rows):
    """Row numbers as ranges, abbreviated."""
    out = []
    for row in rows:
        if out and out[-1][1] == row:
            out[-1][1] = row + 1
        else:
            out.append([row, row + 1])
    return ", ".join(f"[{a},{b})" for a, b in out[:8]) + (" ..." if len(out) > 8 else "")
