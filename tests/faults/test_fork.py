"""A copy takes over, and an old leader whose log went on alone is cut back to the fork."""

import unittest

from harness import kdb, tplog
from harness.followers import Followers
from harness.process import reserve_port
from harness.scene import trades, update


class Fork(Followers):
    def forked(self, common=30, alone=7):
        """A leader that went on alone after its follower had taken over: both processes have ended."""
        leader = self.leader()
        follower, port = self.follower(leader)
        self.publish(leader, common)
        self.copied(port, common)
        follower.kill()
        self.publish(leader, alone)
        leader.kill()
        return common + alone

    def test_an_old_leader_is_cut_back_to_the_fork(self):
        self.forked()
        [log] = self.files(self.logs)
        before = log.read_bytes()
        new = self.leader(name="new", logs=self.directory / "copy")
        self.publish(new, 9)
        old, port = self.follower(new, logs="logs")
        self.copied(port, 39)
        self.same("logs", "copy")
        self.assertIn("whole", self.verified("logs") + self.verified("copy"))
        [kept] = self.logs.glob("*.cut-*")
        fork = int(kept.name.rsplit("-", 1)[1])
        self.assertEqual(kept.read_bytes(), before[fork:])
        self.assertEqual(tplog.whole_bytes(log)[0], 39)
        self.assertIn(str(kept), self.state(port)["note"])
        self.assertRegex(old.printed(), r"7 updates that this log had from update 30 on under epoch 1 are not in the leader's \(epoch 2\)")
        # Back again, to the second one's take-over.
        self.publish(new, 3)
        self.copied(port, 42)
        new.kill()
        old.terminate()
        again = self.leader(name="again", logs=self.logs)
        self.assertEqual((self.state(again.port)["epoch"], self.state(again.port)["tip"]), (3, 42))

    def test_nodes_drop_what_the_copy_lacks_and_go_on_with_it(self):
        port_of_leader = reserve_port()
        leader = self.leader(port=port_of_leader)
        follower, port = self.follower(leader)
        node = self.rdb(port_of_leader, name="node")
        h = self.connect(leader)
        self.eventually(lambda: h.ask("count .u.asg.tab").v == 1, "the node joins")
        self.publish(leader, 30)
        self.copied(port, 30)
        follower.kill()
        self.publish(leader, 7)
        q = self.connect(node)
        self.eventually_equal(lambda: q.ask("count trade").v, 37, "the node has them")
        leader.kill()
        new = self.leader(name="new", logs=self.directory / "copy", port=port_of_leader)
        new.wait_for("is listening on")
        self.seq = 100
        self.publish(new, 3)
        rows = list(range(30)) + [100, 101, 102]
        self.eventually_equal(lambda: self.connect(node).ask("exec seq from trade").v, rows, "the node has the copy's")

    def test_the_same_updates_after_the_fork_do_not_hide_it(self):
        """Both went on with updates of the same bytes, but for the first."""
        self.forked(alone=0)
        for logs, first in ((self.logs, 1), (self.directory / "copy", 2)):
            process = self.leader(name=f"alone{first}", logs=logs)
            h = self.connect(process)
            for seq in (first, *range(100, 160)):
                # With a time, so that both logs have the same bytes.
                h.ask(update("trade", kdb.lst(kdb.timespans([5]), *trades(seq, 1).v)))
            process.terminate()
        new = self.leader(name="new", logs=self.directory / "copy")
        _, port = self.follower(new, logs="logs")
        # Both wrote under epoch 2: which is right is not known before a higher one.
        self.copied(port, 91)
        self.same("logs", "copy")

    def test_a_log_that_is_ahead_of_its_leader_is_left_alone(self):
        self.forked()
        [log] = self.files(self.logs)
        before = log.read_bytes()
        for start in range(3):
            again = self.leader(name=f"start{start}", logs=self.logs)
            again.wait_for("is listening on")
            self.assertEqual(again.terminate(), 0)
        new = self.leader(name="new", logs=self.directory / "copy")
        _, port = self.follower(new, logs="logs")
        self.eventually(lambda: "ahead of its leader" in self.state(port)["trouble"], "it says so")
        self.assertEqual(self.page(port, "/health?role=passive")[0], 503)
        self.assertEqual(log.read_bytes(), before)

    def test_a_changed_directory_of_the_same_epoch_is_left_alone(self):
        leader = self.leader()
        self.publish(leader, 10)
        follower, port = self.follower(leader)
        self.copied(port, 10)
        follower.terminate()
        [copy] = self.files(self.directory / "copy")
        tplog.write(copy, tplog.read(copy) + [tplog.update("trade", trades(99, 1))])
        before = copy.read_bytes()
        self.publish(leader, 10)
        _, port = self.follower(leader)
        self.eventually(lambda: "differs from its leader's from update 10 on" in self.state(port)["trouble"], "it says so")
        self.assertEqual(copy.read_bytes(), before)

    def test_a_day_that_ended_with_other_updates_is_cut_back_and_the_next_one_kept_aside(self):
        self.forked()
        old = self.leader(name="old alone")
        self.connect(old).ask(kdb.lst(kdb.sym(".u.endofday"), kdb.NIL))
        old.terminate()
        new = self.leader(name="new", logs=self.directory / "copy")
        self.connect(new).ask(kdb.lst(kdb.sym(".u.endofday"), kdb.NIL))
        for _ in range(2):
            new.terminate()
            new = self.leader(name="new again", logs=self.directory / "copy")
            new.wait_for("is listening on")
        _, port = self.follower(new, logs="logs")
        copy = self.directory / "copy"
        self.eventually(lambda: self.bytes_of(self.logs) == self.bytes_of(copy), "both days are the leader's")
        self.assertEqual(len(self.files(self.logs)), 2)
        [aside] = self.logs.glob("sym????.??.??.aside")
        [cut] = self.logs.glob("*.cut-*")
        self.assertEqual((tplog.whole_bytes(aside)[0], cut.stat().st_size > 0), (0, True))
        self.publish(new, 2)
        self.copied(port, 2)
        self.same("logs", "copy")

    def test_a_part_of_the_log_takes_over_with_its_numbers(self):
        leader = self.leader("--limit-log-read-chunk", "64KiB")
        h = self.connect(leader)
        h.ask(kdb.syms(".u.seq", "feed1"))
        for seq in range(1, 301):
            h.ask(kdb.lst(kdb.chars(".u.upd"), kdb.sym("trade"), trades(seq * 1000, 1000), kdb.sym("feed1"), kdb.long(seq)))
        follower, port = self.follower(leader, waits=False)
        size_bytes = lambda: sum(path.stat().st_size for path in self.files(self.directory / "copy"))
        self.eventually(lambda: size_bytes() > 200_000, "it has begun to copy")
        leader.kill()
        follower.kill()
        new = self.leader(name="new", logs=self.directory / "copy")
        h = self.connect(new)
        last = h.ask(kdb.syms(".u.seq", "feed1")).v
        self.assertGreater(last, 0)
        # The copy may end between a number and its update.
        copied = h.ask(".u.i").v
        self.assertEqual(copied // 2, last)
        self.numbered(h, last, 3)
        self.assertEqual(h.ask(".u.i").v, copied + 4)

    def test_numbers_of_updates_that_were_cut_off_are_forgotten(self):
        leader = self.leader()
        follower, port = self.follower(leader)
        self.numbered(self.connect(leader), 1, 5)
        self.copied(port, 10)
        follower.terminate()
        self.numbered(self.connect(leader), 6, 5)
        leader.terminate()
        new = self.leader(name="new", logs=self.directory / "copy")
        old, port = self.follower(new, logs="logs")
        self.copied(port, 10)
        new.kill()
        old.terminate()
        again = self.leader(name="again", logs=self.logs)
        h = self.connect(again)
        self.assertEqual(h.ask(kdb.syms(".u.seq", "feed1")).v, 5)
        self.numbered(h, 5, 6)
        self.assertEqual(h.ask(".u.i").v, 20)


if __name__ == "__main__":
    unittest.main()
