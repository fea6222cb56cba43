"""Patches of the API server of `shared/aws`, which add missing behaviour of AWS.

| file | adds |
|---|---|
| `groups.py` | Pending before InService, gradual termination, replacement, scale-in protection, minimum and maximum |
| `hooks.py` | lifecycle hooks: waits, heartbeats, timeouts, CompleteLifecycleAction |
| `schedule.py` | scheduled actions, once and recurring, by a clock that the test advances |
| `stacks.py` | the CloudFormation resources that the server skips |
| `secret.py` | generated secrets of a stack |
| `access.py` | credentials of instances, and the permissions of their roles |
| `control.py` | the log of calls and events, and the test's own requests |

Time spans of AWS (a heartbeat timeout, a grace period) are multiplied by `settings["time_scale"]`.
"""
