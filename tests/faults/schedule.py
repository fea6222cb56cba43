"""A schedule of faults, drawn from a seed: the armed failpoints of each process, and the faults with their victims."""

import random
from dataclasses import dataclass, field

# Maximum number of passes before a frequently passed failpoint acts.
BUSY = {
    "log-before-write": 150,
    "log-half-written": 150,
    "log-written": 150,
    "log-before-sync": 60,
    "log-synced": 60,
    "sockets-before-write": 150,
    "sockets-written": 150,
    "socket-half-written": 300,
    "sockets-between": 300,
    "journal-before-write": 8,
    "journal-half-written": 8,
    "journal-written": 8,
    "tick-takes-join": 8,
    "tick-takes-proved": 4,
    "tick-sends-joined": 8,
    "node-takes-update": 300,
    "node-log-read": 3,
    # The first connection of a process, and those after it has lost one.
    "client-connected": 3,
    "client-before-write": 25,
    "client-half-written": 25,
    "client-written": 25,
    "client-answered": 6,
}

# A restarted tickerplant passes these at once.
AT_START = ("start-locked", "start-log-opened", "journal-opened", "before-listen")

# Faults, in direct succession, without which a failpoint is never passed.
NEEDS = {
    "log-before-roll": "day",
    "log-before-name": "day",
    "log-rolled": "day",
    "tick-sends-end": "day",
    "node-takes-end": "day",
    "tick-sends-bye": "end tick",
    "tick-sends-rebuild": "kill rolled",
    "tick-takes-proved": "kill rolled",
    "node-takes-rebuild": "kill rolled",
    "node-sends-proved": "kill rolled",
    # A restarted tickerplant gives up a node that stays disconnected.
    "node-takes-drop": "pause rolled; kill tick",
    "node-sends-join": "kill tick",
    "tick-takes-leaving": "end rolled",
    "tick-sends-handed": "end rolled",
    "node-sends-leaving": "end rolled",
    "node-takes-handed": "end rolled",
    "node-takes-show": "end rolled",
    "client-connected": "kill tick",
    "feed-log-read": "kill tick",
    # The second tickerplant process passes them.
    **{at: "kill tick" for at in AT_START},
}

# Passed by a node that takes over another's window, or goes live when the log has updates: any but the first node.
BY_OTHERS = ("node-takes-rebuild", "node-sends-proved", "node-takes-show", "node-log-read")
# Longer than a node's grace period.
LONG_S = 2.5
VICTIMS = ("tick", "live", "rolled", "waiting", "feed")
# Short-lived states of nodes, each with the fault that causes it.
PASSING = {"rebuilding": "kill rolled", "taking": "end rolled", "leaving": "end rolled"}
PAUSES_S = (0.1, 0.3, 1.0, LONG_S, 4.0)
DURABILITIES = ("os", "os", "each", "group(5ms)")


@dataclass
class Armed:
    program: str
    name: str
    nth: int
    action: str
    # Duration of the pause.
    seconds: float = 0.0

    def __str__(self):
        return f"{self.name} {self.nth} {self.action}{lasting(self.seconds)}"


def lasting(seconds):
    return f" for {seconds:.1f} s" if seconds else ""


@dataclass
class Step:
    """A fault, after each publisher has sent `updates` more updates. `seconds` is the duration of a pause."""

    updates: int
    fault: str
    victim: str = ""
    seconds: float = 0.0

    def named(self):
        return f"{self.fault} {self.victim}".strip()

    def __str__(self):
        return self.named() + lasting(self.seconds)


@dataclass
class Schedule:
    seed: int
    options: tuple
    # Armed failpoints by program, one per process in the order of their start.
    armed: dict = field(default_factory=dict)
    steps: list = field(default_factory=list)
    with_paper: bool = False

    def __str__(self):
        armed = [str(point) for points in self.armed.values() for point in points if point]
        return f"seed {self.seed}, tick {' '.join(self.options)}: armed {armed}; {'; '.join(map(str, self.steps))}"


def in_turn(points):
    """The failpoints, with the programs interleaved in proportion to their failpoints, so that a dozen consecutive seeds use each program."""
    mixed = random.Random(1).sample(points, len(points))
    of = {program: [point for point in mixed if point[0] == program] for program, _ in points}
    return sorted(mixed, key=lambda point: (of[point[0]].index(point) + 0.5) / len(of[point[0]]))


def draw(seed, points):
    """The schedule of a seed. Consecutive seeds arm the failpoints in turn, alternately to kill and to pause; the next round swaps the two."""
    dice = random.Random(seed)
    schedule = Schedule(seed, options=("--durability", dice.choice(DURABILITIES)))
    if dice.random() < 0.15:
        schedule.options += ("-t", "20")
    schedule.with_paper = dice.random() < 0.25
    steps = [step for _ in range(dice.randrange(3, 6)) for step in drawn_steps(dice)]
    rounds, at = divmod(seed, len(points))
    program, name = in_turn(points)[at]
    main = armed(dice, program, name, ("kill", "pause")[(at + rounds) % 2])
    more = [armed_at_random(dice, points) for _ in range(dice.randrange(0, 3))]
    for point in [main, *more]:
        of = schedule.armed.setdefault(point.program, [])
        # Not in the first process: the first tickerplant starts in an empty directory, and the first node is the first to be full.
        of += [None] * (0 if point.name not in (*AT_START, *BY_OTHERS) or of else 1)
        of += [point] * (3 if point.name in BY_OTHERS else 1)
        need = NEEDS.get(point.name)
        if need and need not in "; ".join(step.named() for step in steps):
            at, updates = dice.randrange(1, len(steps) + 1), dice.randrange(5, 60)
            first, *others = need.split("; ")
            steps[at:at] = [step_named(first, updates), *(step_named(name, 1) for name in others)]
    if any(step.victim == "rolled" for step in steps):
        # Delay the first step until a node has rolled.
        steps[0].updates = max(steps[0].updates, 190)
    schedule.steps = steps
    return schedule


def step_named(name, updates):
    fault, _, victim = name.partition(" ")
    return Step(updates, fault, victim, LONG_S if fault == "pause" else 0.0)


def armed_at_random(dice, points):
    program, name = dice.choice(points)
    return armed(dice, program, name, dice.choice(("kill", "pause")))


def armed(dice, program, name, action):
    nth = drawn_time(dice, name)
    return Armed(program, name, nth, action, dice.choice((0.4, 0.4, *PAUSES_S[2:])) if action == "pause" else 0.0)


def drawn_time(dice, name):
    """The pass at which a failpoint acts. A process rarely passes a failpoint that needs a fault twice."""
    most = BUSY.get(name, 1 if name in NEEDS or name in AT_START else 2)
    return 1 + int(dice.random() ** 2 * most)


def drawn_steps(dice):
    """Usually one fault; for a victim in a short-lived state, first the fault that causes that state."""
    step = drawn_step(dice)
    if step.victim not in PASSING:
        return [step]
    return [step_named(PASSING[step.victim], step.updates), Step(1, step.fault, step.victim, step.seconds)]


def drawn_step(dice):
    updates = dice.choice((dice.randrange(1, 20), dice.randrange(20, 120)))
    chance = dice.random()
    victim = dice.choice(VICTIMS if dice.random() < 0.85 else tuple(PASSING))
    if chance < 0.45:
        return Step(updates, "kill", victim)
    if chance < 0.75:
        return Step(updates, "pause", victim, seconds=dice.choice(PAUSES_S))
    if chance < 0.82:
        return Step(updates, "end", victim)
    if chance < 0.88:
        return Step(updates, "day")
    if chance < 0.92:
        return Step(updates, "second tick")
    if chance < 0.96:
        return Step(updates, "cut", dice.choice(("watcher", "publisher")))
    return Step(updates, "nothing")
