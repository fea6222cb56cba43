"""The systemd units and scripts, checked with systemd's and the shell's own tools."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
SERVER = ROOT / "deploy" / "server"
UNITS = sorted([*SYSTEMD.glob("*.service"), *SERVER.glob("*.service"), *SERVER.glob("*.target")])
SCRIPTS = [
    path
    for folder in ("userdata", "ami", "packages", "systemd")
    for path in sorted((ROOT / "deploy" / folder).rglob("*"))
    if path.is_file() and path.read_bytes().startswith((b"#!/usr/bin/env bash", b"#!/bin/sh", b"#!/bin/bash"))
]
# Maximum exposure of `systemd-analyze security`, times ten. A unit without hardening has 96; one that mounts for the host keeps root and
# the host's mount namespace.
EXPOSURE_MOST = {"tick": 20, "rdb": 20, "announce": 20, "watch": 20, "logs": 20, "boot": 60, "server-tick": 20, "server-fleet": 20}


def needs(tool, package):
    """Skips the test if a tool is missing and cannot be installed."""

    def decorate(test):
        def run(self):
            if shutil.which(tool) is None and os.geteuid() == 0 and shutil.which("apt-get"):
                install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", package]
                subprocess.run(install, capture_output=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not here and could not be installed (Debian: {package})")
            test(self)

        run.__name__ = test.__name__
        return run

    return decorate


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def settings(path):
    """Assignments of a unit, each name with all its values."""
    found = {}
    for line in path.read_text().splitlines():
        name, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


class Units(unittest.TestCase):
    @needs("systemd-analyze", "systemd")
    def test_systemd_finds_no_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            copies = []
            for unit in UNITS:
                # The package installs their executables; here any executable file will do.
                text = re.sub(r"(?m)^(Exec\w+=)\S+", r"\1/bin/true", unit.read_text())
                copy = pathlib.Path(folder) / unit.name
                copy.write_text(text)
                copies.append(copy)
            done = run("systemd-analyze", "verify", "--man=no", *copies)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    @needs("systemd-analyze", "systemd")
    def test_units_are_exposed_little(self):
        for name, most in EXPOSURE_MOST.items():
            with self.subTest(name):
                unit = next(unit for unit in UNITS if unit.name == f"elastick-{name}.service")
                done = run("systemd-analyze", "security", "--offline=true", f"--threshold={most}", "--no-pager", unit)
                self.assertEqual(done.returncode, 0, done.stdout)

    @needs("systemd-sysusers", "systemd")
    def test_the_account_is_made_with_the_number_of_the_access_point(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "etc").mkdir()
            done = run("systemd-sysusers", f"--root={folder}", SYSTEMD / "sysusers.conf")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("elastick:x:5010:5010:", (pathlib.Path(folder) / "etc" / "passwd").read_text())

    @needs("systemd-tmpfiles", "systemd")
    def test_the_mount_point_is_made_and_nobody_may_write_below_the_mount(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("systemd-tmpfiles", "--create", f"--root={folder}", SYSTEMD / "tmpfiles.conf")
            if done.returncode and os.geteuid() != 0:
                self.skipTest("systemd-tmpfiles changes owners, which needs root")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((pathlib.Path(folder) / "efs").stat().st_mode & 0o777, 0o555)

    @needs("systemd-tmpfiles", "systemd")
    def test_the_log_directory_of_a_server_is_for_its_account_alone(self):
        if os.geteuid() != 0:
            self.skipTest("systemd-tmpfiles changes owners, which needs root")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "etc").mkdir()
            run("systemd-sysusers", f"--root={folder}", SYSTEMD / "sysusers.conf")
            done = run("systemd-tmpfiles", "--create", f"--root={folder}", SERVER / "tmpfiles.conf")
            self.assertEqual(done.returncode, 0, done.stderr)
            log = (pathlib.Path(folder) / "var" / "lib" / "elastick" / "log").stat()
            self.assertEqual((log.st_mode & 0o777, log.st_uid), (0o750, 5010))

    def test_what_serves_tells_systemd_that_it_is_ready_and_alive(self):
        for path in (SYSTEMD / "elastick-tick.service", SYSTEMD / "elastick-rdb.service", SERVER / "elastick-server-tick.service"):
            unit = settings(path)
            self.assertEqual((unit["Type"], unit["NotifyAccess"]), (["notify"], ["main"]))
            self.assertGreaterEqual(int(unit["WatchdogSec"][0]), 60)

    def test_paths_are_those_of_the_package(self):
        manifest = (ROOT / "deploy" / "packages" / "nfpm.yaml").read_text()
        for unit in UNITS:
            for command in settings(unit).get("ExecStart", []) + settings(unit).get("ExecStop", []):
                if "elastick" in command.split()[0]:
                    self.assertRegex(manifest, rf"(?m)dst: {command.split()[0]}$", f"{unit.name} runs what no package has")


class Scripts(unittest.TestCase):
    @needs("shellcheck", "shellcheck")
    def test_shellcheck_finds_no_fault(self):
        self.assertIn(ROOT / "deploy" / "userdata" / "elastick-boot", SCRIPTS)
        done = run("shellcheck", *SCRIPTS)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_scripts_stop_at_the_first_error(self):
        for script in SCRIPTS:
            with self.subTest(script.name):
                self.assertRegex(script.read_text(), r"(?m)^set -eu")


if __name__ == "__main__":
    unittest.main()
