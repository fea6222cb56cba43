"""Authorisation: identifies the caller and evaluates the policies of its role like IAM.

A call signed with credentials from an instance's metadata comes from that instance; any other comes from the operator, who may
do everything. The server's own enforcement fails on the policies of the template.
"""

import fnmatch
import json
import re

from moto.autoscaling.models import autoscaling_backends
from moto.ec2 import ec2_backends
from moto.iam.models import iam_backends

ACCOUNT = "123456789012"
# Service names in signatures, and in policies.
POLICY_NAMES = {"monitoring": "cloudwatch", "email": "ses"}


def access_key(instance_id):
    """The access key of an instance's credentials: 20 characters, from its id."""
    return "ASIA" + instance_id.removeprefix("i-")[-16:].upper()


def instances():
    for regions in list(ec2_backends[ACCOUNT].values()) if ACCOUNT in ec2_backends else []:
        for reservation in list(regions.reservations.values()):
            yield from reservation.instances


def caller(key):
    """The instance that has this access key, or None for the operator."""
    return next((instance for instance in instances() if access_key(instance.id) == key), None)


def group_state(instance_id):
    for regions in list(autoscaling_backends.values()):
        for backend in list(regions.values()):
            for group in backend.autoscaling_groups.values():
                for state in group.instance_states:
                    if state.instance_id == instance_id:
                        return group, state
    return None, None


def launch_data(instance_id):
    """Launch template data of the instance; the server applies only some of it."""
    group, _ = group_state(instance_id)
    if group is None or group.ec2_launch_template is None:
        return {}
    return group.ec2_launch_template.get_version(group.launch_template_version).data


def associated_profile(instance):
    """The profile of an instance that no group launched."""
    association = instance.ec2_backend.iam_instance_profile_associations.get(instance.id)
    return association.iam_instance_profile.name if association else None


def role_of(instance):
    """The role of the instance's profile, or None."""
    wanted = getattr(instance, "profile_name", None)
    if wanted is None:
        profile = launch_data(instance.id).get("IamInstanceProfile") or {}
        wanted = profile.get("Name") or str(profile.get("Arn", "")).rsplit("/", 1)[-1] or associated_profile(instance)
        # Cached, because an instance keeps its role after it has left its group.
        instance.profile_name = wanted
    backend = iam_backends[ACCOUNT]["aws"]
    for profile in backend.instance_profiles.values():
        if profile.name == wanted and profile.roles:
            return profile.roles[0]
    return None


def statements(role):
    documents = list(role.policies.values()) + [policy.document for policy in role.managed_policies.values()]
    for document in documents:
        document = json.loads(document) if isinstance(document, str) else document
        found = document.get("Statement", [])
        # The server keeps a None where CloudFormation leaves out `AWS::NoValue`.
        yield from filter(None, found) if isinstance(found, list) else [found]


def as_list(value):
    return value if isinstance(value, list) else [value]


def like(pattern, text):
    """Matches IAM's wildcards * and ?; brackets are literal."""
    return fnmatch.fnmatchcase(text, re.sub(r"\[", "[[]", str(pattern)))


OPERATORS = {
    "StringEquals": lambda wanted, found: wanted == found,
    "StringLike": like,
    "ArnLike": like,
    "ArnEquals": like,
    "Bool": lambda wanted, found: str(wanted).lower() == str(found).lower(),
}


def condition_holds(condition, facts):
    for operator, pairs in (condition or {}).items():
        quantifier, _, simple = operator.rpartition(":")
        test = OPERATORS[simple.removesuffix("IfExists")]
        for key, wanted in pairs.items():
            found = next((value for name, value in facts.items() if name.lower() == key.lower()), None)
            if found is None:
                # A ForAllValues condition holds if there are no values.
                if simple.endswith("IfExists") or quantifier == "ForAllValues":
                    continue
                return False
            wanted = [substitute(value, facts) for value in as_list(wanted)]
            hits = [any(test(value, one) for value in wanted) for one in as_list(found)]
            if not (any(hits) if quantifier == "ForAnyValue" else all(hits)):
                return False
    return True


def substitute(value, facts):
    """Policy variables, `${aws:...}`."""
    return re.sub(r"\$\{([^}]+)\}", lambda match: str(facts.get(match.group(1), "")), str(value))


def target(call):
    """(resource, facts) of a call: the changed resource, and the values for conditions."""
    facts = {"aws:RequestedRegion": call["region"]}
    params = call["params"]
    if call["service"] == "monitoring":
        facts["cloudwatch:namespace"] = params.get("Namespace", "")
    if call["action"] == "ChangeResourceRecordSets":
        key = "route53:ChangeResourceRecordSets"
        facts |= {f"{key}NormalizedRecordNames": params["Name"], f"{key}RecordTypes": params["Type"]}
        facts |= {f"{key}Actions": params["Action"]}
        return f"arn:aws:route53:::hostedzone/{params['HostedZoneId']}", facts
    if call["service"] == "dynamodb":
        return f"arn:aws:dynamodb:{call['region']}:{ACCOUNT}:table/{params.get('TableName')}", facts
    if call["service"] == "secretsmanager":
        return params["SecretId"], facts
    changes = not call["action"].startswith(("Describe", "Get", "List"))
    if call["service"] != "autoscaling" or not changes:
        return "*", facts
    name = params.get("AutoScalingGroupName")
    if not name and params.get("InstanceId"):
        group, _ = group_state(params["InstanceId"])
        name = group.name if group else ""
    group = autoscaling_backends[ACCOUNT][call["region"]].autoscaling_groups.get(name)
    if group is None:
        return f"arn:aws:autoscaling:{call['region']}:{ACCOUNT}:autoScalingGroup:*:autoScalingGroupName/{name}", facts
    for tag in group.tags:
        facts[f"aws:ResourceTag/{tag['Key']}"] = facts[f"autoscaling:ResourceTag/{tag['Key']}"] = tag["Value"]
    return group.arn, facts


def allowed(role, action, resource, facts):
    verdict = False
    for statement in statements(role):
        named = any(like(pattern.lower(), action.lower()) for pattern in as_list(statement.get("Action", [])))
        fits = any(like(substitute(pattern, facts), resource) for pattern in as_list(statement.get("Resource", "*")))
        # A call without a resource needs a statement for all resources.
        if named and fits and condition_holds(statement.get("Condition"), facts):
            if statement["Effect"] == "Deny":
                return False
            verdict = True
    return verdict


def refusal(call):
    """IAM's error text if the caller must not make this call, else None."""
    instance = caller(call["key"])
    if instance is None:
        return None
    role = role_of(instance)
    service = POLICY_NAMES.get(call["service"], call["service"])
    action = f"{service}:{call['action']}"
    resource, facts = target(call)
    if role is not None and allowed(role, action, resource, facts):
        return None
    name = role.name if role is not None else "none"
    who = f"arn:aws:sts::{ACCOUNT}:assumed-role/{name}/{instance.id}"
    on = "" if resource == "*" else f" on resource: {resource}"
    return (
        f"User: {who} is not authorized to perform: {action}{on} because no identity-based policy allows the {action} action"
    )
