"""The books: what publishers were told, what the logs hold, what nodes hold, what watchers got. Each against the logs, which are read
here by the harness's own reader."""

import re
from bisect import bisect_left

from . import tplog
from .cluster import ranges

LOG = re.compile(r"\d{4}\.\d\d\.\d\d$")


class Day:
    """One log: its updates as (table, rows' numbers); a table without numbers has its count of rows."""

    def __init__(self, path):
        self.path = path
        self.updates = [(record[1].v, numbers(record[1].v, record[2])) for record in tplog.read(path)]

    def rows(self, table, first=0, last=None):
        """The rows of a table in updates [first, last)."""
        return [row for name, rows in self.updates[first:last] if name == table for row in rows]


def numbers(table, columns):
    """What tells a row from all others: its number; the elastick feed's rows have none, so its prices stand for them."""
    return columns[3].v if table == "tape" else columns[4].v


class Logs:
    """All days of a directory, oldest first."""

    def __init__(self, directory):
        paths = sorted(path for path in directory.iterdir() if LOG.search(path.name))
        self.days = [Day(path) for path in paths]

    @property
    def today(self):
        return self.days[-1]

    def all_rows(self, table):
        return [row for day in self.days for row in day.rows(table)]

    def place(self, path, index, table):
        """How many rows of a table come before update `index` of the day of this log."""
        before = 0
        for day in self.days:
            if str(day.path) == path.lstrip(":"):
                return before + len(day.rows(table, 0, index))
            before += len(day.rows(table))
        raise AssertionError(f"{path} is none of the logs")


def of_publisher(logs, publisher):
    """What is wrong between what a publisher was told and the logs."""
    found = [rows for day in logs.days for name, rows in day.updates if name == publisher.table]
    firsts = [rows[0] for rows in found]
    sent = set(publisher.sent)
    wrong = [f"an update of rows {rows[0]} to {rows[-1]} was never sent" for rows in found if rows[0] not in sent]
    for rows in found:
        if rows != list(range(rows[0], rows[0] + publisher.rows)):
            wrong.append(f"the update of row {rows[0]} has other rows than were sent")
    lost = sorted(publisher.acknowledged - set(firsts))
    if lost:
        wrong.append(f"{len(lost)} acknowledged updates are in no log, the first begins with row {lost[0]}")
    # One after the other in the order of sending: none twice, none before an earlier one.
    for before, after in zip(firsts, firsts[1:]):
        if after <= before:
            wrong.append(f"the update of row {after} comes behind that of row {before}")
    return [f"{publisher.table}: {text}" for text in wrong[:8]]


def of_watcher(logs, watcher):
    """What is wrong with what a watcher got; and whether it has everything up to the end."""
    logged = logs.all_rows(watcher.table)
    wrong, is_at_end = [], False
    for segment in list(watcher.segments):
        first = logs.place(segment.log, segment.i, watcher.table)
        got = list(segment.seqs)
        is_at_end = first + len(got) == len(logged)
        if got != logged[first : first + len(got)]:
            at = next((i for i, (a, b) in enumerate(zip(got, logged[first:])) if a != b), len(logged) - first)
            wrong.append(
                f"the watcher of {watcher.table}, from {segment.i} of {segment.log} on: of {len(got)} rows, row {at} is"
                f" {got[at : at + 1]}, and {logged[first + at : first + at + 1]} in the log"
            )
    return wrong, is_at_end


def of_nodes(day, answers, tables):
    """What is wrong with what nodes hold, each with its windows, of this day. `answers`: name, windows (first, last, open), rows by table."""
    wrong = []
    windows = sorted(window for _, windows, _ in answers for window in windows)
    at = 0
    for first, last, _ in windows:
        if first != at:
            wrong.append(f"windows {[w[:2] for w in windows]}: {'a gap' if first > at else 'an overlap'} at {min(at, first)}")
        at = last
    if [is_open for *_, is_open in windows] != [False] * (len(windows) - 1) + [True]:
        wrong.append(f"not one open window behind all closed ones: {windows}")
    if at != len(day.updates):
        wrong.append(f"windows end at {at}, the log at {len(day.updates)}")
    for name, windows, rows in answers:
        for table in tables:
            wanted = sorted(row for first, last, _ in windows for row in day.rows(table, first, last))
            if difference := differences(wanted, sorted(rows[table])):
                wrong.append(f"{name} with {[w[:2] for w in sorted(windows)]}: {table} {difference}")
    return wrong


def differences(wanted, held):
    """How two sorted lists differ, in words; nothing if they do not."""
    if wanted == held:
        return ""
    missing = [row for row in sorted(set(wanted)) if not contains(held, row)]
    strange = [row for row in sorted(set(held)) if not contains(wanted, row)]
    return f"of {len(wanted)} rows {len(held)} are held; missing {shown(missing)}; not wanted {shown(strange)}"


def shown(rows):
    return ranges(rows) if rows and isinstance(rows[0], int) else rows[:8]


def contains(ordered, row):
    at = bisect_left(ordered, row)
    return at < len(ordered) and ordered[at] == row


def of_look(logs, name, windows, rows, table):
    """Whether what a node said in the middle of things was true of some day: its closed windows whole, of the open one a part
    without gap."""
    for day in logs.days:
        if max((last for _, last, _ in windows), default=0) > len(day.updates):
            continue
        closed = sorted(row for first, last, is_open in windows if not is_open for row in day.rows(table, first, last))
        opened = [row for first, _, is_open in windows if is_open for row in day.rows(table, first)]
        rest = len(rows) - len(closed)
        if 0 <= rest <= len(opened) and sorted(rows) == sorted(closed + opened[:rest]):
            return []
    return [f"{name} answered {len(rows)} rows of {table} with windows {sorted(windows)}, which is true of no day's log"]
