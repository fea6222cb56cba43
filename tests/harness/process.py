"""An elastick process: start, wait for output, monitor, stop or kill it with its children."""

import contextlib
import fcntl
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import tempfile
import time

from .client import KdbError

ROOT = pathlib.Path(__file__).parents[2]
# Only a failing test reaches it. A loaded machine needs tens of seconds for what takes one when it is idle.
DEADLINE_S = 120
LISTENING = re.compile(r"listening on \S*?(\d+)\b")


def binary():
    """The elastick binary under test."""
    path = pathlib.Path(os.environ.get("ELASTICK_BIN", ROOT / "target" / "debug" / "elastick"))
    if not path.exists():
        raise FileNotFoundError(f"{path} is not built; tests/run builds it, or set ELASTICK_BIN")
    return path


def eventually(check, what, deadline_s=DEADLINE_S, on_failure=lambda: ""):
    """Polls until `check` returns a true value, and returns that; fails with `what` after the deadline.

    An error reply counts as "not yet": a node that has not joined has no tables.
    """
    end = time.monotonic() + deadline_s
    pause = 0.002
    while True:
        try:
            seen = check()
        except KdbError as error:
            seen, failed = error, True
        else:
            failed = False
        if seen and not failed:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}; last seen {seen!r}{on_failure()}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def soon(check, within_s):
    """Polls until `check` returns a true value or the time is over. Returns whether it did."""
    end = time.monotonic() + within_s
    while not (seen := check()) and time.monotonic() < end:
        time.sleep(0.005)
    return bool(seen)


class Process:
    """One running command. Its output goes to a file, so that it never blocks on a pipe."""

    def __init__(self, name, arguments, directory, environment=None, wrapper=(), program=None):
        self.name = name
        self.arguments = [str(a) for a in arguments]
        self.output_path = pathlib.Path(directory) / f"{name}.out"
        self.output_file = self.output_path.open("ab")
        self.printed_before = self.output_path.stat().st_size
        self.popen = subprocess.Popen(
            [*wrapper, program or binary(), *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.output_file,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, "RUST_BACKTRACE": "1", **(environment or {})},
            start_new_session=True,
        )
        self._port = None

    @property
    def pid(self):
        return self.popen.pid

    @property
    def port(self):
        """The port from its `listening on` line; waits for the line."""
        if self._port is None:
            self._port = int(self.wait_for(LISTENING).group(1))
        return self._port

    def printed(self):
        """The output of this run so far."""
        return self.output_path.read_bytes()[self.printed_before :].decode("utf-8", "replace")

    def wait_for(self, pattern, deadline_s=DEADLINE_S):
        """Waits until its output matches a pattern; fails if the process exits before."""
        pattern = re.compile(pattern)

        def found():
            match = pattern.search(self.printed())
            if match is None and self.popen.poll() is not None:
                match = pattern.search(self.printed())
                if match is None:
                    raise AssertionError(f"{self.name} ended before printing {pattern.pattern!r}{self.tail()}")
            return match

        return eventually(found, f"{self.name} prints {pattern.pattern!r}", deadline_s, self.tail)

    def tail(self, lines=15):
        """The end of its output, for failure messages."""
        last = "\n".join("    " + line for line in self.printed().splitlines()[-lines:])
        return f"\n  {self.name} ({' '.join(self.arguments)}), exit code {self.popen.poll()}, printed:\n{last}"

    def is_running(self):
        return self.popen.poll() is None

    def memory_bytes(self, field="VmRSS"):
        """Current resident memory, or its peak with `VmHWM`."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+) kB", status).group(1)) * 1024

    def signal(self, number):
        """Sends a signal to this process only, not to its children."""
        if self.is_running():
            self.popen.send_signal(number)

    def pause(self):
        self.signal(signal.SIGSTOP)
        # The signal reaches the threads one by one; until then one of them may go on.
        eventually(self.is_paused, f"all threads of {self.name} are stopped")

    def is_paused(self):
        """Whether it is stopped, by `pause` or by itself at a failpoint."""
        states = []
        for stat in pathlib.Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                states.append(stat.read_text().rsplit(")", 1)[1].split()[0])
        return all(state in "TtZX" for state in states)

    def resume(self):
        self.signal(signal.SIGCONT)

    def wait(self, deadline_s=DEADLINE_S):
        """Waits for the exit and returns the exit code."""
        try:
            return self.popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {deadline_s} s{self.tail()}") from None

    def terminate(self):
        """Sends SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        """Sends SIGKILL to the process and its children."""
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()

    def close(self):
        self.kill()
        self.output_file.close()


def reserve_port():
    """A free port, this test's until its process ends: several test classes run at a time. It is outside the range of ephemeral ports,
    so that no connection gets it by chance while its listener is restarted."""
    first_given_out = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    locks = pathlib.Path(tempfile.gettempdir()) / f"elastick-ports-{os.getuid()}"
    locks.mkdir(exist_ok=True)
    while True:
        port = secrets.choice(range(first_given_out // 2, first_given_out))
        # Held open until this process ends.
        lock = os.open(locks / str(port), os.O_RDWR | os.O_CREAT)
        with socket.socket() as sock, contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sock.bind(("127.0.0.1", port))
            return port
        os.close(lock)