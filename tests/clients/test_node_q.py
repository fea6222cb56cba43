"""node-q as publisher, subscriber and query client."""

from harness.scene import Scene

from .nodeq import columns, play, rows_of, upd


def values(rows):
    return [(row["sym"], row["price"], row["size"], row["seq"]) for row in rows]


class NodeQPublishes(Scene):
    def setUp(self):
        super().setUp()
        self.port = self.tick().port

    def test_typed_vectors_come_back_to_a_subscriber(self):
        sent = columns(0, 200)
        name, _, rows = play(self.port, {"subscribe": "trade"}, upd(sent), {"take": 200})
        self.assertEqual(name, "trade")
        self.assertEqual(values(rows), rows_of(sent))

    def test_the_table_name_may_be_a_javascript_string(self):
        sent = columns(0, 2)
        *_, rows = play(self.port, {"subscribe": "trade"}, upd(sent, table="trade"), {"take": 2})
        self.assertEqual(values(rows), rows_of(sent))

    def test_async_single_rows_come_back_in_order(self):
        row = lambda i: [{"symbol": "NQA"}, i + 0.5, {"long": i}, {"long": i}]
        steps = [upd(row(i), "async") for i in range(10)]
        *_, rows = play(self.port, {"subscribe": "trade"}, *steps, {"take": 10})
        self.assertEqual(values(rows), [("NQA", i + 0.5, i, i) for i in range(10)])

    def test_a_timespan_column_is_kept(self):
        with_time = [{"timespans": [1000, 2000]}, *columns(0, 2)]
        *_, rows = play(self.port, {"subscribe": "trade"}, upd(with_time), {"take": 2})
        self.assertEqual([row["time"] for row in rows], ["2000-01-01T00:00:01.000Z", "2000-01-01T00:00:02.000Z"])

    def test_untyped_numbers_are_floats_and_are_refused_in_words(self):
        _, refused, count = play(
            self.port, {"subscribe": "trade"}, upd(["`NQA", 1.5, 3, 4]), {"sync": ".u.i"}
        )
        self.assertRegex(refused["error"], "^type.*trade.*size")
        self.assertEqual(count, 0)

    def test_queries_answer(self):
        total, tables, error = play(self.port, {"sync": "sum 1 2 3"}, {"sync": ".u.t"}, {"sync": "1+`a"})
        self.assertEqual((total, tables), (6, ["quote", "trade"]))
        self.assertIn("type", error["error"])
