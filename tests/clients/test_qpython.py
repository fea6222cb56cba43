"""qPython as publisher, subscriber and query client."""

import numpy
from qpython.qcollection import QTable, qlist
from qpython.qconnection import QConnection
from qpython.qtype import QDOUBLE_LIST, QException, QLONG_LIST, QSYMBOL_LIST, QTIMESPAN_LIST

from harness.scene import Scene

SYM = numpy.string_


def connect(port):
    return QConnection("127.0.0.1", port, username="py", password="pw", timeout=30)


def columns(first, count):
    """Numpy vectors with explicit types, without time."""
    seq = numpy.arange(first, first + count)
    return [
        qlist([("PYA", "PYB")[i % 2] for i in seq], qtype=QSYMBOL_LIST),
        qlist(seq * 0.5, qtype=QDOUBLE_LIST),
        qlist(seq % 7, qtype=QLONG_LIST),
        qlist(seq, qtype=QLONG_LIST),
    ]


def rows_of(columns):
    return list(zip(*([x.decode() if isinstance(x, bytes) else x for x in column] for column in columns)))


class QPythonPublishes(Scene):
    def setUp(self):
        super().setUp()
        self.port = self.tick().port
        self.q = connect(self.port)
        self.q.open()
        self.addCleanup(self.q.close)

    def published(self):
        """Rows without time that a subscriber on a separate connection receives, up to `count`."""
        subscriber = connect(self.port)
        subscriber.open()
        self.addCleanup(subscriber.close)
        name, schema = subscriber.sendSync(".u.sub", SYM("trade"), SYM(""))
        self.assertEqual((name, len(schema)), (b"trade", 0))
        self.assertEqual(schema.dtype.names, ("time", "sym", "price", "size", "seq"))

        def take(count):
            rows = []
            while len(rows) < count:
                upd, table, data = subscriber.receive()
                self.assertEqual((upd, table), (b"upd", b"trade"))
                self.assertIsInstance(data, QTable)
                rows += rows_of([data[name] for name in ("sym", "price", "size", "seq")])
            return rows

        return take

    def test_numpy_vectors_in_bulk_come_back_to_a_subscriber(self):
        take = self.published()
        sent = columns(0, 1000)
        self.q.sendSync(".u.upd", SYM("trade"), sent)
        self.assertEqual(take(1000), rows_of(sent))

    def test_the_table_may_be_named_by_a_string(self):
        take = self.published()
        sent = columns(0, 3)
        self.q.sendSync(".u.upd", "trade", sent)
        self.assertEqual(take(3), rows_of(sent))

    def test_updates_with_their_own_time_keep_it(self):
        time = qlist(numpy.array([1, 2, 3], dtype="timedelta64[ns]"), qtype=QTIMESPAN_LIST)
        self.q.sendSync(".u.upd", SYM("trade"), [time, *columns(0, 3)])
        subscriber = connect(self.port)
        subscriber.open()
        self.addCleanup(subscriber.close)
        subscriber.sendSync(".u.sub", SYM("trade"), SYM(""))
        self.q.sendSync(".u.upd", SYM("trade"), [time, *columns(3, 3)])
        _, _, data = subscriber.receive()
        self.assertEqual([int(t) for t in data["time"]], [1, 2, 3])
        self.assertEqual(list(data["seq"]), [3, 4, 5])

    def test_single_rows_of_atoms_come_back_in_order(self):
        take = self.published()
        for i in range(20):
            self.q.sendAsync(".u.upd", SYM("trade"), [SYM("PYA"), i * 0.5, i, i])
        self.assertEqual(take(20), [("PYA", i * 0.5, i, i) for i in range(20)])

    def test_a_call_may_be_one_string(self):
        take = self.published()
        self.q.sendSync(".u.upd[`trade;(`PYA`PYB;1 2f;3 4;5 6)]")
        self.assertEqual(take(2), [("PYA", 1.0, 3, 5), ("PYB", 2.0, 4, 6)])

    def test_a_table_is_accepted(self):
        take = self.published()
        names = ["time", "sym", "price", "size", "seq"]
        data = [numpy.array([7, 8], dtype="timedelta64[ns]"), numpy.array(["PYA", "PYB"]), numpy.array([1.0, 2.0]),
                numpy.array([3, 4]), numpy.array([5, 6])]  # fmt: skip
        from qpython.qcollection import qtable

        types = dict(time=QTIMESPAN_LIST, sym=QSYMBOL_LIST, price=QDOUBLE_LIST, size=QLONG_LIST, seq=QLONG_LIST)
        self.q.sendSync(".u.upd", SYM("trade"), qtable(names, data, **types))
        self.assertEqual(take(2), [("PYA", 1.0, 3, 5), ("PYB", 2.0, 4, 6)])

    def test_plain_lists_of_the_wrong_type_are_refused_by_name(self):
        with self.assertRaises(QException) as refused:
            self.q.sendSync(".u.upd", SYM("trade"), [qlist(["PYA"], qtype=QSYMBOL_LIST), *columns(0, 1)[2:], [1.5]])
        self.assertRegex(str(refused.exception), r"^b?'?(type|length)")

    def test_queries_answer_with_numbers_tables_and_errors(self):
        self.assertEqual(self.q.sendSync("1+1"), 2)
        self.assertEqual(list(self.q.sendSync("cols trade")), [b"time", b"sym", b"price", b"size", b"seq"])
        self.assertEqual(list(self.q.sendSync(".u.t")), [b"quote", b"trade"])
        with self.assertRaises(QException) as refused:
            self.q.sendSync("1+`a")
        self.assertIn("type", str(refused.exception))
