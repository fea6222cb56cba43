"""`elastick gc` with leases in a directory: nodes that hang, and queues of clusters that were torn down."""

import pathlib

from harness.pages import health
from harness.owners import OwnersCluster, OwnersTests


class OwnersInADirectory(OwnersTests, OwnersCluster):
    def leases(self):
        path = pathlib.Path(self.directory) / "owners"
        path.mkdir(exist_ok=True)
        return path

    def store(self):
        return f"file:{self.leases()}?expire=3s&renew=500ms"

    def empty_store(self):
        path = pathlib.Path(self.directory) / "empty"
        path.mkdir(exist_ok=True)
        return f"file:{path}"

    def store_that_is_away(self):
        return f"file:{self.directory}/away"

    def exists(self, owner):
        return (self.leases() / f"{owner}.lease").exists()

    def test_a_queue_without_nodes_is_removed_only_by_name(self):
        node = self.start_node(name="last")
        self.joined(1)
        self.publish(3)
        self.in_step()
        self.assertRegex(self.gc("--forget", "rdb").stdout, "last .*rdb")
        self.assertEqual(self.states(), ["live"], "a queue that is in use stays")
        node.kill()
        self.eventually(lambda: self.queue() == [], "the node is given up")
        self.assertRegex(self.gc().stdout, r"rdb .* 3 .*--forget QUEUE removes it")
        self.assertRegex(self.gc("--forget", "rdb", "--dry-run").stdout, "would be forgotten")
        self.assertRegex(self.gc("--forget", "rdb").stdout, "forgotten")
        self.assertNotIn("rdb", self.gc().stdout)

    def test_health_says_that_the_lease_cannot_be_renewed(self):
        node = self.start_node()
        node.wait_for("the owner's lease is held")
        well = lambda: (health(node.port)[0], health(node.port)[1].startswith("ok"))
        self.eventually_equal(well, (200, True), "all is well")
        for path in self.leases().iterdir():
            path.unlink()
        self.leases().rmdir()
        said = lambda: (200, "owner's lease is not held" in health(node.port)[1])
        self.eventually_equal(said, (200, True), "the node says that its lease is over, and serves")
        self.leases()
        self.eventually_equal(well, (200, True), "it has a lease again")

    def test_without_leases_an_operator_decides(self):
        node = self.rdb(self.port, *self.node_options, name="plain")
        self.nodes.append(node)
        self.joined(1)
        node.pause()
        self.silent(node)
        found, done = self.found()
        self.assertEqual(done.returncode, 0)
        self.assertRegex(found["plain"][1], r"silent without --owner-lease: \.u\.asg\.evict")
        node.resume()
