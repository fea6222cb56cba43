"""Emulations of q's real-time databases over a raw connection, message for message: `tick/r.q` and the paper's `asg/r.q`."""

from . import kdb, tplog
from .rows import Rows

STOCK_START = "(.u.sub[`;`];`.u `i`L)"
ROLL = kdb.lam("{.u.asg.roll[.z.w;x]}")


class StockRdb:
    """`tick/r.q`: the start-up string, `-11!` of the log, then `upd` and `.u.end`."""

    def __init__(self, connection):
        self.connection = connection
        self.rows = Rows()
        self.ended = []
        self.answer = connection.ask(STOCK_START)
        schemas, place = self.answer.v
        for pair in schemas.v:
            self.rows.define(pair[0].v, pair[1])
        self.i, self.log = (item.v for item in (place.v if place.t == kdb.GENERAL else place))
        for record in tplog.read(tplog.path_of(self.log), self.i):
            self._run(record)

    def _run(self, message):
        name = message[0].v
        if name == "upd":
            self.rows.upd(message[1].v, message[2])
        elif name == ".u.end":
            self.ended.append(message[1].v)
            self.rows.clear()
        else:
            raise ValueError(f"r.q does not know {name!r}")

    def take(self):
        """Processes one pushed message and returns it."""
        message = self.connection.push()
        self._run(message)
        return message

    def take_until(self, done):
        while not done(self):
            self.take()
        return self


class PaperRdb:
    """`asg/r.q` and `asg/sub.q`, with the replay's comparison corrected to `>=` (see kdb-tick.md section 9)."""

    def __init__(self, connection, queue):
        self.connection = connection
        self.rows = Rows()
        self.ended = []
        self.i = 0
        self.live = False
        self.window = None
        self.replayed = None
        connection.send(kdb.lst(kdb.sym(".u.asg.sub"), kdb.sym(""), kdb.sym(""), kdb.sym(queue)))

    def take(self):
        message = self.connection.push()
        name = message[0].v
        if name == ".sub.rep":
            self._replay(message)
        elif name == "upd":
            if self.live:
                self.i += 1
                self.rows.upd(message[1].v, message[2])
        elif name == ".u.end":
            self.ended.append(message[1].v)
            self.i = 0
            self.rows.clear()
        else:
            raise ValueError(f"asg/r.q does not know {name!r}")
        return message

    def _replay(self, message):
        """`.sub.rep[schemas;tplog;logWindow]`."""
        _, schemas, log, window = message.v
        if window.t != kdb.LONG or len(window.v) != 2:
            raise ValueError(f"the log window is {window!r}, not two longs")
        self.live = True
        self.window = tuple(window.v)
        self.schemas = {pair[0].v: pair[1] for pair in schemas.v}
        for name, schema in self.schemas.items():
            self.rows.define(name, schema)
        start, count = self.window
        for record in tplog.read(tplog.path_of(log.v), count):
            if self.i >= start:
                self.rows.upd(record[1].v, record[2])
            self.i += 1
        self.replayed = self.rows.updates

    def take_until(self, done):
        while not done(self):
            self.take()
        return self

    def roll(self):
        """`.sub.roll[]`: stops ingesting, and sends the count of ingested messages."""
        self.live = False
        self.connection.send(kdb.lst(ROLL, kdb.long(self.i)))
        return self.i
