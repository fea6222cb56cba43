"""Linters report nothing, and the combined template matches its parts."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import unittest

from deploy import templates

COMBINE = templates.FOLDER / "combine.py"
# Maximum size of a template in a request to CloudFormation; a larger one must be in S3.
MOST_BYTES = 51_200


def tool(name, environment):
    """Path of a linter in the environment that tests/run installs, or None."""
    found = pathlib.Path(os.environ.get(environment, sys.executable)).with_name(name)
    return found if found.exists() else None


class Lint(unittest.TestCase):
    def run_tool(self, command):
        return subprocess.run(command, capture_output=True, text=True, cwd=templates.ROOT)

    def test_cfn_lint_has_nothing_to_say_not_even_for_information(self):
        command = tool("cfn-lint", "ELASTICK_CFN_LINT")
        if command is None:
            self.skipTest("cfn-lint is not installed; tests/run deploy installs it")
        done = self.run_tool([command, "--include-checks", "I", "--", *map(templates.path, templates.NAMES)])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_checkov_passes_all_its_checks_and_none_is_skipped(self):
        command = tool("checkov", "ELASTICK_CHECKOV")
        if command is None:
            self.skipTest("checkov is not installed; tests/run deploy installs it")
        files = [part for name in templates.NAMES for part in ("--file", str(templates.path(name)))]
        done = self.run_tool([command, *files, "--framework", "cloudformation", "--skip-download", "--output", "json"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads(done.stdout)["summary"]
        self.assertGreater(summary["passed"], 100)
        self.assertEqual((summary["failed"], summary["skipped"], summary["parsing_errors"]), (0, 0, 0))

    def test_the_template_of_everything_is_made_of_its_parts(self):
        done = self.run_tool([sys.executable, COMBINE, "--check"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_everything_in_the_parts_is_in_the_template_of_everything(self):
        whole = templates.load("elastick")
        for part in ("tickerplant", "rdb-cluster"):
            for section in ("Parameters", "Rules", "Conditions", "Resources", "Outputs"):
                for name in templates.load(part).get(section, {}):
                    self.assertTrue(name in whole[section] or name == "TICKSTACK", f"{section} {name} of {part}")

    def test_every_parameter_has_its_place_in_the_console(self):
        for name in templates.NAMES:
            template = templates.load(name)
            groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
            shown = [parameter for group in groups for parameter in group["Parameters"]]
            self.assertEqual(sorted(shown), sorted(template["Parameters"]), name)

    def test_templates_can_be_sent_along_with_the_command(self):
        for name in templates.NAMES:
            self.assertLess(templates.path(name).stat().st_size, MOST_BYTES, name)

    def test_no_name_or_version_is_read_as_something_else(self):
        for name in templates.NAMES:
            for value in templates.walk(templates.load(name)):
                self.assertNotIsInstance(value, datetime.date, name)
                if isinstance(value, dict):
                    self.assertEqual([key for key in value if not isinstance(key, str)], [], name)

    def test_no_resource_has_a_name_that_keeps_it_from_being_replaced(self):
        names = {
            "AutoScalingGroupName",
            "RoleName",
            "GroupName",
            "InstanceProfileName",
            "LaunchTemplateName",
            "LogGroupName",
            "AlarmName",
            "DashboardName",
        }
        for name in templates.NAMES:
            for key, found in templates.resources(name).items():
                # A schedule or a warm pool refers to its group.
                if found["Type"] in ("AWS::AutoScaling::ScheduledAction", "AWS::AutoScaling::WarmPool"):
                    continue
                self.assertEqual(names & set(found.get("Properties", {})), set(), f"{key} of {name}")
