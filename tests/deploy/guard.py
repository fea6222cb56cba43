"""AWS Control Tower's rules (cfn-guard) on a template with its parameters given.

Control Tower's hooks see resources with their parameters and conditions resolved. cfn-guard alone does not resolve them: it calls a
reference no string and a condition no list.

A rule that fails on a resource has its reason there, beside its name in `Metadata: guard: SuppressedRules`. The template's own
`Metadata: guard: Given` names the rules that pass once a parameter is given.
"""

import json
import os
import pathlib
import platform
import subprocess
import tempfile

from deploy import templates
from deploy.parameters import holds

PACKAGE = pathlib.Path(
    os.environ.get("ELASTICK_GUARD", templates.ROOT / ".venv-deploy" / "node" / "node_modules" / "@cdklabs/cdk-validator-cfnguard")
)
RULES = PACKAGE / "rules" / "control-tower" / "cfn-guard"
PROGRAM = PACKAGE / "bin" / "ubuntu" / platform.machine() / "cfn-guard"
# Templates that elastick.yaml is made of: they have the comments.
PARTS = {"elastick": ("tickerplant", "rdb-cluster")}
# In place of `AWS::NoValue`.
NOTHING = object()


def missing():
    """Why the rules cannot be checked on this machine, or None."""
    if platform.system() != "Linux":
        return "the package's cfn-guard for this system was not tried"
    if not RULES.exists():
        return f"{PACKAGE} is not there; tests/run deploy installs it"
    return None if PROGRAM.exists() else f"the package has no cfn-guard for {platform.machine()}"


def given(name):
    """{parameter: rules that pass once it is given} of a template."""
    found = {}
    for part in PARTS.get(name, (name,)):
        found |= templates.load(part)["Metadata"].get("guard", {}).get("Given", {})
    return found


def suppressed(name):
    """(rule, resource) of each rule that has its reason beside a resource."""
    return {
        (rule, key)
        for key, found in templates.resources(name).items()
        for rule in found.get("Metadata", {}).get("guard", {}).get("SuppressedRules", [])
    }


def resolved(name, parameters):
    """The template as Control Tower sees it: parameters in place of their names, and only what the conditions leave."""
    template = templates.load(name)
    values = {key: str(parameters.get(key, rule.get("Default", ""))) for key, rule in template["Parameters"].items()}
    conditions = {key: holds(condition, values) for key, condition in template["Conditions"].items()}

    def of_parameter(key):
        is_number = template["Parameters"][key]["Type"] == "Number"
        return int(values[key]) if is_number else values[key]

    def resolve(value):
        if isinstance(value, list):
            return [found for found in map(resolve, value) if found is not NOTHING]
        if not isinstance(value, dict):
            return value
        if "Fn::If" in value:
            condition, then, otherwise = value["Fn::If"]
            return resolve(then if conditions[condition] else otherwise)
        if value.get("Ref") == "AWS::NoValue":
            return NOTHING
        if value.get("Ref") in template["Parameters"]:
            return of_parameter(value["Ref"])
        return {key: found for key, inner in value.items() if (found := resolve(inner)) is not NOTHING}

    made = {key: found for key, found in template["Resources"].items() if conditions.get(found.get("Condition"), True)}
    return {"AWSTemplateFormatVersion": template["AWSTemplateFormatVersion"], "Resources": resolve(made)}


def check(template):
    """(rules that pass, {(rule, resource) that fail})."""
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "template.json")
        data.write_text(json.dumps(template))
        command = [PROGRAM, "validate", "--data", data, "--rules", RULES, "--structured", "--output-format", "json"]
        done = subprocess.run([*command, "--show-summary", "none"], capture_output=True, text=True)
    if done.stderr.strip():
        raise AssertionError(f"cfn-guard: {done.stderr}")
    (report,) = json.loads(done.stdout)
    failed = set()
    for found in report["not_compliant"]:
        rule = found["Rule"]
        failed |= {(rule["name"], path.split("/")[2]) for path in paths(rule)}
    return set(report["compliant"]), failed


def paths(rule):
    """Paths of resources in a rule's report."""
    for part in templates.walk(rule):
        if isinstance(part, dict) and str(part.get("path", "")).startswith("/Resources/"):
            yield part["path"]
