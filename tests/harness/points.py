"""The binary with failpoints (feature `points`), and the list of its failpoints."""

import os
import pathlib
import subprocess

from .process import ROOT

BUILT = "target/debug/elastick-points"


def binary():
    """The elastick binary with failpoints, or None if it is not built; tests/run builds it."""
    path = pathlib.Path(os.environ.get("ELASTICK_POINTS_BIN", ROOT / BUILT))
    return path if path.exists() else None


def listed():
    """Every failpoint as (program, name), in the order of the list."""
    out = subprocess.run([binary(), "points"], check=True, capture_output=True, text=True).stdout
    return [tuple(line.split()) for line in out.splitlines()]


def environment(name, nth=1, action="kill"):
    """Environment variables that arm a failpoint of a process."""
    return {"ELASTICK_POINT": f"{name} {nth} {action}"}
