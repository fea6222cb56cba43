#!/usr/bin/env python3
"""Checks the dependencies against deny.toml: with cargo-deny where it is installed, else licences, sources and duplicates by itself.

    tests/supply.py           cargo-deny, or else the check of this file
    tests/supply.py --own     the check of this file

Advisories need cargo-deny and its database. Without either this says that they were not checked.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKEN = re.compile(r"\(|\)|[A-Za-z0-9.+-]+")


def metadata(targets, root=ROOT):
    """Packages of the graph that is built for these targets, with all features."""
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1", "--manifest-path", str(root / "Cargo.toml")]
    for target in targets:
        command += ["--filter-platform", target]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    used = {node["id"] for node in found["resolve"]["nodes"]}
    return [package for package in found["packages"] if package["id"] in used]


def is_allowed(expression, allowed):
    """Whether the allowed licences satisfy an SPDX expression; `/` is the old form of OR. AND binds closer than OR."""
    tokens = TOKEN.findall(expression.replace("/", " OR "))

    def either():
        result = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            result = both() or result
        return result

    def both():
        result = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            result = one() and result
        return result

    def one():
        token = tokens.pop(0)
        if token != "(":
            if tokens and tokens[0] == "WITH":
                token += " WITH " + tokens[1]
                del tokens[:2]
            return token in allowed
        result = either()
        tokens.pop(0)
        return result

    return either()


def is_skipped(package, skipped):
    """Whether the list has this version: `name@1.2` stands for every 1.2.x."""
    names = [crate.partition("@") for crate in skipped]
    return any(name == package["name"] and f"{package['version']}.".startswith(f"{version}.") for name, _, version in names)


def problems(packages, rules):
    """What the rules forbid, one line each."""
    found = []
    allowed = set(rules["licenses"]["allow"])
    registries = {f"registry+{url}" for url in rules["sources"]["allow-registry"]}
    skipped = [entry["crate"] for entry in rules["bans"]["skip"]]
    versions = {}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        licence = package["license"] or ""
        if not licence or not is_allowed(licence, allowed):
            found.append(f"{name}: licence {licence or 'not named'} is not in the list")
        if package["source"] is not None and package["source"] not in registries:
            found.append(f"{name}: from {package['source']}")
        if not is_skipped(package, skipped):
            versions.setdefault(package["name"], []).append(package["version"])
    found += [f"{name}: versions {', '.join(each)}" for name, each in versions.items() if len(each) > 1]
    return found


def own():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    # One target at a time: cargo filters by the last one named.
    packages = {package["id"]: package for target in rules["graph"]["targets"] for package in metadata([target])}
    found = problems(packages.values(), rules)
    print("\n".join(found) or f"{len(packages)} crates: licences, sources and duplicates are as deny.toml says")
    return 1 if found else 0


def main(arguments):
    if arguments == ["--own"]:
        return own()
    if arguments:
        sys.exit(__doc__)
    if shutil.which("cargo-deny") is None:
        print("cargo-deny is not installed (cargo install --locked cargo-deny): advisories are NOT checked")
        return own()
    deny = ["cargo-deny", "--manifest-path", str(ROOT / "Cargo.toml"), "check"]
    if subprocess.run([*deny, "bans", "licenses", "sources"]).returncode:
        return 1
    advisories = subprocess.run([*deny, "advisories"], capture_output=True, text=True)
    if "failed to fetch advisory database" in advisories.stderr:
        print("the advisory database cannot be reached: advisories are NOT checked")
        return 0
    print(advisories.stdout + advisories.stderr)
    return advisories.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
