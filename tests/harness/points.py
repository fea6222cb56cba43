"""The binary with named points of the protocol (feature `points`), and the points that it lists."""

import os
import pathlib
import subprocess

from .process import ROOT

BUILT = "target/debug/elastick-points"


def binary():
    """The elastick whose points can be armed, or None if it is not built; tests/run builds it."""
    path = pathlib.Path(os.environ.get("ELASTICK_POINTS_BIN", ROOT / BUILT))
    return path if path.exists() else None


def listed():
    """Every point as (program, name), in the order of the list."""
    out = subprocess.run([binary(), "points"], check=True, capture_output=True, text=True).stdout
    return [tuple(line.split()) for line in out.splitlines()]


def environment(name, nth=1, action="kill"):
    """What arms a point of a process."""
    return {"ELASTICK_POINT": f"{name} {nth} {action}"}
