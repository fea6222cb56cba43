"""Tests of the audit: each kind of loss and duplication is injected into otherwise correct logs and replies, and must be found."""

import pathlib
import shutil
import tempfile
import unittest
from types import SimpleNamespace

from harness import audit, kdb, tplog
from harness.scene import trades
from harness.watchers import Segment

ROWS = 3
TABLES = ("trade",)


def logged(first, rows=ROWS):
    """The record of an update of rows from `first` on."""
    times = kdb.K(kdb.TIMESPAN, [0] * rows)
    return tplog.update("trade", kdb.lst(times, *trades(first, rows).v))


class Books(unittest.TestCase):
    """Logs of two days: updates 0 and 1, then 2, 3 and 4. Row numbers continue across the days."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="elastick-audit-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.write([0, 3], [6, 9, 12])

    def write(self, *days):
        self.paths = [self.directory / f"sym2026.11.{21 + at}" for at in range(len(days))]
        for path, firsts in zip(self.paths, days):
            tplog.write(path, [logged(first) for first in firsts])
        self.logs = audit.Logs(self.directory)

    # Acknowledgements to publishers.

    def publisher(self, sent=(0, 3, 6, 9, 12), acknowledged=(0, 3, 6, 9, 12)):
        return SimpleNamespace(table="trade", rows=ROWS, sent=list(sent), acknowledged=set(acknowledged))

    def of_publisher(self, **told):
        return audit.of_publisher(self.logs, self.publisher(**told))

    def test_a_publisher_whose_updates_are_all_logged(self):
        self.assertEqual(self.of_publisher(), [])

    def test_an_update_without_an_answer_may_be_in_no_log(self):
        self.assertEqual(self.of_publisher(sent=(0, 3, 6, 9, 12, 15)), [])

    def test_an_acknowledged_update_that_is_lost(self):
        self.write([0, 3], [6, 12])
        self.assertEqual(len(self.of_publisher()), 1)

    def test_an_update_that_is_logged_twice(self):
        self.write([0, 3], [6, 9, 9, 12])
        self.assertEqual(len(self.of_publisher()), 1)

    def test_an_update_that_is_logged_again_the_next_day(self):
        self.write([0, 3], [3, 6, 9, 12])
        self.assertEqual(len(self.of_publisher()), 1)

    def test_updates_in_another_order(self):
        self.write([0, 3], [9, 6, 12])
        self.assertEqual(len(self.of_publisher()), 1)

    def test_an_update_that_nobody_has_sent(self):
        self.write([0, 3], [6, 9, 12, 15])
        self.assertEqual(len(self.of_publisher()), 1)

    def test_an_update_with_other_rows(self):
        tplog.write(self.paths[1], [logged(6), logged(9, rows=2), logged(12)])
        self.logs = audit.Logs(self.directory)
        self.assertEqual(len(self.of_publisher()), 1)

    # Contents of nodes.

    def of_nodes(self, *answers):
        """Audits nodes, given as windows (first, last, open) and row numbers."""
        held = [(f"node{at}", set(windows), {"trade": list(rows)}) for at, (windows, rows) in enumerate(answers)]
        return audit.of_nodes(self.logs.today, held, TABLES)

    def test_nodes_that_hold_everything_once(self):
        closed, opened = ([(0, 2, False)], range(6, 12)), ([(2, 3, True)], range(12, 15))
        self.assertEqual(self.of_nodes(closed, opened), [])

    def test_a_row_that_a_node_lacks(self):
        self.assertEqual(len(self.of_nodes(([(0, 2, False)], range(6, 11)), ([(2, 3, True)], range(12, 15)))), 1)

    def test_a_row_that_a_node_holds_twice(self):
        self.assertEqual(len(self.of_nodes(([(0, 2, False)], [6, *range(6, 12)]), ([(2, 3, True)], range(12, 15)))), 1)

    def test_a_row_that_is_not_in_the_windows(self):
        self.assertEqual(len(self.of_nodes(([(0, 2, False)], range(6, 13)), ([(2, 3, True)], range(12, 15)))), 1)

    def test_a_window_that_nobody_holds(self):
        self.assertTrue(self.of_nodes(([(0, 1, False)], range(6, 9)), ([(2, 3, True)], range(12, 15))))

    def test_a_window_that_two_hold(self):
        closed = ([(0, 2, False)], range(6, 12))
        self.assertTrue(self.of_nodes(closed, closed, ([(2, 3, True)], range(12, 15))))

    def test_nobody_is_live(self):
        self.assertEqual(len(self.of_nodes(([(0, 3, False)], range(6, 15)))), 1)

    def test_nodes_that_are_behind_the_log(self):
        self.assertEqual(len(self.of_nodes(([(0, 2, True)], range(6, 12)))), 1)

    def test_no_node_at_all(self):
        self.assertTrue(self.of_nodes())

    def test_rows_of_the_day_before(self):
        self.assertTrue(self.of_nodes(([(0, 3, True)], range(0, 15))))

    # Replies of nodes during the faults.

    def of_look(self, windows, rows):
        return audit.of_look(self.logs, "node0", set(windows), list(rows), "trade")

    def test_a_look_at_a_part_of_the_open_window(self):
        self.assertEqual(self.of_look([(0, 1, False), (1, 3, True)], range(6, 12)), [])

    def test_a_look_at_the_day_before(self):
        self.assertEqual(self.of_look([(0, 2, False)], range(0, 6)), [])

    def test_a_look_at_a_closed_window_that_lacks_a_row(self):
        self.assertEqual(len(self.of_look([(0, 2, False)], range(6, 11))), 1)

    def test_a_look_at_an_open_window_with_a_gap(self):
        self.assertEqual(len(self.of_look([(0, 3, True)], [6, 7, 8, 12, 13, 14])), 1)

    def test_a_look_at_a_row_twice(self):
        self.assertEqual(len(self.of_look([(0, 3, True)], [6, 6, 7])), 1)

    # Messages to a subscriber.

    def of_watcher(self, seqs, ends, i=1, day=0):
        segment = Segment(i, f":{self.paths[day]}")
        segment.seqs, segment.ends = list(seqs), list(ends)
        return audit.of_watcher(self.logs, SimpleNamespace(table="trade", segments=[segment]))

    def test_a_watcher_that_was_sent_everything(self):
        self.assertEqual(self.of_watcher(range(3, 15), [3]), ([], True))

    def test_a_watcher_that_is_still_to_be_sent_the_last_rows(self):
        self.assertEqual(self.of_watcher(range(3, 12), [3]), ([], False))

    def test_a_watcher_that_was_not_sent_a_row(self):
        wrong, _ = self.of_watcher([3, 4, 6, 7], [])
        self.assertEqual(len(wrong), 1)

    def test_a_watcher_that_was_sent_a_row_twice(self):
        wrong, _ = self.of_watcher([3, 3, 4], [])
        self.assertEqual(len(wrong), 1)

    def test_a_watcher_that_was_sent_what_is_in_no_log(self):
        wrong, _ = self.of_watcher(range(3, 18), [3])
        self.assertEqual(len(wrong), 1)

    def test_a_watcher_that_was_not_told_of_the_days_end(self):
        self.assertEqual(self.of_watcher(range(3, 15), []), ([], False))

    def test_a_watcher_that_was_told_of_the_days_end_too_late(self):
        wrong, _ = self.of_watcher(range(3, 15), [6])
        self.assertEqual(len(wrong), 1)

    def test_a_watcher_that_was_told_of_an_end_that_is_none(self):
        wrong, _ = self.of_watcher(range(6, 15), [3], i=0, day=1)
        self.assertEqual(len(wrong), 1)

    def test_a_watcher_without_a_connection(self):
        self.assertEqual(audit.of_watcher(self.logs, SimpleNamespace(table="trade", segments=[])), ([], False))

    # Counts of elastick feeds.

    def of_feeds(self, *accounts):
        return audit.of_feeds(self.logs, "trade", accounts)

    def told(self, updates, unconfirmed=0):
        return {"tables": {"trade": {"updates": updates, "rows": updates * ROWS}}, "unconfirmed": unconfirmed}

    def test_feeds_that_tell_the_truth(self):
        self.assertEqual(self.of_feeds(self.told(2), self.told(3)), [])

    def test_feeds_that_do_not_know_of_some(self):
        self.assertEqual(self.of_feeds(self.told(2), self.told(1, unconfirmed=3)), [])

    def test_feeds_that_were_told_of_more_than_is_logged(self):
        self.assertEqual(len(self.of_feeds(self.told(6))), 1)

    def test_feeds_that_were_told_of_more_than_is_logged_beside_one_that_was_killed(self):
        self.assertEqual(len(self.of_feeds(self.told(6), None)), 1)

    def test_feeds_of_which_more_is_logged_than_they_have_sent(self):
        self.assertEqual(len(self.of_feeds(self.told(3, unconfirmed=1))), 1)

    def test_one_that_was_killed_may_have_sent_any_number(self):
        self.assertEqual(self.of_feeds(self.told(2), None), [])

    def test_an_update_that_a_feed_has_sent_twice_whatever_became_of_it(self):
        self.write([0, 3], [3, 6, 9])
        self.assertEqual(len(self.of_feeds(self.told(2), None)), 1)
        self.assertEqual(len(self.of_feeds(self.told(5))), 1)
