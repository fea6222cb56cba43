"""Plays a schedule of faults on real processes, then has everything settle, and looks at the books."""

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
# How long publishers may take to get as far as a step wants; with the tickerplant paused they do not.
STEP_S = 0.6
# What is thrown at one who is not there yet waits for him so long.
VICTIM_S = 3
# Once no fault happens any more: how long nothing may change although something is not right, and how long it may all take. They end
# only what has failed; a slow machine gets as far, later.
STILL_S = 90
SETTLED_S = 900
# A publisher whose answer is lost must stand still, not dial again.
ANSWER_S = 2 * SETTLED_S
ROWS = 200
# Of each elastick feed: on a machine that is slow, schedules last longer and must not grow with it.
FEED_UPDATES = 2500
NODES_MOST = 16


def state_of(pid):
    """The letter of a process's state: T where it is paused."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def has_come(process, point):
    return f"at the point {point.name}\n" in process.printed()


class Play(Cluster):
    """One schedule. It is the fleet as well: a tickerplant that is gone is started again, a node that is missing is replaced."""

    schema = SCHEMA + "tape:([]time:`timespan$();sym:`g#`symbol$();price:`float$();size:`long$())\n"
    # About 30,000 trades each.
    node_options = ("--memory", "2MiB", "--scale", "30", "--roll-threshold", "60", "--leave-within", "20s")
    schedule = None
    # Where the files of a schedule that went wrong are kept, if anywhere.
    keep = os.environ.get("ELASTICK_KEEP")

    def setUp(self):
        """Of a test case: processes are a schedule's."""
        if self.schedule is None:
            Scene.setUp(self)
        else:
            super().setUp()

    def play(self, schedule):
        self.doCleanups()
        self.executable = points.binary()
        self.schedule, self.told = schedule, str(schedule)
        self.tick_options = ("--start-grace", "1s", "--node-grace", "300ms", *schedule.options)
        # What has happened and what was looked at, for a report.
        self.tally, self.happened, self.reached = collections.Counter(), collections.Counter(), []
        self.looks = []
        self.paused = {}
        # Who is to die or end: of a kill of ours, at an armed point, by SIGTERM.
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
        """Logs and all that was printed, beside what was to happen."""
        if self.keep:
            (self.directory / "schedule").write_text(f"{self.told}\n")
            with contextlib.suppress(shutil.Error):
                shutil.copytree(self.directory, pathlib.Path(self.keep) / f"seed-{self.schedule.seed}", dirs_exist_ok=True)

    # Processes.

    def start_armed(self, program, name, *arguments):
        """Starts a process with what the next one of its program has armed: first what one that is gone has not come to."""
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

    # What goes on beside the faults.

    def tend(self):
        """What an operator's systemd and fleet do: what is gone is started again, what is paused goes on after its time."""
        now = time.monotonic()
        for process in [self.tp, *self.nodes, *self.feeds]:
            if state_of(process.pid) == "T" and process not in self.paused:
                # At a point of its own.
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
        """The answer of a process that is not paused; None if there is none soon."""
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
        """A question to every node, whose answer must be true of the log as it will be known."""
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
        """The fleet's work: a node more where none waits; `patiently` once all that run have joined."""
        queue = self.queue()
        waiting = queue is None or {"waiting", "away"} & {state for state, *_ in queue}
        coming = patiently and {node.name for node in self.running()} - {name for _, name, *_ in queue or []}
        if not waiting and not coming and len(self.running()) < NODES_MOST:
            self.start_node()

    # Each gives what it has happened to; nothing where it has not.

    def victim(self, step):
        """Who is to be hit: whoever is in that state, or soon is."""
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
        return self.ask_soon(self.tp, ".u.endofday[]")

    def second(self, _):
        """A second tickerplant on the same directory, whatever the first one does: refused while the first one has it."""
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
            # The first one has ended meanwhile: nothing refuses the second one.
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
        """Looks again and again; gives up when nothing changes any more."""
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
        """What changes as long as somebody gets on."""
        return (
            [publisher.done for publisher in self.publishers],
            [len(segment.seqs) for watcher in self.watchers for segment in watcher.segments],
            sum(path.stat().st_size for path in self.logs.iterdir()),
            self.wrong,
        )

    def looked_at(self):
        """All that is not right yet. Publishers stand still, and the elastick feed is told to end, before the books are closed."""
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
            # A machine may be too slow for an answer in so short a time.
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
        """Tells the elastick feed to end, once; it confirms all that it has sent before it does."""
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
        """Windows whose proof has not been compared yet."""
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
            self.assertNotIn("as it was logged", process.printed(), f"{self.told}: a proof differs")
            self.assertTrue(self.ended_well(process), f"{self.told}{process.tail()}")
        self.assertEqual(audit.of_feeds(self.books, "tape", [account(feed) for feed in self.feeds]), [], self.told)

    def ended_well(self, process):
        """It runs, or has ended as it was made to: by us, at its point, by its fleet when a day ended, or, a feed, with its last update."""
        code = process.popen.poll()
        if code == -signal.SIGKILL:
            point = self.armed[process]
            return process in self.killed or point and point.action == "kill" and has_come(process, point)
        if process in self.told_to_end:
            # SIGTERM itself ends only who has not come so far as to heed it; told twice, a process ends at once.
            at_once = code == 1 and self.told_to_end[process] > 1
            return at_once or code in (None, 0, -signal.SIGTERM)
        if process in self.feeds and code is not None:
            told = account(process)
            # At its first connection a feed cannot tell a tickerplant that is gone before it has answered from one that refuses the user.
            refused = code == 1 and "refused the user or password" in process.printed()
            return refused if told is None else code == 0 and told["tables"]["tape"]["updates"] == FEED_UPDATES
        over = process in self.nodes and len(self.books.days) > 1 and "the day is over; terminated\n" in process.printed()
        return code is None or over and code == 0

    def count(self):
        """What was there to be lost, and how often somebody looked."""
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
                if line.startswith("at the point "):
                    self.reached.append(line.removeprefix("at the point "))


def account(feed):
    """The account that a feed printed when it ended."""
    for line in reversed(feed.printed().splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return None
