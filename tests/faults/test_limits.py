"""Every limit of every program has a test that exceeds it."""

import re
import subprocess
import unittest

from harness.process import binary

from . import test_clock, test_limits_http, test_limits_identity, test_limits_log, test_limits_node, test_limits_tick, test_limits_wire

MODULES = test_clock, test_limits_http, test_limits_identity, test_limits_log, test_limits_node, test_limits_tick, test_limits_wire
PROGRAMS = "tick", "rdb", "feed", "log verify"


def gone_over():
    """(program, limit) of every marked test."""
    classes = (of for module in MODULES for of in vars(module).values() if isinstance(of, type))
    tests = ((of.program, getattr(of, name)) for of in classes if hasattr(of, "program") for name in dir(of))
    return {(program, test.limit) for program, test in tests if hasattr(test, "limit")}


class EveryLimit(unittest.TestCase):
    def test_has_a_test_with_each_program_that_offers_it(self):
        offered = set()
        for program in PROGRAMS:
            command = [binary(), *program.split(), "--help"]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            offered |= {(program, limit) for limit in re.findall(r"^ +--(limit-[a-z-]+)", text, re.MULTILINE)}
        self.assertGreater(len(offered), 50)
        self.assertEqual(sorted(offered - gone_over()), [])
        self.assertEqual(sorted(gone_over() - offered), [])
