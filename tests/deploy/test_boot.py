"""elastick-boot against a fake metadata service: its mounts, files and started units, and its errors."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from .metadata import Metadata

ROOT = pathlib.Path(__file__).parents[2]
BOOT = ROOT / "deploy" / "userdata" / "elastick-boot"
TOOLS = "bash awk cat chmod curl env flock getent head install mktemp mv rm sleep sort tail timeout".split()

NODE = {
    "APP": "r-asg",
    "EFS": "fs-0123456789abcdef0",
    "ACCESSPOINT": "fsap-0123456789abcdef0",
    "SCALETHRESHOLD": "60",
    "ROLLTHRESHOLD": "80",
    "TICKERPLANT": "tickerplant.elastick.internal",
    "TICKPORT": "5010",
    "Name": "a node",
    "aws:autoscaling:groupName": "RDB-ASG",
}
TICK = {
    "APP": "tick-asg",
    "EFS": "fs-0123456789abcdef0",
    "ACCESSPOINT": "fsap-0123456789abcdef0",
    "TICKERPLANT": "tickerplant.elastick.internal",
    "HOSTEDZONE": "Z0123456789",
    "ELASTICK_PORT": "5010",
    "ELASTICK_ROLL": "17:00 America/New_York",
}
# Fake commands that record their arguments and behave as the test specifies.
RECORDING = '#!/usr/bin/env bash\nprintf "%s\\n" "$(basename "$0") $*" >>"$CALLS"\n'
MOUNTS = RECORDING + 'touch "$MOUNTED"\n'
FINDS = '#!/usr/bin/env bash\n[ -e "$MOUNTED" ] && { echo "${MOUNTED_KIND:-nfs4}"; exit 0; }; exit 1\n'


@unittest.skipIf(any(shutil.which(tool) is None for tool in TOOLS), f"needs {', '.join(TOOLS)}")
class Boot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        (self.bin / "basename").symlink_to(shutil.which("basename"))
        (self.bin / "touch").symlink_to(shutil.which("touch"))
        self.command("systemctl", RECORDING)
        self.command("mount", MOUNTS)
        self.command("mount.efs", RECORDING)
        self.command("findmnt", FINDS)
        self.command("systemd-escape", '#!/usr/bin/env bash\necho efs.mount\n')
        self.environment = {}

    def command(self, name, text):
        path = self.bin / name
        # It may be a link to this machine's own command.
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def instance(self, tags=None, **paths):
        metadata = Metadata(paths={name.replace("__", "/"): text for name, text in paths.items()}, tags=tags)
        self.addCleanup(metadata.close)
        self.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = metadata.url
        return metadata

    def everything(self):
        """Environment of the script."""
        return {
            "PATH": str(self.bin),
            "BOOT_ETC": str(self.folder / "etc"),
            "BOOT_EFS": str(self.folder / "efs"),
            "BOOT_UNITS": str(self.folder / "units"),
            "BOOT_LOCK": str(self.folder / "lock"),
            "BOOT_SECRETS": str(self.folder / "secrets"),
            "BOOT_PAUSE": "0",
            "BOOT_TRIES": "3",
            "CALLS": str(self.folder / "calls"),
            "MOUNTED": str(self.folder / "mounted"),
            **self.environment,
        }

    def boot(self, *arguments):
        command = [BOOT, *(arguments or ["run"])]
        return subprocess.run(command, env=self.everything(), capture_output=True, text=True, timeout=120)

    def calls(self, command):
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.removeprefix(f"{command} ") for line in lines if line.startswith(f"{command} ")]

    def boots(self):
        done = self.boot()
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refuses(self, *words):
        """Asserts that it fails with one line that contains these words, and starts nothing."""
        done = self.boot()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        last = done.stderr.strip().splitlines()[-1]
        for word in words:
            self.assertIn(word, last)
        self.assertEqual(self.calls("systemctl"), [])
        self.assertFalse((self.folder / "etc" / "env").exists())

    def written(self):
        lines = (self.folder / "etc" / "env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if not line.startswith("#"))

    def mount_options(self):
        (call,) = self.calls("mount")
        words = call.split()
        return set(words[words.index("-o") + 1].split(",")), words


class WhatStarts(Boot):
    def test_a_node(self):
        self.instance(NODE)
        self.boots()
        self.assertEqual(self.calls("systemctl"), ["start --no-block elastick-rdb.service"])
        written = self.written()
        self.assertEqual(written["ELASTICK_TICKERPLANT"], '"tickerplant.elastick.internal:5010"')
        self.assertEqual((written["SCALETHRESHOLD"], written["ROLLTHRESHOLD"]), ('"60"', '"80"'))
        self.assertEqual(written["ELASTICK_FLEET"], '"aws"')
        self.assertNotIn("ELASTICK_DIR", written)

    def test_the_tickerplant(self):
        self.instance(TICK)
        self.boots()
        self.assertEqual(self.calls("systemctl"), ["daemon-reload", "start --no-block elastick-tick.service"])
        written = self.written()
        self.assertEqual(written["ELASTICK_REQUIRE_MOUNT"], '"nfs"')
        self.assertEqual(written["ELASTICK_DIR"], f'"{self.folder}/efs/log"')
        self.assertEqual(written["ELASTICK_ROLL"], '"17:00 America/New_York"')
        self.assertEqual(written["HOSTEDZONE"], '"Z0123456789"')

    def test_the_environment_is_root_s_own(self):
        self.instance(NODE)
        self.boots()
        self.assertEqual((self.folder / "etc" / "env").stat().st_mode & 0o777, 0o600)

    def test_a_second_boot_mounts_nothing_twice(self):
        self.instance(NODE)
        self.boots()
        self.boots()
        self.assertEqual(len(self.calls("mount")), 1)
        self.assertEqual(self.calls("systemctl"), ["start --no-block elastick-rdb.service"] * 2)
        self.assertEqual([path.name for path in (self.folder / "etc").iterdir()], ["env"])

    def test_user_data_hands_over_to_the_unit(self):
        self.assertEqual(self.boot("").returncode, 0)
        self.assertEqual(self.calls("systemctl"), ["start --no-block elastick-boot.service"])

    def test_thresholds_may_be_auto_or_carry_a_sign(self):
        self.instance({**NODE, "SCALETHRESHOLD": "auto", "ROLLTHRESHOLD": "85%"})
        self.boots()
        self.assertEqual((self.written()["SCALETHRESHOLD"], self.written()["ROLLTHRESHOLD"]), ('"auto"', '"85"'))

    def test_equal_thresholds_are_in_order(self):
        self.instance({**NODE, "SCALETHRESHOLD": "80", "ROLLTHRESHOLD": "80.0"})
        self.boots()

    def test_values_are_quoted_as_systemd_reads_them(self):
        self.instance({**NODE, "ELASTICK_OPTIONS": '--node "a" $HOME `x` \\'})
        self.boots()
        self.assertEqual(self.written()["ELASTICK_OPTIONS"], '"--node \\"a\\" \\$HOME \\`x\\` \\\\"')

    def test_an_option_s_own_tag_goes_before_what_is_set_for_all(self):
        self.instance({**TICK, "ELASTICK_DIR": "/efs/other"})
        self.boots()
        self.assertEqual(self.written()["ELASTICK_DIR"], '"/efs/other"')


class Logs(Boot):
    def test_the_agent_is_told_of_the_log_group(self):
        self.command("amazon-cloudwatch-agent-ctl", RECORDING)
        self.instance({**NODE, "LOGGROUP": "/elastick/stack"})
        self.boots()
        file = self.folder / "etc" / "cloudwatch-agent.json"
        (collected,) = json.loads(file.read_text())["logs"]["logs_collected"]["files"]["collect_list"]
        self.assertEqual((collected["log_group_name"], collected["log_stream_name"]), ("/elastick/stack", "{instance_id}"))
        self.assertEqual(self.calls("amazon-cloudwatch-agent-ctl"), [f"-a fetch-config -m ec2 -s -c file:{file}"])
        self.assertEqual(self.calls("systemctl")[0], "start --no-block elastick-logs.service")

    def test_an_agent_that_fails_holds_nothing_up(self):
        self.command("amazon-cloudwatch-agent-ctl", RECORDING + "exit 1\n")
        self.instance({**NODE, "LOGGROUP": "/elastick/stack"})
        self.boots()
        self.assertEqual(self.calls("systemctl")[-1], "start --no-block elastick-rdb.service")


CLUSTER = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cluster-AbCdEf"
USERS = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:firm/users-AbCdEf"
# The AWS CLI with two secrets.
SECRETS = RECORDING + f"""case "$*" in
  *"get-secret-value --secret-id {CLUSTER} "*) echo 0123456789abcdef0123 ;;
  *"get-secret-value --secret-id {USERS} "*) printf '[users.ann]\\npassword = "pw"\\n\\n' ;;
  *) exit 254 ;;
esac
"""


class Secrets(Boot):
    def setUp(self):
        super().setUp()
        self.command("aws", SECRETS)

    def drop_in(self, unit):
        return self.folder / "units" / f"{unit}.service.d" / "secrets.conf"

    def test_both_secrets_become_credentials_of_the_unit(self):
        for tags, unit in ((NODE, "elastick-rdb"), (TICK, "elastick-tick")):
            with self.subTest(unit):
                self.instance({**tags, "CLUSTERSECRET": CLUSTER, "USERSSECRET": USERS})
                self.boots()
                folder = self.folder / "secrets"
                lines = self.drop_in(unit).read_text().splitlines()
                self.assertEqual(
                    lines,
                    [
                        "[Service]",
                        f"LoadCredential=cluster-secret:{folder}/cluster-secret",
                        "Environment=ELASTICK_CLUSTER_SECRET_FILE=%d/cluster-secret",
                        f"LoadCredential=users.toml:{folder}/users.toml",
                        "Environment=ELASTICK_USERS=%d/users.toml",
                    ],
                )
                calls = self.calls("systemctl")
                self.assertLess(calls.index("daemon-reload"), calls.index(f"start --no-block {unit}.service"))

    def test_a_secret_is_in_its_file_and_nowhere_else(self):
        self.instance({**NODE, "CLUSTERSECRET": CLUSTER, "USERSSECRET": USERS})
        done = self.boots()
        files = {path.name: path for path in (self.folder / "secrets").iterdir()}
        self.assertEqual(set(files), {"cluster-secret", "users.toml"})
        self.assertEqual(files["cluster-secret"].read_text().strip(), "0123456789abcdef0123")
        self.assertIn('password = "pw"', files["users.toml"].read_text())
        for path in files.values():
            self.assertEqual(path.stat().st_mode & 0o777, 0o400)
        self.assertEqual((self.folder / "secrets").stat().st_mode & 0o777, 0o700)
        others = [path for path in self.folder.rglob("*") if path.is_file() and path.parent.name not in ("secrets", "bin")]
        for text in (done.stdout, done.stderr, *(path.read_text() for path in others)):
            self.assertNotIn("0123456789abcdef0123", text)
            self.assertNotIn('"pw"', text)

    def test_without_secrets_the_unit_gets_none(self):
        self.instance({**NODE, "USERSSECRET": ""})
        self.boots()
        self.assertFalse(self.drop_in("elastick-rdb").exists())
        self.assertEqual(self.calls("aws"), [])

    def test_a_secret_that_the_instance_has_no_longer_is_taken_from_the_unit(self):
        self.instance({**NODE, "CLUSTERSECRET": CLUSTER, "USERSSECRET": USERS})
        self.boots()
        self.instance({**NODE, "CLUSTERSECRET": CLUSTER, "USERSSECRET": ""})
        self.boots()
        self.assertNotIn("users.toml", self.drop_in("elastick-rdb").read_text())
        self.assertEqual([path.name for path in (self.folder / "secrets").iterdir()], ["cluster-secret"])

    def test_a_secret_that_cannot_be_fetched_starts_nothing(self):
        self.command("aws", RECORDING + "echo half-a-secret; exit 254\n")
        self.instance({**NODE, "CLUSTERSECRET": CLUSTER})
        self.refuses(CLUSTER, "secretsmanager:GetSecretValue", "CLUSTERSECRET")
        self.assertEqual(len(self.calls("aws")), 3)
        self.assertEqual(list((self.folder / "secrets").iterdir()), [])

    def test_a_secret_without_text_starts_nothing(self):
        for text in ("echo None", "true"):
            with self.subTest(text):
                self.command("aws", f"{RECORDING}{text}\n")
                self.instance({**NODE, "USERSSECRET": USERS})
                self.refuses(USERS, "holds no text")
                self.assertEqual(list((self.folder / "secrets").iterdir()), [])

    def test_a_tag_that_names_no_secret_is_refused(self):
        for value in ("hunter2", "arn:aws:s3:::bucket", f"{CLUSTER} --debug"):
            with self.subTest(value):
                self.instance({**NODE, "CLUSTERSECRET": value})
                self.refuses("tag CLUSTERSECRET", "not the ARN of a secret")
                self.assertEqual(self.calls("aws"), [])

    def test_without_the_aws_cli_it_says_what_to_install(self):
        (self.bin / "aws").unlink()
        self.instance({**NODE, "CLUSTERSECRET": CLUSTER})
        self.refuses("CLUSTERSECRET", "install the AWS CLI")


class MetadataService(Boot):
    def test_a_unit_that_does_not_call_aws_gets_no_way_to_the_role(self):
        self.instance({**NODE, "ELASTICK_FLEET": "none"})
        self.boots()
        drop_in = self.folder / "units" / "elastick-rdb.service.d" / "metadata.conf"
        self.assertEqual(drop_in.read_text(), "[Service]\nIPAddressDeny=169.254.169.254 fd00:ec2::254\n")
        self.assertEqual(self.calls("systemctl")[0], "daemon-reload")
        self.instance(NODE)
        self.boots()
        self.assertFalse(drop_in.exists())


class Mounting(Boot):
    def test_a_node_mounts_to_read(self):
        self.instance(NODE)
        self.boots()
        options, words = self.mount_options()
        expected = {"tls", "iam", "accesspoint=fsap-0123456789abcdef0", "noatime", "lookupcache=positive", "ro", "actimeo=1"}
        self.assertEqual(options, expected)
        self.assertEqual(words[-2:], ["fs-0123456789abcdef0", f"{self.folder}/efs"])

    def test_the_tickerplant_mounts_to_write(self):
        self.instance(TICK)
        self.boots()
        options, _ = self.mount_options()
        self.assertEqual(options, {"tls", "iam", "accesspoint=fsap-0123456789abcdef0", "noatime", "lookupcache=positive"})

    def test_the_tickerplant_is_bound_to_its_mount_and_a_node_is_not(self):
        self.instance(TICK)
        self.boots()
        bound = self.folder / "units" / "elastick-tick.service.d" / "mount.conf"
        self.assertEqual(bound.read_text(), "[Unit]\nBindsTo=efs.mount\nAfter=efs.mount\n")
        self.instance(NODE)
        self.boots()
        self.assertEqual([path.name for path in bound.parents[1].iterdir()], ["elastick-tick.service.d"])

    def test_a_mount_that_fails_at_first_is_tried_again(self):
        self.command("mount", RECORDING + '[ "$(wc -l <"$CALLS")" -ge 3 ] && touch "$MOUNTED"\n')
        (self.bin / "wc").symlink_to(shutil.which("wc"))
        self.instance(NODE)
        self.boots()
        self.assertEqual(len(self.calls("mount")), 3)

    def test_efs_that_does_not_mount_starts_nothing(self):
        self.command("mount", RECORDING + "exit 32\n")
        self.instance(TICK)
        self.refuses("could not be mounted", "3 tries", "local disk")
        self.assertEqual(len(self.calls("mount")), 3)

    def test_a_mount_that_claims_success_and_is_none_starts_nothing(self):
        self.command("mount", RECORDING)
        self.instance(TICK)
        self.refuses("what is there is not NFS")

    def test_another_file_system_there_is_not_taken_for_it(self):
        (self.folder / "mounted").touch()
        self.environment["MOUNTED_KIND"] = "ext4"
        self.instance(TICK)
        self.refuses("ext4", "not the file system fs-")

    def test_without_the_helper_nothing_is_mounted_in_the_clear(self):
        (self.bin / "mount.efs").unlink()
        self.instance(NODE)
        self.refuses("amazon-efs-utils", "TLS")

    def test_without_the_helper_plain_nfs_is_mounted_where_that_is_allowed(self):
        (self.bin / "mount.efs").unlink()
        self.instance({**NODE, "EFSPLAIN": "yes"})
        self.boots()
        options, words = self.mount_options()
        self.assertLessEqual({"nfsvers=4.1", "hard", "noresvport", "ro"}, options)
        self.assertIn("fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com:/", words)


class Refusals(Boot):
    def test_no_metadata_service(self):
        self.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1"
        self.refuses("metadata does not answer at http://127.0.0.1:1")

    def test_a_metadata_service_that_is_switched_off(self):
        self.instance(NODE).status = 403
        self.refuses("metadata does not answer", "403")

    def test_an_instance_without_its_tags(self):
        for tag in ("APP", "EFS", "SCALETHRESHOLD", "ROLLTHRESHOLD", "TICKERPLANT"):
            with self.subTest(tag):
                self.instance({key: value for key, value in NODE.items() if key != tag})
                self.refuses(f"no tag {tag}")

    def test_an_app_that_is_neither(self):
        self.instance({**NODE, "APP": "web"})
        self.refuses('tag APP is "web"', "tick-asg", "r-asg")

    def test_thresholds_that_are_no_percentages(self):
        for tag in ("SCALETHRESHOLD", "ROLLTHRESHOLD"):
            for value, why in [("sixty", "not a number"), ("-5", "not a number"), ("101", "more than 100"), ("1e2", "not a number")]:
                with self.subTest(f"{tag}={value}"):
                    self.instance({**NODE, tag: value})
                    self.refuses(tag, f'"{value}"', why)

    def test_thresholds_in_the_wrong_order(self):
        self.instance({**NODE, "SCALETHRESHOLD": "90", "ROLLTHRESHOLD": "80"})
        self.refuses("SCALETHRESHOLD (90) is above ROLLTHRESHOLD (80)")

    def test_a_file_system_that_is_none(self):
        self.instance({**NODE, "EFS": "10.0.0.9"})
        self.refuses("tag EFS", "10.0.0.9")

    def test_a_host_that_could_not_be_one(self):
        self.instance({**NODE, "TICKERPLANT": "a b;c"})
        self.refuses("tag TICKERPLANT")

    def test_a_value_that_would_add_a_line(self):
        self.instance({**NODE, "ELASTICK_OPTIONS": "a\x07b"})
        self.refuses("control character")

    def test_an_unknown_command(self):
        done = self.boot("lunch")
        self.assertEqual((done.returncode, self.calls("systemctl")), (1, []))


class TagsFromTheApi(Boot):
    def test_tags_that_the_metadata_does_not_tell_are_asked_for(self):
        rows = "".join(f"{key}\\t{value}\\n" for key, value in NODE.items())
        self.command("aws", RECORDING + f"printf '{rows}'\n")
        self.instance()
        self.boots()
        (call,) = self.calls("aws")
        self.assertIn("--region eu-west-1", call)
        self.assertIn("ec2 describe-tags --filters Name=resource-id,Values=i-0123456789abcdef0", call)
        self.assertEqual(self.written()["ROLLTHRESHOLD"], '"80"')

    def test_without_a_way_to_ask_it_says_so(self):
        self.instance()
        self.refuses("InstanceMetadataTags")

    def test_a_role_that_may_not_ask_is_named(self):
        self.command("aws", RECORDING + "exit 254\n")
        self.instance()
        self.refuses("ec2:DescribeTags")


class WarmPool(Boot):
    def test_an_instance_in_reserve_starts_nothing_before_it_is_taken(self):
        self.command("aws", RECORDING + 'case "$*" in *describe-lifecycle-hooks*) echo "a-hook b-hook";; esac\n')
        states = ["Warmed:Stopped", "Warmed:Stopped", "InService"]
        self.instance(NODE, **{"autoscaling__target-lifecycle-state": states})
        done = self.boots()
        said = done.stdout.splitlines()
        self.assertIn("starting nothing", said[0])
        self.assertEqual(self.calls("systemctl"), ["start --no-block elastick-rdb.service"])
        continued = [call for call in self.calls("aws") if "complete-lifecycle-action" in call]
        self.assertEqual(len(continued), 2)
        for call, hook in zip(continued, ("a-hook", "b-hook")):
            self.assertIn(f"--lifecycle-hook-name {hook} --auto-scaling-group-name RDB-ASG", call)
            self.assertIn("--instance-id i-0123456789abcdef0 --lifecycle-action-result CONTINUE", call)

    def test_wrong_tags_are_found_before_the_instance_is_put_in_reserve(self):
        self.instance({**NODE, "ROLLTHRESHOLD": "x"}, **{"autoscaling__target-lifecycle-state": "Warmed:Stopped"})
        self.refuses("ROLLTHRESHOLD")


class TheName(Boot):
    def setUp(self):
        super().setUp()
        self.environment |= {"HOSTEDZONE": "Z1", "TICKERPLANT": "t.internal", "AWS_REGION": "eu-west-1"}
        self.instance()

    def test_it_is_set_to_this_instance(self):
        self.command("aws", RECORDING)
        self.assertEqual(self.boot("announce").returncode, 0)
        (call,) = self.calls("aws")
        self.assertIn("route53 change-resource-record-sets --hosted-zone-id Z1", call)
        self.assertIn('{"Changes":[{"Action":"UPSERT","ResourceRecordSet":{"Name":"t.internal","Type":"A","TTL":5,', call)
        self.assertIn('"ResourceRecords":[{"Value":"10.0.0.7"}]', call)

    def test_a_refusal_is_tried_again_and_then_told(self):
        self.command("aws", RECORDING + "exit 255\n")
        done = self.boot("announce")
        self.assertEqual((done.returncode, len(self.calls("aws"))), (1, 3))
        self.assertIn("route53:ChangeResourceRecordSets", done.stderr)

    def test_it_is_given_back_in_one_batch(self):
        self.command("aws", RECORDING)
        self.assertEqual(self.boot("withdraw").returncode, 0)
        (call,) = self.calls("aws")
        self.assertLess(call.index('"DELETE"'), call.index('"CREATE"'))
        self.assertIn('"Value":"10.0.0.7"', call)
        self.assertIn('"Value":"127.0.0.1"', call)

    def test_a_name_that_a_successor_has_is_left_alone(self):
        self.command("aws", RECORDING + "exit 254\n")
        done = self.boot("withdraw")
        self.assertEqual((done.returncode, len(self.calls("aws"))), (0, 1))
        self.assertIn("successor", done.stdout)

    def test_without_a_zone_there_is_nothing_to_set(self):
        del self.environment["HOSTEDZONE"]
        self.assertEqual((self.boot("announce").returncode, self.boot("withdraw").returncode), (0, 0))
        self.assertEqual(self.calls("aws"), [])


if __name__ == "__main__":
    unittest.main()
