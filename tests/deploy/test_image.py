"""The image: required settings of the Packer template; the install script on a minimal Debian, and its errors."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

try:
    import hcl2
except ImportError:
    hcl2 = None

ROOT = pathlib.Path(__file__).parents[2]
AMI = ROOT / "deploy" / "ami"


def plain(value):
    """Removes the quotes that some versions of the parser leave around strings."""
    if isinstance(value, str):
        return value.strip('"')
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items() if not key.startswith("__")}
    return value


@unittest.skipIf(hcl2 is None, "python-hcl2 is not installed; tests/run installs it")
class Template(unittest.TestCase):
    """The template as parsed; only `packer validate` would check the plugin's options."""

    @classmethod
    def setUpClass(cls):
        cls.template = plain(hcl2.loads((AMI / "elastick.pkr.hcl").read_text()))
        cls.source = cls.template["source"][0]["amazon-ebs"]["al2023"]
        cls.build = cls.template["build"][0]

    def test_both_architectures_are_built_from_amazon_s_own_image(self):
        built = {}
        for source in self.build["source"]:
            (options,) = source.values()
            (chosen,) = options["source_ami_filter"]
            self.assertEqual(chosen["owners"], ["amazon"])
            built[options["name"]] = chosen["filters"]["architecture"]
        self.assertEqual(built, {"x86_64": "x86_64", "arm64": "arm64"})

    def test_metadata_needs_a_token_on_the_builder_and_on_what_is_launched(self):
        (options,) = self.source["metadata_options"]
        self.assertEqual((options["http_tokens"], int(options["http_put_response_hop_limit"])), ("required", 1))
        self.assertEqual(self.source["imds_support"], "v2.0")

    def test_the_image_is_encrypted(self):
        self.assertTrue(self.source["encrypt_boot"])
        (root,) = self.source["launch_block_device_mappings"]
        self.assertTrue(root["encrypted"])

    def test_nothing_secret_is_asked_for(self):
        names = {name for variable in self.template["variable"] for name in variable}
        self.assertEqual(names, {"region", "packages", "version", "instance_profile", "subnet", "kms_key"})

    def test_each_architecture_gets_its_own_package(self):
        files = [p["file"] for p in self.build["provisioner"] if "file" in p and p["file"]["destination"] == "/tmp/elastick.rpm"]
        chosen = {tuple(file["only"]): file["source"].rsplit(".", 2)[1] for file in files}
        self.assertEqual(chosen, {("amazon-ebs.x86_64",): "x86_64", ("amazon-ebs.arm64",): "aarch64"})


class Install(unittest.TestCase):
    def install(self, *arguments):
        return subprocess.run([AMI / "install.sh", *arguments], capture_output=True, text=True, timeout=60)

    def test_help_tells_its_options(self):
        said = self.install("--help").stdout
        for option in ("--efs-utils", "--without-efs", "--without-ssm", "--start", "--image"):
            self.assertIn(option, said)

    def test_an_unknown_option_is_refused(self):
        done = self.install("--fast")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--fast", done.stderr)

    @unittest.skipIf(os.geteuid() != 0, "needs root to get so far")
    def test_a_package_of_another_kind_of_system_is_refused(self):
        ours = "deb" if shutil.which("apt-get") else "rpm"
        with tempfile.NamedTemporaryFile(suffix=".rpm" if ours == "deb" else ".deb") as package:
            done = self.install(package.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"no .{ours} package", done.stderr)

    @unittest.skipIf(os.geteuid() != 0, "needs root to get so far")
    def test_a_missing_package_is_refused(self):
        self.assertIn("package is missing", self.install("/no/such.deb").stderr)


if __name__ == "__main__":
    unittest.main()
