"""kill -9 of any process at random moments (from a seed) under load: no acknowledged update is lost or duplicated."""

import os
import random

from harness.cluster import Cluster
from harness.feeder import Feeder

SEEDS = [int(seed) for seed in os.environ.get("ELASTICK_SEEDS", "1 2").split()]
ROUNDS = 12


class KillsAtRandom(Cluster):
    tick_options = ("--start-grace", "3s", "--node-grace", "500ms")
    # About 30,000 trades each.
    node_options = ("--memory", "2MiB", "--scale", "30", "--roll-threshold", "60")

    def test_anything_at_any_moment(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.doCleanups()
                self.setUp()
                self.play(random.Random(seed), seed)

    def all_are_back(self):
        self.replace_missing()
        return self.states() and "away" not in self.states()

    def play(self, dice, seed):
        for _ in range(3):
            self.start_node()
        self.joined(3)
        feeder = Feeder(self)
        feeder.start()
        killed = []
        for _ in range(ROUNDS):
            updates = dice.randrange(1, 60)
            reached = self.next_seq + dice.randrange(0, updates) * self.rows_at_once
            feeder.allow(updates)
            self.eventually(lambda: self.next_seq >= reached or feeder.failure, "the feeder gets that far")
            if dice.random() < 0.7:
                self.eventually(self.all_are_back, "nodes that run are back in the queue")
            victim = dice.choice(sorted({*self.states(), "tick", "none"} - {"away"}))
            if victim == "tick":
                self.tp.kill()
                self.start_tick()
                killed.append(victim)
            elif node := self.node_in(victim):
                node.kill()
                killed.append(f"{victim} {node.name}")
            self.replace_missing()
        feeder.stop()
        self.publish(5)
        self.assert_held_once(f"seed {seed}, killed: {', '.join(killed)}", fleet=True)
