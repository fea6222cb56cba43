"""A tickerplant in one guest and nodes in another, with the log on their common file system; audited like the other tests."""

import os
import signal
import unittest

from harness import process
from harness.cluster import Cluster
from harness.process import LISTENING, Process, eventually

from .lab import EFS, OF_NODES, OF_TICKERPLANT, Lab

# Guests share few processors with all other programs.
DEADLINE_S = 120


def long(test):
    """Decorator for slow cases, and for repetitions with other options."""
    return unittest.skipUnless(os.environ.get("ELASTICK_EFS_LONG"), "ELASTICK_EFS_LONG is not set")(test)


class GuestProcess(Process):
    """An elastick process in a guest. `port` is its (address, port)."""

    def __init__(self, guest, name, arguments, environment=None):
        self.guest = guest
        self.name = name
        self.arguments = [str(argument) for argument in arguments]
        self.output_path = guest.lab.work / f"{name}.out"
        self.output_path.touch()
        self.printed_before = self.output_path.stat().st_size
        self._port = None
        self._code = None
        self._pid = guest.ask(
            "start",
            arguments=[str(process.binary()), *self.arguments],
            output=f"/mnt/work/{name}.out",
            environment={"RUST_BACKTRACE": "1", "ELASTICK_LOG": "info", **(environment or {})},
        )

    @property
    def pid(self):
        return self._pid

    @property
    def port(self):
        if self._port is None:
            self._port = (self.guest.address, int(self.wait_for(LISTENING).group(1)))
        return self._port

    def wait_for(self, pattern, deadline_s=DEADLINE_S):
        return super().wait_for(pattern, deadline_s)

    @property
    def popen(self):
        return self

    def poll(self):
        """Exit code; None while it runs or its guest is unreachable."""
        if self._code is None:
            try:
                self._code = self.guest.ask("poll", within_s=10, pid=self._pid)
            except OSError:
                return None
        return self._code

    def signal(self, number):
        self.guest.ask("kill", pid=self._pid, number=int(number))

    def wait(self, deadline_s=DEADLINE_S):
        eventually(lambda: self.poll() is not None, f"{self.name} ends", deadline_s, self.tail)
        return self.poll()

    def kill(self):
        self.guest.heal()
        self.signal(signal.SIGKILL)
        self.wait()

    def close(self):
        self.kill()


class EfsCluster(Cluster):
    """Test case with its own directory on the file system, which guests mount anew for each test."""

    of_tickerplant = OF_TICKERPLANT
    of_nodes = OF_NODES
    durability = "group(5ms)"
    node_options = ("--memory", "64MiB")

    @classmethod
    def setUpClass(cls):
        Lab.get()

    def setUp(self):
        self.lab = Lab.get()
        self.here = self.lab.guest("tickerplants", self.of_tickerplant)
        self.there = self.lab.guest("nodes", self.of_nodes)
        self.label = ".".join(self.id().split(".")[-2:])
        self.path = self.lab.export / self.label
        self.path.mkdir()
        super().setUp()

    def eventually(self, check, what, deadline_s=DEADLINE_S):
        return eventually(check, what, deadline_s)

    def in_guest(self, guest, name, *arguments):
        process = GuestProcess(guest, f"{self.label}.{name}", arguments)
        self.processes.append(process)
        return process

    def start_tick(self, *options, guest=None, port=0):
        self.started += 1
        self.tp = self.in_guest(
            guest or self.here, f"tick{self.started}", "tick", "sym", f"{EFS}/{self.path.name}", "-p", port,
            "--schemas", self.directory / "sym.q", "--open", "--durability", self.durability, *self.tick_options, *options,
        )  # fmt: skip
        self.port = self.tp.port
        return self.tp

    def start_node(self, *options, name=None, guest=None):
        name = name or f"node{len(self.nodes)}"
        host, port = self.port
        node = self.in_guest(
            guest or self.there, name, "rdb", f"{host}:{port}", "-p", "0", "--open", "--queue", "rdb", "--node", name,
            *(options or self.node_options),
        )  # fmt: skip
        node.name = name
        self.nodes.append(node)
        return node
