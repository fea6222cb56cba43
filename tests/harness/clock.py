"""A settable wall clock for one process, by a small preloaded library (needs a C compiler, as building elastick does)."""

import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).with_name("clock.c")


class Clock:
    """The wall clock of processes started with `environment`."""

    def __init__(self, directory):
        self.offset = directory / "clock.offset"
        self.set(0)
        library = directory / "clock.so"
        subprocess.run(
            [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True, timeout=60
        )
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(self.offset)}

    def set(self, seconds):
        """Sets the offset from the real clock, in seconds."""
        # One write of fixed length, because the process may read at any time.
        text = f"{int(seconds):<24}".encode()
        file = os.open(self.offset, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, text, 0)
        finally:
            os.close(file)
