"""Random schedules of faults on real processes, at failpoints and at random moments. After each, logs, nodes, subscribers and proofs
must agree with the acknowledgements: no loss, no duplicates, no gap between windows.

More seeds: `tests/faults/many.py`. To repeat one: `ELASTICK_SEEDS=17 ... -m unittest faults.test_schedules`."""

import os
import unittest

from harness import points

from .playing import Play
from .schedule import draw

# Kills and pauses at failpoints of tickerplant, node and feed.
SEEDS = [int(seed) for seed in os.environ.get("ELASTICK_SEEDS", "1 2 3 4 5 6 7 8 9 10 11 23").split()]


@unittest.skipUnless(points.binary(), f"{points.BUILT} is not built; tests/run builds it, or set ELASTICK_POINTS_BIN")
class Schedules(Play):
    TAKES_S = 60

    def test_nothing_acknowledged_is_lost_or_held_twice(self):
        listed = points.listed()
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.play(draw(seed, listed))
