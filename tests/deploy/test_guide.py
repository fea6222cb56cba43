"""The operator's guide: its commands run, and its tables match the templates."""

import os
import pathlib
import re
import subprocess
import unittest

from deploy import templates
from deploy.cloud import ACCESS, CloudTest
from deploy.replacements import effect

GUIDE = templates.ROOT / "deploy" / "README.md"
NOT_TRIED = "# not tried here"
UP_TO_THE_CHANGE_SET = "# tried here up to the change set"


def section(title):
    """The text under a heading, up to the next of any level."""
    return re.search(rf"^#+ {title}\n(.*?)(?=^#+ |\Z)", GUIDE.read_text(), re.M | re.S)[1]


def blocks():
    """Shell blocks of the guide, each as (part that runs here, rest)."""
    for block in re.finditer(r"^( *)```sh\n(.*?)^\1```", GUIDE.read_text(), re.M | re.S):
        text = re.sub(rf"^{block[1]}", "", block[2], flags=re.M)
        if text.startswith(UP_TO_THE_CHANGE_SET):
            text = text.replace("aws cloudformation deploy", "aws cloudformation deploy --no-execute-changeset")
        tried, mark, rest = text.partition(NOT_TRIED)
        yield tried, mark + rest


def awscli():
    """Path of the AWS CLI in the environment that tests/run installs, or None."""
    path = pathlib.Path(os.environ.get("ELASTICK_AWSCLI", templates.ROOT / ".venv-awscli" / "bin" / "aws"))
    return path if path.exists() else None


class Tables(unittest.TestCase):
    def rows(self):
        """{parameter: replaced resources} from the guide's table."""
        found = {}
        for row in re.finditer(r"^\| (`[^|]*) \| ([^|]*)\|", section("What a change replaces"), re.M):
            names, replaced = (re.findall(r"`(\w+)`", part) for part in row.groups())
            found |= {name: set(replaced) for name in names}
        return found

    def test_the_guide_says_what_a_change_of_each_parameter_replaces(self):
        template = templates.load("elastick")
        said = self.rows()
        self.assertEqual(set(said), set(template["Parameters"]))
        for parameter, replaced in said.items():
            self.assertEqual(replaced, effect(template, parameter)[0], parameter)

    def test_no_change_replaces_a_group_or_a_role_or_the_log_group(self):
        template = templates.load("elastick")
        kept = {"TickGroup", "RdbGroup", "TickRole", "RdbRole", "LogGroup", "TickLaunchTemplate", "RdbLaunchTemplate"}
        for parameter in template["Parameters"]:
            self.assertEqual(effect(template, parameter)[0] & kept, set(), parameter)

    def test_only_the_key_replaces_the_file_system(self):
        template = templates.load("elastick")
        replacing = {name for name in template["Parameters"] if "FileSystem" in effect(template, name)[0]}
        self.assertEqual(replacing, {"KMSKEY"})

    def test_every_tag_of_an_instance_is_explained(self):
        explained = GUIDE.with_name("instance.md").read_text()
        for group in ("TickGroup", "RdbGroup"):
            for key in templates.tags(templates.resources("elastick")[group]):
                self.assertIn(f"`{key}`", explained, group)

    def test_commands_that_are_not_tried_say_why(self):
        for _, rest in blocks():
            if rest:
                self.assertRegex(rest, rf"^{NOT_TRIED}: \S")


class Commands(CloudTest):
    def test_every_command_of_the_guide_runs(self):
        command = awscli()
        if command is None:
            self.skipTest("the AWS CLI is not installed; tests/run deploy installs it")
        needed, _ = self.cloud.needed()
        environment = {
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "AWS_ENDPOINT_URL": self.cloud.url,
            "AWS_ACCESS_KEY_ID": ACCESS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": ACCESS["aws_secret_access_key"],
            "AWS_DEFAULT_REGION": ACCESS["region_name"],
            "AWS_PAGER": "",
            "AMI": needed["AMI"],
            "NEW_AMI": self.cloud.client("ec2").describe_images()["Images"][1]["ImageId"],
            "VPC": needed["VPCID"],
            "SUBNET": needed["SUBNETID"],
        }
        script = "".join(f"{tried}\n" for tried, _ in blocks() if tried.strip())
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-x", "-c", script],
            env=environment,
            cwd=templates.ROOT,
            capture_output=True,
            text=True,
            timeout=600,
        )
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr[-6000:]}")
        self.assertIn("tick.elastick.internal", done.stdout)
