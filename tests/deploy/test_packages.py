"""Packages: the manifest has every file and keeps an operator's changes; both packages hold the same, and the program in them runs. The bill
of materials is complete, and signatures verify. test_guest.py installs, upgrades and removes the Debian package."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import tomllib
import unittest

from . import packages

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = ROOT / "deploy" / "packages"
KEPT = {
    "/etc/elastick/elastick.toml",
    "/etc/elastick/schemas/sym.q",
    "/etc/elastick/schemas/timestamps.q",
    "/etc/logrotate.d/elastick",
}


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


class Manifest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import yaml
        except ImportError:
            raise unittest.SkipTest("PyYAML is not installed; tests/run deploy installs it") from None
        cls.manifest = yaml.safe_load((PACKAGES / "nfpm.yaml").read_text())
        cls.contents = [each for each in cls.manifest["contents"] if each.get("type") != "dir"]

    def test_every_file_of_the_servers_is_in_the_packages(self):
        sources = {each["src"] for each in self.contents}
        for folder in ("server", "systemd"):
            for path in (ROOT / "deploy" / folder).iterdir():
                named = f"deploy/{folder}/{path.name}"
                self.assertTrue({named, f"deploy/{folder}/*{path.suffix}"} & sources, f"{named} is in no package")

    def test_an_operator_s_changes_are_kept(self):
        for each in self.contents:
            self.assertEqual(each["dst"].startswith("/etc/"), each.get("type") == "config|noreplace", each["dst"])


class BillOfMaterials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bom.json")
            subprocess.run([PACKAGES / "sbom", path], check=True)
            cls.text = path.read_text()
            subprocess.run([PACKAGES / "sbom", path], check=True)
            cls.again = path.read_text()
        cls.bom = json.loads(cls.text)

    def test_it_is_valid_cyclonedx(self):
        try:
            from cyclonedx.schema import SchemaVersion
            from cyclonedx.validation.json import JsonStrictValidator
        except ImportError:
            self.skipTest("cyclonedx-python-lib is not installed; tests/run deploy installs it")
        self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_5).validate_str(self.text))

    def test_the_same_lock_file_gives_the_same_bytes(self):
        self.assertEqual(self.text, self.again)

    def test_every_crate_of_others_has_its_hash_from_the_lock_file(self):
        lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
        hashes = {f"pkg:cargo/{each['name']}@{each['version']}".replace("+", "%2B"): each.get("checksum") for each in lock}
        for component in self.bom["components"]:
            found = [each["content"] for each in component.get("hashes", [])]
            self.assertEqual(found, [hashes[component["purl"]]] if hashes[component["purl"]] else [], component["name"])
            self.assertTrue(component["licenses"][0]["expression"], component["name"])

    def test_it_names_what_is_linked_and_what_only_builds(self):
        scopes = {component["name"]: component["scope"] for component in self.bom["components"]}
        self.assertEqual({scopes[name] for name in ("elastick-q", "ring", "aws-sdk-autoscaling")}, {"required"})
        self.assertEqual(scopes["syn"], "excluded")
        self.assertNotIn("elastick-sim", scopes)

    def test_its_dependencies_are_closed(self):
        known = {self.bom["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in self.bom["components"])}
        self.assertEqual({each["ref"] for each in self.bom["dependencies"]}, known)
        for each in self.bom["dependencies"]:
            self.assertLessEqual(set(each["dependsOn"]), known)


class Signatures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        self.out.mkdir()
        (self.out / "elastick.deb").write_bytes(b"a package")
        (self.out / "elastick.cdx.json").write_bytes(b"{}")

    def sign(self, *how, **environment):
        return run(PACKAGES / "sign", self.out, *how, env={**os.environ, **environment})

    def check(self):
        return run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.out).returncode

    def test_a_signature_by_openssl_verifies_until_a_sum_changes(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not here")
        key, public = self.folder / "key.pem", self.folder / "public.pem"
        run("openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", key)
        run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
        done = self.sign("openssl", key)
        self.assertEqual(done.returncode, 0, done.stderr)
        verify = ["openssl", "dgst", "-sha256", "-verify", public, "-signature", "SHA256SUMS.sig", "SHA256SUMS"]
        self.assertEqual((run(*verify, cwd=self.out).returncode, self.check()), (0, 0))
        (self.out / "elastick.deb").write_bytes(b"another")
        self.assertNotEqual(self.check(), 0)
        sums = self.out / "SHA256SUMS"
        sums.write_text(sums.read_text().replace("a", "b"))
        self.assertNotEqual(run(*verify, cwd=self.out).returncode, 0)

    def test_a_signature_by_gpg_verifies(self):
        if shutil.which("gpg") is None:
            self.skipTest("gpg is not here")
        home = self.folder / "gnupg"
        home.mkdir(mode=0o700)
        self.addCleanup(run, "gpgconf", "--homedir", home, "--kill", "all")
        who = "packages@elastick.invalid"
        made = run("gpg", "--homedir", home, "--batch", "--passphrase", "", "--quick-generate-key", who, "ed25519", "sign")
        self.assertEqual(made.returncode, 0, made.stderr)
        done = self.sign("gpg", who, GNUPGHOME=str(home))
        self.assertEqual(done.returncode, 0, done.stderr)
        verified = run("gpg", "--homedir", home, "--verify", "SHA256SUMS.asc", "SHA256SUMS", cwd=self.out)
        self.assertEqual((verified.returncode, self.check()), (0, 0), verified.stderr)

    def test_signing_again_leaves_no_signature_of_another_kind(self):
        (self.out / "SHA256SUMS.asc").write_text("old")
        key = self.folder / "key.pem"
        run("openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", key)
        self.assertEqual(self.sign("openssl", key).returncode, 0)
        self.assertFalse((self.out / "SHA256SUMS.asc").exists())

    def test_nothing_is_signed_without_packages_or_without_a_key(self):
        self.assertIn("needs a key", self.sign("gpg").stderr)
        self.assertIn('not "pen"', self.sign("pen").stderr)
        for path in self.out.iterdir():
            path.unlink()
        self.assertIn("nothing to sign", self.sign("openssl", "/dev/null").stderr)


class Built(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("dpkg-deb") is None:
            raise unittest.SkipTest("dpkg-deb is not here")
        cls.package = packages.one("*.deb")

    def files(self):
        lines = run("dpkg-deb", "--contents", self.package).stdout.splitlines()
        return {line.split()[-1].lstrip(".") for line in lines if line.startswith("-")}

    def test_the_debian_package_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run("dpkg-deb", "--extract", self.package, folder).returncode, 0)
            done = run(pathlib.Path(folder, "usr/bin/elastick"), "--version")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.access(pathlib.Path(folder, "opt/elastick/bin/elastick-boot"), os.X_OK))
            for unit in ("boot", "tick", "rdb", "announce", "watch", "logs", "server-tick", "server-fleet"):
                self.assertTrue(pathlib.Path(folder, f"usr/lib/systemd/system/elastick-{unit}.service").is_file())
            check = pathlib.Path(folder, "usr/bin/elastick"), "config", "check", pathlib.Path(folder, "etc/elastick/elastick.toml")
            self.assertEqual(run(*check).returncode, 0, run(*check).stderr)

    def test_dpkg_keeps_what_an_operator_changed(self):
        self.assertEqual(set(run("dpkg-deb", "--info", self.package, "conffiles").stdout.split()), KEPT)
        depends = run("dpkg-deb", "--field", self.package, "Depends").stdout
        self.assertRegex(depends, r"^libc6 \(>= 2\.[0-9]+\), ")

    def test_the_rpm_package_holds_the_same_files_and_scripts(self):
        package = packages.one("*.rpm")
        if shutil.which("rpm") is None:
            self.skipTest("rpm is not here: apt-get install rpm")

        def asked(*what):
            return run("rpm", "--query", "--package", "--nosignature", *what, package).stdout

        lines = asked("--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]").splitlines()
        self.assertEqual({line.split()[1] for line in lines if line.startswith("-")}, self.files())
        self.assertEqual(set(asked("--configfiles").split()), KEPT)
        scripts = asked("--queryformat", "%{POSTIN}%{PREUN}%{POSTUN}")
        for name in ("post", "preun", "postun"):
            self.assertIn((PACKAGES / "rpm" / name).read_text().strip(), scripts)


if __name__ == "__main__":
    unittest.main()
