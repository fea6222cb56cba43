"""A whole stack that sleeps, on AWS: the template with MINNODES=0, whose tickerplant finds its groups by their tags and requests the nodes."""

import pathlib

from aws.cloud import account
from aws.cloud.scene import binary
from aws.test_day import SETTLE_S, Stack


class Night(Stack):
    def whole(self, why):
        """Waits until nodes hold each update of the log once."""
        settled = []

        def look():
            settled[:] = self.held() or []
            return settled and not account.coverage([(first, last, node) for node, first, last, _ in settled], self.tip())

        self.eventually(look, why, SETTLE_S)
        return settled

    def at_zero(self):
        group = self.api.group(self.rdb_group)
        return group["desired"] == 0 and not self.members(self.rdb_group)

    def test_a_stack_without_nodes_is_woken_by_an_update_and_by_a_query(self):
        self.deploy(
            TICKERPLANTS="1", RDBINSTANCETYPE="t3a.medium", SCALETHRESHOLD="45", ROLLTHRESHOLD="70", MAXNODES="8",
            MINNODES="0", WAKE="first-update", IDLEOFF="10s",
            RDBOPTIONS="--memory 12MiB --query-threads 1", TICKOPTIONS="--start-grace 3s",
        )  # fmt: skip
        self.eventually(lambda: self.ask(".u.j") is not None, "the tickerplant is up", SETTLE_S)
        self.assertEqual(self.launches(self.rdb_group), [])
        self.start_round()
        self.eventually(self.feed_has_ended, "the day's updates are sent", SETTLE_S)
        held = self.whole("nodes have the day")
        self.assertEqual(min(first for _, first, _, _ in held), 0)
        launched = len(self.launches(self.rdb_group))
        self.assertGreaterEqual(launched, 1)
        self.eventually(self.at_zero, "the idle group has no instance", SETTLE_S)
        self.assertEqual(len(self.launches(self.rdb_group)), launched, "none replaces those that have ended")
        answer = self.ask(".u.asg.wake[]")
        self.assertIn("then the log is replayed", dict(zip(answer.v[0].v, answer.v[1].v))["text"].v)
        held = self.whole("the day is there again")
        tip, _, sent = self.sent()
        log = pathlib.Path(self.ask(".u.L").v.lstrip(":"))
        self.assertEqual(account.check(binary(), log, tip, sent, held), [])
        self.assertIsNotNone(self.ask(".u.endofday[]"))
        self.eventually(self.at_zero, "all nodes end with the day", SETTLE_S)
