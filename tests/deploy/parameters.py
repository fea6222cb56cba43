"""CloudFormation's checks before it creates anything, from its documentation; the API server does not have them.

`refusal` returns the reason for which a template with these parameters is rejected, or None.
"""

import re
from decimal import Decimal, InvalidOperation


def refusal(template, given):
    known = template["Parameters"]
    values = {}
    for name in given:
        if name not in known:
            return f"Parameters: [{name}] do not exist in the template"
    for name, rule in known.items():
        if name not in given and "Default" not in rule:
            return f"Parameters: [{name}] must have values"
        values[name] = str(given.get(name, rule.get("Default")))
        if reason := refused_value(name, rule, values[name]):
            return reason
    for rule in template.get("Rules", {}).values():
        if holds(rule.get("RuleCondition", True), values):
            for assertion in rule["Assertions"]:
                if not holds(assertion["Assert"], values):
                    return assertion["AssertDescription"]
    return None


def refused_value(name, rule, value):
    failed = f"Parameter {name} failed to satisfy constraint"
    if rule["Type"] == "Number":
        try:
            number = Decimal(value)
        except InvalidOperation:
            return f"Parameter '{name}' must be a number"
        if "MinValue" in rule and number < rule["MinValue"]:
            return f"{failed}: Must have value >= {rule['MinValue']}"
        if "MaxValue" in rule and number > rule["MaxValue"]:
            return f"{failed}: Must have value <= {rule['MaxValue']}"
    if "AllowedValues" in rule and value not in [str(allowed) for allowed in rule["AllowedValues"]]:
        return f"{failed}: Must be one of {rule['AllowedValues']}"
    if "AllowedPattern" in rule and not re.fullmatch(rule["AllowedPattern"], value):
        return f"{failed}: {rule.get('ConstraintDescription', 'Must match ' + rule['AllowedPattern'])}"
    if len(value) > rule.get("MaxLength", 4096):
        return f"{failed}: Must have length <= {rule['MaxLength']}"
    return None


def holds(condition, values):
    """Evaluates a rule's condition; supports only the functions allowed in rules."""
    if isinstance(condition, bool):
        return condition
    ((function, arguments),) = condition.items()
    if function == "Fn::Equals":
        left, right = (values[side["Ref"]] if isinstance(side, dict) else str(side) for side in arguments)
        return left == right
    results = [holds(argument, values) for argument in arguments]
    return {"Fn::Not": not results[0], "Fn::And": all(results), "Fn::Or": any(results)}[function]
