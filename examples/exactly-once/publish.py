"""Publishes the lines of a day's file, each exactly once, whatever is cut off or killed, also this script.

    python publish.py trades.csv 20261124 localhost 5010

A line is SYM,PRICE,SIZE. The number of an update is the date, then nine digits for its last line (from 1): 20261124000000100.
So numbers rise over days. Exits with 1 if going on could lose or hide rows. Needs qPython and numpy.
"""

import struct
import sys
import time

import numpy

numpy.string_ = numpy.bytes_  # qPython uses this name, which NumPy 2 has no longer

from qpython.qcollection import qlist
from qpython.qconnection import QAuthenticationException, QConnection, QConnectionException
from qpython.qreader import QReaderException
from qpython.qtype import QDOUBLE_LIST, QLONG_LIST, QSYMBOL_LIST, QException

ID = numpy.bytes_("feed1")
BATCH = 100
LINES_A_DAY = 10**9
LOST_CONNECTION = (OSError, struct.error, QConnectionException, QReaderException)


def parsed(number, line):
    try:
        sym, price, size = line.split(",")
        return sym, float(price), int(size)
    except ValueError as error:
        sys.exit(f"line {number}: {error}")


def columns(rows):
    syms, prices, sizes = zip(*rows)
    return [qlist(list(syms), qtype=QSYMBOL_LIST), qlist(list(prices), qtype=QDOUBLE_LIST), qlist(list(sizes), qtype=QLONG_LIST)]


def text_of(error):
    text = error.args[0]
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


class Publisher:
    def __init__(self, rows, date):
        self.rows = rows
        self.before_first = date * LINES_A_DAY
        self.sent = None  # Highest number sent; None before the first connect.

    def lines_done(self, q):
        """After every connect: the line up to which the tickerplant has this file."""
        last = int(q.sendSync(".u.seq", ID))  # Null, the smallest long, means that there is none.
        if self.sent is not None and last > self.sent:
            sys.exit(f"another process uses the id: the tickerplant has the number {last}, and this process sent {self.sent} at most")
        done = max(last - self.before_first, 0)
        if done > len(self.rows):
            sys.exit(f"the tickerplant has the number {last}, which is after the end of this file: wrong date, a later day, or another file")
        self.sent = max(last, self.before_first)
        return done

    def publish(self, q):
        done = self.lines_done(q)
        while done < len(self.rows):
            rows = self.rows[done : done + BATCH]
            self.sent = self.before_first + done + len(rows)
            try:
                # Returns when the update is as durable as the tickerplant promises.
                q.sendSync(".u.upd", numpy.bytes_("trade"), columns(rows), ID, numpy.int64(self.sent))
            except QException as error:
                if text_of(error).startswith("io"):
                    raise
                # Not one that passes. `seq`: another process uses the id.
                sys.exit(f"lines {done + 1} to {done + len(rows)}: {text_of(error)}")
            done += len(rows)


def main(path, date, host, port):
    with open(path) as file:
        rows = [parsed(number, line) for number, line in enumerate(file, 1)]
    publisher = Publisher(rows, int(date))
    while True:
        try:
            with QConnection(host, int(port)) as q:
                publisher.publish(q)
            print("published", len(rows), "lines")
            return
        except QAuthenticationException as error:
            sys.exit(f"access: {error}")
        except QException as error:
            if not text_of(error).startswith("io"):
                sys.exit(text_of(error))
            reason = text_of(error)
        except LOST_CONNECTION as error:
            reason = error
        # Only after a lost connection and `io`: connect again, and continue after what .u.seq returns.
        print("connecting again:", reason, file=sys.stderr)
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
