"""CloudFormation compares values as texts in conditions; the unpatched server finds that the number 0 is not '0'."""

from moto.cloudformation import parsing


def install():
    parse = parsing.parse_condition

    def parse_condition(condition, resources, conditions):
        if isinstance(condition, dict) and "Fn::Equals" in condition:
            left, right = (str(parsing.clean_json(value, resources)).lower() for value in condition["Fn::Equals"])
            return left == right
        return parse(condition, resources, conditions)

    parsing.parse_condition = parse_condition
