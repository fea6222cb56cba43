"""A wall clock that a test sets, for one process: a small library is preloaded into it (needs a C compiler, as building elastick does)."""

import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).with_name("clock.c")


class Clock:
    """The clock of processes that are started with `environment`."""

    def __init__(self, directory):
        self.offset = directory / "clock.offset"
        self.set(0)
        library = directory / "clock.so"
        subprocess.run(
            [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True, timeout=60
        )
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(self.offset)}

    def set(self, seconds):
        """Off by so many seconds from now on."""
        # One write of a fixed length, for the process reads at any time.
        text = f"{int(seconds):<24}".encode()
        file = os.open(self.offset, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, text, 0)
        finally:
            os.close(file)
