"""Loads the templates: YAML with CloudFormation's short forms expanded."""

import functools
import pathlib

import yaml

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "cloudformation"
NAMES = ("elastick", "tickerplant", "rdb-cluster", "lease")


def path(name):
    return FOLDER / f"{name}.yaml"


class Loader(yaml.SafeLoader):
    """Reads `!Ref x` as {"Ref": "x"} and `!Any x` as {"Fn::Any": x}."""

    def short_form(self, suffix, node):
        if isinstance(node, yaml.ScalarNode):
            value = self.construct_scalar(node)
        elif isinstance(node, yaml.SequenceNode):
            value = self.construct_sequence(node, deep=True)
        else:
            value = self.construct_mapping(node, deep=True)
        if suffix == "GetAtt" and isinstance(value, str):
            value = value.split(".", 1)
        return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


Loader.add_multi_constructor("!", Loader.short_form)


@functools.cache
def load(name):
    return yaml.load(path(name).read_text(), Loader)


def resources(name, kind=None):
    """{logical id: resource} of a type, or of all."""
    return {key: found for key, found in load(name)["Resources"].items() if kind in (None, found["Type"])}


def walk(value):
    """Yields the value and every dict, list and scalar inside it."""
    yield value
    if isinstance(value, dict):
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def tags(group):
    """{key: value} of the tags that a group propagates to its instances."""
    return {tag["Key"]: tag["Value"] for tag in group["Properties"]["Tags"] if tag["PropagateAtLaunch"]}
