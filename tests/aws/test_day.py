"""A day on AWS: deployment of the template, a surge with faults, an instance terminated by AWS, a weekend, and the proof."""

import collections
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from aws.cloud import account, image, units
from aws.cloud.scene import CloudScene, binary, instance_environment
from harness.client import Connection, KdbError
from harness.cluster import GONE
from harness.process import ROOT, eventually, reserve_port

TEMPLATES = ROOT / "deploy" / "cloudformation"
# The day is published in rounds of this many updates, at this many a second: at least ROUNDS, and until every act has been played.
ROUNDS = int(os.environ.get("ELASTICK_DAY_ROUNDS", "18"))
ROUND_UPDATES, RATE = 6000, 1500
ASKED = re.compile(r"requested a successor from the fleet: (\d+) nodes desired")
# API faults during the surge: replies lost after the call took effect, throttled calls, failing calls, and one
# request lost before it has any effect.
LOST, THROTTLED, FAILED = 2, 40, 5
FAULTS = LOST + 1 + THROTTLED + FAILED
# Deadlines that only a failing test reaches.
SETTLE_S, SURGE_S = 120, 900


class Stack(CloudScene):
    """The template's stack; its instances run elastick as the units start it."""

    asks_as = "tests:"

    def setUp(self):
        super().setUp()
        self.port = reserve_port()
        self.efs = self.directory / "efs"
        (self.efs / "log").mkdir(parents=True)
        self.stack = f"day{os.getpid()}"
        self.rounds = []
        self.cloudformation = self.api.client("cloudformation")
        self.addCleanup(self._delete_stack)

    def _delete_stack(self):
        for name in [group["name"] for group in self.api.ask("groups") if group["name"].startswith(self.stack)]:
            self.names.append(name)

    def deploy(self, template="elastick", **parameters):
        image, subnet = self.api.place()
        given = {
            "AMI": image,
            "SUBNETID": subnet["SubnetId"],
            "VPCID": subnet["VpcId"],
            "TICKINSTANCETYPE": "t3a.small",
            **parameters,
        }
        self.cloudformation.create_stack(
            StackName=self.stack,
            TemplateBody=(TEMPLATES / f"{template}.yaml").read_text(),
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
        )
        stack = self.cloudformation.describe_stacks(StackName=self.stack)["Stacks"][0]
        self.assertEqual(stack["StackStatus"], "CREATE_COMPLETE", stack.get("StackStatusReason"))
        self.outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        self.tick_group, self.rdb_group = self.outputs["TickGroup"], self.outputs.get("RdbGroup")

    def program(self, machine):
        """User data, boot script and units; tags replace what cannot exist here: ports, no NFS, the path of the schema."""
        if machine.app == "tick-asg":
            machine.overrides = {
                "ELASTICK_PORT": str(self.port),
                "ELASTICK_REQUIRE_MOUNT": "none",
                "ELASTICK_SCHEMAS": str(ROOT / "schemas" / "sym.q"),
            }
        else:
            machine.overrides = {"ELASTICK_PORT": "0", "TICKERPLANT": "127.0.0.1", "TICKPORT": str(self.port)}
        if machine.home.exists():
            shutil.rmtree(machine.home)
        more = image.lay_out(machine, machine.home, binary(), self.efs)
        return [sys.executable, units.__file__, machine.home], instance_environment(machine, self.api.url, **more)

    def ask(self, question):
        try:
            with Connection(self.port, self.asks_as, deadline_s=20) as connection:
                return connection.ask(question)
        except GONE:
            return None

    def queue(self):
        """List of (state, node, port) of subscribers that are not lost."""
        table = self.ask("select state, node, port from .u.asg.tab where state<>`lost")
        return [] if table is None else list(zip(table.v["state"].v, table.v["node"].v, table.v["port"].v))

    def states(self):
        return sorted(state for state, *_ in self.queue())

    def tip(self):
        answer = self.ask(".u.j")
        return answer.v if answer is not None else 0

    def start_round(self):
        """Publishes some more of the day."""
        self.rounds.append(self.directory / f"feed-{len(self.rounds)}")
        with self.rounds[-1].with_suffix(".json").open("wb") as out, self.rounds[-1].with_suffix(".err").open("wb") as err:
            command = [binary(), "feed", f"127.0.0.1:{self.port}", "--json", "--rate", RATE, "--rows", 10]
            command += ["--updates", ROUND_UPDATES, "--seed", len(self.rounds)]
            self.feed = subprocess.Popen(list(map(str, command)), stdout=out, stderr=err, start_new_session=True)
        self.addCleanup(self._end_feed, self.feed)

    def _end_feed(self, feed):
        if feed.poll() is None:
            os.killpg(feed.pid, signal.SIGKILL)
            feed.wait()

    def feed_has_ended(self):
        """Waits a moment for the end of the round."""
        try:
            code = self.feed.wait(0.1)
        except subprocess.TimeoutExpired:
            return False
        self.assertEqual(code, 0, self.rounds[-1].with_suffix(".err").read_text()[-2000:])
        return True

    def sent(self):
        """Tip, rows and proof of what the feeds of all rounds published, as they counted it."""
        counts = [json.loads(file.with_suffix(".json").read_text()) for file in self.rounds]
        proof = account.Proof()
        for count in counts:
            proof.merge(account.of_json(count["tables"]))
        return counts[-1]["tip"], sum(count["rows"] for count in counts), proof

    def held(self):
        """List of (node, first, last, proof) of all nodes; None while one does not reply."""
        found = []
        for state, node, port in self.queue():
            windows = account.windows_of(port) if state != "away" else None
            if windows is None:
                return None
            found += [(node, first, last, proof) for (first, last), proof in windows.items()]
        return found


USERS = """
[users.ann]
password = "correct horse"
roles = ["publish", "query"]

[users.ops]
password = "battery staple"
roles = ["query", "operator"]
"""


class Secrets(Stack):
    """A stack with a users file: its nodes join with the cluster's secret."""

    asks_as = "ops:battery staple"

    def setUp(self):
        super().setUp()
        secrets = self.api.client("secretsmanager")
        self.users = secrets.create_secret(Name=f"users{os.getpid()}", SecretString=USERS)["ARN"]
        self.addCleanup(secrets.delete_secret, SecretId=self.users, ForceDeleteWithoutRecovery=True)

    def test_nodes_join_with_the_secret_and_callers_are_users(self):
        # All instances share an address and their nodes know one port.
        self.deploy(
            TICKERPLANTS="1", RDBINSTANCETYPE="t3a.medium",
            SCALETHRESHOLD="45", ROLLTHRESHOLD="70", USERSSECRET=self.users,
            RDBOPTIONS="--memory 64MiB --query-threads 1", TICKOPTIONS="--start-grace 3s",
        )  # fmt: skip
        self.eventually(lambda: "live" in self.states(), "the node is live", SETTLE_S)
        ((_, name, node),) = self.queue()
        with Connection(self.port, "ann:correct horse") as ann:
            with self.assertRaisesRegex(KdbError, "access"):
                ann.ask(".u.endofday[]")
        for port in (self.port, node):
            for login in ("tests:", "ann:wrong", "cluster:"):
                with self.subTest(login), self.assertRaises(GONE + (KdbError,)), Connection(port, login) as stranger:
                    stranger.ask("1+1")
        self.a_node_without_the_secret_stays_outside(name)
        self.no_secret_is_in_the_open()

    def a_node_without_the_secret_stays_outside(self, name):
        address = f"127.0.0.1:{self.port}:ann:correct horse"
        rogue = self.start("rogue", "rdb", address, "-p", "0", "--queue", self.rdb_group, "--node", "rogue")
        self.eventually(lambda: "access" in rogue.printed(), "the node without the secret is rejected")
        self.assertEqual([node for _, node, _ in self.queue()], [name])

    def no_secret_is_in_the_open(self):
        secret = self.api.client("secretsmanager").get_secret_value(SecretId=self.outputs["ClusterSecret"])["SecretString"]
        for machine in self.machines.all():
            told = [machine.printed(), json.dumps(machine.view), (machine.home / "etc/elastick/env").read_text()]
            for pid in machine.home.glob("elastick-[rt]*.service.pid"):
                told += [(pathlib.Path("/proc") / pid.read_text() / file).read_text() for file in ("cmdline", "environ")]
            for text in told:
                self.assertNotIn(secret, text)
                self.assertNotIn("battery staple", text)
            kept = machine.home / "secrets" / "cluster-secret"
            self.assertEqual((kept.read_text().strip(), kept.stat().st_mode & 0o777), (secret, 0o400))


class Day(Stack):
    TAKES_S = 100

    def test_the_day(self):
        # All instances share an address and their nodes know one port.
        self.deploy(
            TICKERPLANTS="1", RDBINSTANCETYPE="t3a.medium",
            SCALETHRESHOLD="45", ROLLTHRESHOLD="70", MAXNODES="12", TURNOFF="0 20 * * FRI", TURNON="30 5 * * MON",
            RDBOPTIONS="--memory 12MiB --query-threads 1 --cloudwatch 5s",
            TICKOPTIONS="--start-grace 3s --cloudwatch 5s",
        )  # fmt: skip
        self.began = time.time()
        self.eventually(lambda: "live" in self.states(), "the first node is live", SETTLE_S)
        self.weekend()
        self.surge()
        self.proof()
        self.watched()
        self.end_of_day()
        self.report()

    def weekend(self):
        """Friday evening to Monday morning; updates before the cluster is on again are only in the log."""
        self.api.clock("2026-11-20T19:00:00Z")
        self.api.clock("2026-11-21T00:00:00Z")
        self.eventually(lambda: self.members(self.rdb_group) == [], "the cluster is off", SETTLE_S)
        self.assertEqual(len(self.members(self.tick_group, "InService")), 1)
        self.start_round()
        self.eventually(lambda: self.tip() > 500, "updates are logged that nobody takes")
        self.logged_before_monday = self.tip()
        self.api.clock("2026-11-23T06:00:00Z")
        self.eventually(lambda: "live" in self.states(), "the late starter is live", SETTLE_S)
        _, self.late_starter, port = next(row for row in self.queue() if row[0] == "live")
        self.eventually(lambda: account.windows_of(port), "it says what it holds")
        self.assertEqual(min(first for first, _ in account.windows_of(port)), 0, "it has the day from its first update")

    def surge(self):
        """The rest of the day, with faults."""
        self.ended, self.killed = None, None
        acts = [
            (2, self.lose_answers),
            (3, self.end_one),
            (4, self.throttle),
            (5, self.kill_live),
        ]
        until = time.monotonic() + SURGE_S
        while True:
            self.assertLess(time.monotonic(), until, f"still to play: {acts}; rounds {len(self.rounds)}")
            if self.feed_has_ended():
                if not acts and len(self.rounds) >= ROUNDS:
                    break
                # A slow machine launches nodes slowly: the day waits for them, or it would be too large for the group.
                if "live" in self.states():
                    self.start_round()
            # After this many launches of the day (the first instance was terminated at the weekend).
            if acts and len(self.launches(self.rdb_group)) > acts[0][0] and acts[0][1]():
                acts.pop(0)
        self.assertIsNotNone(self.ended)
        self.met = FAULTS - self.api.faults_left()
        self.assertGreaterEqual(self.met, 3, "the faults were not met")
        self.api.heal()

    def lose_answers(self):
        self.api.fault("SetDesiredCapacity", "drop_after", count=LOST)
        self.api.fault("SetDesiredCapacity", "drop_before", count=1)
        return True

    def throttle(self):
        self.api.fault("*", "throttle", count=THROTTLED)
        self.api.fault("*", "error503", count=FAILED)
        return True

    def end_one(self):
        """AWS declares a node with rows unhealthy."""
        rolled = [name for state, name, _ in self.queue() if state == "rolled"]
        if not rolled:
            return False
        self.ended = rolled[0]
        self.autoscaling.set_instance_health(
            InstanceId=self.ended, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False
        )
        return True

    def kill_live(self):
        """kill -9 of the live node; its unit restarts it."""
        live = [name for state, name, _ in self.queue() if state == "live"]
        if not live:
            return False
        self.killed = live[0]
        self.machine(self.killed).kill()
        self.api.note("kill -9", instance=self.killed)
        return True

    def proof(self):
        sent_tip, sent_rows, sent = self.sent()
        tip = self.tip()
        self.assertEqual(sent_tip, tip)
        self.eventually(
            lambda: not self.machine(self.ended).is_running(), "the instance that AWS ends is gone", SETTLE_S
        )
        settled = []

        def whole():
            held = self.held()
            settled[:] = held or []
            return held is not None and not account.coverage([(f, l, n) for n, f, l, _ in held], tip)

        try:
            eventually(whole, "the windows cover the day", SETTLE_S)
        except AssertionError:
            self.fail(f"{account.coverage([(f, l, n) for n, f, l, _ in settled], tip)}; {self.queue()}")
        log = self.ask(".u.L").v.lstrip(":")
        self.windows = sorted(settled, key=lambda window: window[1:3])
        wrong = account.check(binary(), log, tip, sent, settled)
        self.assertEqual(wrong, [])
        self.total = (tip, sent_rows)

    def watched(self):
        """Checks the operator's view: metrics of the alarms, the group in the console, the tickerplant's DNS name."""
        cloudwatch = self.api.client("cloudwatch")

        def published(group):
            pages = cloudwatch.get_paginator("list_metrics").paginate(Namespace="RdbCluster")
            named = {"Name": "AutoScalingGroupName", "Value": group}
            metrics = [metric for page in pages for metric in page["Metrics"]]
            return {metric["MetricName"] for metric in metrics if named in metric["Dimensions"]}

        for group, names in [
            (self.rdb_group, {"MemoryUsage", "Cushion", "LagToTip", "DesiredAtMax", "ScaleOutsRefused", "LaunchesLate"}),
            (self.tick_group, {"TickerplantUp", "QueuesWithoutLive", "WindowsLost", "LogBytes", "Quarantined"}),
        ]:
            self.eventually(lambda: names <= published(group), f"{group} publishes {names}")
        node = self.machines.all("r-asg", running=True)[-1]
        environment = instance_environment(node, self.api.url)
        status = [binary(), "fleet", "status", "--fleet", "aws"]
        shown = subprocess.run(status, env=environment, capture_output=True, text=True, check=True).stdout
        for member in self.members(self.rdb_group):
            self.assertIn(member, shown)
        change = self.calls("ChangeResourceRecordSets", ok=True)[-1]["params"]
        self.assertEqual((change["Name"], change["Value"]), (["tick.elastick.internal"], ["127.0.0.1"]))

    def end_of_day(self):
        holders = {node for node, first, last, _ in self.windows if last > first}
        self.assertGreaterEqual(len(holders), 4)
        self.assertEqual([e for e in self.events("hook-timeout")], [])
        self.before_end = self.api.group(self.rdb_group)["desired"]
        self.assertIsNotNone(self.ask(".u.endofday[]"))
        self.eventually(lambda: self.api.group(self.rdb_group)["desired"] == 1, "the desired capacity is 1", SETTLE_S)
        self.eventually(lambda: len(self.members(self.rdb_group)) == 1, "one instance is left", SETTLE_S)
        self.assert_launches()

    def assert_launches(self):
        """Every launch has a reason: the stack, Monday, a replacement of what AWS ended, or a node's request."""
        raised = [e for e in self.events("desired", group=self.rdb_group) if e["after"] > (e["before"] or 0)]
        asked = {int(number) for machine in self.machines.all("r-asg") for number in ASKED.findall(machine.printed())}
        self.asked = sorted(asked)
        by_nodes = [event["after"] for event in raised if event["before"]]
        self.assertEqual(by_nodes, sorted(asked), "raised by nodes, and asked for by them as they say")
        reasons = {"stack": 1, "monday": 1, "replaced": 1, "asked for": len(asked)}
        self.made = self.launches(self.rdb_group)
        self.assertEqual(len(self.made), sum(reasons.values()), reasons)
        self.reasons = reasons

    def report(self):
        """Timeline of the day, for presentation."""
        tip, rows = self.total
        print(f"\n\nThe day on AWS (stand-in): {tip} updates, {rows} rows in {len(self.windows)} windows, each held exactly once")
        short = {instance: f"n{number}" for number, instance in enumerate(self.made, 1)}
        print(f"launches {len(self.made)}: {self.reasons}; nodes asked for a capacity of {self.asked}")
        ended, killed = short[self.ended], short.get(self.killed)
        print(f"the API throttled, failed or lost {self.met} calls; AWS ended {ended}, kill -9 hit {killed}")
        name = lambda text: re.sub(r"i-[0-9a-f]{17}", lambda found: short.get(found[0], "tick"), text)
        for at, line in sorted(self.said_by_aws() + self.said_by_tick()):
            print(f"  {at - self.began:6.1f} s  {name(line)}")
        for node, first, last, proof in self.windows:
            held = ", ".join(f"{table} {u} updates {r} rows {h:016x}" for table, (u, r, h) in sorted(proof.items()))
            print(f"  window [{first}, {last}) on {name(node)}: {held}")
        counts = collections.Counter(
            (call["action"], "" if call["status"] < 400 else " refused")
            for call in self.api.ask("calls", self.first_call)
            if call["by"] != "operator"
        )
        print("  calls of instances:", ", ".join(f"{action}{how} {n}" for (action, how), n in sorted(counts.items())))

    def said_by_aws(self):
        """Launches, terminations, faults: list of (time, line)."""
        lines = []
        for event in self.api.ask("events", self.first_event):
            kind, instance = event["event"], event.get("instance", "")
            details = {
                "desired": lambda: f"desired capacity {event['before']} -> {event['after']}",
                "launch": lambda: f"launch {instance}",
                "scheduled": lambda: f"scheduled action {event['action']}",
                "health": lambda: f"AWS finds {instance} {event['status']}",
                "kill -9": lambda: f"kill -9 {instance}",
                "terminated": lambda: f"terminated {instance}",
                "hook-completed": lambda: f"{instance} completes {event['hook']}",
                "hook-timeout": lambda: f"{instance}: time of {event['hook']} is over",
                "fault": lambda: f"FAULT {event['operation']} {event['action']} x {event['count']}",
                "faults end": lambda: "faults end",
            }
            if kind in details and (kind != "desired" or event["before"] is not None):
                lines.append((event["t"], details[kind]()))
        return lines

    def said_by_tick(self):
        """Nodes that became live or rolled, from the tickerplant's log lines."""
        lines = []
        for machine in self.machines.all("tick-asg"):
            pattern = r"^(\S+)Z +\w+ elastick::tick::plant::queue: (.*)$"
            for stamp, line in re.findall(pattern, machine.printed(), re.M):
                if re.search(r"is live from|node rolled|has left|takes the|about to leave", line):
                    at = datetime.datetime.fromisoformat(stamp).replace(tzinfo=datetime.timezone.utc)
                    lines.append((at.timestamp(), line.replace(f" queue={self.rdb_group}", "")))
        return lines
