"""Base test case: a temporary directory, and processes and connections that end with the test."""

import pathlib
import shutil
import tempfile
import unittest

from . import kdb
from .client import Connection
from .process import DEADLINE_S, Process, eventually

SCHEMA = """\
trade:([]time:`timespan$();sym:`g#`symbol$();price:`float$();size:`long$();seq:`long$())
quote:([]time:`timespan$();sym:`g#`symbol$();bid:`float$();ask:`float$();seq:`long$())
"""

# Options of a node that is full after some tens of thousands of trades: a few megabytes, plus room for the process itself.
SMALL = ("--memory", "8MiB", "--scale", "30", "--roll-threshold", "60")


class Scene(unittest.TestCase):
    """Starts processes with `tick` and `rdb`, connects with `connect`; prints their output if a test fails."""

    schema = SCHEMA
    # Overrides the binary under test.
    executable = None
    maxDiff = 4000

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="elastick-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.processes = []
        self.addCleanup(self._close_processes)
        self.connections = []
        self.addCleanup(self._close_connections)
        (self.directory / "sym.q").write_text(self.schema)
        self.logs = self.directory / "logs"
        self.logs.mkdir()

    def run(self, result=None):
        result = result if result is not None else self.defaultTestResult()
        self._result = result
        self._failed_before = len(result.failures) + len(result.errors)
        return super().run(result)

    def _close_connections(self):
        for connection in self.connections:
            connection.close()

    def _close_processes(self):
        if len(self._result.failures) + len(self._result.errors) > self._failed_before:
            print(f"\n-- {self.id()} failed; its processes said:")
            for process in self.processes:
                print(process.tail(30))
        for process in self.processes:
            process.close()

    # Environment of every process of the scene.
    environment = {}

    def start(self, name, *arguments, wrapper=(), **environment):
        """Starts `elastick` with these arguments; a `wrapper` is a command that executes it."""
        process = Process(name, arguments, self.directory, {**self.environment, **environment}, wrapper, self.executable)
        self.processes.append(process)
        return process

    def tick(self, *options, name="tick", logs=None, port=0):
        """A tickerplant on this scene's schema and log directory."""
        logs = self.logs if logs is None else logs
        return self.start(name, "tick", "sym", logs, "-p", port, "--schemas", self.directory / "sym.q", *options)

    def rdb(self, tick, *options, name="rdb", queue="rdb", wrapper=()):
        """A node of the queue; `tick` is a process or a port."""
        port = tick if isinstance(tick, int) else tick.port
        arguments = ("rdb", f"127.0.0.1:{port}", "-p", "0", "--queue", queue, "--node", name, *options)
        return self.start(name, *arguments, wrapper=wrapper)

    def connect(self, process, **options):
        """Opens a connection to a process, a port or a Unix socket."""
        address = process.port if isinstance(process, Process) else process
        connection = Connection(address, **options)
        self.connections.append(connection)
        return connection

    def eventually(self, check, what, deadline_s=DEADLINE_S):
        return eventually(check, what, deadline_s)

    def eventually_equal(self, read, wanted, what, deadline_s=DEADLINE_S):
        """Polls until `read` returns `wanted`; a failure shows the difference."""
        seen = []

        def same():
            seen[:] = [read()]
            return seen[0] == wanted

        try:
            eventually(same, what, deadline_s)
        except AssertionError:
            self.assertEqual(seen[0], wanted, f"not within {deadline_s} s: {what}")

    def log_path(self, tick_connection):
        """The path of the day's log, from the tickerplant."""
        return pathlib.Path(tick_connection.ask(".u.L").v[1:])


def trades(first, count, symbols=("AAA", "BBB", "CCC")):
    """Columns of `count` trades without time; `seq` counts from `first` and identifies each row."""
    seq = range(first, first + count)
    return kdb.lst(
        kdb.syms(*(symbols[i % len(symbols)] for i in seq)),
        kdb.floats(float(i % 97) for i in seq),
        kdb.longs(i % 11 for i in seq),
        kdb.longs(seq),
    )


def quotes(first, count, symbols=("AAA", "BBB", "CCC")):
    seq = range(first, first + count)
    return kdb.lst(
        kdb.syms(*(symbols[i % len(symbols)] for i in seq)),
        kdb.floats(i / 4 for i in seq),
        kdb.floats(i / 4 + 1 for i in seq),
        kdb.longs(seq),
    )


def update(table, columns):
    """A call of `.u.upd`."""
    return kdb.lst(kdb.chars(".u.upd"), kdb.sym(table), columns)
