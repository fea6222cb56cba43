"""Tickerplants with one log directory and one lease in a store."""

import itertools
import os
import re
import unittest

from harness import kdb, pages, tplog
from harness.client import Connection
from harness.cluster import GONE
from harness.process import reserve_port
from harness.scene import Scene, trades, update

from . import leases
from .scene import binary

_numbers = itertools.count(1)
LOG = re.compile(r"sym\d{4}\.\d\d\.\d\d")
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


class PlantScene(Scene):
    """Tickerplants with one log directory and one lease, whose URL is `url()`."""

    # Long enough that a busy machine delays no renewal past it, short enough to wait for.
    terms = "duration=3s&heartbeat=600ms"
    # What the lease needs besides its URL.
    lease_options = ()

    @classmethod
    def setUpClass(cls):
        cls.executable = binary()
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.seq = 0

    def plant(self, name, *options, lease=None):
        """A tickerplant that answers, and its port. Whether it is active is left to the lease."""
        port = reserve_port()
        process = self.tick("--lease", lease or self.url(), *self.lease_options, *options, name=name, port=port)
        process.wait_for(rf"is passive on {port}")
        return process, port

    def active(self, process, port):
        process.wait_for(rf"is listening on {port}")
        return self.connect(port)

    def pair(self):
        """An active tickerplant and a passive one, with their ports, and a publisher's connection."""
        one, port = self.plant("one")
        feed = self.active(one, port)
        two, other = self.plant("two")
        return (one, port), (two, other), feed

    def publish(self, feed, count=20):
        for _ in range(count):
            feed.ask(update("trade", trades(self.seq, 1)))
            self.seq += 1

    def state(self, port):
        with Connection(port) as connection:
            return connection.ask(kdb.lst(kdb.sym(".u.state"), kdb.NIL)).py()

    def role(self, port):
        """`active`, `passive`, or None while nobody answers there."""
        try:
            return self.state(port)["role"]
        except GONE:
            return None

    def page(self, port, path):
        return pages.text(port, path)

    def logged(self, directory=None):
        """The rows of the one log in a directory."""
        [log] = [path for path in (directory or self.logs).iterdir() if LOG.fullmatch(path.name)]
        return [seq for record in tplog.read(log) for seq in record[2][4].v]


class LeaseScene(PlantScene):
    """With the lease in a table; `kind` names the stand-in."""

    kind = "dynalite"
    environment = KEYS

    @classmethod
    def setUpClass(cls):
        reason = leases.missing(cls.kind)
        if reason:
            raise unittest.SkipTest(f"no stand-in for DynamoDB: {reason}")
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.store = leases.store(self.kind)
        self.store.heal()
        self.addCleanup(self.store.heal)
        self.db = self.store.client("dynamodb")
        self.table = f"leases-{os.getpid()}-{next(_numbers)}"
        leases.create(self.db, self.table)

    def url(self, terms=None, table=None, key="tick", more=""):
        place = f"region=us-east-1&endpoint={self.store.url}"
        return f"dynamodb://{table or self.table}/{key}?{place}&{terms or self.terms}{more}"

    def item(self, key="tick"):
        return self.db.get_item(TableName=self.table, Key={"key": {"S": key}}, ConsistentRead=True).get("Item")

    def fence(self):
        return self.item()["fence"]["N"]
