"""Parameters that the templates reject before anything is created, and parameters that they accept."""

import unittest

from deploy import templates
from deploy.parameters import refusal

NEEDED = {
    "AMI": "ami-0123456789abcdef0",
    "TICKINSTANCETYPE": "t3a.small",
    "RDBINSTANCETYPE": "t3a.medium",
    "SCALETHRESHOLD": "60",
    "ROLLTHRESHOLD": "80",
    "SUBNETID": "subnet-0a",
    "VPCID": "vpc-0a",
}
TYPE = "instance type"


class Parameters(unittest.TestCase):
    def refused(self, **changed):
        return refusal(templates.load("elastick"), {**NEEDED, **changed})

    def test_the_parameters_of_the_paper_suffice(self):
        self.assertIsNone(self.refused())
        self.assertIsNone(self.refused(SSHKEY="key"))

    def test_only_the_parameters_of_the_paper_have_to_be_given(self):
        for name in templates.NAMES:
            rules = templates.load(name)["Parameters"]
            without = {key for key, rule in rules.items() if "Default" not in rule}
            self.assertLessEqual(without, NEEDED.keys() | {"TICKSTACK"}, name)

    def test_a_threshold_over_100_is_refused(self):
        self.assertIn("<= 100", self.refused(ROLLTHRESHOLD="101"))
        self.assertIn("percentage from 0 to 100", self.refused(SCALETHRESHOLD="101"))
        self.assertIn("percentage from 0 to 100", self.refused(SCALETHRESHOLD="100.5"))

    def test_a_threshold_that_is_no_number_is_refused(self):
        for text in ("sixty", "", "60%", "-1", "1e2", "060"):
            self.assertIsNotNone(self.refused(SCALETHRESHOLD=text), text)
        for text in ("eighty", "", "80%", "-1", "0"):
            self.assertIsNotNone(self.refused(ROLLTHRESHOLD=text), text)

    def test_thresholds_are_percentages_or_auto(self):
        for text in ("0", "5", "60", "62.5", "100", "auto"):
            self.assertIsNone(self.refused(SCALETHRESHOLD=text), text)

    def test_an_instance_type_is_one(self):
        self.assertIn(TYPE, self.refused(RDBINSTANCETYPE="large"))
        self.assertIn(TYPE, self.refused(TICKINSTANCETYPE="t3a.small; reboot"))
        for text in ("t3a.medium", "r7g.16xlarge", "u-6tb1.metal", "x2iedn.32xlarge"):
            self.assertIsNone(self.refused(RDBINSTANCETYPE=text), text)

    def test_a_cluster_may_have_at_least_one_node(self):
        self.assertIsNotNone(self.refused(MAXNODES="0"))

    def test_there_are_one_or_two_tickerplants(self):
        for text in ("0", "3", "two"):
            self.assertIsNotNone(self.refused(TICKERPLANTS=text), text)
        for text in ("1", "2"):
            self.assertIsNone(self.refused(TICKERPLANTS=text), text)

    def test_zones_are_given_in_order(self):
        self.assertIn("without SUBNETID2", self.refused(SUBNETID3="subnet-0c"))
        self.assertIsNone(self.refused(SUBNETID2="subnet-0b", SUBNETID3="subnet-0c"))

    def test_off_and_on_are_given_together(self):
        self.assertIn("together", self.refused(TURNOFF="0 20 * * FRI"))
        self.assertIn("together", self.refused(TURNON="30 5 * * MON"))
        self.assertIsNone(self.refused(TURNOFF="0 20 * * FRI", TURNON="30 5 * * MON", TIMEZONE="America/New_York"))

    def test_a_schedule_has_five_fields(self):
        self.assertIsNotNone(self.refused(TURNOFF="@weekly", TURNON="30 5 * * MON"))
        self.assertIsNotNone(self.refused(TURNOFF="0 20 * * FRI 2027", TURNON="30 5 * * MON"))

    def test_spot_instances_are_not_kept_in_a_warm_pool(self):
        self.assertIn("warm pool", self.refused(PURCHASE="spot", WARMPOOL="1"))
        self.assertIsNone(self.refused(PURCHASE="spot"))
        self.assertIsNone(self.refused(WARMPOOL="1"))

    def test_the_whole_internet_is_no_range_for_clients_or_ssh(self):
        for name in ("SSHCIDR", "CLIENTCIDR"):
            self.assertIsNotNone(self.refused(**{name: "0.0.0.0/0"}), name)
            self.assertIsNone(self.refused(**{name: "10.0.0.0/8"}), name)

    def test_options_are_no_commands(self):
        for text in ("$(reboot)", "`reboot`", "--durability each; reboot", "a\nb", "a|b", "'a'"):
            self.assertIsNotNone(self.refused(TICKOPTIONS=text), text)
            self.assertIsNotNone(self.refused(RDBOPTIONS=text), text)
        self.assertIsNone(self.refused(TICKOPTIONS="--durability group(5ms) --damage keep-before"))

    def test_the_day_rolls_at_a_time_in_a_zone(self):
        for text in ("17:00", "25:00 Etc/UTC", "5pm America/New_York"):
            self.assertIsNotNone(self.refused(ROLLTIME=text), text)
        self.assertIsNone(self.refused(ROLLTIME="17:00 America/New_York"))

    def test_users_are_named_by_the_arn_of_a_secret(self):
        for text in ("users", "arn:aws:ssm:eu-west-1:123456789012:parameter/users", "[users.ann]"):
            self.assertIsNotNone(self.refused(USERSSECRET=text), text)
        self.assertIsNone(self.refused(USERSSECRET="arn:aws:secretsmanager:eu-west-1:123456789012:secret:firm/users-AbCdEf"))

    def test_two_ports_are_two(self):
        self.assertIn("are the same", self.refused(TICKPORT="5011"))
