"""A tickerplant and others that copy its log into directories of their own."""

import threading

from . import kdb, pages, tplog
from .client import Connection, KdbError
from .process import reserve_port
from .scene import Scene, trades, update

STATE = kdb.lst(kdb.sym(".u.state"), kdb.NIL)


class Publisher(threading.Thread):
    """Publishes one row at a time, and notes what was acknowledged, until an error."""

    def __init__(self, port, first=0):
        super().__init__(daemon=True)
        self.connection = Connection(port)
        self.next = first
        self.acknowledged = []
        self.error = None
        self.is_over = False

    def run(self):
        try:
            while not self.is_over:
                self.connection.ask(update("trade", trades(self.next, 1)))
                self.acknowledged.append(self.next)
                self.next += 1
        except (OSError, EOFError, KdbError, AssertionError) as error:
            self.error = error
        finally:
            self.connection.close()

    def stop(self):
        self.is_over = True
        self.join(30)


class Followers(Scene):
    def setUp(self):
        super().setUp()
        self.copies = 0
        self.seq = 0

    def leader(self, *options, name="leader", **kinds):
        process = self.tick(*options, name=name, **kinds)
        return process

    def directory_of(self, name):
        path = self.directory / name
        path.mkdir(exist_ok=True)
        return path

    def follower(self, leader, *options, logs="copy", port=None, waits=True):
        """A follower of a process or port, with a directory of its own; its process and port."""
        address = leader if isinstance(leader, (int, str)) else leader.port
        address = address if isinstance(address, str) else f"127.0.0.1:{address}"
        port = port or reserve_port()
        self.copies += 1
        name = f"{logs}{self.copies}"
        process = self.tick(*options, "--follow", address, name=name, logs=self.directory_of(logs), port=port)
        if waits:
            process.wait_for(rf"is passive on {port}")
        return process, port

    def publish(self, process, count=20):
        connection = self.connect(process)
        for _ in range(count):
            connection.ask(update("trade", trades(self.seq, 1)))
            self.seq += 1

    def numbered(self, h, first, count):
        """Publishes with sequence numbers."""
        h.ask(kdb.syms(".u.seq", "feed1"))
        for seq in range(first, first + count):
            h.ask(kdb.lst(kdb.chars(".u.upd"), kdb.sym("trade"), trades(seq, 1), kdb.sym("feed1"), kdb.long(seq)))

    def state(self, port):
        with Connection(port) as connection:
            return connection.ask(STATE).py()

    def page(self, port, path):
        return pages.text(port, path)

    def files(self, directory):
        return sorted(path for path in directory.iterdir() if path.name.startswith("sym2") and path.name[-1].isdigit() and ".cut" not in path.name)

    def bytes_of(self, directory):
        return [path.read_bytes() for path in self.files(directory)]

    def copied(self, port, tip):
        self.eventually_equal(lambda: self.state(port)["tip"], tip, "everything is copied")

    def same(self, *names):
        one, *others = [self.bytes_of(self.logs if name == "logs" else self.directory / name) for name in names]
        for other in others:
            self.assertEqual(one, other)

    def verified(self, name):
        """What `elastick log verify` says of the logs in a directory."""
        process = self.start(f"verify {name}", "log", "verify", self.logs if name == "logs" else self.directory / name)
        process.wait()
        return process.printed()

    def rows(self, directory):
        return [seq for log in self.files(directory) for record in tplog.read(log) for seq in record[2][4].v]
