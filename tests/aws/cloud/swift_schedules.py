"""Faults of three tickerplants of one lease in Swift, drawn from a seed."""

import threading
import time

from .front import DROP_AFTER, DROP_BEFORE, Front
from .schedules import PLANTS, Schedule
from .swift_scene import SwiftLeaseScene


class Link(Front):
    """A tickerplant's own way to the store: it may be cut, slow, or lose requests and answers."""

    def __init__(self, upstream):
        super().__init__(upstream)
        self.is_open = threading.Event()
        self.is_open.set()
        # What happens to the next requests, a list of (fault, seconds).
        self.faults = []
        self.hook = self.disturbed

    def disturbed(self, method, fields):
        self.is_open.wait(60)
        try:
            fault, delay_s = self.faults.pop(0)
        except IndexError:
            return None
        time.sleep(delay_s)
        return fault

    def disturb(self, draw):
        for _ in range(draw.randrange(1, 8)):
            self.faults.append((draw.choice([None, DROP_BEFORE, DROP_AFTER, DROP_AFTER]), draw.choice([0, 0, 0.1, 0.5])))

    def stop(self):
        self.is_open.clear()

    def resume(self):
        self.is_open.set()

    def heal(self):
        self.faults = []
        self.resume()


class ScheduledInSwift(Schedule, SwiftLeaseScene):
    """The lease is an object of Swift, and the log is fenced by its own lock."""

    def setUp(self):
        super().setUp()
        self.links = [Link(self.server.port) for _ in range(PLANTS)]
        for link in self.links:
            self.addCleanup(link.close)

    def lease_of(self, which):
        return self.url(port=self.links[which].port)

    def leaders(self):
        return int(self.record()["fence"])
