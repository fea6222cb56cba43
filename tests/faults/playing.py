"""Runs a schedule of faults on real processes, waits until the cluster has recovered, and audits it."""

import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import time

from harness import audit, points
from harness.client import Connection, KdbError
from harness.cluster import GONE, Cluster
from harness.process import eventually, soon
from harness.publishers import Publisher
from harness.scene import SCHEMA, Scene, quotes, trades
from harness.watchers import PaperMember, Watcher
from harness.whole import spans

TABLES = {"trade": "seq", "quote": "seq", "tape": "size"}
QUESTION = "(.rdb.windows;" + ";".join(f"exec {column} from {table}" for table, column in TABLES.items()) + ")"
# Maximum wait for publishers to reach a step; they do not reach it while the tickerplant is paused.
STEP_S = 0.6
# Maximum wait for a fault's victim to exist.
VICTIM_S = 3
# After the last fault: longest time without progress while something is wrong, and longest time to recover. Only failing runs reach
# them.
STILL_S = 90
SETTLED_S = 900
# A publisher whose reply is lost must block rather than reconnect.
ANSWER_S = 2 * SETTLED_S
ROWS = 200
# Updates per elastick feed: on a slow machine schedules last longer, but their size must not grow.
FEED_UPDATES = 2500
NODES_MOST = 16


def state_of(pid):
    """State letter of a process: T if paused."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def has_come(process, point):
    return f"at failpoint {point.name}\n" in process.printed()


class Play(Cluster):
    """One run of a schedule. Also acts as the fleet: restarts the tickerplant and replaces missing nodes."""

    schema = SCHEMA + "tape:([]time:`timespan$();sym:`g#`symbol$();price:`float$();size:`long$())\n"
    # About 30,000 trades each.
    node_options = ("--memory", "2MiB", "--scale", "30", "--roll-threshold", "60", "--leave-within", "20s")
    schedule = None
    # Directory for the files of a failed schedule, if any.
    keep = os.environ.get("ELASTICK_KEEP")

    def setUp(self):
        """Starts no cluster without a schedule: processes belong to one."""
        if self.schedule is None:
            Scene.setUp(self)
        else:
            super().setUp()

    def play(self, schedule):
        self.doCleanups()
        self.executable = points.binary()
        self.schedule, self.told = schedule, str(schedule)
        self.tick_options = ("--start-grace", "1s", "--node-grace", "300ms", *schedule.options)
        # Faults that took effect and replies of nodes, for the report.
        self.tally, self.happened, self.reached = collections.Counter(), collections.Counter(), []
        self.looks = []
        self.paused = {}
        # Processes that are expected to exit: killed by the schedule, at an armed failpoint, by SIGTERM.
        self.killed, self.armed, self.told_to_end = set(), {}, collections.Counter()
        self.arming = True
        self.patience_s = 1
        self.feeds = []
        self.feeding = True
        self.setUp()
        try:
            self.begin()
            for step in schedule.steps:
                self.step(step)
            self.settle()
        except Exception:
            self.keep_files()
            raise
        finally:
            self.note_points()
            for part in self.parts():
                part.stop()

    def keep_files(self):
        """Keeps the logs, all output, and the schedule."""
        if self.keep:
            (self.directory / "schedule").write_text(f"{self.told}\n")
            with contextlib.suppress(shutil.Error):
                shutil.copytree(self.directory, pathlib.Path(self.keep) / f"seed-{self.schedule.seed}", dirs_exist_ok=True)

    # Processes.

    def start_armed(self, program, name, *arguments):
        """Starts a process with the next armed failpoint of its program; failpoints that exited processes did not reach come first."""
        waiting = self.schedule.armed.get(program, [])
        for process, point in self.armed.items():
            if point and point.program == program and not process.is_running() and not has_come(process, point):
                waiting.insert(0, point)
                self.armed[process] = None
        point = waiting.pop(0) if waiting and self.arming else None
        process = self.start(name, program, *arguments, **(points.environment(point.name, point.nth, point.action) if point else {}))
        self.armed[process] = point
        return process

    def start_tick(self):
        self.started += 1
        arguments = ("sym", self.logs, "-p", self.port, "--schemas", self.directory / "sym.q")
        self.tp = self.start_armed("tick", f"tick{self.started}", *arguments, *self.tick_options)
        return self.tp

    def start_node(self):
        name = f"node{len(self.nodes)}"
        arguments = (f"127.0.0.1:{self.port}", "-p", "0", "--queue", "rdb", "--node", name)
        node = self.start_armed("rdb", name, *arguments, *self.node_options)
        self.nodes.append(node)
        return node

    def start_feed(self):
        arguments = (f"127.0.0.1:{self.port}", "--tables", "tape", "--rate", "400", "--confirm", "50", "--json", "--updates", FEED_UPDATES)
        feed = self.start_armed("feed", f"feed{len(self.feeds)}", *arguments, "--seed", len(self.feeds))
        self.feeds.append(feed)

    def begin(self):
        self.publishers = [
            Publisher(self.port, "trade", trades, ROWS, deadline_s=ANSWER_S),
            Publisher(self.port, "quote", quotes, 20, burst=5, deadline_s=ANSWER_S),
        ]
        self.watchers = [Watcher(self.port, "trade"), Watcher(self.port, "quote")]
        self.papers = [PaperMember(self.port, "paper", "trade")] if self.schedule.with_paper else []
        for _ in range(3):
            self.start_node()
        for part in self.parts():
            part.start()
        self.start_feed()

    def parts(self):
        return [*self.publishers, *self.watchers, *self.papers] if hasattr(self, "publishers") else []

    # Background work beside the faults.

    def tend(self):
        """Acts as systemd and fleet: restarts exited processes, and resumes paused ones after their time."""
        now = time.monotonic()
        for process in [self.tp, *self.nodes, *self.feeds]:
            if state_of(process.pid) == "T" and process not in self.paused:
                # Paused itself at a failpoint.
                self.paused[process] = now + self.armed[process].seconds
        for process, until in list(self.paused.items()):
            if now >= until or not process.is_running():
                process.resume()
                del self.paused[process]
        if not self.tp.is_running():
            self.start_tick()
        feed = self.feeds[-1]
        if self.feeding and not feed.is_running() and (feed.popen.returncode != 0 or feed in self.told_to_end):
            self.start_feed()
        for part in self.parts():
            self.assertIsNone(part.failure)

    def tick_serves(self):
        self.tend()
        return self.tp not in self.paused and self.tp.is_running() and "listening on" in self.tp.printed()

    def ask_soon(self, process, question):
        """The reply of a process; None if it is paused or does not reply soon."""
        if process in self.paused or not process.is_running() or "listening on" not in process.printed():
            return None
        try:
            with Connection(process.port, deadline_s=self.patience_s) as h:
                return h.ask(question)
        except (KdbError, *GONE):
            return None

    def queue(self):
        question = "select state, node, held from .u.asg.tab where queue=`rdb, state<>`lost"
        table = self.ask_soon(self.tp, question)
        return None if table is None else list(zip(table.v["state"].v, table.v["node"].v, [()] * len(table)))

    def look(self):
        """Queries every node and records the replies; the final audit compares them with the log."""
        for node in self.running():
            answer = self.ask_soon(node, QUESTION)
            if answer is not None:
                windows, trade, *_ = answer.v
                self.looks.append((node.name, spans(windows), trade.v))

    # Faults.

    def step(self, step):
        for publisher in self.publishers:
            publisher.allow(step.updates)
        wanted = self.publishers[0].done + step.updates

        def is_done():
            self.tend()
            return self.publishers[0].done >= wanted

        soon(is_done, STEP_S + step.updates / 150)
        self.look()
        if getattr(self, step.fault.split()[0])(step) is not None:
            self.happened[step.named()] += 1
        self.tend()
        self.replace()

    def replace(self, patiently=False):
        """Acts as the fleet: starts a node if there is no standby; with `patiently` only after all running nodes have joined."""
        queue = self.queue()
        waiting = queue is None or {"waiting", "away"} & {state for state, *_ in queue}
        coming = patiently and {node.name for node in self.running()} - {name for _, name, *_ in queue or []}
        if not waiting and not coming and len(self.running()) < NODES_MOST:
            self.start_node()

    # Each fault returns its victim, or None if it did not take effect.

    def victim(self, step):
        """The process that is in the state named by the step; waits for one."""
        found = []

        def is_there():
            self.tend()
            found[:] = [self.who_is(step.victim)]
            if not found[0]:
                self.replace(patiently=True)
            return found[0]

        soon(is_there, VICTIM_S)
        return found[0]

    def who_is(self, victim):
        if victim == "tick":
            return self.tp
        if victim == "feed":
            return self.feeds[-1] if self.feeds[-1].is_running() else None
        return self.node_in(victim)

    def kill(self, step):
        if victim := self.victim(step):
            self.killed.add(victim)
            victim.kill()
            self.paused.pop(victim, None)
        return victim

    def pause(self, step):
        if victim := self.victim(step):
            victim.pause()
            self.paused[victim] = time.monotonic() + step.seconds
        return victim

    def end(self, step):
        if victim := self.victim(step):
            self.tell_to_end(victim)
        return victim

    def tell_to_end(self, process):
        if process.is_running():
            self.told_to_end[process] += 1
            process.signal(signal.SIGTERM)

    def day(self, _):
        soon(self.tick_serves, VICTIM_S)
        return self.ask_soon(self.tp, ".u.endofday[`force]")

    def second(self, _):
        """Starts a second tickerplant on the same directory: it must be rejected while the first one has the lock."""
        if not soon(self.tick_serves, VICTIM_S):
            return None
        arguments = ("tick", "sym", self.logs, "-p", "0", "--schemas", self.directory / "sym.q")
        second = self.start("second", *arguments)
        eventually(lambda: not second.is_running() or not self.tp.is_running(), "the second tickerplant is refused", STILL_S)
        refused = second.popen.poll()
        second.kill()
        self.processes.remove(second)
        second.output_file.close()
        if refused is None:
            # The first one has exited meanwhile, so the second one may start.
            return None
        self.assertIn("is in use by another tickerplant", second.printed(), self.told)
        self.assertEqual(refused, 1, self.told)
        return second

    def cut(self, step):
        parts = self.watchers if step.victim == "watcher" else self.publishers
        for part in parts:
            part.cut()
        return parts

    def nothing(self, _):
        return None

    # The end.

    def settle(self):
        self.arming = False
        for publisher in self.publishers:
            publisher.allow(5)

        if not self.comes_right():
            self.fail(f"{self.told}\n" + "\n".join(self.wrong[:20]) + f"\n{self.queue()}")
        self.assert_unharmed()
        self.count()

    def comes_right(self):
        """Repeats the audit until it finds nothing; fails when there is no progress any more."""
        began = changed = time.monotonic()
        seen = None

        def is_over():
            nonlocal changed, seen
            self.tend()
            self.wrong = self.looked_at()
            if not self.wrong:
                return True
            self.replace()
            now = time.monotonic()
            if (state := self.how_far()) != seen:
                changed, seen = now, state
            return now > changed + STILL_S

        soon(is_over, began + SETTLED_S - time.monotonic())
        return not self.wrong

    def how_far(self):
        """A fingerprint of progress: it changes as long as any process makes progress."""
        return (
            [publisher.done for publisher in self.publishers],
            [len(segment.seqs) for watcher in self.watchers for segment in watcher.segments],
            sum(path.stat().st_size for path in self.logs.iterdir()),
            self.wrong,
        )

    def looked_at(self):
        """All current deviations. The audit starts only when publishers are idle and the elastick feed has ended."""
        if any(publisher.allowed._value or not publisher.acknowledged for publisher in self.publishers):
            return ["publishers have not sent everything"]
        if not self.feed_has_ended():
            return ["the feed has not ended"]
        queue = self.queue()
        if queue is None or self.paused:
            return ["a process is paused or does not answer"]
        odd = [f"{name} is {state}" for state, name, _ in queue if state not in ("live", "waiting", "rolled")]
        if odd:
            return odd
        answers = [(node.name, self.ask_soon(node, QUESTION)) for node in self.running()]
        if any(answer is None for _, answer in answers):
            # A slow machine may need longer for a reply.
            self.patience_s = min(2 * self.patience_s, 30)
            return [f"{name} does not answer" for name, answer in answers if answer is None]
        self.books = audit.Logs(self.logs)
        held = [(name, spans(answer.v[0]), dict(zip(TABLES, (rows.v for rows in answer.v[1:])))) for name, answer in answers]
        wrong = audit.of_nodes(self.books.today, held, TABLES)
        for publisher in self.publishers:
            wrong += audit.of_publisher(self.books, publisher)
        for watcher in self.watchers:
            found, is_at_end = audit.of_watcher(self.books, watcher)
            wrong += found if found or is_at_end else [f"the watcher of {watcher.table} has not got everything"]
        wrong += self.of_papers()
        wrong += self.unproved()
        return wrong

    def feed_has_ended(self):
        """Sends SIGTERM to the elastick feed, once; the feed waits for confirmation of all its updates before it exits."""
        if self.feeding:
            self.feeding = False
            self.tell_to_end(self.feeds[-1])
        return not self.feeds[-1].is_running()

    def of_papers(self):
        if not self.papers:
            return []
        held = sorted(row for paper in self.papers for row in paper.seqs())
        difference = audit.differences(sorted(self.books.today.rows("trade")), held)
        return [f"the paper's queue: {difference}"] if difference else []

    def unproved(self):
        """Windows that are not verified yet."""
        question = "exec node from .u.asg.tab where queue=`rdb, state=`rolled, verified<>`yes"
        nodes = self.ask_soon(self.tp, question)
        if nodes is None:
            return ["the tickerplant does not answer"]
        return [f"nothing has proved what {name} holds" for name in nodes.v]

    def assert_unharmed(self):
        for name, windows, rows in self.looks:
            self.assertEqual(audit.of_look(self.books, name, windows, rows, "trade"), [], self.told)
        for process in self.processes:
            self.assertNotIn("panicked", process.printed(), self.told)
            self.assertNotIn("differs from the log", process.printed(), f"{self.told}: a proof differs")
            self.assertTrue(self.ended_well(process), f"{self.told}{process.tail()}")
        self.assertEqual(audit.of_feeds(self.books, "tape", [account(feed) for feed in self.feeds]), [], self.told)

    def ended_well(self, process):
        """Whether the process runs or exited as expected: by the schedule, its failpoint, the end of its day, or a feed's last update."""
        code = process.popen.poll()
        if code == -signal.SIGKILL:
            point = self.armed[process]
            return process in self.killed or point and point.action == "kill" and has_come(process, point)
        if process in self.told_to_end:
            # SIGTERM kills a process that has not installed its handler yet; a second SIGTERM makes a process exit at once.
            at_once = code == 1 and self.told_to_end[process] > 1
            return at_once or code in (None, 0, -signal.SIGTERM)
        if process in self.feeds and code is not None:
            told = account(process)
            # On its first connection a feed cannot distinguish a tickerplant that died before replying from a rejected login.
            refused = code == 1 and "rejected the user or password" in process.printed()
            return refused if told is None else code == 0 and told["tables"]["tape"]["updates"] == FEED_UPDATES
        over = process in self.nodes and len(self.books.days) > 1 and "the day is over; terminated\n" in process.printed()
        return code is None or over and code == 0

    def count(self):
        """Counts updates, starts and replies, for the report."""
        days = self.books.days
        self.tally["updates logged"] = sum(len(day.updates) for day in days)
        self.tally["updates acknowledged"] = sum(len(publisher.acknowledged) for publisher in self.publishers)
        self.tally["updates without an answer"] = sum(len(set(of.sent) - of.acknowledged) for of in self.publishers)
        self.tally["answers of nodes while faults happened"] = len(self.looks)
        self.tally["tickerplants started"] = self.started
        self.tally["nodes started"] = len(self.nodes)
        self.tally["days ended"] = len(days) - 1

    def note_points(self):
        for process in self.processes:
            for line in process.printed().splitlines():
                if line.startswith("at failpoint "):
                    self.reached.append(line.removeprefix("at failpoint "))


def account(feed):
    """The counts that a feed printed at its end."""
    for line in reversed(feed.printed().splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return None
