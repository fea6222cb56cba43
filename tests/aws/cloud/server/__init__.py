"""What the API server of `shared/aws` lacks and real AWS has, as patches of the running server.

| file | adds |
|---|---|
| `groups.py` | Pending before InService, termination that takes its time, replacement, scale-in protection, minimum and maximum |
| `hooks.py` | lifecycle hooks: waits, heartbeats, time limits, CompleteLifecycleAction |
| `schedule.py` | scheduled actions, once and recurring, by a clock that the test moves |
| `stacks.py` | the CloudFormation resources that the server skips |
| `access.py` | credentials of instances, and what their role allows |
| `control.py` | the log of calls and events, and the test's own requests |

Times of AWS (a heartbeat time limit, a grace period) are multiplied by `settings["time_scale"]`.
"""
