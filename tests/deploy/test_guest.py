"""The units under a real systemd: a guest kernel boots a minimal Debian with elastick's files; for those of AWS, with a fake metadata
service and NFS.

The guest is User-Mode Linux: its systemd is process 1, and this machine is not changed. guest/day.py has the steps of an EC2 instance,
guest/server.py those of one server, which are the commands of deploy/server/README.md: they install the Debian package, upgrade it and remove it.
The minimal Debian is created once, in .cache/guest; each class has a copy, so that both run at a time.
"""

import contextlib
import fcntl
import os
import pathlib
import platform
import shutil
import subprocess
import unittest

from harness.guest import no_guest_runs

from . import packages

ROOT = pathlib.Path(__file__).parents[2]
SYSTEM = ROOT / ".cache" / "guest"
MODULES = pathlib.Path("/usr/lib/uml/modules")
PACKAGES = "systemd,systemd-sysv,dbus,curl,gawk,nfs-common,nfs-kernel-server,util-linux,iproute2,kmod,python3-minimal"
BOOT_WITHIN_S = 900


def missing():
    """Why no guest can run on this machine, or None."""
    if os.geteuid() != 0:
        return "needs root"
    if platform.machine() != "x86_64":
        return "User-Mode Linux is made for x86-64"
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian":
        return f"the guest's system is this one's, which is no Debian but {release.get('ID')}"
    tools = {"linux.uml": "user-mode-linux", "debootstrap": "debootstrap"}
    wanted = [package for tool, package in tools.items() if shutil.which(tool) is None]
    if wanted:
        install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *wanted]
        subprocess.run(install, capture_output=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    lacking = [package for tool, package in tools.items() if shutil.which(tool) is None]
    if lacking:
        return f"not here and not to be installed: {', '.join(lacking)}"
    return packages.missing() or no_guest_runs()


@contextlib.contextmanager
def alone():
    """Lets one process at a time install tools and create the minimal Debian."""
    SYSTEM.parent.mkdir(exist_ok=True)
    with (SYSTEM.parent / "guest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def bare_system():
    """Creates the minimal Debian. Returns the reason if that fails, else None."""
    if (SYSTEM / "etc" / "made").exists():
        return None
    shutil.rmtree(SYSTEM, ignore_errors=True)
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, SYSTEM],
        capture_output=True,
        text=True,
    )
    if made.returncode:
        return f"debootstrap: {made.stdout.strip().splitlines()[-1:]}"
    (SYSTEM / "etc" / "made").touch()
    return None


class Guest(unittest.TestCase):
    TAKES_S = 200

    def setUp(self):
        with alone():
            why = missing() or bare_system()
        if why:
            self.skipTest(f"no guest with a systemd of its own: {why}")
        self.root = SYSTEM.with_name(f"guest-{type(self).__name__.lower()}")
        if not (self.root / "etc" / "copied").exists():
            shutil.rmtree(self.root, ignore_errors=True)
            subprocess.run(["cp", "--archive", "--reflink=auto", SYSTEM, self.root], check=True)
            (self.root / "etc" / "copied").touch()

    def place(self, program, *files):
        """Removes what an earlier run left of elastick, and places the guest's boot program with its files."""
        self.dpkg("--purge", "elastick")
        etc = self.root / "etc"
        for left in (etc / "elastick", self.root / "opt" / "elastick", self.root / "var" / "lib" / "elastick", self.root / "var" / "backups" / "elastick"):
            shutil.rmtree(left, ignore_errors=True)
        for left in [*(etc / "systemd" / "system").glob("elastick-*"), *(etc / "logrotate.d").glob("elastick*")]:
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        shutil.copytree(MODULES, self.root / "lib" / "modules", dirs_exist_ok=True)
        (self.root / "etc" / "fstab").write_text("")
        inside = self.root / "root" / "guest"
        shutil.rmtree(inside, ignore_errors=True)
        inside.mkdir()
        here = pathlib.Path(__file__).parent
        for path in (here / "guest" / program, here / "guest" / "steps.py", *files):
            shutil.copy(path, inside)
        unit = "[Unit]\nAfter=basic.target dbus.service\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\n"
        unit += f"ExecStart=/usr/bin/python3 /root/guest/{program}\nStandardOutput=file:/root/guest/said\nStandardError=inherit\n"
        (self.root / "etc" / "systemd" / "system" / "day.service").write_text(unit)
        wants = self.root / "etc" / "systemd" / "system" / "multi-user.target.wants"
        wants.mkdir(exist_ok=True)
        for name in [*wants.glob("nfs-*"), *wants.glob("elastick-*")]:
            name.unlink()
        (wants / "day.service").unlink(missing_ok=True)
        (wants / "day.service").symlink_to("/etc/systemd/system/day.service")

    def dpkg(self, *arguments):
        """Runs dpkg on the guest's system, which is not running."""
        return subprocess.run(["dpkg", f"--root={self.root}", *arguments], capture_output=True, text=True)

    def boot(self):
        """Runs the guest until it powers off. Every step must be ok."""
        kernel = ["linux.uml", "mem=1G", f"umid=elastick-{self.root.name}", "root=/dev/root", "rootfstype=hostfs", f"rootflags={self.root}"]
        kernel += ["rw", "con=null", "con0=null,fd:1", "loglevel=3", "systemd.unit=multi-user.target"]
        done = subprocess.run(
            kernel,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BOOT_WITHIN_S,
            env={**os.environ, "TMPDIR": "/dev/shm"},
        )
        path = self.root / "root" / "guest" / "said"
        said = path.read_text(errors="replace") if path.exists() else f"the guest said nothing:\n{done.stdout[-4000:]}"
        self.assertIn("all steps are done", said, said)
        print("\n" + "\n".join(line for line in said.splitlines() if line.startswith("ok ")))


class Instance(Guest):
    def test_an_instance_from_its_tags_to_its_end(self):
        package = packages.one("*.deb")
        self.place("day.py", pathlib.Path(__file__).parent / "metadata.py")
        done = self.dpkg("--install", str(package))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.boot()


class Server(Guest):
    def test_one_server_by_the_commands_of_its_page(self):
        package = packages.one("*.deb")
        self.place("server.py", ROOT / "deploy" / "server" / "README.md")
        downloads = self.root / "root" / "guest" / "downloads"
        downloads.mkdir()
        shutil.copy(package, downloads)
        packages.next_version(package, self.root / "root" / "guest" / "next")
        self.boot()


if __name__ == "__main__":
    unittest.main()
