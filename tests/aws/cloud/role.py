"""What the template's role lets a node do, for tests that make their groups without it."""

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
    """The policy, without some of its actions."""
    allowed = [action for action in CHANGES + READS + ["cloudwatch:PutMetricData"] if action not in without]
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": allowed, "Resource": "*"}]}


POLICY = policy()
