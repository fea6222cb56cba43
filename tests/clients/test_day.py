"""A day with rolls: three kinds of clients publish, and each reads exactly the published rows from all nodes."""

import asyncio

import numpy
from aiokdb import cv, kk, ks
from aiokdb.client import open_qipc_connection
from qpython.qconnection import QConnection

from harness import kdb
from harness.scene import SMALL, Scene

from . import nodeq, test_aiokdb, test_qpython

SUMS = "0!select n:count i, size:sum size, price:sum price, seq:sum seq by sym from trade"
ROWS_AT_ONCE = 500


def add(sums, symbol, n, size, price, seq):
    old = sums.get(symbol, (0, 0, 0.0, 0))
    sums[symbol] = (old[0] + n, old[1] + size, old[2] + price, old[3] + seq)


def sums_of(rows):
    sums = {}
    for symbol, price, size, seq in rows:
        add(sums, symbol, 1, size, price, seq)
    return sums


class Day(Scene):
    def setUp(self):
        super().setUp()
        self.tp = self.tick()
        self.h = self.connect(self.tp)
        self.nodes = [self.rdb(self.tp, *SMALL, name=f"rdb{i}") for i in range(4)]
        self.eventually(lambda: self.h.ask("count .u.asg.tab").v == 4, "all nodes are in the queue")
        self.asked = [self.connect(node) for node in self.nodes]
        self.rows = []

    def publish_qpython(self, q, first):
        columns = test_qpython.columns(first, ROWS_AT_ONCE)
        q.sendSync(".u.upd", numpy.string_("trade"), columns)
        self.rows += [(s, p, z, n) for s, p, z, n in test_qpython.rows_of(columns)]

    def publish_aiokdb(self, first, updates):
        async def run():
            _, writer = await open_qipc_connection(port=self.tp.port, user="aio")
            for i in range(updates):
                columns = test_aiokdb.columns(first + i * ROWS_AT_ONCE, ROWS_AT_ONCE)
                await writer.sync_req(kk(ks(".u.upd"), ks("trade"), columns))
                self.rows.extend(test_aiokdb.rows_of(*columns.kK()))
            writer.close()

        asyncio.run(run())

    def publish_node_q(self, first, updates):
        steps = [nodeq.columns(first + i * ROWS_AT_ONCE, ROWS_AT_ONCE) for i in range(updates)]
        answers = nodeq.play(self.tp.port, *map(nodeq.upd, steps))
        self.assertFalse([answer for answer in answers if answer])
        for columns in steps:
            self.rows += nodeq.rows_of(columns)

    def taken_in(self):
        counts = lambda: [h.ask("count trade").v for h in self.asked]
        self.eventually(lambda: sum(counts()) == len(self.rows), f"{len(self.rows)} rows are held in all")
        return counts()

    def publish_until_nodes_rolled(self, wanted):
        """Publishes rounds with all three clients until this many nodes are full."""
        with QConnection("127.0.0.1", self.tp.port, timeout=30) as q:
            for _ in range(60):
                first = len(self.rows)
                for i in range(4):
                    self.publish_qpython(q, first + i * ROWS_AT_ONCE)
                self.publish_aiokdb(len(self.rows), 4)
                self.publish_node_q(len(self.rows), 4)
                self.taken_in()
                if self.rolled() >= wanted:
                    return
        self.fail(f"{self.rolled()} nodes rolled after {len(self.rows)} rows")

    def rolled(self):
        return self.h.ask("exec count i from .u.asg.tab where not null rolled").v

    def read_qpython(self, port):
        with QConnection("127.0.0.1", port, timeout=30) as q:
            for row in q.sendSync(SUMS):
                yield (row["sym"].decode(), int(row["n"]), int(row["size"]), float(row["price"]), int(row["seq"]))

    def read_aiokdb(self, port):
        async def run():
            _, writer = await open_qipc_connection(port=port, user="aio")
            answer = await writer.sync_req(cv(SUMS))
            writer.close()
            return answer

        table = asyncio.run(run())
        yield from zip(table["sym"].kS(), *(table[c].kJ() for c in ("n", "size")), table["price"].kF(), table["seq"].kJ())

    def read_node_q(self, port):
        for row in nodeq.play(port, {"sync": SUMS})[0]:
            yield (row["sym"], row["n"], row["size"], row["price"], row["seq"])

    def test_what_each_client_reads_from_all_nodes_is_what_all_sent(self):
        self.publish_until_nodes_rolled(2)
        counts = self.taken_in()
        self.assertGreaterEqual(sum(count > 0 for count in counts), 3, f"rows are spread over nodes: {counts}")
        wanted = sums_of(self.rows)
        for read in (self.read_qpython, self.read_aiokdb, self.read_node_q):
            with self.subTest(read.__name__):
                sums = {}
                for node in self.nodes:
                    for row in read(node.port):
                        add(sums, *row)
                self.assertEqual(sums, wanted)
        self.windows_follow_each_other()
        self.handovers_are_verified()
        self.the_day_ends()

    def windows_follow_each_other(self):
        table = self.h.ask("select firstI, lastI from .u.asg.tab where not null firstI").py()
        windows = sorted(zip(table["firstI"], table["lastI"]))
        self.assertEqual(windows[0][0], 0)
        for (_, last), (first, _) in zip(windows, windows[1:]):
            self.assertEqual(last, first)
        self.assertEqual(windows[-1][1], kdb.NULL_LONG, "the live one's window is open")

    def handovers_are_verified(self):
        verified = lambda: all(self.h.ask("exec verified from .u.asg.tab where not null rolled").v)
        self.eventually(verified, "each handover is proved")

    def the_day_ends(self):
        """Asserts that the live node stays, empty, and that the others terminate."""
        self.h.ask(".u.endofday[]")
        self.eventually(lambda: sum(node.is_running() for node in self.nodes) == 1, "one node is left")
        (live,) = [node for node in self.nodes if node.is_running()]
        ended = [node.wait() for node in self.nodes if node is not live]
        self.assertEqual(ended, [0, 0, 0])
        h = self.connect(live)
        self.eventually(lambda: h.ask("count trade").v == 0, "the live node has dropped the day")
        self.rows.clear()
        with QConnection("127.0.0.1", self.tp.port, timeout=30) as q:
            self.publish_qpython(q, 0)
        self.eventually(lambda: h.ask("count trade").v == ROWS_AT_ONCE, "the next day arrives at it")
