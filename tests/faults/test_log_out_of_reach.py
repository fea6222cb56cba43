"""Nodes without access to the log file, as on a host without the file system: the tickerplant streams the log to them."""

import os
import subprocess

from harness.cluster import Cluster

HIDES_THE_LOGS = 'mount -t tmpfs tmpfs "$0" && exec "$@"'


class LogOutOfReach(Cluster):
    def setUp(self):
        super().setUp()
        self.node_wrapper = ("unshare", "--mount", "sh", "-c", HIDES_THE_LOGS, self.logs)
        tried = subprocess.run([*self.node_wrapper, "ls", "-A", self.logs], capture_output=True)
        if os.geteuid() != 0 or tried.returncode or tried.stdout:
            self.skipTest("the logs cannot be hidden from a process here (this needs root)")

    def test_a_late_node_gets_everything_once(self):
        self.publish(50)
        node = self.start_node()
        self.publish(50)
        node.wait_for("receiving the feed from update 0 on")
        self.assert_held_once("the log was out of reach")

    def test_a_lost_window_is_rebuilt_all_the_same(self):
        for _ in range(3):
            self.start_node()
        self.joined(3)
        while "rolled" not in self.states():
            self.publish(20)
            self.in_step()
            self.assertLess(self.next_seq, 300_000, f"nobody is full: {self.states()}")
        self.node_in("rolled").kill()
        self.publish(10)
        self.assert_held_once("the rolled node was killed")
