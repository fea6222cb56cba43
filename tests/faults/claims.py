"""A node of a queue, message by message, that claims what it does not hold."""

from harness import kdb


def join(name, queue, held=(), date=None, **more):
    """A node's join. `held`: the ends of the closed windows that it claims; `more`: further keys."""
    none = kdb.long(kdb.NULL_LONG)
    fields = {
        "proto": kdb.long(1),
        "node": kdb.sym(name),
        "queue": kdb.sym(queue),
        "tabs": kdb.sym(""),
        "syms": kdb.sym(""),
        "port": kdb.K(-kdb.INT, 0),
        "date": kdb.K(-kdb.DATE, kdb.NULL_INT if date is None else date),
        "held": kdb.longs(held),
        "live": kdb.K(-kdb.BOOL, 0),
        "first": none,
        "next": none,
        **more,
    }
    return kdb.lst(kdb.sym(".u.asg.join"), kdb.K(kdb.DICT, (kdb.syms(*fields), kdb.lst(*fields.values()))))


def proved(first, last, date, **tables):
    """A proof of a window. `tables`: number of updates, of rows, and hash, of each."""
    columns = list(zip(*tables.values())) or [(), (), ()]
    proof = kdb.table(tab=kdb.syms(*tables), updates=kdb.longs(columns[0]), rows=kdb.longs(columns[1]), hash=kdb.longs(columns[2]))
    return kdb.lst(kdb.sym(".u.asg.proved"), kdb.long(first), kdb.long(last), proof, kdb.K(-kdb.DATE, date))
