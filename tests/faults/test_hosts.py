"""Memory limits from the host: cgroups version 1, and reserved huge pages."""

import os
import subprocess
import unittest

from harness.pages import metrics
from harness.scene import Scene

MIB = 1 << 20
# Bind-mounts fake files over the kernel's; from `exec` on, `$$` is the node's process.
SEES = """
set -e
for file in meminfo cgroup; do
    if [ -f "$0/$file" ]; then
        if [ $file = meminfo ]; then mount --bind "$0/$file" /proc/meminfo; else mount --bind "$0/$file" /proc/$$/cgroup; fi
    fi
done
if [ -d "$0/groups" ]; then mount --bind "$0/groups" /sys/fs/cgroup; fi
exec "$@"
"""


def may_mount():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


@unittest.skipIf(not may_mount(), "nothing can be mounted here (this needs root)")
class Hosts(Scene):
    def setUp(self):
        super().setUp()
        self.host = self.directory / "host"
        self.host.mkdir()
        self.tp = self.tick()

    def write(self, name, text):
        path = self.host / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def node(self):
        node = self.rdb(self.tp, "--scale", "60", wrapper=("unshare", "--mount", "sh", "-c", SEES, self.host))
        asked = self.connect(node)
        self.eventually(lambda: asked.ask("count trade").v == 0, "the node is live")
        return node

    def metric(self, node, name):
        return metrics(node.port)[name]

    def test_a_limit_of_a_cgroup_of_version_1_is_the_nodes_memory(self):
        self.write("cgroup", "12:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n0::/\n")
        group = "groups/memory/docker/abc"
        self.write(f"{group}/memory.limit_in_bytes", f"{400 * MIB}\n")
        self.write(f"{group}/memory.usage_in_bytes", f"{150 * MIB}\n")
        self.write(f"{group}/memory.stat", f"total_inactive_file {50 * MIB}\n")
        node = self.node()
        self.assertEqual(self.metric(node, "elastick_system_memory_bytes"), 400 * MIB)
        self.assertEqual(self.metric(node, "elastick_system_memory_used_bytes"), 100 * MIB)

    def test_huge_pages_that_are_set_aside_are_not_the_nodes_memory(self):
        kib = {"MemTotal": 4_000_000, "MemAvailable": 1_500_000, "Hugepagesize": 2048, "Hugetlb": 2_048_000}
        self.write("meminfo", "HugePages_Total: 1000\n" + "".join(f"{name}: {size} kB\n" for name, size in kib.items()))
        self.write("cgroup", "0::/\n")
        self.write("groups/cgroup.controllers", "")
        node = self.node()
        self.assertEqual(self.metric(node, "elastick_system_memory_bytes"), (4_000_000 - 2_048_000) << 10)
        self.assertEqual(self.metric(node, "elastick_system_memory_used_bytes"), (4_000_000 - 2_048_000 - 1_500_000) << 10)
