"""Lifecycle hooks: an instance waits until its hooks are completed or time out.

From the AWS documentation: a heartbeat restarts a hook's timeout, up to 100 times the timeout or 48 hours; after the
timeout the default result applies; ABANDON ends a launch, and completes a termination without the other hooks.
"""

import time
import uuid

from moto.autoscaling.models import AutoScalingBackend, LifecycleHook
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult

from .state import record, scaled

LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
GLOBAL_TIMEOUT_S = 172_800


class ValidationError(ServiceException):
    code = "ValidationError"


class Action:
    """A pending hook of one instance."""

    def __init__(self, hook):
        self.hook = hook
        self.token = str(uuid.uuid4())
        self.began = time.monotonic()
        self.result = None
        self.beat()

    def beat(self):
        limit = self.began + scaled(min(100 * self.hook.heartbeat_timeout, GLOBAL_TIMEOUT_S))
        self.until = min(time.monotonic() + scaled(self.hook.heartbeat_timeout), limit)


def begin(group, state, transition):
    """Starts the group's hooks of this transition for the instance. Returns whether there are any."""
    known = group.autoscaling_backend.describe_lifecycle_hooks(group.name)
    state.actions = {hook.name: Action(hook) for hook in known if hook.lifecycle_transition == transition}
    return bool(state.actions)


def verdict(state):
    """CONTINUE once all hooks are complete, ABANDON at the first ABANDON, None while any is pending."""
    for name, action in state.actions.items():
        if action.result is None and time.monotonic() >= action.until:
            action.result = action.hook.default_result
            record("hook-timeout", instance=state.instance_id, hook=name, result=action.result)
    results = [action.result for action in state.actions.values()]
    if "ABANDON" in results:
        return "ABANDON"
    return None if None in results else "CONTINUE"


def active(response):
    """(state, action) that a call names by token or by instance."""
    group_name, name = response._get_param("AutoScalingGroupName"), response._get_param("LifecycleHookName")
    instance, token = response._get_param("InstanceId"), response._get_param("LifecycleActionToken")
    if not instance and not token:
        raise ValidationError("Either InstanceId or LifecycleActionToken must be specified")
    group = response.autoscaling_backend.autoscaling_groups.get(group_name)
    for state in group.instance_states if group else []:
        action = getattr(state, "actions", {}).get(name)
        waits = action is not None and action.result is None and state.lifecycle_state.endswith(":Wait")
        if waits and (action.token == token if token else state.instance_id == instance):
            return state, action
    by = f"token {token}" if token else f"instance ID {instance}"
    raise ValidationError(f"No active Lifecycle Action found with {by}")


def complete(response):
    state, action = active(response)
    result = response._get_param("LifecycleActionResult")
    if result not in ("CONTINUE", "ABANDON"):
        raise ValidationError(f"Invalid lifecycle action result: {result}")
    action.result = result
    record("hook-completed", instance=state.instance_id, hook=action.hook.name, result=result)
    return ActionResult({})


def heartbeat(response):
    state, action = active(response)
    action.beat()
    record("hook-heartbeat", instance=state.instance_id, hook=action.hook.name)
    return ActionResult({})


def put(response):
    """PutLifecycleHook with AWS's limits; an update without a timeout keeps the old one."""
    name, group = response._get_param("LifecycleHookName"), response._get_param("AutoScalingGroupName")
    timeout = response._get_int_param("HeartbeatTimeout")
    create(response.autoscaling_backend, name, group, response._get_param("LifecycleTransition"), timeout,
           response._get_param("DefaultResult"))  # fmt: skip
    return EmptyResult()


def create(backend, name, group_name, transition, timeout, result):
    if group_name not in backend.autoscaling_groups:
        raise ValidationError("AutoScalingGroup name not found - AutoScalingGroup not found")
    if timeout is not None and not 30 <= int(timeout) <= 7200:
        raise ValidationError("Heartbeat timeout must be between 30 and 7200 seconds inclusive")
    hook = LifecycleHook(name, group_name, transition, int(timeout or 3600), result)
    hook.global_timeout = min(100 * hook.heartbeat_timeout, GLOBAL_TIMEOUT_S)
    backend.lifecycle_hooks[f"{group_name}_{name}"] = hook
    return hook


def install():
    AutoScalingResponse.complete_lifecycle_action = complete
    AutoScalingResponse.record_lifecycle_action_heartbeat = heartbeat
    AutoScalingResponse.put_lifecycle_hook = put
    AutoScalingBackend.create_lifecycle_hook = lambda self, name, as_name, transition, timeout, result: create(
        self, name, as_name, transition, timeout, result
    )
