"""A pod of Admiral as "Dynamo DB based DR sample" has it: a scan, a put without a condition, and its own clock."""

import threading
import time

SKIP = "SKIP-LEASE-POD"


class Pod:
    """`check` is the paper's ExecuteStateCheck: one read, and perhaps one write."""

    def __init__(self, client, table, name, wait_s, threshold, lease="tick"):
        self.client, self.table, self.name, self.lease = client, table, name, lease
        self.wait_s, self.threshold = wait_s, threshold
        self.may_write = False

    def check(self):
        now = int(time.time())
        items = self.client.scan(TableName=self.table)["Items"]
        found = next((item for item in items if item["leaseName"]["S"] == self.lease), {"notes": {"S": f"Created at {now}"}})
        owner = found.get("leaseOwner", {"S": ""})["S"]
        if owner == "":
            self.put(found, now)
        elif owner == SKIP:
            self.may_write = False
        elif owner == self.name:
            self.may_write = True
            self.put(found, now)
        elif int(found["updatedTime"]["N"]) < now - self.wait_s * self.threshold:
            self.put(found, now)
        else:
            self.may_write = False
        return self.may_write

    def put(self, found, now):
        item = {
            "leaseName": {"S": self.lease},
            "leaseOwner": {"S": self.name},
            "updatedTime": {"N": str(now)},
            "notes": found.get("notes", {"S": ""}),
        }
        self.client.put_item(TableName=self.table, Item=item)


class Running(threading.Thread):
    """A pod that checks at each interval, until it is stopped."""

    def __init__(self, pod):
        super().__init__(daemon=True)
        self.pod, self.is_over = pod, threading.Event()

    def run(self):
        while True:
            self.pod.check()
            if self.is_over.wait(self.pod.wait_s):
                return

    def stop(self):
        self.is_over.set()
        self.join(30)
