"""The audit: compares acknowledgements to publishers, contents of nodes, and messages to subscribers with the logs, which the harness's
own reader reads."""

import collections
import itertools
import re
from bisect import bisect_left

from . import tplog
from .cluster import ranges

LOG = re.compile(r"\d{4}\.\d\d\.\d\d$")


class Day:
    """One log: its updates as (table, row numbers); for a table without numbers, the count of rows."""

    def __init__(self, path):
        self.path = path
        self.updates = [(record[1].v, numbers(record[1].v, record[2])) for record in tplog.read(path)]

    def rows(self, table, first=0, last=None):
        """The rows of a table in updates [first, last)."""
        return [row for name, rows in self.updates[first:last] if name == table for row in rows]

    def contents(self, table):
        """The rows of each update of a table."""
        records = (record for record in tplog.read(self.path) if record[1].v == table)
        return [tuple(tuple(column.v) for column in record[2].v) for record in records]


def numbers(table, columns):
    """Values that identify rows: their numbers; for rows of the elastick feed, which have none, their prices."""
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

    def since(self, path, index, table):
        """Rows of a table from update `index` of this log's day on, by day: the rest of this day, then each later day."""
        at = next((at for at, day in enumerate(self.days) if str(day.path) == path.lstrip(":")), None)
        if at is None:
            raise AssertionError(f"{path} is none of the logs")
        return [day.rows(table, index if day is self.days[at] else 0) for day in self.days[at:]]


def of_publisher(logs, publisher):
    """Differences between the acknowledgements to a publisher and the logs."""
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
    # Logged in the order of sending, and none twice.
    for before, after in zip(firsts, firsts[1:]):
        if after <= before:
            wrong.append(f"the update of row {after} comes behind that of row {before}")
    return [f"{publisher.table}: {text}" for text in wrong[:8]]


def of_watcher(logs, watcher):
    """Differences between the messages to a subscriber and the logs, and whether it has everything up to the end."""
    wrong, is_at_end = [], False
    for segment in list(watcher.segments):
        days = logs.since(segment.log, segment.i, watcher.table)
        logged = [row for rows in days for row in rows]
        # Row counts at the ends of days, except today.
        nights = list(itertools.accumulate(map(len, days)))[:-1]
        ends, got = list(segment.ends), list(segment.seqs)
        is_at_end = len(got) == len(logged) and ends == nights
        of = f"the watcher of {watcher.table}, from {segment.i} of {segment.log} on"
        if got != logged[: len(got)]:
            at = next((i for i, (a, b) in enumerate(zip(got, logged)) if a != b), len(logged))
            wrong.append(f"{of}: of {len(got)} rows, row {at} is {got[at : at + 1]}, and {logged[at : at + 1]} in the log")
        if ends != nights[: len(ends)]:
            wrong.append(f"{of}: was told of days' ends after {ends} rows, they are after {nights}")
    return wrong, is_at_end


def of_nodes(day, answers, tables):
    """Differences between the rows on nodes and this day's log. `answers`: name, windows (first, last, open), rows by table."""
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
    """The differences of two sorted lists as text; empty if there are none."""
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


def of_feeds(logs, table, accounts):
    """Differences between the counts of elastick feeds for a table and the logs. `accounts`: the counts that each feed printed at its end,
    None for a killed feed. Updates that were unconfirmed at the end may be logged or not. A feed never sends two equal updates, and each
    has its own seed, so an update that is logged twice was sent twice."""
    times = collections.Counter(update for day in logs.days for update in day.contents(table))
    twice = sum(count - 1 for count in times.values())
    if twice:
        return [f"{twice} updates of {table} are in the logs more than once"]
    logged = [len(rows) for day in logs.days for name, rows in day.updates if name == table]
    told = [account for account in accounts if account is not None]
    updates, rows = (sum(of["tables"].get(table, {}).get(what, 0) for of in told) for what in ("updates", "rows"))
    unconfirmed = sum(of["unconfirmed"] for of in told)
    said = f"feeds were told that {updates} updates of {table} with {rows} rows were accepted, {unconfirmed} are unconfirmed;"
    found = f"the logs have {len(logged)} with {sum(logged)}"
    if len(logged) < updates or sum(logged) < rows:
        return [f"{said} {found}"]
    if len(told) == len(accounts) and (len(logged) > updates + unconfirmed or (not unconfirmed and sum(logged) != rows)):
        return [f"{said} {found}, and nobody else published"]
    return []


def of_look(logs, name, windows, rows, table):
    """Differences of a reply that a node gave during the faults, unless it was correct for some day: closed windows complete, the open one
    a prefix without gap."""
    for day in logs.days:
        if max((last for _, last, _ in windows), default=0) > len(day.updates):
            continue
        closed = sorted(row for first, last, is_open in windows if not is_open for row in day.rows(table, first, last))
        opened = [row for first, _, is_open in windows if is_open for row in day.rows(table, first)]
        rest = len(rows) - len(closed)
        if 0 <= rest <= len(opened) and sorted(rows) == sorted(closed + opened[:rest]):
            return []
    return [f"{name} answered {len(rows)} rows of {table} with windows {sorted(windows)}, which is true of no day's log"]
