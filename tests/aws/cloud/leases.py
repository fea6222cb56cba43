"""Tables for leases on two stand-ins for DynamoDB, both through a fault proxy, and the requests of the Java Lock Client."""

import atexit
import os
import pathlib
import shutil
import signal
import tempfile
import time
import uuid

from harness.process import ROOT, eventually, reserve_port

from . import api
from .scene import shared_api

DYNALITE = pathlib.Path(
    os.environ.get("ELASTICK_DYNALITE", ROOT / ".venv-aws" / "node" / "node_modules" / "dynalite" / "cli.js")
)
_shared = {}


class Dynalite(api.Api):
    """dynalite in memory, and a proxy in front of it."""

    def __init__(self, directory):
        self.directory, self.processes, self.clients = pathlib.Path(directory), [], {}
        port, proxy = reserve_port(), reserve_port()
        self.direct, self.url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{proxy}"
        arguments = ["--host", "127.0.0.1", "--port", port, "--createTableMs", "0", "--deleteTableMs", "0"]
        self._start("dynalite", [DYNALITE, *arguments], command="node")
        self._start("proxy", [api.SCRIPTS / "faultproxy.py", proxy, self.direct])
        eventually(self._answers, "dynalite and the fault proxy answer", 60, self._said)

    def _answers(self):
        try:
            api.request("GET", f"{self.url}/__fault")
            return self.client("dynamodb").list_tables() is not None
        except (OSError, self.unreachable()):
            return False

    def note(self, event, **details):
        """Only the other server keeps records."""

    @staticmethod
    def unreachable():
        import botocore.exceptions

        return botocore.exceptions.BotoCoreError


def dynalite():
    """One server for all tests of a run."""
    if "dynalite" not in _shared:
        directory = pathlib.Path(tempfile.mkdtemp(prefix="elastick-dynalite-"))
        _shared["dynalite"] = Dynalite(directory)
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        atexit.register(_shared["dynalite"].close)
    return _shared["dynalite"]


def missing(kind):
    """Why a stand-in cannot run on this machine, or None."""
    if kind == "dynalite" and not DYNALITE.exists():
        return f"{DYNALITE} is not there; tests/run aws installs it"
    return api.missing()


def store(kind):
    return dynalite() if kind == "dynalite" else shared_api()


def paused(server, name):
    """Stops a process of the server, whose connections then hang. Returns the function that lets it go on."""
    [pid] = [process.pid for other, process, _ in server.processes if other == name]
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def create(client, table, key="key", sort=None, kind="S"):
    names = [(key, "HASH")] + ([(sort, "RANGE")] if sort else [])
    client.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": name, "KeyType": role} for name, role in names],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, _ in names],
        BillingMode="PAY_PER_REQUEST",
    )
    eventually(lambda: client.describe_table(TableName=table)["Table"]["TableStatus"] == "ACTIVE", "the table exists")


class LockClient:
    """Requests and rules of amazon-dynamodb-lock-client 1.4.0, without its threads: the test calls `heartbeat`."""

    def __init__(self, client, table, owner, lease_ms=20000, keep_attributes=False):
        self.client, self.table, self.owner, self.lease_ms = client, table, owner, lease_ms
        # AcquireLockOptions.updateExistingLockRecord: update instead of put.
        self.keep_attributes = keep_attributes
        self.version = None

    def item(self, key):
        answer = self.client.get_item(TableName=self.table, Key={"key": {"S": key}}, ConsistentRead=True)
        return answer.get("Item")

    def acquire(self, key, refresh_s=0.1, extra_s=1.0, data=b""):
        """Whether the lock was acquired within its lease and `extra_s`."""
        budget, began, seen = extra_s, time.monotonic(), None
        waits_for_lease = False
        while True:
            item = self.item(key)
            if item is None:
                condition, values = "attribute_not_exists(#pk)", {}
            elif "isReleased" in item:
                condition, values = "attribute_exists(#pk) AND #ir = :ir", {":ir": {"S": "1"}}
            else:
                version = item["recordVersionNumber"]["S"]
                lease_s = int(item["leaseDuration"]["S"]) / 1000
                if not waits_for_lease:
                    budget, waits_for_lease = budget + lease_s, True
                if seen is None or seen[0] != version:
                    seen = (version, time.monotonic())
                condition = values = None
                if time.monotonic() - seen[1] > lease_s:
                    condition, values = "attribute_exists(#pk) AND #rvn = :rvn", {":rvn": {"S": version}}
            if condition and self._write(key, condition, values, data, item is not None):
                return True
            if time.monotonic() - began > budget:
                return False
            time.sleep(refresh_s)

    def _write(self, key, condition, values, data, exists):
        version = str(uuid.uuid4())
        names = {"#pk": "key", "#ir": "isReleased", "#rvn": "recordVersionNumber"}
        names = {placeholder: name for placeholder, name in names.items() if placeholder in condition}
        item = {
            "ownerName": {"S": self.owner},
            "leaseDuration": {"S": str(self.lease_ms)},
            "recordVersionNumber": {"S": version},
            "data": {"B": data},
        }
        try:
            if exists and self.keep_attributes:
                sets = {f"#s{n}": name for n, name in enumerate(item)}
                update = "SET " + ", ".join(f"{s} = :s{n}" for n, s in enumerate(sets)) + " REMOVE #ir"
                values = {**values, **{f":s{n}": value for n, value in enumerate(item.values())}}
                self.client.update_item(
                    TableName=self.table,
                    Key={"key": {"S": key}},
                    UpdateExpression=update,
                    ConditionExpression=condition,
                    ExpressionAttributeNames={**names, **sets, "#ir": "isReleased"},
                    ExpressionAttributeValues=values,
                )
            else:
                more = {"ExpressionAttributeValues": values} if values else {}
                self.client.put_item(
                    TableName=self.table,
                    Item={"key": {"S": key}, **item},
                    ConditionExpression=condition,
                    ExpressionAttributeNames=names,
                    **more,
                )
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        self.version = version
        return True

    def _own(self, key, update=None, **more):
        """A write under the condition that the lock is still this client's."""
        arguments = {
            "TableName": self.table,
            "Key": {"key": {"S": key}},
            "ConditionExpression": "attribute_exists(#pk) AND #rvn = :rvn AND #on = :on",
            "ExpressionAttributeNames": {"#pk": "key", "#rvn": "recordVersionNumber", "#on": "ownerName", **more.pop("names", {})},
            "ExpressionAttributeValues": {":rvn": {"S": self.version}, ":on": {"S": self.owner}, **more.pop("values", {})},
        }
        try:
            if update is None:
                self.client.delete_item(**arguments)
            else:
                self.client.update_item(UpdateExpression=update, **arguments)
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def heartbeat(self, key):
        """Whether the lock is still this client's."""
        version = str(uuid.uuid4())
        held = self._own(
            key,
            "SET #ld = :ld, #rvn = :new",
            names={"#ld": "leaseDuration"},
            values={":ld": {"S": str(self.lease_ms)}, ":new": {"S": version}},
        )
        self.version = version if held else None
        return held

    def hold(self, key, leases):
        """Sends a heartbeat six times in each lease's time, as the client's thread does; yields after each."""
        for _ in range(6 * leases):
            if not self.heartbeat(key):
                raise AssertionError("the lock is lost")
            yield
            time.sleep(self.lease_ms / 6000)

    def release(self, key, delete=True):
        if delete:
            return self._own(key)
        return self._own(key, "SET #ir = :ir", names={"#ir": "isReleased"}, values={":ir": {"S": "1"}})
