"""The API server and its fault proxy, on free ports; clients, fault injection, and the server's records."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import urllib.request

from harness.process import ROOT, eventually, reserve_port

SCRIPTS = pathlib.Path(os.environ.get("ELASTICK_AWS_SCRIPTS", ROOT.parent / "shared" / "aws" / "scripts"))
REGION = "us-east-1"
OPERATOR = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": REGION}


def missing():
    """Why the simulated AWS cannot run on this machine, or None."""
    for script in ("moto_run.py", "faultproxy.py"):
        if not (SCRIPTS / script).exists():
            return f"{SCRIPTS / script} is not there"
    try:
        import boto3
        import cbor2
        import moto
    except ImportError as error:
        return f"{error}; tests/run aws installs it"
    return None if (boto3, cbor2, moto) else "unreachable"


def request(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=30) as answer:
        return json.loads(answer.read())


class Api:
    """API server and proxy. Instances use `url`, through the proxy; the operator's calls go to the server directly."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.processes = []
        self.port = reserve_port()
        self.direct = f"http://127.0.0.1:{self.port}"
        self.clients = {}
        arguments = ["-m", "aws.cloud.server", SCRIPTS / "moto_run.py", "-p", self.port]
        self._start("api", arguments, PYTHONPATH=str(ROOT / "tests"), AWS_DEFAULT_REGION=REGION)
        proxy = reserve_port()
        self.url = f"http://127.0.0.1:{proxy}"
        self._start("proxy", [SCRIPTS / "faultproxy.py", proxy, self.direct])
        eventually(self._answers, "the API server and the fault proxy answer", 60, self._said)

    def _start(self, name, arguments, command=sys.executable, **environment):
        output = (self.directory / f"{name}.out").open("ab")
        process = subprocess.Popen(
            [command, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self.processes.append((name, process, output))

    def _answers(self):
        for name, process, _ in self.processes:
            if process.poll() is not None:
                raise AssertionError(f"{name} ended{self._said()}")
        try:
            request("GET", f"{self.direct}/__cloud/events")
            request("GET", f"{self.url}/__fault")
        except OSError:
            return False
        return True

    def _said(self):
        return "".join(f"\n{name}:\n{(self.directory / f'{name}.out').read_text()[-2000:]}" for name, *_ in self.processes)

    def close(self):
        for _, process, output in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            output.close()

    def client(self, service):
        """The operator's client, without injected faults."""
        import boto3
        from botocore.config import Config

        if service not in self.clients:
            # A whole stack takes the stand-in a minute beside other work; a call that is sent again finds that its stack exists.
            config = Config(read_timeout=300)
            self.clients[service] = boto3.client(service, endpoint_url=self.direct, config=config, **OPERATOR)
        return self.clients[service]

    def place(self):
        """An image and a subnet for templates and groups."""
        if "place" not in self.clients:
            ec2 = self.client("ec2")
            image = ec2.describe_images()["Images"][0]["ImageId"]
            self.clients["place"] = image, ec2.describe_subnets()["Subnets"][0]
        return self.clients["place"]

    def ask(self, what, after=0):
        """Records of the server: `instances`, `groups`, `calls` or `events`; the last two from number `after` on."""
        return request("GET", f"{self.direct}/__cloud/{what}?from={after}")

    def set(self, **settings):
        return request("POST", f"{self.direct}/__cloud/settings", settings)

    def clock(self, now):
        """Advances the clock of scheduled actions; the first call only sets it."""
        return request("POST", f"{self.direct}/__cloud/clock", {"now": now})

    def note(self, event, **details):
        """Adds an action of the test to the events."""
        request("POST", f"{self.direct}/__cloud/note", {"event": event, **details})

    def fault(self, operation, action, count=1, delay=0, prob=1.0):
        """Injects a fault into the next `count` calls of an operation: see the proxy."""
        rule = {"op": operation, "action": action, "count": count, "delay": delay, "prob": prob}
        request("POST", f"{self.url}/__fault", rule)
        self.note("fault", operation=operation, action=action, count=count)

    def heal(self):
        """Ends all faults."""
        request("DELETE", f"{self.url}/__fault")
        self.note("faults end")

    def faults_left(self):
        return sum(rule["count"] for rule in request("GET", f"{self.url}/__fault")["rules"])

    def group(self, name):
        return next((group for group in self.ask("groups") if group["name"] == name), None)

    def calls(self, action, ok=None, by=None):
        """Calls of one action; `ok` selects successful or rejected ones."""
        return [
            call
            for call in self.ask("calls")
            if call["action"] == action
            and (ok is None or (call["status"] < 400) == ok)
            and (by is None or call["by"] == by)
        ]

    def events(self, event, **wanted):
        return [
            seen
            for seen in self.ask("events")
            if seen["event"] == event and all(seen.get(key) == value for key, value in wanted.items())
        ]
