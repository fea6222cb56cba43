"""Outages of the file system; a disconnected tickerplant host; takeover by another tickerplant."""

import pathlib
import sys

from harness import tplog
from harness.client import Connection
from harness.cluster import GONE
from harness.process import eventually
from harness.scene import trades, update

from .cluster import EfsCluster, long
from .lab import Lab, OF_TICKERPLANT

TESTS = pathlib.Path(__file__).parents[1]
NULL = 101


class Outage(EfsCluster):
    """Outages shorter than the lease."""

    def is_acknowledged(self, feed, first):
        """Whether an update is acknowledged within some seconds."""
        feed.deadline_s = 3
        try:
            feed.ask(update("trade", trades(first, 1)))
            return True
        except GONE:
            return False
        finally:
            feed.deadline_s = 120

    def outage(self, begin, end, meanwhile=lambda: None):
        """Asserts that during an outage nothing is acknowledged and nodes reply, and that everything continues afterwards."""
        node = self.start_node()
        self.joined(1)
        self.publish(20)
        self.in_step()
        feed = Connection(self.port)
        self.connections.append(feed)
        begin()
        self.assertFalse(self.is_acknowledged(feed, self.next_seq), "acknowledged what no server has")
        self.assertGreaterEqual(self.ask(node, "count trade").v, len(self.acknowledged))
        meanwhile()
        end()
        return feed

    def test_a_server_that_is_silent_for_a_while_costs_time_only(self):
        self.addCleanup(self.lab.resume_server)
        first = self.next_seq + 20 * self.rows_at_once

        def the_loop_turns():
            self.assertEqual(self.ask(self.tp, "1+1").v, 2)
            self.eventually(lambda: self.held_count() == len(self.acknowledged) + 1, "the node gets what comes meanwhile")

        feed = self.outage(self.lab.pause_server, self.lab.resume_server, the_loop_turns)
        self.assertEqual(feed.answer_or_error().t, NULL, "the answer comes when the server is back")
        self.acknowledged.append(first)
        self.next_seq = first + 1
        self.publish(20)
        self.assert_held_once("the server was silent for a while")

    def test_a_tickerplant_that_was_cut_off_for_a_while_goes_on(self):
        first = self.next_seq + 20 * self.rows_at_once
        self.addCleanup(self.here.heal)
        feed = self.outage(self.here.cut_off, self.here.heal)
        self.eventually(lambda: self.ask(self.tp, "1+1") is not None, "the tickerplant answers")
        answered = feed.answer_or_error().t == NULL
        (self.acknowledged if answered else self.unsure).append(first)
        self.next_seq = first + 1
        self.publish(20)
        self.assert_held_once("the tickerplant was cut off for a while")
        self.assertTrue(self.tp.is_running())


    def test_a_server_that_is_started_anew_gives_the_locks_back(self):
        self.start_node()
        self.joined(1)
        self.publish(20)
        self.lab.restart_server()
        self.publish(20)
        self.assert_held_once("the server was started anew")
        self.assertTrue(self.tp.is_running())

    @long
    def test_what_was_published_but_never_written_is_forgotten_with_its_tickerplant(self):
        """Killed while the server is silent: the node was ahead of the log, and must not stay so."""
        self.addCleanup(self.lab.resume_server)
        first = self.next_seq + 20 * self.rows_at_once
        host, port = self.port

        def dies():
            self.eventually(lambda: self.held_count() == len(self.acknowledged) + 1, "the node gets what comes meanwhile")
            self.tp.signal(9)

        self.outage(self.lab.pause_server, self.lab.resume_server, dies)
        self.unsure.append(first)
        self.next_seq = first + 1
        self.tp.wait()
        self.feed.close()
        self.feed = None
        self.start_tick(port=port)
        self.publish(20)
        self.assert_held_once("the tickerplant died with what it had not written")


@long
class SilentHosts(EfsCluster):
    """Hosts that disappear silently."""

    def test_a_live_node_whose_host_is_cut_off_is_replaced_and_does_not_count_when_it_is_back(self):
        self.start_node()
        self.joined(1)
        self.publish(20)
        self.in_step()
        self.start_node(guest=self.lab.guest("spare"))
        self.joined(2)
        self.addCleanup(self.there.heal)
        self.there.cut_off()
        self.publish(5)
        self.eventually(lambda: self.states() == ["live"], "the other node is live in its place")
        self.publish(5)
        self.assert_held_once("a host was cut off")
        self.there.heal()
        self.joined(2)
        self.publish(5)
        self.assert_held_once("it is back")


PUBLISHER = """
import sys
sys.path.insert(0, {tests!r})
from harness.client import Connection
from harness.scene import trades, update
feed = Connection({port}, deadline_s=300)
for seq in range({first}, {first} + 1_000_000):
    feed.ask(update("trade", trades(seq, 1)))
    print(seq, flush=True)
"""


class TakeOver(EfsCluster):
    """Disconnected for longer than the lease; another tickerplant takes over, with the same address."""

    address = "10.99.0.100"
    number = 5099
    tick_options = ("--start-grace", "60s", "--node-grace", "60s")

    def setUp(self):
        self.spare = Lab.get().guest("spare", OF_TICKERPLANT)
        super().setUp()
        self.addCleanup(self.give_up_the_address)

    def start_tick(self, guest=None):
        guest = guest or self.here
        guest.run(f"ip addr add {self.address}/24 dev vec0 2>&1 || true; busybox arping -q -A -c 2 -I vec0 {self.address}")
        super().start_tick(guest=guest, port=self.number)
        self.port = self.tp._port = (self.address, self.number)
        return self.tp

    def give_up_the_address(self):
        for guest in (self.here, self.spare):
            guest.heal()
            guest.run(f"ip addr del {self.address}/24 dev vec0 2>&1 || true")

    def publish_beside_the_tickerplant(self):
        """Starts a publisher on the tickerplant's host. Returns a function that gives the updates acknowledged so far."""
        program = self.lab.work / f"{self.label}.publisher.py"
        program.write_text(PUBLISHER.format(tests=str(TESTS), port=self.number, first=1_000_000))
        output = self.lab.work / f"{self.label}.publisher.out"
        arguments = [sys.executable, f"/mnt/work/{program.name}"]
        pid = self.here.ask("start", arguments=arguments, output=f"/mnt/work/{output.name}")
        self.addCleanup(lambda: self.here.ask("kill", pid=pid))
        return lambda: [int(line) for line in output.read_text().splitlines() if line.isdigit()]

    def take_over(self):
        """Starts a tickerplant in the spare guest; repeats it like a supervisor until the log is free."""
        eventually(self.start_tick_once, "the other tickerplant gets the log", 120)

    def start_tick_once(self):
        try:
            return self.start_tick(self.spare)
        except AssertionError as error:
            self.assertIn("in use by another tickerplant", str(error))
            return None

    def cut_off_the_first(self):
        """Disconnects the first host, and soon afterwards removes its address, which another host then takes."""
        moves = f"sleep 3; ip addr del {self.address}/24 dev vec0"
        self.here.ask("start", arguments=["sh", "-c", moves], output="/dev/null")
        self.here.cut_off()
        if self.feed:
            self.feed.close()
            self.feed = None

    def test_there_are_never_two_writers_and_what_was_acknowledged_is_in_the_log_once(self):
        first = self.tp
        node = self.start_node()
        self.joined(1)
        self.publish(20)
        noted = self.publish_beside_the_tickerplant()
        self.eventually(lambda: len(noted()) > 20, "the publisher beside it is acknowledged")
        self.cut_off_the_first()
        self.assertGreaterEqual(self.ask(node, "count trade").v, len(self.acknowledged))
        self.take_over()
        self.publish(20)
        self.eventually(lambda: self.states() == ["live"], "the node has found the other tickerplant")
        self.here.heal()
        self.assertEqual(first.wait(), 1, first.tail())
        self.assertRegex(first.printed(), "may no longer be written by this tickerplant")
        self.publish(20)
        inside = noted()
        self.acknowledged += inside
        # One update may have been in flight, logged but not acknowledged.
        self.unsure.append(1_000_000 + len(inside))
        log = next(self.path.glob("sym????.??.??"))
        logged = [seq for record in tplog.read(log) for seq in record[2][4].v]
        self.assertEqual(len(logged), len(set(logged)), "a row is logged twice")
        self.assertEqual(sorted(set(self.acknowledged) - set(logged)), [], "acknowledged, and not in the log")
        self.assert_held_once("another tickerplant has taken over")

    @long
    def test_one_that_has_nothing_to_write_ends_too(self):
        first = self.tp
        self.publish(5)
        self.cut_off_the_first()
        self.take_over()
        self.publish(5)
        self.here.heal()
        self.assertEqual(first.wait(), 1, first.tail())
        self.assertRegex(first.printed(), "another tickerplant has taken over \\(process [0-9]+ on spare, epoch 2\\)")
