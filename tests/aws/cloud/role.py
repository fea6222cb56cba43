"""The permissions of the template's node role, for tests that create groups without the template."""

CHANGES = [
    "autoscaling:SetDesiredCapacity",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
    "autoscaling:SetInstanceProtection",
    "autoscaling:CompleteLifecycleAction",
    "autoscaling:RecordLifecycleActionHeartbeat",
]
READS = [
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeLifecycleHooks",
    "ec2:DescribeInstances",
    "ec2:DescribeTags",
]


def policy(without=()):
    """The policy, without the given actions."""
    allowed = [action for action in CHANGES + READS + ["cloudwatch:PutMetricData"] if action not in without]
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": allowed, "Resource": "*"}]}


POLICY = policy()
