"""CloudFormation resources that the unpatched server skips with a warning (lifecycle hooks, warm pools, a group's own hooks), and
corrections of resources that it supports."""

from moto.autoscaling.models import FakeAutoScalingGroup, autoscaling_backends
from moto.core.common_models import CloudFormationModel
from moto.efs.models import AccessPoint
from moto.route53 import models as route53

from . import hooks


class Part:
    """A resource that is stored in its group."""

    def __init__(self, name):
        self.name = name

    @property
    def physical_resource_id(self):
        return self.name

    @classmethod
    def update_from_cloudformation_json(cls, original, new_name, template, account, region):
        return cls.create_from_cloudformation_json(new_name, template, account, region)


class LifecycleHook(Part, CloudFormationModel):
    @staticmethod
    def cloudformation_name_type():
        return "LifecycleHookName"

    @staticmethod
    def cloudformation_type():
        return "AWS::AutoScaling::LifecycleHook"

    @classmethod
    def create_from_cloudformation_json(cls, name, template, account, region, **_):
        wanted = template["Properties"]
        put_hook(autoscaling_backends[account][region], name, wanted["AutoScalingGroupName"], wanted)
        return cls(name)

    @classmethod
    def delete_from_cloudformation_json(cls, name, template, account, region):
        autoscaling_backends[account][region].delete_lifecycle_hook(template["Properties"]["AutoScalingGroupName"], name)


class WarmPool(Part, CloudFormationModel):
    @staticmethod
    def cloudformation_name_type():
        return "AutoScalingGroupName"

    @staticmethod
    def cloudformation_type():
        return "AWS::AutoScaling::WarmPool"

    @classmethod
    def create_from_cloudformation_json(cls, name, template, account, region, **_):
        wanted = template["Properties"]
        group = wanted["AutoScalingGroupName"]
        autoscaling_backends[account][region].put_warm_pool(
            group,
            max_group_prepared_capacity=wanted.get("MaxGroupPreparedCapacity"),
            min_size=wanted.get("MinSize"),
            pool_state=wanted.get("PoolState"),
            instance_reuse_policy=wanted.get("InstanceReusePolicy"),
        )
        return cls(group)

    @classmethod
    def delete_from_cloudformation_json(cls, name, template, account, region):
        group = autoscaling_backends[account][region].autoscaling_groups.get(name)
        if group is not None:
            group.warm_pool = None


def put_hook(backend, name, group, wanted):
    hooks.create(
        backend, name, group, wanted["LifecycleTransition"], wanted.get("HeartbeatTimeout"), wanted.get("DefaultResult")
    )


def install():
    create = FakeAutoScalingGroup.create_from_cloudformation_json.__func__

    def create_with_hooks(cls, name, template, account, region, **rest):
        # The hooks also apply to the group's first instance, which is launched later, by the periodic step.
        group = create(cls, name, template, account, region, **rest)
        for wanted in template["Properties"].get("LifecycleHookSpecificationList", []):
            put_hook(autoscaling_backends[account][region], wanted["LifecycleHookName"], group.name, wanted)
        return group

    FakeAutoScalingGroup.create_from_cloudformation_json = classmethod(create_with_hooks)
    # !Ref of an access point is its id.
    AccessPoint.physical_resource_id = property(lambda point: point.access_point_id)
    # Ids of hosted zones begin with Z.
    new_id = route53.create_route53_zone_id
    route53.create_route53_zone_id = lambda **wanted: "Z" + new_id(**wanted)[1:]
