"""Lifecycle of an Auto Scaling group's instances as documented by AWS; the unpatched server launches and terminates them at once.

An instance is Pending until EC2 runs it and its launching hooks are complete. It counts towards the capacity from its launch until
its termination begins. A health check or a call may terminate it; the terminating hooks then hold it, and the group launches a
replacement meanwhile if it needs one.
"""

import threading
import time

from moto.autoscaling import models
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.exceptions import ServiceException
from moto.core.responses import EmptyResult

from . import hooks
from .state import LOCK, record, scaled, settings

TICK_S = 0.02
# Seconds from Terminating:Proceed until EC2 has terminated the instance.
SHUTDOWN_S = 0.2

Group = models.FakeAutoScalingGroup
Backend = models.AutoScalingBackend
launch_at_once = Group.replace_autoscaling_group_instances
create_group = Backend.create_auto_scaling_group
update_group = Backend.update_auto_scaling_group


class ValidationError(ServiceException):
    code = "ValidationError"


def counts(state):
    """Whether the instance counts towards the group's capacity."""
    return state.lifecycle_state.startswith("Pending") or state.lifecycle_state == "InService"


def suspended(group, process):
    return process in {entry["ProcessName"] for entry in group.suspended_processes}


def set_desired(group, capacity):
    before = getattr(group, "desired_capacity", None)
    group.desired_capacity = group.min_size if capacity is None else capacity
    if before != group.desired_capacity:
        record("desired", group=group.name, before=before, after=group.desired_capacity)


def move(state, lifecycle, **details):
    state.lifecycle_state, state.since = lifecycle, time.monotonic()
    record("lifecycle", instance=state.instance_id, group=state.auto_scaling_group_name, state=lifecycle, **details)


def set_ec2(instance, name, code):
    instance._state.name, instance._state.code = name, code


def launch(group, count, cause):
    if settings["out_of_capacity"]:
        if not getattr(group, "lacks", False):
            record("launch-failed", group=group.name, reason="InsufficientInstanceCapacity")
        group.lacks = True
        return
    group.lacks = False
    known = set(group.instance_states)
    launch_at_once(group, count, group.get_propagated_tags())
    for state in group.instance_states:
        if state not in known:
            set_ec2(state.instance, "pending", 0)
            record("launch", instance=state.instance_id, group=group.name, cause=cause)
            move(state, "Pending")


def begin_termination(state, cause):
    """Removes the instance from the group's capacity; hooks may delay its termination."""
    if counts(state):
        state.actions = {}
        move(state, "Terminating", cause=cause)


def end(group, state):
    """Completes the termination."""
    if state.instance._state.name != "terminated":
        group.ec2_backend.terminate_instances([state.instance_id])
    group.instance_states = [other for other in group.instance_states if other is not state]
    record("terminated", instance=state.instance_id, group=group.name)


def advance(group, state):
    """Takes the next lifecycle step of an instance, if it is due."""
    passed = time.monotonic() - state.since
    lifecycle = state.lifecycle_state
    if lifecycle == "Pending" and passed >= settings["boot_delay_s"]:
        set_ec2(state.instance, "running", 16)
        move(state, "Pending:Wait" if hooks.begin(group, state, hooks.LAUNCHING) else "InService")
    elif lifecycle == "Pending:Wait":
        verdict = hooks.verdict(state)
        if verdict == "ABANDON":
            move(state, "Terminating:Proceed", cause="launching hook abandoned")
        elif verdict:
            move(state, "InService")
    elif lifecycle == "InService" and state.health_status == "Unhealthy" and not suspended(group, "ReplaceUnhealthy"):
        begin_termination(state, "health check")
    elif lifecycle == "Terminating":
        held = hooks.begin(group, state, hooks.TERMINATING)
        move(state, "Terminating:Wait" if held else "Terminating:Proceed")
    elif lifecycle == "Terminating:Wait" and hooks.verdict(state):
        move(state, "Terminating:Proceed")
    elif lifecycle == "Terminating:Proceed" and passed >= SHUTDOWN_S:
        end(group, state)


def reconcile(group):
    """Launches or terminates instances until the desired capacity is reached; never terminates protected ones."""
    here = [state for state in group.instance_states if counts(state)]
    missing = group.desired_capacity - len(here)
    if missing > 0 and not suspended(group, "Launch"):
        launch(group, missing, "a difference between desired and actual capacity")
    if missing < 0 and not suspended(group, "Terminate"):
        free = [state for state in here if not state.protected_from_scale_in]
        for state in free[:-missing]:
            begin_termination(state, "scale in")


def tick():
    for regions in list(models.autoscaling_backends.values()):
        for backend in list(regions.values()):
            for group in list(backend.autoscaling_groups.values()):
                for state in list(group.instance_states):
                    advance(group, state)
                reconcile(group)


def start_clockwork():
    def run():
        while True:
            time.sleep(TICK_S)
            with LOCK:
                try:
                    tick()
                except Exception as error:
                    record("error", what=repr(error))
                    raise

    threading.Thread(target=run, name="groups", daemon=True).start()


def managed(backend, instance_id):
    """(group, state) of an instance."""
    for group in backend.autoscaling_groups.values():
        for state in group.instance_states:
            if state.instance_id == instance_id:
                return group, state
    raise ValidationError(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")


def terminate_instance(backend, instance_id, should_decrement):
    """TerminateInstanceInAutoScalingGroup. AWS does not document a second call for a terminating instance; here it reduces the
    desired capacity again, so that tests find a client that repeats the call."""
    group, state = managed(backend, instance_id)
    before = group.desired_capacity
    if should_decrement:
        set_desired(group, before - 1)
    begin_termination(state, "a user request")
    return models.TerminateInstanceActivity(state.instance, before)


def set_instance_health(response):
    """SetInstanceHealth, which respects the grace period unless the call overrides it."""
    group, state = managed(response.autoscaling_backend, response._get_param("InstanceId"))
    status = response._get_param("HealthStatus")
    if status not in ("Healthy", "Unhealthy"):
        raise ValidationError(f"Value '{status}' at 'healthStatus' failed to satisfy constraint: [Healthy, Unhealthy]")
    young = time.monotonic() - state.since < scaled(group.health_check_grace_period or 0)
    if not (status == "Unhealthy" and young and response._get_bool_param("ShouldRespectGracePeriod", True)):
        state.health_status = status
        record("health", instance=state.instance_id, group=group.name, status=status)
    return EmptyResult()


def resize(group, minimum, maximum, desired):
    """Sets minimum and maximum, and adjusts the desired capacity if the call gives none."""
    minimum = group.min_size if minimum is None else int(minimum)
    maximum = group.max_size if maximum is None else int(maximum)
    if minimum > maximum:
        raise ValidationError(f"Max bound, {maximum}, must be greater than or equal to min bound, {minimum}")
    given = group.desired_capacity if desired is None else int(desired)
    if desired is not None and not minimum <= given <= maximum:
        raise ValidationError(
            f"Desired capacity:{given} must be between the specified min size:{minimum} and max size:{maximum}"
        )
    group.min_size, group.max_size = minimum, maximum
    set_desired(group, min(max(given, minimum), maximum))


def update(backend, name, **given):
    """UpdateAutoScalingGroup; the unpatched server drops settings that the call does not name."""
    group = backend.autoscaling_groups.get(name)
    if group is None:
        raise ValidationError("AutoScalingGroup name not found - null")
    sizes = [given.pop(key) for key in ("min_size", "max_size", "desired_capacity")]
    policy = group.mixed_instances_policy
    update_group(backend, name, min_size=None, max_size=None, desired_capacity=None, **given)
    if not given.get("mixed_instances_policy") and not given.get("launch_template"):
        group.mixed_instances_policy = policy
    resize(group, *sizes)
    return group


def delete_group(backend, name):
    group = backend.autoscaling_groups.pop(name, None)
    if group is None:
        raise ValidationError(f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found")
    for state in list(group.instance_states):
        end(group, state)


def notify_terminated(backend, instance_ids):
    """EC2 has terminated instances itself: the group's health check notices it."""
    for group in backend.autoscaling_groups.values():
        for state in list(group.instance_states):
            if state.instance_id in instance_ids:
                end(group, state)


def install():
    Group.set_desired_capacity = set_desired
    Group.active_instances = lambda group: [state for state in group.instance_states if counts(state)]
    Backend.terminate_instance = terminate_instance
    Backend.update_auto_scaling_group = update
    Backend.delete_auto_scaling_group = delete_group
    Backend.notify_terminate_instances = notify_terminated
    AutoScalingResponse.set_instance_health = set_instance_health
