"""A node in another kernel replays the log from the file while the tickerplant appends to it."""

import threading

from .cluster import EfsCluster, long
from .lab import DEFAULTS, OF_NODES, OF_TICKERPLANT


class ReplayWithDefaults(EfsCluster):
    """Replay with the options that AWS documents: cached sizes may be a minute old."""

    of_tickerplant = DEFAULTS
    of_nodes = DEFAULTS
    rows_at_once = 500

    def publish_beside(self):
        """A background publisher whose updates are audited."""
        over = threading.Event()
        thread = threading.Thread(target=lambda: [self.publish(1) for _ in iter(over.is_set, True)])
        thread.start()

        def stop():
            over.set()
            thread.join()

        self.addCleanup(stop)
        return stop

    def assert_replayed_by_path(self, node):
        """Asserts that the node read the log from the file, not from the tickerplant's stream."""
        self.assertNotRegex(node.printed(), "cannot continue|will stream|receiving the feed from update 0 on")

    def test_a_node_replays_a_log_that_grows_all_the_while(self):
        self.publish(200)
        stop = self.publish_beside()
        for _ in range(3):
            node = self.start_node()
            node.wait_for("live from update")
            self.eventually(lambda: self.held_count() > 100_000, "the node has replayed")
            self.assert_replayed_by_path(node)
            node.kill()
        node = self.start_node()
        node.wait_for("live from update")
        stop()
        self.assert_held_once("the log grew during the replay")
        self.assert_replayed_by_path(node)
        self.assertIn("live from update", node.printed())


@long
class Replay(ReplayWithDefaults):
    """Replay with the recommended options."""

    of_tickerplant = OF_TICKERPLANT
    of_nodes = OF_NODES
