"""kill -9 of each kind of process: no acknowledged update is lost or duplicated."""

from harness import wire
from harness.cluster import Cluster
from harness.scene import trades, update


class Kills(Cluster):
    def start_nodes(self, count):
        for _ in range(count):
            self.start_node()
        self.joined(count)

    def fill_until(self, rolled):
        """Publishes until this many nodes have rolled."""
        for _ in range(60):
            self.publish(20)
            self.in_step()
            if self.states().count("rolled") >= rolled:
                return
        self.fail(f"only {self.states()} after {self.next_seq} rows")

    def test_a_waiting_node(self):
        self.start_nodes(3)
        self.publish(10)
        self.in_step()
        self.node_in("waiting").kill()
        self.publish(10)
        self.fill_until(1)
        self.assert_held_once("the waiting node was killed")

    def test_a_live_node(self):
        self.start_nodes(3)
        self.fill_until(1)
        self.publish(10)
        self.in_step()
        self.node_in("live").kill()
        self.publish(10)
        self.start_node()
        self.assert_held_once("the live node was killed")

    def test_a_rolled_node(self):
        self.start_nodes(3)
        self.fill_until(1)
        self.node_in("rolled").kill()
        self.publish(10)
        self.start_node()
        self.assert_held_once("the rolled node was killed")

    def test_the_tickerplant(self):
        self.start_nodes(3)
        self.fill_until(1)
        self.tp.kill()
        self.publish(1)
        self.start_tick()
        self.joined(3)
        self.publish(20)
        self.assert_held_once("the tickerplant was killed")

    def test_the_tickerplant_in_the_middle_of_a_stream(self):
        """Async updates are on their way when it dies: those logged are held, each once."""
        self.start_nodes(1)
        self.publish(1)
        stream = [wire.message(update("trade", trades(self.next_seq + i, 1)), wire.ASYNC) for i in range(20_000)]
        self.unsure += range(self.next_seq, self.next_seq + len(stream))
        self.next_seq += len(stream)
        self.feed.raw(b"".join(stream[:10_000]))
        self.tp.kill()
        self.feed = None
        self.start_tick()
        self.joined(1)
        self.publish(5)
        self.assert_held_once("the tickerplant was killed under load")
