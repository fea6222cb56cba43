"""Take-over without a common disk: the lease names the copies of the log that have every acknowledged update, and only their tickerplants take over."""

import os
import re
import socket
import subprocess
import threading

from harness import kdb
from harness.client import Connection, KdbError
from harness.scene import trades, update

from .cloud.copies_scene import LEASE_NS, REFUSED, CopiesScene
from .cloud.lease_scene import LOG
from .cloud.scene import binary


class Copies(CopiesScene):
    TAKES_S = 230

    def lease_tool(self, *arguments):
        command = [binary(), "lease", *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, env={**os.environ, **self.environment})

    def test_the_follower_takes_over_with_everything_acknowledged(self):
        one, _ = self.both()
        self.publish_to(0, 200)
        one.kill()
        self.is_active(1)
        self.publish_to(1, 50)
        self.assertEqual(len(self.acknowledged), 250)
        self.complete(1)
        self.assertEqual(self.copies(), [f"127.0.0.1:{self.ports[1]}"])
        # The former one comes back, is cut back to the fork if need be, and counts again.
        self.begin(0)
        self.named(0, 1)
        self.publish_to(1, 20)
        self.eventually(lambda: self.rows(0) == self.rows(1), "both logs are the same")
        self.assertEqual(self.state(self.ports[0])["role"], "passive")

    def test_one_after_the_other_is_killed_while_rows_arrive(self):
        processes = list(self.both())
        stop = threading.Event()
        threads = [threading.Thread(target=self.publish_until, args=(stop, 1_000_000 * number)) for number in (1, 2)]
        [thread.start() for thread in threads]
        self.addCleanup(stop.set)
        active = 0
        for _ in range(4):
            wanted = len(self.acknowledged) + 40
            self.eventually(lambda: len(self.acknowledged) > wanted, "rows are acknowledged")
            processes[active].kill()
            self.is_active(1 - active)
            # Until the new one has written the lease, it names both copies as the one that was killed had them.
            self.named(1 - active)
            processes[active] = self.begin(active)
            self.named(0, 1)
            active = 1 - active
        stop.set()
        [thread.join(30) for thread in threads]
        self.complete(active)
        self.assertEqual(self.item()["fence"]["N"], "5")

    def publish_until(self, stop, first):
        seq = first
        while not stop.is_set():
            for port in self.ports:
                try:
                    with Connection(port) as feed:
                        while not stop.is_set():
                            seq += 1
                            feed.ask(update("trade", trades(seq, 1)))
                            self.acknowledged.append(seq)
                except REFUSED:
                    seq += 1

    def test_a_follower_that_is_late_may_not_take_over(self):
        one, two = self.both()
        self.publish_to(0)
        two.pause()
        self.publish_to(0, 3)
        self.named(0)
        self.assertIn("too few followers have all updates", self.page(self.ports[0], "/health")[1])
        self.publish_to(0, 20)
        one.kill()
        two.resume()
        self.says(1, "may lack acknowledged updates")
        self.passes_by(1)
        # The complete one comes back, and goes on.
        self.begin(0)
        self.is_active(0)
        self.complete(0)
        self.named(0, 1)

    def test_an_operator_may_accept_the_loss(self):
        one, two = self.both()
        two.pause()
        self.publish_to(0, 3)
        self.named(0)
        self.publish_to(0, 20)
        one.kill()
        two.resume()
        owner = self.item()["ownerName"]["S"]
        shown = self.lease_tool("show", self.url())
        self.assertRegex(shown.stdout, rf"copies +127\.0\.0\.1:{self.ports[0]}/")
        done = self.lease_tool("release", self.url(), "--owner", owner, "--now", "--accept-loss")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.is_active(1)
        self.assertEqual(self.lease_tool("release", self.url(), "--owner", owner).returncode, 1)
        # What it lacked is cut off the other one's log, kept, and named.
        self.begin(0)
        self.named(0, 1)
        note = self.state(self.ports[0])["note"]
        self.assertRegex(note, r"updates that this log had from update .* are cut off, and kept in")

    def test_an_operator_may_accept_the_loss_of_a_lease_that_was_given_back(self):
        one, two = self.both()
        two.pause()
        self.publish_to(0, 3)
        self.named(0)
        self.assertEqual(one.terminate(), 0)
        two.resume()
        self.passes_by(1)
        owner = self.item()["ownerName"]["S"]
        done = self.lease_tool("release", self.url(), "--owner", owner, "--now", "--accept-loss")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.is_active(1)

    def test_a_complete_copy_whose_log_cannot_be_opened_leaves_the_lease_to_another_one(self):
        one, two = self.both()
        self.publish_to(0)
        one.kill()
        # A record in the middle of the follower's log is damaged before it takes over.
        [path] = [path for path in self.directory_of(1).iterdir() if LOG.fullmatch(path.name)]
        data = bytearray(path.read_bytes())
        data[40:60] = bytes(20)
        path.write_bytes(data)
        self.assertNotEqual(two.wait(30), 0)
        self.assertEqual(self.copies(), [f"127.0.0.1:{port}" for port in sorted(self.ports)])
        self.begin(0)
        self.is_active(0)
        self.publish_to(0)
        self.complete(0)
        self.assertEqual(self.copies(), [f"127.0.0.1:{self.ports[0]}"])

    def test_a_leader_that_ended_the_day_alone_follows_one_that_did_not(self):
        one, two = self.both()
        self.publish_to(0)
        two.kill()
        with self.connect(self.ports[0]) as client:
            client.ask(kdb.lst(kdb.sym(".u.endofday"), kdb.sym("force")))
        one.kill()
        self.begin(1)
        self.is_active(1)
        self.publish_to(1)
        self.begin(0)
        self.named(0, 1)
        self.publish_to(1)
        self.complete(1)
        self.eventually(lambda: self.rows(0) == self.rows(1), "both logs are the same")
        self.assertRegex(self.state(self.ports[0])["note"], "went on with the day before: kept in .*[.]aside")

    def test_a_take_over_does_not_wait_for_a_host_that_does_not_answer(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            self.ports.append(silent.getsockname()[1])
            one, _ = self.both()
            self.publish_to(0)
            # The follower looks for another leader, and meets the silent one.
            one.pause()
            self.eventually_equal(lambda: self.role(self.ports[1]), "active", "the follower is active", 2 * LEASE_NS / 1e9)
            self.publish_to(1)
            self.complete(1)

    def test_without_replica_a_follower_takes_over_if_it_keeps_up(self):
        one, _ = self.both(durability="group(5ms)")
        self.publish_to(0, 100)
        self.eventually(lambda: self.state(self.ports[1])["tip"] == 100 or None, "the copy is complete")
        one.kill()
        self.is_active(1)
        self.complete(1)

    def test_a_stop_in_order_hands_the_last_updates_over(self):
        one, _ = self.both(durability="group(5ms)")
        self.publish_to(0, 300)
        self.assertEqual(one.terminate(), 0)
        self.is_active(1)
        self.complete(1)
        self.assertEqual(self.rows(0), self.rows(1))

    def test_a_stop_in_order_beside_a_follower_that_hangs_leaves_the_lease_to_the_complete_one(self):
        one, two = self.both(durability="group(5ms)")
        two.pause()
        self.publish_to(0, 50)
        self.assertEqual(one.terminate(), 0)
        self.assertEqual(self.copies(), [f"127.0.0.1:{self.ports[0]}"])
        two.resume()
        self.begin(0)
        self.is_active(0)
        self.complete(0)

    def test_an_operator_hands_over_and_back(self):
        self.both()
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        for epoch, active in [(2, 1), (3, 0)]:
            self.publish_to(1 - active)
            self.says(active, None)
            done = subprocess.run([str(binary()), "failover", addresses], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, rf"127.0.0.1:{self.ports[active]} is active after .*: epoch {epoch}, {self.seq} updates")
            self.named(0, 1)
        self.publish_to(0)
        self.assertEqual(len(self.acknowledged), 60)
        self.complete(0)

    def test_a_hand_over_to_a_follower_that_hangs_is_given_up(self):
        _, two = self.both()
        self.publish_to(0)
        two.pause()
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        with self.connect(self.ports[0]) as client:
            client.ask(kdb.lst(kdb.sym(".u.failover"), kdb.NIL))
        given_up = "the hand-over is given up, this tickerplant stays active: nobody who may take over answers"
        self.eventually_equal(lambda: self.state(self.ports[0])["note"], given_up, "the hand-over is given up")
        self.assertEqual(self.state(self.ports[0])["role"], "active")
        two.resume()
        self.publish_to(0)
        self.named(0, 1)
        done = subprocess.run([str(binary()), "failover", addresses], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.publish_to(1)
        self.assertEqual(len(self.acknowledged), 60)
        self.complete(1)

    def test_no_hand_over_to_a_follower_that_lacks_updates(self):
        _, two = self.both()
        two.pause()
        self.publish_to(0, 3)
        self.named(0)
        with self.connect(self.ports[0]) as client, self.assertRaisesRegex(KdbError, "^io: no follower is known to have acknowledged"):
            client.ask(kdb.lst(kdb.sym(".u.failover"), kdb.NIL))
        self.publish_to(0, 3)
        self.complete(0)

    def test_a_paused_leader_acknowledges_nothing_once_another_one_is_active(self):
        one, _ = self.both()
        feed = self.connect(self.ports[0])
        self.publish_to(0)
        one.pause()
        self.is_active(1)
        self.publish_to(1)
        one.resume()
        with self.assertRaises(REFUSED):
            feed.ask(update("trade", trades(-1, 1)))
        self.named(0, 1)
        self.publish_to(1)
        self.complete(1)
        self.eventually(lambda: self.rows(0) == self.rows(1), "both logs are the same")

    def test_an_emptied_directory_is_another_copy(self):
        one, two = self.both()
        self.publish_to(0)
        before = self.numbered_copies()
        two.kill()
        one.pause()
        for path in self.directory_of(1).iterdir():
            path.unlink()
        self.begin(1)
        self.says(1, "may lack acknowledged updates")
        self.passes_by(1)
        one.resume()
        self.is_active(0)
        self.named_under_another_number(before)
        self.complete(1)

    def test_a_follower_whose_log_is_gone_ends_and_never_takes_over(self):
        one, two = self.both()
        self.publish_to(0)
        for path in self.directory_of(1).glob("sym2*"):
            path.unlink()
        self.assertNotEqual(two.wait(), 0)
        self.assertIn("may no longer be written by this tickerplant", two.printed())
        self.publish_to(0)
        one.kill()
        self.begin(1)
        self.says(1, "may lack acknowledged updates")
        self.passes_by(1)
        self.begin(0)
        self.is_active(0)
        self.complete(0)

    def test_a_copy_that_has_lost_synced_updates_is_another_copy(self):
        one, two = self.both()
        self.publish_to(0)
        # What an orderly end has closed is known to be on the disk.
        self.assertEqual(two.terminate(), 0)
        two = self.begin(1)
        self.named(0, 1)
        self.publish_to(0)
        two.kill()
        one.kill()
        [log] = [path for path in self.directory_of(1).iterdir() if LOG.fullmatch(path.name)]
        os.truncate(log, log.stat().st_size // 4)
        self.begin(1).wait_for("It counts as another copy")
        self.says(1, "may lack acknowledged updates")
        self.passes_by(1)
        self.begin(0)
        self.is_active(0)
        self.complete(0)

    def test_a_log_that_a_disk_has_changed_is_not_copied_over_a_good_one(self):
        one, two = self.both()
        self.publish_to(0)
        two.pause()
        one.kill()
        [log] = [path for path in self.directory_of(0).iterdir() if LOG.fullmatch(path.name)]
        [copy] = [path for path in self.directory_of(1).iterdir() if LOG.fullmatch(path.name)]
        before = copy.read_bytes()
        changed = bytearray(log.read_bytes())
        # The last byte of the last value, in a block that is not complete and has no checksum.
        changed[-1] ^= 1
        log.write_bytes(changed)
        self.begin(0)
        self.is_active(0)
        two.resume()
        self.says(1, "from update 19 on, and should not before 20, where the leader's epoch 2 began")
        self.assertEqual(copy.read_bytes(), before)

    def test_a_leader_with_a_full_disk_leaves_the_log_to_its_follower(self):
        place = self.directory_of(0)
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
            self.skipTest("a small file system cannot be mounted here (this needs root)")
        self.addCleanup(subprocess.run, ["umount", "-l", place])
        (place / "filler").write_bytes(bytes(700_000))
        one, _ = self.both()
        with self.connect(self.ports[0]) as feed, self.assertRaises(REFUSED):
            while True:
                feed.ask(update("trade", trades(self.seq + 1, 100)))
                self.acknowledged += range(self.seq + 1, self.seq + 101)
                self.seq += 100
        self.assertNotEqual(one.wait(), 0)
        self.is_active(1)
        self.publish_to(1)
        self.complete(1)

    def test_a_pair_that_was_run_by_hand_goes_on_with_its_leaders_log(self):
        leader = self.tick(name="leader", logs=self.directory_of(0), port=self.ports[0])
        follower = self.tick("--follow", f"127.0.0.1:{self.ports[0]}", name="follower", logs=self.directory_of(1), port=self.ports[1])
        self.publish(self.connect(leader))
        self.eventually(lambda: self.state(self.ports[1])["tip"] == 20 or None, "the copy is complete")
        self.assertEqual(follower.terminate(), 0)
        self.publish(self.connect(leader), 5)
        self.assertEqual(leader.terminate(), 0)
        self.begin(1)
        self.says(1, "goes first")
        self.begin(0)
        self.is_active(0)
        self.named(0, 1)
        self.assertEqual(self.rows(1), list(range(25)))

    def test_a_node_that_missed_an_epoch_holds_the_rows_of_the_log(self):
        """It was ahead of the follower that took over, and comes back to a later leader."""
        one, two = self.both()
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        node = self.start("node", "rdb", addresses, "-p", "0", "--queue", "rdb", "--node", "node")
        rows = self.connect(node)
        self.publish_to(0)
        self.eventually(lambda: rows.ask("count trade").v == 20 or None, "the node has the rows")
        two.pause()
        with self.connect(self.ports[0]) as feed:
            for seq in range(900, 905):
                feed.send(update("trade", trades(seq, 1)))
            self.eventually(lambda: rows.ask("count trade").v == 25 or None, "the node has what the follower lacks")
            one.kill()
        node.pause()
        two.resume()
        self.is_active(1)
        self.publish_to(1)
        self.begin(0)
        self.named(0, 1)
        two.kill()
        self.is_active(0)
        self.publish_to(0)
        node.resume()
        held = lambda: sorted(rows.ask("exec seq from trade").v)
        self.eventually_equal(held, sorted(self.rows(0)), "the node holds the rows of the log")
        self.complete(0)

    def test_a_named_copy_that_has_lost_its_logs_is_another_copy(self):
        one, two = self.both()
        self.publish_to(0)
        before = self.numbered_copies()
        two.kill()
        one.kill()
        for path in self.directory_of(1).glob("sym2*"):
            path.unlink()
        self.begin(1)
        self.says(1, "may lack acknowledged updates")
        self.passes_by(1)
        self.begin(0)
        self.is_active(0)
        self.named_under_another_number(before)
        self.complete(1)

    def test_a_failsafe_by_a_lock_of_its_own_is_refused(self):
        process = self.begin(0, "--lease-failsafe")
        self.assertNotEqual(process.wait(), 0)
        process.wait_for("each copy has a lock of its own, which keeps nobody else from being active")

    def test_whoever_has_a_log_goes_first(self):
        alone = self.tick(name="alone", logs=self.directory_of(1))
        self.publish(self.connect(alone))
        self.assertEqual(alone.terminate(), 0)
        self.begin(0)
        self.begin(1)
        self.is_active(1)
        self.named(0, 1)
        self.assertEqual(self.rows(0), list(range(20)))

    def test_a_lease_of_a_common_directory_is_refused_and_the_reverse(self):
        one, _ = self.plant("common")
        self.eventually(lambda: self.item() is not None or None, "it has the lease")
        self.begin(0)
        self.says(0, "names no copy of the log")
        self.assertEqual(one.terminate(), 0)
        self.passes_by(0)

    def test_a_lock_of_one_log_is_no_lease_of_two(self):
        process = self.begin(0, lease="file:")
        self.assertNotEqual(process.wait(), 0)
        process.wait_for("a lock of one decides nothing: use a lease in a store")

    def test_clients_of_the_passive_one_are_handed_through(self):
        self.both("--forward")
        with self.connect(self.ports[1]) as feed:
            for _ in range(20):
                self.seq += 1
                feed.ask(update("trade", trades(self.seq, 1)))
                self.acknowledged.append(self.seq)
        self.complete(0)
        self.assertTrue(re.search(r"\nelastick_tick_forwarded_connections \d", self.page(self.ports[1], "/metrics")[1]))


class CopiesOnTheApiServer(Copies):
    """The same on the other stand-in."""

    kind = "moto"
