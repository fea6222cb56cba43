"""Clusters that sleep: what the templates and elastick-boot give the tickerplant that wakes them."""

import unittest

from deploy import templates, test_boot
from deploy.cloud import CloudTest
from deploy.parameters import refusal
from deploy.test_parameters import NEEDED
from deploy.test_stacks import PAPER

# The AWS CLI with these groups of sleeping clusters.
AWS = test_boot.RECORDING + 'case "$*" in *describe-auto-scaling-groups*) printf "%s\\n" "$GROUPS_FOUND" ;; esac\n'
TAGS = {**test_boot.TICK, "CALENDAR": "", "WAKE": "schedule", "IDLEOFF": ""}


class Boots(test_boot.Boot):
    def setUp(self):
        super().setUp()
        self.command("aws", AWS)
        self.environment |= {"BOOT_GROUP_TRIES": "3", "GROUPS_FOUND": "day-RdbGroup-1\tcareful-RdbGroup-2"}

    def options(self, **tags):
        """The options of sleep that a tickerplant with these tags starts with."""
        self.instance({**TAGS, **tags})
        self.said = self.boots()
        known = ("CALENDAR", "IDLE_OFF", "NODE_FLEET", "ROLL", "WAKE")
        return {name: value for name in known if (value := self.written().get(f"ELASTICK_{name}"))}

    def test_a_tickerplant_whose_clusters_never_sleep_looks_for_no_group(self):
        self.assertEqual(self.options(), {"ROLL": '"17:00 America/New_York"'})
        self.assertEqual(self.calls("aws"), [])

    def test_the_groups_over_its_file_system_are_found_by_their_tags(self):
        options = self.options(WAKE="first-update", IDLEOFF="30m")
        fleet = '"aws:day-RdbGroup-1,careful-RdbGroup-2"'
        self.assertEqual((options["NODE_FLEET"], options["WAKE"], options["IDLE_OFF"]), (fleet, '"first-update"', '"30m"'))
        (call,) = self.calls("aws")
        self.assertIn("Name=tag:APP,Values=r-asg Name=tag:EFS,Values=fs-0123456789abcdef0 Name=tag:SLEEPS,Values=true", call)

    def test_an_idle_cluster_sleeps_also_with_nodes_by_schedule(self):
        options = self.options(IDLEOFF="2h")
        self.assertEqual((options["WAKE"], options["IDLE_OFF"]), ('"schedule"', '"2h"'))

    def test_days_end_by_the_calendar_instead_of_the_roll_time(self):
        options = self.options(WAKE="calendar", CALENDAR="/efs/calendar.toml")
        self.assertEqual((options["CALENDAR"], options["WAKE"]), ('"/efs/calendar.toml"', '"calendar"'))
        self.assertNotIn("ROLL", options)

    def test_without_a_group_the_tickerplant_starts_and_nothing_sleeps(self):
        self.environment["GROUPS_FOUND"] = ""
        self.assertEqual(list(self.options(WAKE="first-query", IDLEOFF="30m")), ["ROLL"])
        self.assertEqual(len(self.calls("aws")), 3)
        self.assertIn("no cluster sleeps until", self.said.stderr)

    def test_a_wake_that_is_none_starts_nothing(self):
        self.instance({**TAGS, "WAKE": "noon"})
        self.refuses("tag WAKE", "first-query or calendar")

    def test_without_the_aws_cli_it_says_what_to_do(self):
        (self.bin / "aws").unlink()
        self.instance({**TAGS, "WAKE": "first-update"})
        self.refuses("install the AWS CLI", "WAKE")


class Parameters(unittest.TestCase):
    def refused(self, **changed):
        return refusal(templates.load("elastick"), {**NEEDED, **changed})

    def test_a_cluster_may_have_no_node(self):
        self.assertIsNone(self.refused(MINNODES="0", WAKE="first-update", IDLEOFF="30m"))

    def test_a_cluster_without_nodes_is_not_turned_on_by_a_schedule(self):
        self.assertIn("TURNON starts no node", self.refused(MINNODES="0", TURNOFF="0 20 * * FRI", TURNON="30 5 * * MON"))

    def test_the_calendar_wakes_only_if_there_is_one(self):
        self.assertIn("without CALENDAR", self.refused(WAKE="calendar"))
        self.assertIsNone(self.refused(WAKE="calendar", CALENDAR="/efs/calendar.toml"))

    def test_a_wake_and_a_time_and_a_path_are_such(self):
        for name, text in (("WAKE", "noon"), ("IDLEOFF", "0s"), ("IDLEOFF", "half an hour"), ("CALENDAR", "nyse.toml"), ("CALENDAR", "/a b")):
            self.assertIsNotNone(self.refused(**{name: text}), f"{name} {text}")


class Stacks(CloudTest):
    def test_a_sleeping_cluster_begins_without_an_instance_and_says_so(self):
        more = {"MINNODES": "0", "WAKE": "first-update", "IDLEOFF": "30m"}
        stack = self.cloud.launch("elastick", "night", ZONENAME="night.internal", **PAPER, **more)
        group = stack.group("RdbGroup")
        self.assertEqual((group["MinSize"], group["DesiredCapacity"], group["Instances"]), (0, 0, []))
        tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
        self.assertEqual((tags["APP"], tags["EFS"], tags["SLEEPS"]), ("r-asg", stack.outputs["FileSystem"], "true"))
        told = stack.instance_tags("TickGroup")
        self.assertEqual([told[key] for key in ("WAKE", "IDLEOFF", "CALENDAR")], ["first-update", "30m", ""])

    def test_a_cluster_with_nodes_is_not_started_by_the_tickerplant(self):
        stack = self.cloud.launch("elastick", "day", ZONENAME="day.internal", **PAPER)
        self.assertEqual(stack.instance_tags("RdbGroup")["SLEEPS"], "false")
        self.assertNotIn("FirstNodes", stack.resources)
