"""Resources that a change of a parameter replaces, from the resource type schemas of cfn-lint.

`python -m deploy.replacements` prints them for every parameter of elastick.yaml; a test compares the guide's table with them.
"""

import functools
import json
import pathlib
import re

from deploy import templates


@functools.cache
def create_only(kind):
    """Create-only properties of a resource type, as paths of names."""
    import cfnlint

    folder = pathlib.Path(cfnlint.__file__).parent / "data" / "schemas"
    kinds = json.loads((folder / "providers" / "us-east-1.json").read_text())
    schema = json.loads((folder / "resources" / f"{kinds[kind]}.json").read_text())
    paths = schema.get("createOnlyProperties", [])
    return {path.removeprefix("/properties/").split("/")[0] for path in paths}


def mentions(value, conditions):
    """Names on which an expression depends, also through conditions."""
    found = set()
    for part in templates.walk(value):
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("Ref"), str):
            found.add(part["Ref"])
        if "Fn::GetAtt" in part:
            found.add(part["Fn::GetAtt"][0])
        if "Fn::If" in part:
            found |= mentions(conditions[part["Fn::If"][0]], conditions)
        if "Fn::Sub" in part:
            text = part["Fn::Sub"] if isinstance(part["Fn::Sub"], str) else part["Fn::Sub"][0]
            found |= set(re.findall(r"\$\{(\w+)\}", text))
    return found


def effect(template, parameter):
    """(replaced, updated in place, created or deleted) resources of a change of a parameter."""
    conditions = template.get("Conditions", {})
    replaced, updated, switched = set(), set(), set()
    while True:
        before = len(replaced), len(updated)
        for key, resource in template["Resources"].items():
            if "Condition" in resource and parameter in mentions(conditions[resource["Condition"]], conditions):
                switched.add(key)
            for name, value in resource.get("Properties", {}).items():
                if mentions(value, conditions) & (replaced | {parameter}):
                    (replaced if name in create_only(resource["Type"]) else updated).add(key)
        if before == (len(replaced), len(updated)):
            return replaced, updated - replaced, switched


def main():
    template = templates.load("elastick")
    for parameter in sorted(template["Parameters"]):
        replaced, updated, switched = (", ".join(sorted(part)) or "-" for part in effect(template, parameter))
        print(f"{parameter}\n  replaced: {replaced}\n  updated: {updated}\n  made or ended: {switched}")


if __name__ == "__main__":
    main()
