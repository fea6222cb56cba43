"""Packages: files named in the metadata exist, both packages have the same contents, and built packages install and run."""

import glob
import os
import pathlib
import shutil
import subprocess
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["metadata"]
DEB, RPM = PACKAGE["deb"], PACKAGE["generate-rpm"]
# Output folder of `deploy/packages/build`; the tests build nothing.
BUILT = pathlib.Path(os.environ.get("ELASTICK_PACKAGES", ROOT / "target" / "packages"))


def one(pattern):
    found = sorted(BUILT.glob(pattern))
    if not found:
        raise unittest.SkipTest(f"no {pattern} in {BUILT}: deploy/packages/build makes it, or set ELASTICK_PACKAGES")
    return found[-1]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


class Metadata(unittest.TestCase):
    def test_every_file_exists(self):
        sources = [source for source, _, _ in DEB["assets"]] + [asset["source"] for asset in RPM["assets"]]
        for source in sources:
            # Both tools replace the path's `release` with the profile that deploy/packages/build uses.
            if source != "target/release/elastick":
                self.assertTrue(glob.glob(source, root_dir=ROOT), f"there is no {source}")
        for name in ("post_install_script", "pre_uninstall_script", "post_uninstall_script"):
            self.assertTrue((ROOT / RPM[name]).is_file(), RPM[name])

    def test_both_packages_hold_the_same(self):
        of_deb = {(source, f"/{place}", mode) for source, place, mode in DEB["assets"]}
        of_rpm = {(asset["source"], asset["dest"], asset["mode"]) for asset in RPM["assets"]}
        self.assertEqual(of_deb, of_rpm)

    def test_an_operator_s_changes_are_kept(self):
        schemas = {f"/etc/elastick/schemas/{path.name}" for path in (ROOT / "schemas").glob("*.q")}
        self.assertEqual(set(DEB["conf-files"]), schemas | {"/etc/logrotate.d/elastick"})
        kept = {asset["source"] for asset in RPM["assets"] if asset.get("config") == "noreplace"}
        self.assertEqual(kept, {"schemas/*.q", "deploy/systemd/logrotate.conf"})


class Built(unittest.TestCase):
    def test_the_debian_package_runs(self):
        package = one("*.deb")
        if shutil.which("dpkg-deb") is None:
            self.skipTest("dpkg-deb is not here")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run("dpkg-deb", "--extract", package, folder).returncode, 0)
            done = run(pathlib.Path(folder, "usr/bin/elastick"), "--version")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.access(pathlib.Path(folder, "opt/elastick/bin/elastick-boot"), os.X_OK))
            for unit in ("boot", "tick", "rdb", "announce", "logs"):
                self.assertTrue(pathlib.Path(folder, f"usr/lib/systemd/system/elastick-{unit}.service").is_file())

    def test_the_rpm_package_holds_the_same_files(self):
        deb, package = one("*.deb"), one("*.rpm")
        if shutil.which("rpm") is None or shutil.which("dpkg-deb") is None:
            self.skipTest("rpm and dpkg-deb are not both here")
        listed = set(run("rpm", "-qpl", "--nosignature", package).stdout.split())
        lines = run("dpkg-deb", "--contents", deb).stdout.splitlines()
        files = {line.split()[-1].lstrip(".") for line in lines if line.startswith("-")}
        # Files required by Debian's policy.
        self.assertEqual({name for name in files if not name.endswith(("/copyright", ".gz"))} - listed, set())


if __name__ == "__main__":
    unittest.main()
