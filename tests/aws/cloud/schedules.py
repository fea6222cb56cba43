"""Faults of three tickerplants of one lease, drawn from a seed."""

import pathlib
import random
import signal
import tempfile
import threading
import time

from harness import kdb
from harness.client import Connection, KdbError
from harness.process import eventually, reserve_port
from harness.scene import trades, update

from . import api, leases
from .lease_scene import LeaseScene

# What a connection to a process that ends, hangs or is passive raises.
GONE = (OSError, EOFError, KdbError, AssertionError)
PLANTS = 3
STEPS = 8
LEASE_S = 1.2


class Link(api.Api):
    """A tickerplant's own way to the store, which can be cut without the others'."""

    def __init__(self, directory, number, store):
        self.directory, self.processes = pathlib.Path(directory), []
        port = reserve_port()
        self.url = f"http://127.0.0.1:{port}"
        self._start(f"link{number}", [api.SCRIPTS / "faultproxy.py", port, store])
        eventually(self._answers, f"link {number} answers", 60, self._said)

    def _answers(self):
        try:
            return api.request("GET", f"{self.url}/__fault") is not None
        except OSError:
            return False

    def note(self, event, **details):
        """Only the API server keeps records."""

    def disturb(self, draw):
        actions = ["throttle", "error500", "drop_before", "drop_after", "drop_after", "delay"]
        for _ in range(draw.randrange(1, 4)):
            delay = draw.choice([0, 0, 0.1, 0.5])
            self.fault(draw.choice(["UpdateItem", "GetItem", "*"]), draw.choice(actions), draw.randrange(1, 5), delay)

    def stop(self):
        self.processes[0][1].send_signal(signal.SIGSTOP)

    def resume(self):
        self.processes[0][1].send_signal(signal.SIGCONT)


class Publisher(threading.Thread):
    """Publishes one row at a time to whoever accepts it, and never sends one again: a row without an answer may be in the log."""

    def __init__(self, ports):
        super().__init__(daemon=True)
        self.ports, self.next, self.acknowledged = ports, 0, []
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.is_set():
            for port in self.ports:
                try:
                    # A stopped process accepts connections, and does not answer.
                    with Connection(port, deadline_s=1) as connection:
                        while not self.is_over.is_set():
                            self.next += 1
                            connection.ask(update("trade", trades(self.next, 1)))
                            self.acknowledged.append(self.next)
                            time.sleep(0.002)
                except GONE:
                    time.sleep(0.005)

    def stop(self):
        self.is_over.set()
        self.join(30)


class Schedule:
    """Plays schedules; each tickerplant has its own link to the store in `links`."""

    terms = f"duration={int(LEASE_S * 1000)}ms&heartbeat=200ms"

    def begin(self, which):
        lease = ("--lease", self.lease_of(which), *self.lease_options)
        self.plants[which] = self.tick(*lease, "--quiet", name=f"plant{which}", port=self.ports[which])

    def complete(self):
        """Directories whose logs have everything that was acknowledged."""
        return [self.logs]

    def kill(self, draw, which):
        self.plants[which].kill()
        time.sleep(draw.uniform(0, LEASE_S))
        self.begin(which)

    def terminate(self, draw, which):
        self.plants[which].resume()
        self.plants[which].terminate()
        self.begin(which)

    def pause(self, draw, which):
        self.plants[which].pause()
        time.sleep(draw.uniform(0, 2 * LEASE_S))
        if draw.random() < 0.3:
            return self.kill(draw, which)
        self.plants[which].resume()

    def cut(self, draw, which):
        self.links[which].stop()
        time.sleep(draw.uniform(0, 2 * LEASE_S))
        self.links[which].resume()

    def disturb(self, draw, which):
        self.links[which].disturb(draw)

    def hand_over(self, draw, which):
        for port in self.ports:
            try:
                with Connection(port, deadline_s=1) as connection:
                    connection.ask(kdb.lst(kdb.sym(".u.failover"), kdb.NIL))
                    return
            except GONE:
                pass

    def wait(self, draw, which):
        time.sleep(draw.uniform(0, LEASE_S))

    def play(self, seed):
        draw = random.Random(seed)
        self.ports = [reserve_port() for _ in range(PLANTS)]
        self.plants = [None] * PLANTS
        for which in range(PLANTS):
            self.begin(which)
        publisher = Publisher(self.ports)
        publisher.start()
        steps = [self.kill, self.terminate, self.pause, self.cut, self.disturb, self.disturb, self.hand_over, self.wait]
        done = []
        for _ in range(STEPS):
            # Most faults are for the active one.
            roles = [self.role_within(port) for port in self.ports]
            active = roles.index("active") if "active" in roles else draw.randrange(PLANTS)
            which = active if draw.random() < 0.6 else draw.randrange(PLANTS)
            step = draw.choice(steps)
            done.append(f"{step.__name__} {which}")
            step(draw, which)
        for link in self.links:
            link.heal()
        with self.subTest(seed=seed, steps=done):
            accepted = len(publisher.acknowledged)
            self.eventually(lambda: len(publisher.acknowledged) > accepted + 5, "updates are accepted again")
            publisher.stop()
            for process in self.plants:
                process.terminate()
            for directory in self.complete():
                rows = self.logged(directory)
                self.assertEqual(len(rows), len(set(rows)), f"rows twice in {directory}")
                self.assertLessEqual(set(publisher.acknowledged), set(rows), f"acknowledged rows are missing in {directory}")
                verify = self.start(f"verify{seed}", "log", "verify", directory)
                self.assertEqual(verify.wait(), 0, verify.printed())
            return len(publisher.acknowledged), self.leaders()

    def role_within(self, port):
        try:
            with Connection(port, deadline_s=0.5) as connection:
                return connection.ask(kdb.lst(kdb.sym(".u.state"), kdb.NIL)).py()["role"]
        except GONE:
            return None


class Scheduled(Schedule, LeaseScene):
    """The lease is an item of a table."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory(prefix="elastick-links-")
        cls.addClassCleanup(directory.cleanup)
        direct = leases.store(cls.kind).direct
        cls.links = []
        for number in range(PLANTS):
            cls.links.append(Link(directory.name, number, direct))
            cls.addClassCleanup(cls.links[-1].close)

    def lease_of(self, which):
        return self.url().replace(self.store.url, self.links[which].url)

    def leaders(self):
        return int(self.item()["fence"]["N"])


class ScheduledCopies(Scheduled):
    """Each tickerplant has a log of its own; an acknowledged update is in one other."""

    def directory_of(self, which):
        return self.directory / f"copy{which}"

    def begin(self, which):
        own = f"127.0.0.1:{self.ports[which]}"
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        options = ("--follow", addresses, "--advertise", own, "--durability", "replica(1)", "--replica-timeout", "300ms", "--quiet")
        place = self.directory_of(which)
        self.plants[which] = self.tick("--lease", self.lease_of(which), *options, name=f"plant{which}", logs=place, port=own)

    def complete(self):
        """Those that the lease names."""
        named = [name.rpartition("/")[0] for name in self.item()["copies"]["SS"]]
        return [self.directory_of(which) for which, port in enumerate(self.ports) if f"127.0.0.1:{port}" in named]
