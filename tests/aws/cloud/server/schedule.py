"""Scheduled actions, which the unpatched server only stores. `advance` moves the test's clock and runs due actions."""

import datetime
import re
import zoneinfo

from moto.autoscaling.models import autoscaling_backends

from . import cron, groups
from .state import record

UTC = datetime.timezone.utc
MINUTE = datetime.timedelta(minutes=1)
clock = {"now": None}


def time_of(text):
    if isinstance(text, datetime.datetime):
        return text if text.tzinfo else text.replace(tzinfo=UTC)
    return datetime.datetime.fromisoformat(re.sub(r"Z$", "+00:00", str(text))) if text else None


def due(action, moment):
    zone = zoneinfo.ZoneInfo(action.time_zone) if action.time_zone else UTC
    start, until = time_of(action.start_time), time_of(action.end_time)
    if not action.recurrence:
        return start is not None and start.replace(second=0, microsecond=0) == moment
    inside = (start is None or moment >= start) and (until is None or moment < until)
    return inside and cron.matches(action.recurrence, moment.astimezone(zone))


def run(backend, action):
    group = backend.autoscaling_groups.get(action.auto_scaling_group_name)
    if group is None or groups.suspended(group, "ScheduledActions"):
        return
    record("scheduled", group=group.name, action=action.scheduled_action_name)
    groups.resize(group, action.min_size, action.max_size, action.desired_capacity)


def all_actions():
    for regions in list(autoscaling_backends.values()):
        for backend in list(regions.values()):
            for action in list(backend.scheduled_actions.values()):
                yield backend, action


def advance(to):
    """Advances the clock minute by minute; the first call only sets it, and None removes it. Returns the actions
    run."""
    to = time_of(to)
    ran = []
    if clock["now"] is not None and to is not None:
        moment = clock["now"].replace(second=0, microsecond=0) + MINUTE
        while moment <= to:
            for backend, action in all_actions():
                if due(action, moment):
                    run(backend, action)
                    ran.append({"at": moment.isoformat(), "action": action.scheduled_action_name})
            moment += MINUTE
    clock["now"] = to
    return ran


def install():
    """Keys scheduled actions by group and name; the unpatched server keys them by name alone."""
    from moto.autoscaling.models import AutoScalingBackend

    put = AutoScalingBackend.put_scheduled_update_group_action

    def put_by_group(self, name, **given):
        action = put(self, name, **given)
        self.scheduled_actions.pop(action.scheduled_action_name, None)
        self.scheduled_actions[f"{name}/{action.scheduled_action_name}"] = action
        return action

    AutoScalingBackend.put_scheduled_update_group_action = put_by_group
    AutoScalingBackend.delete_scheduled_action = lambda self, group, name: self.scheduled_actions.pop(
        f"{group}/{name}", None
    )
