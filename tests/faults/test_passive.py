"""Two tickerplants with one log: the passive one refuses with the address of the active one, and takes over when the log is free."""

import signal
import unittest

from harness import kdb, pages, points, tplog
from harness.client import KdbError
from harness.process import reserve_port
from harness.scene import Scene, trades, update

LEASE = ("--lease", "file:")


class Passives(Scene):
    users = ()

    def setUp(self):
        super().setUp()
        self.active = self.tick(*LEASE, *self.users, name="active")
        self.feed = self.connect(self.active, **self.login)
        self.seq = 0

    login = {}

    def passive(self, name="passive", *options):
        """A passive tickerplant that answers, and its port."""
        port = reserve_port()
        process = self.tick(*LEASE, *self.users, *options, name=name, port=port)
        process.wait_for(rf"is passive on {port}")
        return process, port

    def publish(self, feed, count=20):
        """Publishes one row at a time, each acknowledged; returns after the first failure."""
        for _ in range(count):
            feed.ask(update("trade", trades(self.seq, 1)))
            self.seq += 1

    def state(self, port):
        connection = self.connect(port, **self.login)
        return connection.ask(kdb.lst(kdb.sym(".u.state"), kdb.NIL)).py()

    def page(self, port, path):
        return pages.text(port, path)

    def logged(self):
        [log] = [path for path in self.logs.iterdir() if path.name.startswith("sym2") and path.name[-1].isdigit()]
        return [seq for record in tplog.read(log) for seq in record[2][4].v]

    def take_over(self, process, port):
        process.wait_for(rf"is listening on {port}")
        return self.connect(port, **self.login)


class Passive(Passives):
    def test_it_says_who_is_active(self):
        _, port = self.passive()
        self.publish(self.feed)
        state = self.state(port)
        self.assertEqual((state["role"], state["lease"], state["epoch"]), ("passive", "file:", 1))
        self.assertEqual(state["active"], f"127.0.0.1:{self.active.port}")
        self.assertIn(f"process {self.active.pid} on", state["process"])
        state = self.state(self.active.port)
        self.assertEqual((state["role"], state["epoch"], state["tip"]), ("active", 1, 20))

    def test_updates_and_queries_are_refused_with_the_address_of_the_active_one(self):
        _, port = self.passive()
        h = self.connect(port)
        for request in (update("trade", trades(0, 1)), kdb.chars("1+1"), kdb.syms(".u.sub", "trade", "")):
            with self.assertRaisesRegex(KdbError, rf"^passive: 127.0.0.1:{self.active.port} is active"):
                h.ask(request)
        h.send(update("trade", trades(0, 1)))
        self.assertTrue(h.is_closed_by_peer(), "a publisher without responses must notice")
        self.publish(self.feed)
        self.assertEqual(self.logged(), list(range(20)))

    def test_health_tells_the_active_one_from_the_passive_one(self):
        _, port = self.passive()
        status, text = self.page(port, "/health")
        self.assertEqual(status, 503)
        self.assertIn(f"127.0.0.1:{self.active.port} is active", text)
        self.assertEqual(self.page(port, "/health?role=passive")[0], 200)
        self.assertEqual(self.page(self.active.port, "/health")[0], 200)
        self.assertEqual(self.page(self.active.port, "/health?role=passive")[0], 503)
        self.assertIn("\nelastick_tick_active 0\n", self.page(port, "/metrics")[1])
        self.assertIn("\nelastick_tick_active 1\n", self.page(self.active.port, "/metrics")[1])

    def test_it_ends_on_request_and_harms_nobody(self):
        passive, port = self.passive()
        self.assertEqual(passive.terminate(), 0)
        self.publish(self.feed)
        self.assertEqual(self.state(self.active.port)["epoch"], 1)

    def test_bad_messages_cost_it_nothing(self):
        passive, port = self.passive()
        for garbage in (b"\1\1\0\0\xff\xff\xff\xff", b"\1\1\0\0\x0e\0\0\0\xff\0\0\0\0\0", b"\0" * 64, b"\1\2\0\0\x09\0\0\0\x65"):
            self.connect(port).raw(garbage)
        self.assertEqual(self.state(port)["role"], "passive")
        self.assertNotIn("panicked", passive.printed())


class TakeOver(Passives):
    def test_after_a_kill_nothing_acknowledged_is_lost_and_nothing_is_there_twice(self):
        passive, port = self.passive()
        self.publish(self.feed)
        self.active.kill()
        feed = self.take_over(passive, port)
        self.publish(feed)
        self.assertEqual(self.logged(), list(range(40)))
        state = self.state(port)
        self.assertEqual((state["role"], state["epoch"], state["tip"]), ("active", 2, 40))

    def test_the_old_one_comes_back_as_the_passive_one(self):
        passive, port = self.passive()
        self.publish(self.feed)
        self.assertEqual(self.active.terminate(), 0)
        feed = self.take_over(passive, port)
        _, again = self.passive("again")
        self.assertEqual(self.state(again)["active"], f"127.0.0.1:{port}")
        self.publish(feed)
        self.assertEqual(self.logged(), list(range(40)))

    def test_of_three_that_wait_one_takes_over_at_a_time(self):
        waiting = dict(self.passive(f"passive{number}") for number in range(3))
        running = self.active
        for epoch in (2, 3, 4):
            running.kill()

            def active():
                return [process for process, port in waiting.items() if f"is listening on {port}" in process.printed()]

            self.eventually(active, "one takes over")
            [running] = active()
            port = waiting.pop(running)
            self.publish(self.connect(port))
            self.assertEqual(self.state(port)["epoch"], epoch)
            for other in waiting.values():
                self.eventually_equal(lambda: self.state(other)["active"], f"127.0.0.1:{port}", "the others know it")
        self.assertEqual(self.logged(), list(range(60)))

    def test_a_stopped_process_keeps_the_log(self):
        """It may go on at any time, in the middle of a write: only its end frees the lock."""
        passive, port = self.passive()
        self.publish(self.feed)
        self.active.pause()
        # By the time that another one has started and tried, this one has tried as well.
        _, other = self.passive("other")
        self.assertEqual([self.state(waiting)["role"] for waiting in (port, other)], ["passive"] * 2)
        self.active.resume()
        self.publish(self.feed)
        self.assertEqual(self.state(self.active.port)["epoch"], 1)
        self.assertEqual(self.logged(), list(range(40)))

    def test_nodes_go_on_after_the_take_over_on_their_port(self):
        port = reserve_port()
        self.active.terminate()
        first = self.tick(*LEASE, name="first", port=port)
        node = self.rdb(port, name="node")
        feed = self.connect(first)
        self.eventually(lambda: feed.ask("count .u.asg.tab").v == 1, "the node joins")
        self.publish(feed)
        second, other = self.passive("second")
        first.kill()
        feed = self.take_over(second, other)
        self.publish(feed)
        self.assertEqual(self.logged(), list(range(40)))
        # The address of the first is all that the node knows.
        second.terminate()
        third = self.tick(*LEASE, name="third", port=port)
        self.eventually_equal(
            lambda: self.connect(node).ask("exec seq from trade").v, list(range(40)), "the node holds the day once"
        )
        self.assertTrue(third.is_running())

    def stays_passive(self, port, why):
        def told():
            status, text = self.page(port, "/health?role=passive")
            return status == 503 and why in text

        self.eventually(told, "it says that it cannot take over")
        self.assertEqual(self.state(port)["role"], "passive")
        self.publish(self.feed)
        self.assertEqual(self.state(self.active.port)["epoch"], 1)

    def test_a_directory_that_was_moved_away_is_not_made_again(self):
        _, port = self.passive()
        self.logs.rename(self.directory / "moved")
        self.stays_passive(port, "sym.lock")
        self.assertFalse(self.logs.exists())

    def test_another_lock_file_is_not_that_of_the_log(self):
        passive, port = self.passive()
        lock = self.logs / "sym.lock"
        lock.unlink()
        self.stays_passive(port, "sym.lock")
        self.assertFalse(lock.exists())
        lock.touch()
        self.stays_passive(port, "another file")
        self.assertEqual(lock.stat().st_size, 0)
        self.assertTrue(passive.is_running())

    def test_it_takes_over_while_it_is_full_of_clients(self):
        passive, port = self.passive()
        clients = [self.connect(port) for _ in range(50)]
        self.active.kill()
        feed = self.take_over(passive, port)
        self.publish(feed)
        self.assertTrue(all(client.is_closed_by_peer() for client in clients), "they connect again, and are served")

    def test_a_request_to_end_during_the_take_over_is_obeyed(self):
        passive, _ = self.passive()
        passive.pause()
        self.active.kill()
        passive.signal(signal.SIGTERM)
        passive.resume()
        self.assertEqual(passive.wait(), 0)
        self.assertTrue(self.tick(*LEASE, name="next").port)


@unittest.skipUnless(points.binary(), f"{points.BUILT} is not built; tests/run builds it, or set ELASTICK_POINTS_BIN")
class WhileItTakesOver(Passives):
    executable = points.binary()

    def test_a_request_to_end_while_it_opens_the_log_is_obeyed(self):
        port = reserve_port()
        command = ("tick", "sym", self.logs, "-p", port, "--schemas", self.directory / "sym.q", *LEASE)
        passive = self.start("passive", *command, **points.environment("start-log-opened", action="pause"))
        passive.wait_for(rf"is passive on {port}")
        self.publish(self.feed)
        self.active.kill()
        passive.wait_for("at failpoint")
        self.eventually(passive.is_paused, "it has opened the log")
        passive.signal(signal.SIGTERM)
        passive.resume()
        self.assertEqual(passive.wait(), 0)
        self.assertIn("shutting down on request", passive.printed())
        self.assertEqual(self.connect(self.tick(*LEASE, name="next")).ask(".u.i").v, 20)


class Users(Passives):
    users = ("--load", "door.q")
    login = {"user": "ann:right"}

    def start(self, *arguments, **more):
        (self.directory / "door.q").write_text(".z.pw:{[u;p](u=`ann)&p~\"right\"}\n")
        return super().start(*arguments, **more)

    def test_its_owner_decides_who_may_connect(self):
        _, port = self.passive()
        self.assertEqual(self.state(port)["role"], "passive")
        with self.assertRaises((KdbError, ConnectionError, OSError)):
            self.connect(port, user="eve:wrong").ask(".u.state[]")


class Options(Scene):
    def test_a_lease_needs_a_log(self):
        process = self.start("bare", "tick", "sym", "-p", "0", "--schemas", self.directory / "sym.q", *LEASE)
        self.assertEqual(process.wait(), 2)
        self.assertIn("--lease: needs a directory", process.printed())

    def test_two_on_one_port_are_refused(self):
        process = self.tick(*LEASE, name="shared", port=f"rp,127.0.0.1:{reserve_port()}")
        self.assertEqual(process.wait(), 2)
        self.assertIn("share a port", process.printed())

    def test_an_address_that_does_not_fit_is_refused(self):
        process = self.tick(*LEASE, "--advertise", "a" * 98 + ":5010", name="long")
        self.assertEqual(process.wait(), 2)
        self.assertIn("--advertise", process.printed())

    def test_an_unknown_store_is_refused_in_words(self):
        process = self.tick("--lease", "etcd://x", name="wrong")
        self.assertEqual(process.wait(), 2)
        self.assertIn("is not a lease", process.printed())

    def test_without_a_lease_the_error_names_it(self):
        self.assertTrue(self.tick().port)
        second = self.tick(name="second")
        self.assertNotEqual(second.wait(), 0)
        self.assertIn("--lease file:", second.printed())
