"""TorQ's home directories, environment and time zones, for tests that run its processes on `elastick q`."""

import os
import pathlib
import subprocess
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from .process import DEADLINE_S, binary

PROGRAMS = pathlib.Path(__file__).parents[3] / "shared" / "kdb" / "programs"
PACK = PROGRAMS / "torq-finance-starter-pack"
DATA_FOLDERS = ("logs", "hdb", "wdbhdb", "tplogs", "dqe/dqcdb/database", "dqe/dqedb/database")


def environment(home, app, data, base_port):
    """Variables that TorQ's `setenv.sh` sets."""
    variables = {
        "TORQHOME": home, "TORQAPPHOME": app, "TORQDATAHOME": data, "KDBCONFIG": home / "config", "KDBCODE": home / "code", "KDBTESTS": home / "tests",
        "KDBLOG": data / "logs", "KDBHTML": home / "html", "KDBLIB": home / "lib", "KDBHDB": data / "hdb", "KDBWDB": data / "wdbhdb",
        "KDBTPLOG": data / "tplogs", "KDBDQCDB": data / "dqe/dqcdb/database", "KDBDQEDB": data / "dqe/dqedb/database",
        "KDBAPPCONFIG": app / "appconfig", "KDBAPPCODE": app / "code", "KDBBASEPORT": base_port, "TORQPROCESSES": app / "appconfig" / "process.csv",
        "USER": os.environ.get("USER", "root"),
    }  # fmt: skip
    return {name: str(value) for name, value in variables.items()}


def zone_changes(name):
    """Rows of TorQ's table of time zones: each change of a zone's offset, in seconds."""
    zone, before, at = ZoneInfo(name), None, datetime(2020, 1, 1, tzinfo=timezone.utc)
    while at.year < 2030:
        offset = int(at.astimezone(zone).utcoffset().total_seconds())
        if offset != before:
            yield f"{name},{at:%Y.%m.%dD%H:%M:%S},{offset}"
            before = offset
        at += timedelta(hours=1)


def write_zones(home, names=("GMT", "Europe/London")):
    """Writes `config/tzinfo`, a binary file that an installation of TorQ brings."""
    zones, script = home / "zones.csv", home / "zones.q"
    rows = [row for name in names for row in zone_changes(name)]
    zones.write_text("\n".join(["timezoneID,gmtDateTime,gmtOffset", *rows, ""]))
    script.write_text(
        f't:("SPJ";enlist",")0:hsym`$"{zones}"\n'
        "t:update adjustment:gmtOffset from update dstOffset:0D00 from update gmtOffset:`timespan$1000000000*gmtOffset from t\n"
        "t:update`g#timezoneID from`gmtDateTime xasc update localDateTime:gmtDateTime+adjustment from t\n"
        f'(hsym`$"{home}/config/tzinfo")set t\n'
        "exit 0\n"
    )
    run_script(script)


def run_script(script, **environment):
    """Runs a script of q that ends by itself."""
    command = [binary(), "q", script]
    subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=DEADLINE_S)
