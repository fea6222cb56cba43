"""A program on a pseudo-terminal: typed input, and the screen's output."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from .process import DEADLINE_S, binary

# Control sequences: cursor movement, colours, terminal modes.
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")


class Terminal:
    """One process whose standard streams are a terminal."""

    def __init__(self, arguments, rows=25, columns=80, environment=None, echo=True):
        self.master, slave = pty.openpty()
        if not echo:
            settings = termios.tcgetattr(slave)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, settings)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

        def own_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        settings = {**os.environ, "TERM": "xterm", **(environment or {})}
        self.popen = subprocess.Popen([binary(), *arguments], stdin=slave, stdout=slave, stderr=slave,
                                      close_fds=True, preexec_fn=own_terminal, env=settings)
        os.close(slave)
        self.seen = b""
        self.read_to = 0

    def type(self, text):
        os.write(self.master, text.encode())

    def interrupt(self):
        """Types Ctrl-C."""
        self.type("\x03")

    def _more(self, end):
        ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
        if not ready:
            return False
        try:
            got = os.read(self.master, 65536)
        except OSError:
            got = b""
        self.seen += got
        return bool(got)

    def wait_for(self, text):
        """Reads until `text` appears after the last wait. Returns the output before it, without control sequences."""
        end = time.monotonic() + DEADLINE_S
        while True:
            shown = CONTROL.sub(b"", self.seen[self.read_to:])
            at = shown.find(text.encode())
            if at >= 0:
                # Marks the raw bytes as read, up to the end of the text.
                raw, plain = self.read_to, b""
                while not plain.endswith(text.encode()) or len(plain) < at + len(text.encode()):
                    raw += 1
                    plain = CONTROL.sub(b"", self.seen[self.read_to:raw])
                self.read_to = raw
                return shown[:at].decode("utf-8", "replace")
            if not self._more(end):
                raise AssertionError(f"not shown within {DEADLINE_S} s: {text!r}; seen {shown!r}")

    def ended(self):
        """Waits for the exit and returns the exit code."""
        end = time.monotonic() + DEADLINE_S
        while self.popen.poll() is None:
            if time.monotonic() > end:
                raise AssertionError(f"has not ended; seen {self.seen[-400:]!r}")
            self._more(time.monotonic() + 0.02)
        return self.popen.returncode

    def close(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGKILL)
            self.popen.wait()
        os.close(self.master)
