"""A machine as the image makes it: boot script, units and binary as they are shipped, and the commands of the system that an
instance has and this machine lacks (systemctl, mount, aws)."""

import base64
import os
import pathlib
import shutil
import sys

from harness.process import ROOT

DEPLOY = pathlib.Path(os.environ.get("ELASTICK_DEPLOY", ROOT / "deploy"))
TOOLS = "awk basename bash cat chmod curl env flock install mktemp mv sleep sort tail timeout".split()

# Starting a unit: the machine's systemd reads the file.
SYSTEMCTL = """#!/usr/bin/env bash
for word; do case $word in *.service) printf '%s\\n' "$word" >>"$MACHINE/wanted" ;; esac; done
"""
# The name of a path's mount unit; nothing here is bound to it.
SYSTEMD_ESCAPE = """#!/usr/bin/env bash
echo efs.mount
"""
# Mounting: the "file system" is one directory for all machines.
MOUNT = """#!/usr/bin/env bash
printf '%s\\n' "mount $*" >>"$MACHINE/mounts"
[ -e "$MACHINE/no-efs" ] && { echo 'mount: connection timed out' >&2; exit 32; }
: >"$MACHINE/mounted"
"""
FINDMNT = """#!/usr/bin/env bash
[ -e "$MACHINE/mounted" ] || exit 1
echo nfs4
"""
# The one call of the AWS command line that the boot script makes, with the instance's own credentials.
AWS = """#!{python}
import json, os, sys
import boto3
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
if "change-resource-record-sets" not in words:
    sys.exit(252)
client = boto3.client("route53", region_name="us-east-1")
try:
    client.change_resource_record_sets(HostedZoneId=value("--hosted-zone-id"), ChangeBatch=json.loads(value("--change-batch")))
except Exception as error:
    sys.exit(str(error))
print("PENDING")
"""


def lay_out(machine, directory, binary, efs):
    """Makes DIRECTORY the root of a machine; answers the environment that its programs need beside the cloud's own."""
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
        "BOOT_PAUSE": "0.2",
    }
