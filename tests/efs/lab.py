"""The lab: an NFSv4.1 server with the features of EFS, and kernels that mount it, on a private network.

The server is nfs-ganesha without delegations; a guest is a User-Mode Linux kernel, so it has the same NFS client as an EC2
instance. The host's root is the guest's root (hostfs, read-only), so a guest runs the host's binaries by their paths.
Everything runs in a network namespace of the test process and ends with it.
"""

import atexit
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from harness.guest import no_guest_runs

HERE = pathlib.Path(__file__).parent
PACKAGES = "nfs-ganesha nfs-ganesha-vfs user-mode-linux kmod busybox-static nfs-common ethtool iproute2".split()
TOOLS = "ganesha.nfsd linux.uml modprobe busybox mount.nfs4 ethtool ip".split()
SERVER = "10.99.0.1"
AGENT_PORT = 7000
EFS = "/mnt/efs"
# Mount options that AWS documents for EFS and amazon-efs-utils uses.
DEFAULTS = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport"
# Mount options that the guide recommends: see README.md here.
OF_TICKERPLANT = f"{DEFAULTS},noatime,lookupcache=positive"
OF_NODES = f"{DEFAULTS},ro,noatime,lookupcache=positive,actimeo=1"
# Lease: the server drops the locks of a client after this time without contact.
LEASE_S = 10
BOOT_S = 120

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def missing():
    """Why the lab cannot run on this machine, or None. Installs packages if possible."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return "User-Mode Linux runs on x86-64 Linux"
    if os.geteuid() != 0:
        return "taps, bridges and guests need root"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    if _absent():
        _install()
    absent = _absent()
    if absent:
        return f"missing: {', '.join(absent)} (packages {' '.join(PACKAGES)})"
    return no_guest_runs()


def _absent():
    absent = [tool for tool in TOOLS if shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/sbin") is None]
    return absent if absent or _modules() else ["modules of User-Mode Linux"]


def _install():
    if shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            print(f"{' '.join(command)}: {(done.stdout + done.stderr)[-400:]}", file=sys.stderr)


def _modules():
    """Module folder of the newest guest kernel."""
    found = sorted(pathlib.Path("/usr/lib/uml/modules").glob("*"))
    return found[-1] if found else None


def _with_us():
    """In a child process: exit together with the tests."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _without_offload(device):
    # Disable segmentation offload: unsegmented packets are lost on the way into a guest, and large reads would hang.
    subprocess.run(["ethtool", "-K", device, *"tso off gso off gro off tx off sg off".split()], capture_output=True)


class Lab:
    """Server and guests; one per test process, started on first use."""

    _one = None

    @classmethod
    def get(cls):
        """The lab; skips the test if it cannot run."""
        if cls._one is None:
            reason = missing()
            if reason:
                print(f"the log on EFS is not shown: {reason}")
            cls._one = reason if reason else cls()
        if isinstance(cls._one, str):
            raise unittest.SkipTest(cls._one)
        return cls._one

    def __init__(self):
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="elastick-efs-"))
        self.export = self.directory / "export"
        self.work = self.directory / "work"
        for made in (self.export, self.work, self.directory / "recov"):
            made.mkdir()
            made.chmod(0o777)
        self.guests = {}
        self.children = []
        atexit.register(self.close)
        if libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "no network namespace")
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "br0", "type", "bridge")
        _ip("addr", "add", f"{SERVER}/24", "dev", "br0")
        _ip("link", "set", "br0", "up")
        _without_offload("br0")
        modules = self.directory / "modules" / "lib" / "modules"
        modules.mkdir(parents=True)
        (modules / _modules().name).symlink_to(_modules())
        self.server = None
        self.start_server()

    def pause_server(self):
        """Pauses the server, as in an outage of the file system."""
        self.server.send_signal(signal.SIGSTOP)
        # One thread receives the signal first; until it is scheduled on a busy machine, the other threads keep serving.
        self._until(lambda: _stands_still(self.server.pid), "the NFS server is stopped", self.server)

    def resume_server(self):
        self.server.send_signal(signal.SIGCONT)

    def restart_server(self):
        """Restarts the server: clients reclaim their open files and locks."""
        os.killpg(self.server.pid, signal.SIGKILL)
        self.server.wait()
        self.start_server()

    def start_server(self):
        """Starts the NFS server with the features of EFS: 4.1 only, no delegations, advisory locks, a lease."""
        configuration = self.directory / "ganesha.conf"
        configuration.write_text(
            f"""NFS_CORE_PARAM {{ Protocols = 4; Bind_addr = {SERVER}; NFS_Port = 2049; Enable_NLM = false;
                   Enable_RQUOTA = false; Enable_UDP = false; Nb_Worker = 8; }}
                NFSv4 {{ Minor_Versions = 1; RecoveryBackend = fs; RecoveryRoot = {self.directory}/recov;
                   Grace_Period = 5; Lease_Lifetime = {LEASE_S}; Delegations = false; }}
                MDCACHE {{ Dir_Chunk = 0; }}
                EXPORT_DEFAULTS {{ Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Attr_Expiration_Time = 0; }}
                EXPORT {{ Export_Id = 1; Path = {self.export}; Pseudo = /; Protocols = 4; Transports = TCP;
                   FSAL {{ Name = VFS; }} }}
                LOG {{ Default_Log_Level = EVENT; }}
            """
        )
        log = self.directory / "ganesha.log"
        command = ["ganesha.nfsd", "-F", "-f", configuration, "-L", log, "-p", self.directory / "ganesha.pid"]
        self.server = self._child(command, "ganesha")
        self._until(lambda: _connects(SERVER, 2049), "the NFS server listens", self.server)

    def _child(self, command, name, environment=None):
        output = (self.directory / f"{name}.out").open("ab")
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            preexec_fn=_with_us,
            start_new_session=True,
        )
        output.close()
        child.output = self.directory / f"{name}.out"
        self.children.append(child)
        return child

    def _until(self, check, what, child):
        end = time.monotonic() + BOOT_S
        while not check():
            if child.poll() is not None or time.monotonic() > end:
                printed = child.output.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{what}: not so; exit code {child.poll()}\n{printed}")
            time.sleep(0.05)

    def guest(self, name, options=OF_NODES):
        """A running guest that has the file system mounted with these options."""
        self.resume_server()
        guest = self.guests.get(name)
        if guest is None:
            guest = self.guests[name] = Guest(self, name, 11 + len(self.guests))
        guest.heal()
        guest.mount(options)
        return guest

    def close(self):
        for child in reversed(self.children):
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        self.children.clear()
        shutil.rmtree(self.directory, ignore_errors=True)


class Guest:
    """A kernel with an address, a mount, and processes."""

    def __init__(self, lab, name, number):
        self.lab, self.name, self.address = lab, name, f"10.99.0.{number}"
        self.tap = f"tap{number}"
        self.options = None
        _ip("tuntap", "add", "dev", self.tap, "mode", "tap")
        _ip("link", "set", self.tap, "master", "br0", "up")
        _without_offload(self.tap)
        init = lab.directory / f"init.{name}"
        init.write_text(
            f"""#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run; mount -t tmpfs mnt /mnt
mkdir -p {EFS} /mnt/work; mount -t hostfs -o {lab.work} none /mnt/work
ip link set lo up; ip link set vec0 up; ip addr add {self.address}/24 dev vec0
modprobe -d {lab.directory}/modules nfsv4
hostname {name}
exec {sys.executable} {HERE}/agent.py {AGENT_PORT}
"""
        )
        init.chmod(0o755)
        umid = f"{lab.directory.name}-{name}"
        command = f"linux.uml mem=384M umid={umid} root=/dev/root rootfstype=hostfs rootflags=/ ro init={init} con=null \
con0=null,fd:1 quiet loglevel=0 vec0:transport=tap,ifname={self.tap},vec=0"
        self.kernel = lab._child(command.split(), f"guest-{name}", {"TMPDIR": "/dev/shm", "HOME": str(lab.directory)})
        lab._until(lambda: _connects(self.address, AGENT_PORT), f"guest {name} answers", self.kernel)

    def ask(self, what, within_s=180, **arguments):
        """Sends a request to the guest's agent; returns the reply."""
        with socket.create_connection((self.address, AGENT_PORT), timeout=within_s) as sock:
            sock.sendall(json.dumps([what, arguments]).encode() + b"\n")
            answer = json.loads(sock.makefile("rb").readline())
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {what} {arguments}: {answer['error']}")
        return answer["value"]

    def run(self, command, deadline_s=120):
        """Runs a shell command, which must succeed; returns its output."""
        code, output = self.ask("run", within_s=deadline_s + 60, command=command, deadline_s=deadline_s)
        if code != 0:
            raise RuntimeError(f"{self.name}: {command}: exit code {code}: {output}")
        return output

    def mount(self, options):
        """Remounts with these options, which drops all caches."""
        if self.options is not None:
            self.run(f"umount -f -l {EFS}")
        self.run(f"mount -t nfs4 -o {options} {SERVER}:/ {EFS}")
        self.options = options

    def cut_off(self):
        """Disconnects this guest in both directions."""
        _ip("link", "set", self.tap, "nomaster")

    def heal(self):
        _ip("link", "set", self.tap, "master", "br0")


def _stands_still(pid):
    """Whether all threads of a process are stopped."""
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return all((thread / "stat").read_text().rpartition(") ")[2].startswith("T") for thread in threads)


def _connects(host, port):
    try:
        socket.create_connection((host, port), timeout=1).close()
        return True
    except OSError:
        return False
