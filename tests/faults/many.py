#!/usr/bin/env python3
"""Many schedules of faults in a row, a report of what was met, and the seeds that went wrong.

    tests/faults/many.py FIRST COUNT [--jobs N] [--keep DIR]     with ELASTICK_POINTS_BIN for another binary than
                                                                 target/debug/elastick-points

With `--jobs` so many at once; with `--keep` the logs and all that the processes of a schedule printed are kept if it goes wrong. What
failed is printed with the command that shows it again. The exit code is 1 if anything did.
"""

import argparse
import collections
import contextlib
import io
import multiprocessing
import pathlib
import sys
import time
import unittest
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from faults.playing import Play  # noqa: E402
from faults.schedule import draw  # noqa: E402
from harness import points  # noqa: E402


@dataclass
class Outcome:
    """Result of one seed: failures with all output, and the failpoints and faults reached."""

    seed: int
    wrong: str
    seconds: float
    drawn: list
    happened: collections.Counter
    reached: list
    tally: collections.Counter


class One(Play):
    """One seed as a test case."""

    seed = 0
    listed = ()

    def runTest(self):
        self.play(draw(self.seed, self.listed))


def played(seed, listed, keep):
    """Runs a seed in a separate process, so that a slow one does not delay others."""
    case, result, said = One(), unittest.TestResult(), io.StringIO()
    case.seed, case.listed, case.keep = seed, listed, keep or case.keep
    began = time.monotonic()
    with contextlib.redirect_stdout(said):
        case.run(result)
    seconds = time.monotonic() - began
    wrong = [f"{said.getvalue()}\n{text}" for _, text in result.failures + result.errors]
    drawn = [step.named() for step in case.schedule.steps]
    return Outcome(seed, "".join(wrong[:1]), seconds, drawn, case.happened, case.reached, case.tally)


def told(counts):
    return ", ".join(f"{name} {times:,}" for name, times in counts.most_common()) or "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep")
    options = parser.parse_args()
    listed = points.listed()
    seeds = range(options.first, options.first + options.count)
    drawn, happened, reached, tally = (collections.Counter() for _ in range(4))
    failed, began = [], time.monotonic()
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done, future in enumerate(as_completed([pool.submit(played, seed, listed, options.keep) for seed in seeds]), 1):
            outcome = future.result()
            drawn.update(outcome.drawn)
            happened.update(outcome.happened)
            reached.update(outcome.reached)
            tally.update(outcome.tally)
            if outcome.wrong:
                failed.append(outcome.seed)
                print(outcome.wrong)
                print(f"again: ELASTICK_SEEDS={outcome.seed} python3 -m unittest faults.test_schedules   (in tests/)")
            word = "WRONG" if outcome.wrong else "right"
            rest = f"{outcome.seconds:.1f} s; {len(failed)} wrong so far"
            print(f"{done} of {options.count}: seed {outcome.seed} {word}, {rest}", flush=True)
    print(f"{options.count} schedules in {(time.monotonic() - began) / 60:.0f} minutes, wrong: {sorted(failed) or 'none'}")
    print("faults that happened:", told(happened), "; drawn:", told(drawn))
    print("points come to:", ", ".join(f"{name} {reached[name]}" for _, name in listed if reached[name]))
    print("points never come to:", ", ".join(name for _, name in listed if not reached[name]) or "none")
    print("in all:", told(tally))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
