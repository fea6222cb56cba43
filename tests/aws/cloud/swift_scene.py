"""Tickerplants with one log directory and one lease in an object of Swift."""

import urllib.parse

from harness.cluster import GONE
from harness.process import reserve_port

from . import swift
from .lease_scene import PlantScene
from .schedules import Publisher

META = "X-Object-Meta-"


class SwiftLeaseScene(swift.Account, PlantScene):
    lease_options = ("--lease-fence", "file:")
    # Every request is a few writes that wait for the disk.
    terms = "duration=6s&heartbeat=1500ms"

    def setUp(self):
        super().setUp()
        self.make_container()

    def url(self, terms=None, container=None, key="tick", port=None):
        place = f"127.0.0.1:{port or self.server.port}/{container or self.container}/{key}"
        return f"swift://{place}?{self.access()}&tls=off&{terms or self.terms}"

    def head(self, key="tick"):
        """Fields of the object, None if it is gone."""
        status, fields = self.server.request("HEAD", self.path(key), **self.fields)
        self.assertIn(status, (200, 404))
        return fields if status == 200 else None

    def record(self, key="tick"):
        """The record, by the names of its metadata; None if it is gone."""
        fields = self.head(key)
        if fields is None:
            return None
        return {name[len(META):].lower(): urllib.parse.unquote(value) for name, value in fields.items() if name.startswith(META)}  # fmt: skip

    def fence(self):
        return self.record()["fence"]

    def post(self, **fields):
        """Replaces the object's metadata by hand."""
        self.assertEqual(self.server.request("POST", self.path("tick"), **fields, **self.fields)[0], 202)

    def meta(self):
        """The object's metadata, as `post` takes it."""
        return {name.replace("-", "_"): value for name, value in self.head().items() if name.startswith(META)}

    def is_gone(self):
        return self.head() is None

    def active_of(self, ports):
        """Epochs of the active ones, by their ports."""
        found = {}
        for port in ports:
            try:
                state = self.state(port)
            except GONE:
                continue
            if state["role"] == "active":
                found[port] = state["epoch"]
        return found

    def publisher(self, ports):
        """Publishes to whoever is active until the test ends."""
        publisher = Publisher(ports)
        publisher.start()
        self.addCleanup(publisher.stop)
        return publisher

    def more_accepted(self, publisher, count=20):
        accepted = len(publisher.acknowledged)
        self.eventually(lambda: len(publisher.acknowledged) >= accepted + count, "updates are accepted")

    def epoch(self, port):
        """Of a tickerplant; above what a test has made, where the disk let Swift wait for longer than a lease."""
        return self.state(port)["epoch"]

    def check_log(self, publisher):
        """Every acknowledged row is in the log, and none twice."""
        publisher.stop()
        rows = self.logged()
        self.assertEqual(len(rows), len(set(rows)), "rows twice in the log")
        self.assertLessEqual(set(publisher.acknowledged), set(rows), "acknowledged rows are missing")
        verify = self.start("verify", "log", "verify", self.logs)
        self.assertEqual(verify.wait(), 0, verify.printed())

    def away(self):
        """URL of a server that does not answer."""
        return self.url(port=reserve_port())
