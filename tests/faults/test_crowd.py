"""Crowds: a subscriber that stops reading under full load, a thousand short connections, clients that send
garbage. The tickerplant's memory and descriptors must not grow, and other clients must be unaffected.

`ELASTICK_STALL_S=60` makes the stall a minute."""

import os
import pathlib
import random
import socket
import threading

from harness import audit, kdb, wire
from harness.client import Connection
from harness.cluster import GONE
from harness.scene import trades, update

from .others import MB, Others

STALL_S = float(os.environ.get("ELASTICK_STALL_S", "4"))
OUTBOX_MB = 4
CROWD = 1000
OPEN_MOST = 300
ROWS = 500
# Additional updates per second, of about ten rows, that are not checked.
FLOOD = 40_000


class Load(threading.Thread):
    """Publishes at the maximum rate until it is stopped; `sent` rows were acknowledged."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.connection = Connection(port)
        self.stopped = threading.Event()
        self.sent = 0

    def run(self):
        while not self.stopped.is_set():
            burst = [wire.message(update("trade", trades(self.sent + i * ROWS, ROWS)), wire.ASYNC) for i in range(50)]
            self.connection.raw(b"".join(burst))
            self.connection.ask(".u.i")
            self.sent += 50 * ROWS

    def stop(self):
        self.stopped.set()
        self.join(60)
        self.connection.close()


def descriptors(process):
    return len(list(pathlib.Path(f"/proc/{process.pid}/fd").iterdir()))


class Crowd(Others):
    tick_options = ("--limit-outbox", f"{OUTBOX_MB}MiB")

    def begin_load(self):
        load = Load(self.tp.port)
        self.addCleanup(load.stop)
        load.start()
        self.eventually(lambda: load.sent > 20 * 50 * ROWS, "the load has begun")
        return load

    def read_on(self, h, seqs):
        """Reads from a subscription until this many rows have arrived."""
        got = []
        while len(got) < seqs:
            got += h.push()[2]["seq"].v
        return got

    def lazy(self):
        """A subscriber with a small receive buffer, which fills up quickly."""
        h = Connection(self.tp.port, user=None)
        self.connections.append(h)
        h.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        h.handshake(b"lazy:\3\0")
        h.ask(kdb.syms(".u.sub", "trade", ""))
        return h

    def test_a_log_that_was_read_for_somebody_is_let_go(self):
        lazy = self.lazy()
        self.subscriber.close()
        load = self.begin_load()
        # More than its send buffer and all buffers in between can hold.
        self.eventually(lambda: load.sent > 1_000_000, "one who does not read is behind")
        load.stop()
        self.assertEqual(self.read_on(lazy, load.sent), list(range(load.sent)))
        self.eventually(lambda: self.times_open() == 1, "only the writer has it open")

    def times_open(self):
        """Number of the tickerplant's descriptors of the day's log."""
        log = str(self.log_path(self.feed))
        return sum(os.path.realpath(fd) == log for fd in pathlib.Path(f"/proc/{self.tp.pid}/fd").iterdir())

    def test_a_subscriber_that_does_not_read_under_full_load(self):
        # The bound includes all memory that this test's updates need otherwise.
        before = self.tp.memory_bytes()
        lazy = self.lazy()
        self.subscriber.close()
        deaf = Connection(self.tp.port, user="deaf:")
        deaf.ask(kdb.syms(".u.sub", "quote", ""))
        load = self.begin_load()
        # A separate feed adds load on another table, because a subscriber to all rows could not catch up with the maximum rate.
        feed = ("feed", f"127.0.0.1:{self.tp.port}", "--tables", "quote", "--rate", FLOOD)
        flood = self.start("flood", *feed)
        self.eventually(lambda: self.feed.ask(".u.stats`rows").v > load.sent + 200_000, "the flood has begun")
        behind = load.sent
        load.stopped.wait(STALL_S)
        grown = self.tp.memory_bytes("VmHWM") - before
        load.stop()
        flood.terminate()
        rows = self.feed.ask(".u.stats`rows").v
        print(
            f"\n  two subscribers stalled for {STALL_S:.0f} s, {rows:,} rows in all, {load.sent - behind:,} of them for one:"
            f" memory {before / MB:.1f} MB before, {grown / MB:+.1f} MB at most"
        )
        # Its send buffer, the messages of the latest event-loop iterations, kept for subscribers that are about to rejoin, and what each
        # query thread takes at its first query.
        self.assertLess(grown, (OUTBOX_MB * 2 + 20) * MB)
        self.assertEqual(self.read_on(lazy, load.sent), list(range(load.sent)), "it has missed nothing")

    def test_a_thousand_come_and_go_and_some_send_garbage(self):
        load = self.begin_load()
        before, files = self.tp.memory_bytes(), descriptors(self.tp)
        dice = random.Random(1)
        open_ones = []
        for i in range(CROWD):
            h = self.one_of_a_crowd(i, dice)
            open_ones.append(h)
            if len(open_ones) > OPEN_MOST:
                open_ones.pop(dice.randrange(len(open_ones))).close()
            if i % 100 == 0:
                self.check_subscriber()
        for h in open_ones:
            h.close()
        load.stop()
        self.check_subscriber(load.sent)
        # No subscriber is catching up, so no descriptor of the log is open for one.
        self.eventually(lambda: descriptors(self.tp) <= files, "no descriptor is left behind")
        # One in five subscribes and never reads: at most a third of the open connections, each with a full send buffer.
        self.assertLess(self.tp.memory_bytes("VmHWM") - before, OPEN_MOST // 3 * OUTBOX_MB * MB)
        # Up to 16 MB of freed send buffers may stay in the allocator.
        self.eventually(lambda: self.tp.memory_bytes() < before + 20 * MB, "the tickerplant is as small as it was")
        logged = audit.Logs(self.logs).all_rows("trade")
        self.assertEqual(logged, list(range(load.sent)))
        self.assertNotIn("panicked", self.tp.printed())

    seen = ()

    def check_subscriber(self, rows=None):
        """Asserts that the well-behaved subscriber gets every row in order: those available now, or `rows` in all."""
        got = list(self.seen)
        while len(got) < rows if rows else len(got) < len(self.seen) + 200 * ROWS:
            got += self.subscriber.push()[2]["seq"].v
            if not rows and not self.subscriber.pushed:
                break
        self.assertEqual(got[len(self.seen) :], list(range(len(self.seen), len(got))))
        self.seen = got

    def one_of_a_crowd(self, i, dice):
        """A connection that subscribes, queries, sends garbage, half a message, or nothing."""
        kind = i % 5
        h = Connection(self.tp.port, user=None if kind == 4 else f"crowd{i}:")
        try:
            if kind == 0:
                h.ask(kdb.syms(".u.sub", "trade", dice.choice(("", "AAA"))))
            elif kind == 1:
                h.ask("count .u.w")
            elif kind == 2:
                h.raw(dice.randbytes(dice.randrange(8, 4000)))
            elif kind == 3:
                message = wire.message(update("trade", trades(0, 50)))
                h.raw(message[: dice.randrange(1, len(message) - 1)])
            else:
                h.raw(dice.randbytes(dice.randrange(1, 500)))
        except GONE:
            pass
        return h
