"""Nodes that keep leases, and `elastick gc`: what every store of owners' leases must do."""

import json
import os
import subprocess

from . import kdb, wire
from .client import Connection
from .cluster import GONE, Cluster
from .process import binary


class OwnersCluster(Cluster):
    """`store()` is the URL of the leases, with an expire window of a few seconds; `environment` of nodes and of `elastick gc` is the same."""

    variables = {}

    def store(self):
        raise NotImplementedError

    def executable_of_gc(self):
        return binary()

    def start_node(self, *options, name=None):
        return super().start_node(*self.node_options, "--owner-lease", self.store(), *options, name=name)

    def running(self):
        return [node for node in super().running() if not node.is_paused()]

    def gc(self, *options, store=None):
        command = [self.executable_of_gc(), "gc", f"127.0.0.1:{self.port}", "--owner-lease", store or self.store(), *options]
        environment = {**os.environ, **self.variables}
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=110, env=environment)

    def found(self, *options, **store):
        """What `elastick gc` says of each node: lease and action, by name."""
        done = self.gc("--json", *options, **store)
        rows = json.loads(done.stdout) if done.stdout else []
        return {row["node"]: (row["lease"], row["action"]) for row in rows}, done

    def owners(self):
        with Connection(self.port, deadline_s=20) as h:
            return h.ask(kdb.lst(kdb.sym(".u.asg.owners"), kdb.NIL)).py()

    def scene(self):
        """A rolled node, a live one and a standby, all of which hold their leases."""
        for _ in range(3):
            node = self.start_node()
            node.wait_for("the owner's lease is held")
        self.joined(3)
        for _ in range(60):
            self.publish(20)
            self.in_step()
            if self.states().count("rolled") >= 1:
                return
        self.fail(f"only {self.states()}")

    def assert_no_rows(self, asked):
        """The query of a node that has been evicted is rejected, if it is answered at all."""
        try:
            answer = asked.answer_or_error()
        except GONE:
            return
        self.assertEqual(answer.t, kdb.ERROR)
        self.assertRegex(str(answer.v), "evicted: this node stood still")

    def silent(self, node, least_s=5):
        """Waits until the tickerplant has not heard from the node for so long."""
        def quiet():
            owners = self.owners()
            silent = dict(zip(owners["node"], owners["silent"]))
            return (silent[node.name] or 0) >= least_s * 1_000_000_000

        self.eventually(quiet, f"the tickerplant has not heard from {node.name}")


class OwnersTests:
    """For a subclass that is an OwnersCluster."""

    def test_a_node_whose_host_hangs_is_evicted_and_may_not_come_back(self):
        self.scene()
        found, done = self.found()
        self.assertEqual((done.returncode, {action for _, action in found.values()}), (0, {""}), done.stderr)
        for state in ("rolled", "live"):
            node = self.node_in(state)
            asked = self.connect(node)
            node.pause()
            # It is there when the node goes on, before anything else.
            asked.raw(wire.message("count trade", wire.SYNC))
            self.silent(node)
            # Its connection is open, so that the queue counts on it.
            self.assertIn(node.name, [name for _, name, _ in self.queue()])
            found, done = self.found("--dry-run")
            self.assertEqual(found[node.name], ("over", "would be evicted"), done.stderr)
            self.assertIn(node.name, [name for _, name, _ in self.queue()])
            self.start_node()
            found, done = self.found()
            self.assertEqual((done.returncode, found[node.name]), (0, ("over", "evicted")), done.stderr)
            self.publish(5)
            self.assert_held_once(f"the {state} node hung, and was evicted")
            node.resume()
            self.assert_no_rows(asked)
            self.assertEqual(node.wait(), 1)
            self.assertRegex(node.printed(), r"this process was evicted as node .*other nodes have its windows")
            self.publish(5)
            self.assert_held_once("it came back")
            found, done = self.found()
            self.assertNotIn(node.name, found)

    def test_a_node_that_is_heard_is_not_evicted_whatever_the_store_says(self):
        self.scene()
        found, done = self.found(store=self.empty_store())
        self.assertEqual((done.returncode, {action for _, action in found.values()}), (0, {""}), done.stderr)
        self.assertEqual(len(self.states()), 3)

    def test_a_node_that_goes_on_in_time_joins_again_with_its_windows(self):
        self.scene()
        for state in ("rolled", "live"):
            node = self.node_in(state)
            node.pause()
            self.silent(node)
            self.publish(5)
            node.resume()
            node.wait_for("this process stood still for longer than its lease lasts")
            self.publish(5)
            self.assert_held_once(f"the {state} node hung, and nobody evicted it")
            self.assertNotIn("dropping all rows", node.printed())

    def test_a_store_that_is_away_costs_no_node(self):
        self.scene()
        node = self.node_in("rolled")
        node.pause()
        self.silent(node)
        found, done = self.found(store=self.store_that_is_away())
        self.assertEqual((done.returncode, found[node.name][1]), (1, "the store does not say whether it is gone"))
        self.assertIn("could not be decided or done", done.stderr)
        node.resume()
        self.assertEqual(len(self.states()), 3)
        self.assert_held_once("nothing was evicted")

    def test_a_node_that_ends_in_order_gives_its_lease_back(self):
        node = self.start_node()
        node.wait_for("the owner's lease is held")
        # The lease is written first; the node joins behind it.
        self.joined(1)
        owner = self.owners()["owner"][0]
        self.assertTrue(self.exists(owner))
        node.terminate()
        self.assertFalse(self.exists(owner))
