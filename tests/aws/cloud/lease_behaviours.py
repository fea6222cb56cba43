"""What a lease promises in every store: tests that the scenes of each store run. A scene says with `fence()` which number its lease has."""

import os
import subprocess

from .scene import binary


class HandsOver:
    """An owner that has ended."""

    def test_the_lease_of_one_that_was_killed_need_not_run_out(self):
        """Its locks on the log are free, so it writes nothing more."""
        long = self.url(terms="duration=10m&heartbeat=1s")
        one, port = self.plant("one", lease=long)
        self.publish(self.active(one, port))
        two, other = self.plant("two", lease=long)
        one.kill()
        self.publish(self.active(two, other))
        two.wait_for("its process has ended or lost the log")
        self.assertEqual((self.fence(), self.logged()), ("2", list(range(40))))

    def test_an_orderly_end_hands_the_lease_over_at_once(self):
        long = self.url(terms="duration=10m&heartbeat=500ms")
        one, port = self.plant("one", lease=long)
        self.publish(self.active(one, port))
        two, other = self.plant("two", lease=long)
        self.assertEqual(one.terminate(), 0)
        # The deadline of waiting is far below the lease.
        self.publish(self.active(two, other))
        self.assertEqual(self.logged(), list(range(40)))


class Operated:
    """`elastick lease`."""

    def lease(self, action, *options):
        command = [binary(), "lease", action, self.url(), *options]
        environment = {**os.environ, **self.environment}
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=110, env=environment)

    def test_while_take_overs_are_paused_the_owner_may_restart_and_an_operator_may_hand_over(self):
        self.assertIn("nobody has taken this lease yet", self.lease("pause").stderr)
        one, port = self.plant("one")
        self.publish(self.active(one, port))
        _, other = self.plant("two")
        self.assertEqual(self.lease("pause").stdout, "take-overs are paused\n")
        self.assertRegex(self.lease("show").stdout, r"paused +take-overs")
        one.kill()
        self.eventually(lambda: "take-overs are paused" in self.state(other)["note"] or None, "the passive one says so")
        self.eventually(lambda: (self.state(other)["renewed"] or 0) > 6_000_000_000 or None, "the lease is long over")
        self.assertEqual((self.role(other), self.page(other, "/health?role=passive")[0]), ("passive", 200))
        one = self.tick("--lease", self.url(), *self.lease_options, name="again", port=port)
        self.publish(self.active(one, port))
        command = [binary(), "failover", f"127.0.0.1:{port},127.0.0.1:{other}"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=110)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.publish(self.connect(other))
        self.assertEqual(self.lease("resume").stdout, "take-overs go on\n")
        self.assertNotRegex(self.lease("show").stdout, r"paused +take-overs")
        self.assertEqual(self.logged(), list(range(60)))
