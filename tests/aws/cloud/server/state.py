"""Shared state of the patches: a lock, the settings, the list of events."""

import threading
import time

LOCK = threading.RLock()

settings = {
    # Seconds from launch until EC2 reports an instance as running.
    "boot_delay_s": 0.2,
    # Duration of one second of AWS.
    "time_scale": 0.02,
    # EC2 is out of capacity: launches fail, the desired capacity stays.
    "out_of_capacity": False,
}

EVENTS = []


def record(event, **details):
    """Records an event; tests read events and count launches."""
    with LOCK:
        EVENTS.append({"n": len(EVENTS), "t": time.time(), "event": event, **details})


def scaled(seconds):
    return seconds * settings["time_scale"]
