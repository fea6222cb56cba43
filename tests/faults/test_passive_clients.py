"""Clients that know several tickerplants: they find the active one, and after a take-over go on with the next, with nothing lost or twice."""

import json
import os
import signal
import socket
import subprocess
import unittest

from harness import kdb, wire
from harness.certificates import Authority
from harness.client import KdbError
from harness.process import binary, reserve_port
from harness.scene import Scene, trades, update
from harness.terminal import Terminal

from .test_passive import LEASE, Passives

RATE = ("--rate", "3000", "--confirm", "500", "--rows", "3")


class Clients(Passives):
    """Two tickerplants, and clients with the addresses of both."""

    # Options of the passive one.
    of_spare = ()

    def setUp(self):
        super().setUp()
        self.spare, self.spare_port = self.passive("passive", *self.of_spare)

    def both(self, *ports):
        """The addresses of the tickerplants in the order of their ports; of the passive one first."""
        return ",".join(f"127.0.0.1:{port}" for port in ports or (self.spare_port, self.active.port))

    def node(self, name, addresses=None, *options):
        arguments = ("rdb", addresses or self.both(), "-p", "0", "--queue", "rdb", "--node", name, *options)
        return self.start(name, *arguments)

    def started_feed(self, updates, addresses=None, *options, name="market"):
        """`elastick feed` in the middle of its updates."""
        addresses = addresses or self.both()
        feed = self.start(name, "feed", addresses, "--json", "--updates", updates, *RATE, *options)
        tip = self.tip()
        self.eventually(lambda: self.tip() > tip + updates // 10, "the feed publishes")
        return feed

    def tip(self):
        return self.feed.ask(".u.i").v

    def ended_feed(self, feed):
        """The feed's account; everything that it sent must have been accepted."""
        code = feed.wait(120)
        account = json.loads([line for line in feed.printed().splitlines() if line.startswith("{")][-1])
        self.assertEqual((code, account["unconfirmed"], account["refused"]), (0, 0, 0), account)
        return account

    def is_logged_once(self, *accounts):
        """Compares what feeds have published with the log: the same updates and rows, with the same hash."""
        [log] = [path for path in self.logs.iterdir() if path.name.startswith("sym2") and path.name[-1].isdigit()]
        printed = subprocess.run([binary(), "log", "proof", log, "--json"], check=True, capture_output=True, text=True)
        sums = {}
        for account in accounts:
            for name, table in account["tables"].items():
                own = sums.setdefault(name, {"updates": 0, "rows": 0, "hash": 0})
                own["updates"] += table["updates"]
                own["rows"] += table["rows"]
                own["hash"] = (own["hash"] + int(table["hash"], 16)) % 2**64
        proof = json.loads(printed.stdout)["tables"]
        self.assertEqual({name: {**table, "hash": int(table["hash"], 16)} for name, table in proof.items()}, sums)
        return sums

    def succeed(self, process, port):
        """Waits until a passive tickerplant is active."""
        self.feed = self.take_over(process, port)
        return self.feed

    def holds_once(self, nodes, sums):
        """The nodes hold every logged row, each once."""

        def counts():
            held = [self.connect(node).ask("(count trade;count quote)").v for node in nodes]
            return [sum(counts[at] for counts in held) for at in range(2)]

        self.eventually_equal(counts, [sums["trade"]["rows"], sums["quote"]["rows"]], "the nodes hold the day once")


class TakeOver(Clients):
    def setUp(self):
        super().setUp()
        self.nodes = [self.node(f"node{number}") for number in range(2)]
        self.eventually(lambda: self.feed.ask("count .u.asg.tab").v == 2, "the nodes join")

    def goes_on(self, end):
        feed = self.started_feed(6000)
        end(self.active)
        again = self.succeed(self.spare, self.spare_port)
        account = self.ended_feed(feed)
        self.assertEqual(account["updates"], 6000)
        self.assertGreaterEqual(account["reconnects"], 1)
        sums = self.is_logged_once(account)
        self.eventually(lambda: again.ask("count .u.asg.tab").v == 2, "the nodes join again")
        self.holds_once(self.nodes, sums)
        self.assertEqual(self.state(self.spare_port)["epoch"], 2)
        for process in (feed, *self.nodes):
            self.assertEqual(process.printed().count("changed over to the tickerplant at"), 1, process.name)
        return account

    def test_after_a_kill_nothing_is_lost_and_nothing_is_there_twice(self):
        self.goes_on(lambda active: active.kill())

    def test_after_a_planned_end_as_well(self):
        self.goes_on(lambda active: active.signal(signal.SIGTERM))

    def test_the_old_one_may_come_back_as_the_passive_one(self):
        feed = self.started_feed(9000)
        port = self.active.port
        self.active.kill()
        self.succeed(self.spare, self.spare_port)
        again = self.tick(*LEASE, name="again", port=port)
        again.wait_for(rf"is passive on {port}")
        tip = self.tip()
        self.eventually(lambda: self.tip() > tip + 500, "the feed goes on")
        self.spare.kill()
        self.succeed(again, port)
        account = self.ended_feed(feed)
        sums = self.is_logged_once(account)
        self.holds_once(self.nodes, sums)


class Three(Clients):
    def test_of_three_each_may_end_in_turn(self):
        third, third_port = self.passive("third")
        addresses = self.both(third_port, self.spare_port, self.active.port)
        nodes = [self.node(f"node{number}", addresses) for number in range(2)]
        self.eventually(lambda: self.feed.ask("count .u.asg.tab").v == 2, "the nodes join")
        feed = self.started_feed(9000, addresses)
        waiting = {self.spare_port: self.spare, third_port: third}
        running = self.active
        for epoch in (2, 3):
            running.kill()

            def active():
                return [port for port, process in waiting.items() if f"is listening on {port}" in process.printed()]

            self.eventually(active, "one takes over")
            [port] = active()
            running = waiting.pop(port)
            self.feed = self.connect(port)
            self.assertEqual(self.state(port)["epoch"], epoch)
            tip = self.tip()
            self.eventually(lambda: self.tip() > tip, "the feed goes on")
        account = self.ended_feed(feed)
        self.holds_once(nodes, self.is_logged_once(account))


class Feeds(Clients):
    def test_a_feed_of_sync_updates_goes_on(self):
        feed = self.started_feed(3000, None, "--sync")
        self.active.kill()
        self.succeed(self.spare, self.spare_port)
        self.is_logged_once(self.ended_feed(feed))

    def test_a_feed_with_the_address_of_the_passive_one_alone_waits_for_it(self):
        feed = self.start("market", "feed", f"127.0.0.1:{self.spare_port}", "--json", "--updates", 300, *RATE)
        feed.wait_for("is active")
        self.active.kill()
        self.is_logged_once(self.ended_feed(feed))

    def test_a_process_that_is_no_tickerplant_is_passed_over(self):
        node = self.node("n1", f"127.0.0.1:{self.active.port}")
        node.wait_for("listening on")
        feed = self.start("market", "feed", self.both(node.port, self.active.port), "--json", "--updates", 100, *RATE)
        account = self.ended_feed(feed)
        self.is_logged_once(account)

    def test_one_that_does_not_answer_delays_and_stops_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            addresses = self.both(silent.getsockname()[1], reserve_port(), self.active.port)
            feed = self.start("market", "feed", addresses, "--json", "--updates", 300, *RATE)
            self.is_logged_once(self.ended_feed(feed))

    def test_without_an_active_one_each_reason_is_told(self):
        self.active.pause()
        self.addCleanup(self.active.resume)
        nobody = reserve_port()
        feed = self.start("market", "feed", self.both(nobody, self.spare_port), "--updates", 300)
        printed = feed.wait_for("no address is that of an active tickerplant: .*").group(0)
        self.assertIn(f"127.0.0.1:{nobody}: Connection refused", printed)
        self.assertIn(f"127.0.0.1:{self.spare_port}: it is passive: 127.0.0.1:{self.active.port} is active", printed)
        feed.signal(signal.SIGTERM)
        self.assertEqual(feed.wait(), 1)


class Consoles(Clients):
    def test_a_console_finds_the_active_one_and_the_next_after_it(self):
        console = Terminal(["q", self.both()])
        self.addCleanup(console.close)
        console.wait_for(f"127.0.0.1:{self.active.port}>")
        self.active.kill()
        self.succeed(self.spare, self.spare_port)
        console.type("1+1\n")
        console.wait_for("the next line reconnects")
        console.type("`epoch`role#.u.state[]\n")
        console.wait_for("epoch| 2")
        console.wait_for(f"127.0.0.1:{self.spare_port}>")

    def test_one_address_shows_the_passive_one(self):
        console = Terminal(["q", f"127.0.0.1:{self.spare_port}"])
        self.addCleanup(console.close)
        console.wait_for(">")
        console.type("1+1\n")
        console.wait_for(f"'passive: 127.0.0.1:{self.active.port} is active")


class Forwarding(Clients):
    """A passive tickerplant with `--forward`, and clients that know its address alone."""

    of_spare = ("--forward",)


class Forwarded(Forwarding):
    def test_a_stock_publisher_and_a_stock_subscriber_see_one_reconnect(self):
        subscriber, feed = (self.connect(self.spare_port) for _ in range(2))
        subscriber.ask(kdb.syms(".u.sub", "trade", ""))
        self.publish(feed, 10)
        for _ in range(10):
            feed.send(update("trade", trades(self.seq, 1)))
            self.seq += 1
        seen = [subscriber.push().v[2].v["seq"].v[0] for _ in range(20)]
        self.assertEqual(seen, list(range(20)))
        self.assertEqual(feed.ask("(.u.state[])`role").v, "active")
        self.active.kill()
        for client in (subscriber, feed):
            self.assertTrue(client.is_closed_by_peer())
        # The connections of this moment wait until it has taken over.
        subscriber, feed = (self.connect(self.spare_port) for _ in range(2))
        subscriber.ask(kdb.syms(".u.sub", "trade", ""))
        self.publish(feed, 10)
        self.assertEqual([subscriber.push().v[2].v["seq"].v[0] for _ in range(10)], list(range(20, 30)))
        self.assertEqual(self.logged(), list(range(30)))
        self.assertEqual(self.state(self.spare_port)["epoch"], 2)

    def test_a_planned_end_closes_what_is_forwarded_once(self):
        feed = self.connect(self.spare_port)
        self.publish(feed)
        self.active.signal(signal.SIGTERM)
        self.assertTrue(feed.is_closed_by_peer())

        def connected():
            """Until it has ended, the old one may accept connections and close them."""
            try:
                return self.connect(self.spare_port)
            except ConnectionError:
                return None

        self.publish(self.eventually(connected, "it is served again"))
        self.assertEqual(self.logged(), list(range(40)))

    def test_nodes_and_feeds_work_through_it(self):
        node = self.node("node", f"127.0.0.1:{self.spare_port}")
        self.eventually(lambda: self.feed.ask("count .u.asg.tab").v == 1, "the node joins")
        feed = self.started_feed(3000, f"127.0.0.1:{self.spare_port}")
        self.active.kill()
        self.succeed(self.spare, self.spare_port)
        self.holds_once([node], self.is_logged_once(self.ended_feed(feed)))

    def test_http_is_answered_by_the_passive_one(self):
        h = self.connect(self.spare_port)
        self.assertEqual(self.page(self.spare_port, "/health")[0], 503)
        self.assertEqual(self.page(self.spare_port, "/health?role=passive")[0], 200)
        self.assertIn("\nelastick_tick_forwarded_connections 1\n", self.page(self.spare_port, "/metrics")[1])
        h.close()
        gone = "\nelastick_tick_forwarded_connections 0\n"
        self.eventually(lambda: gone in self.page(self.spare_port, "/metrics")[1], "it is closed")

    def test_either_side_closes_the_other(self):
        before = len(self.feed.ask("key .z.W").v)
        h = self.connect(self.spare_port)
        self.assertEqual(len(self.feed.ask("key .z.W").v), before + 1)
        h.close()
        self.eventually(lambda: len(self.feed.ask("key .z.W").v) == before, "the active one sees the end")
        h = self.connect(self.spare_port)
        h.raw(b"\1\0\0\0\xff\xff\xff\xff")
        self.assertTrue(h.is_closed_by_peer(), "the active one closes a broken connection")

    def test_a_long_answer_comes_whole_to_a_slow_reader_and_holds_up_nobody(self):
        rows = 40_000
        self.feed.ask(update("trade", trades(0, rows)))
        slow = [self.connect(self.spare_port) for _ in range(3)]
        for h in slow:
            h.raw(wire.message(kdb.chars("5000000#0"), wire.SYNC))
        quick = self.connect(self.spare_port)
        self.assertEqual(quick.ask("1+1").v, 2)
        for h in slow:
            self.assertEqual(len(h.answer().v), 5_000_000)

    def test_a_login_in_pieces_and_one_that_never_ends(self):
        h = self.connect(self.spare_port, user=None)
        for byte in b"tests:\3\0":
            h.raw(bytes([byte]))
        self.assertEqual(h.socket.recv(1), b"\3")
        self.assertEqual(h.ask("1+1").v, 2)
        h = self.connect(self.spare_port, user=None)
        h.raw(b"tests:")
        self.assertTrue(h.is_closed_by_peer(), "--limit-handshake-time holds")

    def test_a_client_of_an_active_one_that_is_stopped_waits_as_it_would_there(self):
        self.active.pause()
        h = self.connect(self.spare_port, user=None)
        h.raw(b"tests:\3\0")
        h.socket.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            h.socket.recv(1)
        self.active.resume()
        h.socket.settimeout(30)
        self.assertEqual(h.socket.recv(1), b"\3")


class Limited(Forwarding):
    of_spare = ("--forward", "--limit-connections", 12)

    def filled(self):
        """As many clients as there may be; None while those before them are not gone yet."""
        clients = []
        try:
            for _ in range(12):
                clients.append(self.connect(self.spare_port))
                clients[-1].ask("1+1")
        except OSError:
            for h in clients:
                h.close()
            return None
        return clients

    def test_the_limit_of_connections_holds(self):
        for _ in range(3):
            clients = self.eventually(self.filled, "there is room for all")
            with self.assertRaises(OSError):
                self.connect(self.spare_port).ask("1+1")
            for h in clients:
                h.close()


class Elsewhere(Passives):
    """An active tickerplant that says that it is reached where it is not."""

    def leads_to(self, address, *options):
        self.active.terminate()
        self.active = self.tick(*LEASE, "--advertise", address, *options, name="misled")
        self.feed = self.connect(self.active)

    def test_one_that_cannot_be_reached_is_named_with_the_reason(self):
        nobody = reserve_port()
        self.leads_to(f"127.0.0.1:{nobody}")
        _, port = self.passive("passive", "--forward")
        with self.assertRaisesRegex(KdbError, rf"^passive: 127.0.0.1:{nobody} is active .*cannot be reached from here: Connection refused"):
            self.connect(port).ask("1+1")
        self.assertEqual(self.state(port)["role"], "passive")

    def test_one_that_leads_to_the_passive_one_itself_ends_at_once(self):
        port = reserve_port()
        self.leads_to(f"127.0.0.1:{port}")
        process = self.tick(*LEASE, "--forward", name="passive", port=port)
        process.wait_for("is passive on")
        self.refuses(port)

    def test_two_that_forward_to_each_other_end_at_once(self):
        first, second = reserve_port(), reserve_port()
        self.leads_to(f"127.0.0.1:{first}")
        for port in (first, second):
            self.tick(*LEASE, "--forward", name=f"at{port}", port=port).wait_for("is passive on")
        self.refuses(second)

    def test_a_client_of_another_machine_does_not_become_one_of_this(self):
        """The active one has no users and serves this machine only; a passive one beside it may serve everybody."""
        login, remote, local = b"ann:\3\0", b"\1elastick-forwarded\n", b"\1elastick-forwarded-local\n"
        with self.assertRaises(ConnectionError):
            self.connect(self.active, user=None).handshake(remote + login)
        self.assertEqual(self.connect(self.active, user=None).handshake(local + login), 3)

    def refuses(self, port):
        for _ in range(5):
            with self.assertRaisesRegex(KdbError, "^passive: "):
                self.connect(port).ask("1+1")
        self.assertIn("\nelastick_connections", self.page(port, "/metrics")[1])


class OfUsers(Passives):
    """The active tickerplant decides on users."""

    def test_a_user_of_the_active_one_is_admitted_and_no_other(self):
        (self.directory / "door.q").write_text(".z.pw:{[u;p](u=`ann)&p~\"right\"}\n")
        self.active.terminate()
        self.active = self.tick(*LEASE, "--load", "door.q", name="guarded")
        self.active.wait_for("is listening on")
        _, port = self.passive("passive", "--forward")
        self.assertEqual(self.connect(port, user="ann:right").ask(".z.u").v, "ann")
        with self.assertRaises(OSError):
            self.connect(port, user="eve:wrong")


class Encrypted(Passives):
    def test_tls_goes_through_to_the_active_one(self):
        authority = Authority(self.directory / "authority")
        self.environment = authority.variables(authority.issue("tick1"))
        self.active.terminate()
        self.active = self.tick(*LEASE, "-E", "1", name="secured")
        self.active.wait_for("is listening on")
        # The passive one has no TLS of its own.
        self.environment = {}
        _, port = self.passive("passive", "--forward")
        h = self.connect(port, tls=authority.client())
        self.assertEqual(h.ask("(.u.state[])`role").v, "active")
        self.publish(h)
        self.assertEqual(self.logged(), list(range(20)))
        self.assertEqual(self.connect(port).ask("1+1").v, 2)


# A name of two hosts, as DNS gives it for two records.
HOSTS = "127.0.0.1 localhost\n127.0.0.1 both.test\n127.0.0.2 both.test\n"
PRIVATE = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"')


@unittest.skipUnless(os.geteuid() == 0, "needs a mount of its own")
class Names(Scene):
    def test_each_record_of_a_name_is_tried(self):
        (self.directory / "hosts").write_text(HOSTS)
        private = (*PRIVATE, self.directory / "hosts")
        port = reserve_port()
        first = self.tick(*LEASE, name="first", port=f"127.0.0.2:{port}")
        first.wait_for("is listening on")
        second = self.tick(*LEASE, name="second", port=f"127.0.0.1:{port}")
        second.wait_for("is passive on")
        node = self.start("node", "rdb", f"both.test:{port}", "-p", "0", wrapper=private)
        node.wait_for(r"connected to the tickerplant tickerplant=both.test:\d+ \(127.0.0.2\)")
        feed = self.connect(("127.0.0.2", port))
        self.eventually(lambda: feed.ask("count .u.asg.tab").v == 1, "the node joins")
        first.kill()
        second.wait_for("is listening on")
        node.wait_for(r"changed over to the tickerplant at both.test:\d+ \(127.0.0.1\)")


class Lists(Scene):
    def test_bad_lists_are_refused_in_words(self):
        wrong = {
            "tp1:5010,": "address 2 of 2 is empty",
            "tp1:5010,tp2": '"tp2" is not an address',
            "tp1:5010,tp1:5010": "is in the list twice",
            ",".join(f"tp{at}:5010" for at in range(17)): "17 addresses; a list may have 16",
        }
        for number, (addresses, words) in enumerate(wrong.items()):
            for program in ("rdb", "feed", "q"):
                process = self.start(f"{program}{number}", program, addresses)
                self.assertEqual(process.wait(), 2, program)
                self.assertIn(words, process.printed())
