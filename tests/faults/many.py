#!/usr/bin/env python3
"""Many schedules of faults in a row, a report of what was met, and the seeds that went wrong.

    tests/faults/many.py FIRST COUNT     with ELASTICK_POINTS_BIN for another binary than target/debug/elastick-points

What failed is printed with the command that shows it again. The exit code is 1 if anything did.
"""

import collections
import contextlib
import io
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from faults.playing import Play  # noqa: E402
from faults.schedule import draw  # noqa: E402
from harness import points  # noqa: E402


class One(Play):
    """One seed as a test case."""

    seed = 0
    listed = ()

    def runTest(self):
        self.play(draw(self.seed, self.listed))


def main(first, count):
    One.listed = points.listed()
    reached, faults = collections.Counter(), collections.Counter()
    failed, began = [], time.monotonic()
    for seed in range(first, first + count):
        case, result, said = One(), unittest.TestResult(), io.StringIO()
        case.seed = seed
        at = time.monotonic()
        with contextlib.redirect_stdout(said):
            case.run(result)
        reached.update(getattr(case, "reached", []))
        faults.update(f"{step.fault} {step.victim}".strip() for step in case.schedule.steps)
        wrong = result.failures + result.errors
        if wrong:
            failed.append(seed)
            print(said.getvalue())
            print(wrong[0][1])
            print(f"again: ELASTICK_SEEDS={seed} python3 -m unittest faults.test_schedules   (in tests/)")
        done = seed - first + 1
        word = "WRONG" if wrong else "right"
        print(f"{done} of {count}: seed {seed} {word}, {time.monotonic() - at:.1f} s; {len(failed)} wrong so far", flush=True)
    print(f"{count} schedules in {(time.monotonic() - began) / 60:.0f} minutes, wrong: {failed or 'none'}")
    print("faults drawn:", ", ".join(f"{name} {times}" for name, times in faults.most_common()))
    print("points come to:", ", ".join(f"{name} {reached[name]}" for _, name in One.listed if reached[name]))
    print("points never come to:", ", ".join(name for _, name in One.listed if not reached[name]) or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
