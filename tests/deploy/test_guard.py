"""AWS Control Tower's rules for the templates: each passes, or has its reason beside the resource."""

import re
import unittest

from deploy import guard, templates
from deploy.test_parameters import NEEDED

GIVEN = {
    "ALARMTOPIC": "arn:aws:sns:eu-west-1:123456789012:alarms",
    "KMSKEY": "arn:aws:kms:eu-west-1:123456789012:key/00000000-0000-0000-0000-000000000000",
}
REASON = re.compile(r"# CT\.\w+\.PR\.\d+\S* .+\n +- (\w+)\n")


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := guard.missing():
            raise unittest.SkipTest(reason)

    def check(self, name, **parameters):
        return guard.check(guard.resolved(name, {**NEEDED, **parameters}))

    def test_a_rule_that_fails_has_its_reason_beside_it_and_no_rule_that_passes_has_one(self):
        for name in templates.NAMES:
            with self.subTest(name):
                passed, failed = self.check(name)
                self.assertTrue(passed)
                until_given = {rule for rules in guard.given(name).values() for rule in rules}
                unexplained = {(rule, key) for rule, key in failed if rule not in until_given}
                self.assertEqual(unexplained, guard.suppressed(name))
                self.assertEqual({rule for rule, _ in failed} & until_given, until_given)

    def test_with_a_topic_and_a_key_only_those_fail_that_have_a_reason(self):
        for name in templates.NAMES:
            for tickerplants in ("1", "2"):
                with self.subTest(name, tickerplants=tickerplants):
                    self.assertLessEqual(guard.given(name).keys(), GIVEN.keys())
                    _, failed = self.check(name, TICKERPLANTS=tickerplants, SUBNETID2="subnet-0b", **GIVEN)
                    self.assertEqual(failed, guard.suppressed(name))

    def test_a_suppressed_rule_has_its_number_and_its_reason_above_it(self):
        for name in templates.NAMES:
            if name not in guard.PARTS:
                explained = set(REASON.findall(templates.path(name).read_text()))
                self.assertEqual(explained, {rule for rule, _ in guard.suppressed(name)}, name)

    def test_a_template_without_what_a_rule_asks_for_fails(self):
        template = guard.resolved("tickerplant", {**NEEDED, **GIVEN})
        del template["Resources"]["FileSystem"]["Properties"]["Encrypted"]
        _, failed = guard.check(template)
        self.assertEqual(failed - guard.suppressed("tickerplant"), {("efs_encrypted_check", "FileSystem")})
