"""A schedule of faults, drawn from a seed: what is started with which point armed, and what happens to whom."""

import random
from dataclasses import dataclass, field

# How often a point is passed before something happens there, at most: these are passed all the time.
BUSY = {
    "log-before-write": 150,
    "log-half-written": 150,
    "log-written": 150,
    "log-before-sync": 60,
    "log-synced": 60,
    "before-publish": 150,
    "before-ack": 150,
    "acknowledged": 150,
    "socket-half-written": 300,
    "sockets-between": 300,
    "journal-before-write": 8,
    "journal-half-written": 8,
    "journal-written": 8,
    "queue-stepped": 40,
    "queue-between-actions": 20,
    "node-fed": 300,
    "node-before-send": 15,
    "node-sent": 15,
    "node-replays": 3,
    "feed-flushed": 40,
    "feed-before-confirm": 4,
    "feed-confirmed": 4,
}

# What has to happen in a schedule, one right after the other, for a point to be passed at all.
NEEDS = {
    **{f"day-{at}": "day" for at in ("flushed", "log-made", "end-sent", "queue-ended", "closed")},
    "node-day-ends": "day",
    "node-day-ended": "day",
    "bye-said": "end tick",
    "rebuild-told": "kill rolled",
    "node-rebuilds": "kill rolled",
    "node-rebuilt": "kill rolled",
    # Whoever is away while the tickerplant begins anew is given up.
    "node-drops": "pause rolled; kill tick",
    "node-leaves": "end rolled",
    "node-hands": "end rolled",
    "node-shows": "end rolled",
    "feed-reconnected": "kill tick",
    "feed-looked-up": "kill tick",
    "feed-resent": "kill tick",
    "start-restored": "kill tick",
}

# Started again, a tickerplant passes these at once.
AT_START = ("start-locked", "start-log-opened", "start-journal-read", "start-restored")
# Passed by whoever takes over what another held: any but the first node.
BY_OTHERS = ("node-rebuilds", "node-rebuilt", "node-shows")
# Long enough for a node to be given up.
LONG_S = 2.5
VICTIMS = ("tick", "live", "rolled", "waiting")
DURABILITIES = ("os", "os", "each", "group(5ms)")


@dataclass
class Armed:
    program: str
    name: str
    nth: int
    action: str

    def __str__(self):
        return f"{self.name} {self.nth} {self.action}"


@dataclass
class Step:
    """What happens once so many updates of each publisher have gone out. `seconds` is how long a pause lasts."""

    updates: int
    fault: str
    victim: str = ""
    seconds: float = 0.0

    def named(self):
        return f"{self.fault} {self.victim}".strip()

    def __str__(self):
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        return self.named() + lasting


@dataclass
class Schedule:
    seed: int
    options: tuple
    # For each program, what its processes have armed, in the order in which they are started.
    armed: dict = field(default_factory=dict)
    steps: list = field(default_factory=list)
    with_paper: bool = False

    def __str__(self):
        armed = [str(point) for points in self.armed.values() for point in points if point]
        return f"seed {self.seed}, tick {' '.join(self.options)}: armed {armed}; {'; '.join(map(str, self.steps))}"


def draw(seed, points):
    """The schedule of a seed. Seeds in a row arm the points in a row, first to kill, then to pause."""
    dice = random.Random(seed)
    schedule = Schedule(seed, options=("--durability", dice.choice(DURABILITIES)))
    if dice.random() < 0.15:
        schedule.options += ("-t", "20")
    schedule.with_paper = dice.random() < 0.25
    steps = [drawn_step(dice) for _ in range(dice.randrange(3, 6))]
    program, name = points[seed % len(points)]
    action = "kill" if (seed // len(points)) % 2 == 0 else "pause"
    main = Armed(program, name, drawn_time(dice, name), action)
    more = [armed_at_random(dice, points) for _ in range(dice.randrange(0, 3))]
    for point in [main, *more]:
        of = schedule.armed.setdefault(point.program, [])
        # The first tickerplant starts in an empty directory, and the first node is the first to be full.
        of += [None] * (0 if point.name not in (*AT_START, *BY_OTHERS) or of else 1)
        of += [point] * (3 if point.name in BY_OTHERS else 1)
        need = NEEDS.get(point.name)
        if need and need not in "; ".join(step.named() for step in steps):
            at, updates = dice.randrange(1, len(steps) + 1), dice.randrange(5, 60)
            first, *others = need.split("; ")
            steps[at:at] = [step_named(first, updates), *(step_named(name, 1) for name in others)]
    if any(step.victim == "rolled" for step in steps):
        # There has to be one: the first step comes when somebody has rolled.
        steps[0].updates = max(steps[0].updates, 190)
    schedule.steps = steps
    return schedule


def step_named(name, updates):
    fault, _, victim = name.partition(" ")
    return Step(updates, fault, victim, LONG_S if fault == "pause" else 0.0)


def armed_at_random(dice, points):
    program, name = dice.choice(points)
    return Armed(program, name, drawn_time(dice, name), dice.choice(("kill", "pause")))


def drawn_time(dice, name):
    """At which time of passing a point something happens there. Those that need a fault are seldom passed twice by one process."""
    most = BUSY.get(name, 1 if name in NEEDS or name in AT_START else 2)
    return 1 + int(dice.random() ** 2 * most)


def drawn_step(dice):
    updates = dice.choice((dice.randrange(1, 20), dice.randrange(20, 120)))
    chance = dice.random()
    if chance < 0.45:
        return Step(updates, "kill", dice.choice(VICTIMS))
    if chance < 0.75:
        return Step(updates, "pause", dice.choice(VICTIMS), seconds=dice.choice((0.1, 0.3, 1.0, LONG_S)))
    if chance < 0.82:
        return Step(updates, "end", dice.choice(VICTIMS))
    if chance < 0.88:
        return Step(updates, "day")
    if chance < 0.92:
        return Step(updates, "second tick")
    if chance < 0.96:
        return Step(updates, "cut", dice.choice(("watcher", "publisher")))
    return Step(updates, "nothing")
