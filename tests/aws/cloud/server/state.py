"""What all patches share: one lock, the settings, the list of events."""

import threading
import time

LOCK = threading.RLock()

settings = {
    # From the launch of an instance until EC2 shows it as running.
    "boot_delay_s": 0.2,
    # What a second of AWS lasts here.
    "time_scale": 0.02,
    # EC2 has no more instances of the type: launches fail, the desired capacity stays.
    "out_of_capacity": False,
}

EVENTS = []


def record(event, **details):
    """Keeps what happened; a test reads it, and counts launches by it."""
    with LOCK:
        EVENTS.append({"n": len(EVENTS), "t": time.time(), "event": event, **details})


def scaled(seconds):
    return seconds * settings["time_scale"]
