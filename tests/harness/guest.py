"""User-Mode Linux guest kernels."""

import os
import subprocess
import tempfile


def no_guest_runs():
    """Why no guest kernel can run a process on this processor, or None.

    User-Mode Linux 6.1 cannot restore the floating-point registers of processors with a larger state than it supports (AMX), and
    kills its first process.
    """
    command = "linux.uml mem=384M root=/dev/root rootfstype=hostfs rootflags=/ ro init=/bin/true con=null con0=null,fd:1"
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "TMPDIR": "/dev/shm", "HOME": home, "PATH": os.environ["PATH"] + ":/usr/bin"}
        try:
            tried = subprocess.run(
                command.split(), env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
            )
        except subprocess.TimeoutExpired:
            return None
    failed = b"set fp regs failed" in tried.stdout + tried.stderr
    return "User-Mode Linux cannot set the floating-point registers of this processor" if failed else None
