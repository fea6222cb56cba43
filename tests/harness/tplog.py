"""kdb+ tickerplant logs: reading like `-11!`, and writing intact or damaged logs."""

import pathlib
import struct

from . import kdb

MAGIC = b"\xff\x01\x00\x00\x00\x00\x00\x00"


def path_of(handle):
    """The path in a file symbol, `:/dir/name`."""
    if not handle.startswith(":"):
        raise ValueError(f"{handle!r} is not a file symbol")
    return handle[1:]


def read(path, count=None):
    """The first `count` records as values, or all of them; an incomplete record is an error."""
    data = pathlib.Path(path).read_bytes()
    if data[:8] != MAGIC:
        raise ValueError(f"{path} begins with {data[:8].hex()}, not as a log")
    records = []
    at = len(MAGIC)
    while at < len(data) and (count is None or len(records) < count):
        record, at = kdb.decode(data, "<", at)
        records.append(record)
    if count is not None and len(records) < count:
        raise ValueError(f"{path} has {len(records)} records, {count} were promised")
    return records


def whole_bytes(path):
    """(records, bytes) of the intact part: the result of `-11!(-2;path)`."""
    data = pathlib.Path(path).read_bytes()
    records, at = 0, len(MAGIC)
    while at < len(data):
        try:
            _, at = kdb.decode(data, "<", at)
        except (IndexError, ValueError, struct.error):
            break
        records += 1
    return records, at


def write(path, records):
    """Writes a log with these records."""
    pathlib.Path(path).write_bytes(MAGIC + b"".join(kdb.encode(record) for record in records))


def update(table, columns):
    """The record of one update."""
    return kdb.lst(kdb.sym("upd"), kdb.sym(table), columns)
