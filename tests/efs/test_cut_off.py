"""The file system does not answer, the tickerplant's host is cut off, another tickerplant takes its place."""

import time

from harness import tplog
from harness.client import Connection, KdbError
from harness.cluster import GONE
from harness.scene import trades, update

from .cluster import EfsCluster
from .lab import EFS, LEASE_S, OF_TICKERPLANT


class Outage(EfsCluster):
    """The server is silent for less than a lease."""

    def answers(self, feed, first):
        """Whether an update is acknowledged within some seconds."""
        try:
            feed.ask(update("trade", trades(first, 1)))
            return True
        except GONE:
            return False

    def test_nothing_is_acknowledged_meanwhile_and_all_goes_on_afterwards(self):
        node = self.start_node()
        self.joined(1)
        self.publish(20)
        self.in_step()
        self.lab.pause_server()
        self.addCleanup(self.lab.resume_server)
        feed = Connection(self.port, deadline_s=3)
        self.connections.append(feed)
        first, self.next_seq = self.next_seq, self.next_seq + 1
        self.assertFalse(self.answers(feed, first), "acknowledged what no server has")
        self.unsure.append(first)
        self.assertGreaterEqual(self.ask(node, "count trade").v, len(self.acknowledged))
        self.lab.resume_server()
        self.assertEqual(feed.answer_or_error().t, 101, "the answer comes when the server is back")
        self.acknowledged.append(first)
        self.publish(20)
        self.assert_held_once("the server was silent for a while")
        self.assertTrue(self.tp.is_running())


class TakeOver(EfsCluster):
    """The tickerplant's host is cut off for longer than a lease."""

    address = "10.99.0.100"
    rows_at_once = 50

    def start_tick_at_the_address(self, guest):
        """A tickerplant at the address that moves with it."""
        guest.run(f"ip addr show dev vec0 | grep -q {self.address} || ip addr add {self.address}/24 dev vec0")
        guest.run(f"busybox arping -U -c 2 -I vec0 {self.address} || true")
        tick = super().start_tick(guest=guest, port=5099)
        self.port = tick.port = (self.address, 5099)
        return tick

    def start_tick(self):
        return None

    def publish_inside(self, guest, first):
        """A publisher on the tickerplant's own host that notes each update that was acknowledged."""
        program = self.directory / "publisher.py"
        program.write_text(
            f"""
import sys; sys.path.insert(0, {str(self.root)!r})
from harness.client import Connection
from harness.scene import trades, update
feed = Connection(5099, deadline_s=300)
for seq in range({first}, {first} + 1_000_000):
    feed.ask(update("trade", trades(seq, 1)))
    print(seq, flush=True)
"""
        )
        output = f"{self.label}.publisher.out"
        guest.ask("start", arguments=["python3", str(program)], output=f"/mnt/work/{output}")
        return lambda: [int(line) for line in (self.lab.work / output).read_text().split("\n") if line.isdigit()]
