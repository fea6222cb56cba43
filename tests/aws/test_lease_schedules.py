"""Random schedules of faults on three tickerplants of one lease: whatever happens, no acknowledged row is lost and none is there twice.

ELASTICK_LEASE_SCHEDULES is how many are played, from seed ELASTICK_LEASE_SEED on. A schedule that fails names its seed.
"""

import os
import unittest

from .cloud.schedules import Scheduled, ScheduledCopies
from .cloud.swift_schedules import ScheduledInSwift

SCHEDULES = int(os.environ.get("ELASTICK_LEASE_SCHEDULES", "4"))
SEED = int(os.environ.get("ELASTICK_LEASE_SEED", "1"))


class Played:
    def test_nothing_acknowledged_is_lost_or_twice(self):
        rows, changes = 0, 0
        for seed in range(SEED, SEED + SCHEDULES):
            played = self.play(seed)
            if played:
                rows, changes = rows + played[0], changes + played[1]
            self._close_processes()
            self.processes.clear()
            self.doCleanups()
            self.setUp()
        print(f"{SCHEDULES} schedules from seed {SEED} on {self.store_name()}: {rows} acknowledged rows, {changes} leaders")

    def store_name(self):
        return self.kind


class Schedules(Played, Scheduled):
    """With a common disk."""


class SchedulesOfCopies(ScheduledCopies, Schedules):
    """Without a common disk."""


class SchedulesOnTheApiServer(Schedules):
    """The same on the other stand-in."""

    kind = "moto"


class SchedulesInSwift(Played, ScheduledInSwift):
    """With a common disk, whose log's lock is the fence."""

    def store_name(self):
        return "Swift"


if __name__ == "__main__":
    unittest.main()
