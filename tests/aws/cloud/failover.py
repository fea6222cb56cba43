#!/usr/bin/env python3
"""Measures fail-over under a lease on this machine: from `kill -9` of the active tickerplant, and from a planned hand-over, to the first accepted update.

    .venv-aws/bin/python tests/aws/cloud/failover.py [--durations 3s 6s 20s] [--kills 20] [--store dynalite|moto]

Both tickerplants log to one directory of this machine, and a publisher tries both without pause. Prints one line per duration.
"""

import argparse
import pathlib
import statistics
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from aws import test_lease  # noqa: E402
from harness.client import Connection, KdbError  # noqa: E402
from harness.cluster import GONE  # noqa: E402
from harness.scene import trades, update  # noqa: E402

PAUSE_S = 0.005


class Measuring(test_lease.LeaseScene):
    options = None

    def first_accepted(self, port, since):
        """Seconds from `since` to the first accepted update."""
        while True:
            try:
                with Connection(port) as feed:
                    feed.ask(update("trade", trades(self.seq, 1)))
                    self.seq += 1
                    return time.monotonic() - since
            except (*GONE, KdbError):
                time.sleep(PAUSE_S)

    def rounds(self, duration, count, end):
        lease = self.url(terms=f"duration={duration}")
        running, port = self.plant("p0", lease=lease)
        self.publish(self.active(running, port))
        times = []
        for number in range(1, count + 1):
            other, other_port = self.plant(f"p{number}", lease=lease)
            self.eventually(lambda at=other_port: self.state(at)["owner"], "it knows the owner")
            # A random moment between two renewals.
            time.sleep(0.3 + (number * 0.37) % 1.0)
            since = time.monotonic()
            end(running)
            times.append(self.first_accepted(other_port, since))
            running = other
        return sorted(times)

    def test_all(self):
        for duration in self.options.durations:
            for name, end in (("kill -9", lambda p: p.popen.kill()), ("SIGTERM", lambda p: p.popen.terminate())):
                self.setUp()
                times = self.rounds(duration, self.options.kills, end)
                wrong = "" if self.logged() == list(range(self.seq)) else "  UPDATES ARE MISSING OR THERE TWICE"
                print(
                    f"duration {duration:>4}  {name:8}  n {len(times)}  min {times[0]:.2f}  median {statistics.median(times):.2f}  "
                    f"max {times[-1]:.2f} s{wrong}",
                    flush=True,
                )
                self._close_connections()
                self._close_processes()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--durations", nargs="+", default=["3s", "6s", "20s"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--store", choices=("dynalite", "moto"), default="dynalite")
    Measuring.options = parser.parse_args()
    Measuring.kind = Measuring.options.store
    result = unittest.TextTestRunner(verbosity=0).run(Measuring("test_all"))
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
