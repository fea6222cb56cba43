"""An instance's file system as the image makes it: boot script, units and binary as shipped, and fakes of system commands that
this machine lacks (systemctl, mount, aws)."""

import base64
import os
import pathlib
import shutil
import sys

from harness.process import ROOT

DEPLOY = pathlib.Path(os.environ.get("ELASTICK_DEPLOY", ROOT / "deploy"))
TOOLS = "awk basename bash cat chmod curl env flock getent head install mktemp mv rm sleep sort tail timeout".split()

# Starts a unit: the simulated systemd reads the file.
SYSTEMCTL = """#!/usr/bin/env bash
[ "$1" != show ] || exit 0
for word; do case $word in *.service) printf '%s\\n' "$word" >>"$MACHINE/wanted" ;; esac; done
"""
# Name of a path's mount unit; no unit here depends on it.
SYSTEMD_ESCAPE = """#!/usr/bin/env bash
echo efs.mount
"""
# Mounts: the "file system" is one directory for all machines.
MOUNT = """#!/usr/bin/env bash
printf '%s\\n' "mount $*" >>"$MACHINE/mounts"
[ -e "$MACHINE/no-efs" ] && { echo 'mount: connection timed out' >&2; exit 32; }
: >"$MACHINE/mounted"
"""
FINDMNT = """#!/usr/bin/env bash
[ -e "$MACHINE/mounted" ] || exit 1
echo nfs4
"""
# The boot script's calls of the AWS CLI, with the instance's credentials.
AWS = """#!{python}
import json, os, sys
import boto3
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
def change_records():
    client = boto3.client("route53", region_name="us-east-1")
    client.change_resource_record_sets(HostedZoneId=value("--hosted-zone-id"), ChangeBatch=json.loads(value("--change-batch")))
    return "PENDING"
def get_secret():
    client = boto3.client("secretsmanager", region_name="us-east-1")
    return client.get_secret_value(SecretId=value("--secret-id"))["SecretString"]
def describe_instances():
    filters = [word.removeprefix("Name=").split(",Values=") for word in words if word.startswith("Name=")]
    client = boto3.client("ec2", region_name="us-east-1")
    found = client.describe_instances(Filters=[{{"Name": name, "Values": [text]}} for name, text in filters])["Reservations"]
    return "\\t".join(instance["PrivateIpAddress"] for reservation in found for instance in reservation["Instances"])
def describe_groups():
    filters = [word.removeprefix("Name=").split(",Values=") for word in words if word.startswith("Name=")]
    client = boto3.client("autoscaling", region_name="us-east-1")
    groups = client.describe_auto_scaling_groups()["AutoScalingGroups"]
    tags = lambda group: {{tag["Key"]: tag["Value"] for tag in group["Tags"]}}
    has = lambda group: all(tags(group).get(name.removeprefix("tag:")) == text for name, text in filters)
    return "\\t".join(group["AutoScalingGroupName"] for group in groups if has(group))
calls = {{"change-resource-record-sets": change_records, "get-secret-value": get_secret, "describe-instances": describe_instances,
         "describe-auto-scaling-groups": describe_groups}}
call = next((calls[word] for word in words if word in calls), None)
if call is None:
    sys.exit(252)
try:
    print(call())
except Exception as error:
    sys.exit(str(error))
"""


def lay_out(machine, directory, binary, efs):
    """Creates a machine's root in DIRECTORY. Returns the additional environment of its programs."""
    commands = directory / "bin"
    commands.mkdir(parents=True)
    for tool in TOOLS:
        (commands / tool).symlink_to(shutil.which(tool))
    for name, text in [("systemctl", SYSTEMCTL), ("systemd-escape", SYSTEMD_ESCAPE), ("findmnt", FINDMNT),
                       ("mount", MOUNT), ("mount.efs", MOUNT), ("aws", AWS.format(python=sys.executable))]:  # fmt: skip
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    (commands / "elastick").symlink_to(binary)
    (commands / "elastick-boot").symlink_to(DEPLOY / "userdata" / "elastick-boot")
    (directory / "units").symlink_to(DEPLOY / "systemd")
    user_data = base64.b64decode(machine.view["user_data"]).decode()
    (directory / "user-data").write_text(user_data.replace("/opt/elastick/bin/", f"{commands}/"))
    return {
        "PATH": str(commands),
        "MACHINE": str(directory),
        "BOOT_ETC": str(directory / "etc" / "elastick"),
        "BOOT_EFS": str(efs),
        "BOOT_UNITS": str(directory / "units-made"),
        "BOOT_LOCK": str(directory / "boot.lock"),
        "BOOT_SECRETS": str(directory / "secrets"),
        "BOOT_PAUSE": "0.2",
    }
