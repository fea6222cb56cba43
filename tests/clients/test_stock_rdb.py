"""Stock `tick/r.q` against elastick's tickerplant: the start-up string, `-11!` of the received path, `upd`, `.u.end`."""

import datetime

from harness import kdb, tplog, wire
from harness.scene import Scene, quotes, trades, update
from harness.subscribers import STOCK_START, StockRdb

EPOCH = datetime.date(2000, 1, 1)


class StockRdbUnderElastick(Scene):
    def setUp(self):
        super().setUp()
        self.tp = self.tick()
        self.feed = self.connect(self.tp)

    def publish(self, first, count):
        for i in range(first, first + count):
            self.feed.ask(update(*(("trade", trades(i, 1)) if i % 2 else ("quote", quotes(i, 1)))))

    def test_the_start_up_string_is_answered_as_tick_q_answers_it(self):
        self.publish(0, 5)
        r = self.connect(self.tp)
        schemas, place = r.ask(STOCK_START).v
        self.assertEqual([pair[0].v for pair in schemas.v], ["quote", "trade"])
        for pair in schemas.v:
            table = pair[1]
            self.assertEqual((table.t, len(table)), (kdb.TABLE, 0))
            self.assertEqual(table["sym"].attr, 4, "sym of the empty table carries `g#")
        trade = schemas[1][1]
        self.assertEqual({name: column.t for name, column in trade.v.items()},
                         dict(time=kdb.TIMESPAN, sym=kdb.SYMBOL, price=kdb.FLOAT, size=kdb.LONG, seq=kdb.LONG))  # fmt: skip
        i, log = place.v
        self.assertEqual(i, kdb.long(5))
        self.assertEqual(log.t, -kdb.SYMBOL)
        self.assertRegex(log.v, r"^:/.*/sym\d{4}\.\d\d\.\d\d$")
        self.assertEqual(tplog.whole_bytes(tplog.path_of(log.v))[0], 5)

    def test_log_and_feed_together_hold_everything_once(self):
        self.publish(0, 40)
        r = StockRdb(self.connect(self.tp))
        self.assertEqual(r.i, 40)
        self.publish(40, 40)
        r.take_until(lambda r: r.rows.updates == 80)
        self.assertEqual(r.rows.seqs("quote"), list(range(0, 80, 2)))
        self.assertEqual(r.rows.seqs("trade"), list(range(1, 80, 2)))

    def test_no_update_falls_between_the_answer_and_the_feed(self):
        """Updates are under way on another connection while the start-up string is answered."""
        self.feed.raw(b"".join(wire.message(update("trade", trades(i, 1)), wire.ASYNC) for i in range(3000)))
        late = [StockRdb(self.connect(self.tp)) for _ in range(5)]
        for r in late:
            r.take_until(lambda r: r.rows.updates == 3000)
            self.assertEqual(r.rows.seqs(), list(range(3000)))

    def test_live_updates_are_tables_and_logged_ones_columns(self):
        r = StockRdb(self.connect(self.tp))
        self.feed.ask(update("trade", trades(7, 3)))
        self.feed.ask(update("trade", kdb.lst(kdb.sym("ONE"), kdb.K(-kdb.FLOAT, 1.5), kdb.long(2), kdb.long(9))))
        for expected in ([7, 8, 9], [9]):
            name, table, data = r.take().v
            self.assertEqual((name, table, data.t), (kdb.sym("upd"), kdb.sym("trade"), kdb.TABLE))
            self.assertEqual(list(data.v), ["time", "sym", "price", "size", "seq"])
            self.assertEqual(data["seq"].v, expected)
        for record in tplog.read(tplog.path_of(r.log), 2):
            self.assertEqual((record[0], record[1], record[2].t), (kdb.sym("upd"), kdb.sym("trade"), kdb.GENERAL))
            self.assertEqual([column.t for column in record[2].v],
                             [kdb.TIMESPAN, kdb.SYMBOL, kdb.FLOAT, kdb.LONG, kdb.LONG])  # fmt: skip

    def test_time_is_added_from_the_clock_where_it_is_missing(self):
        r = StockRdb(self.connect(self.tp))
        self.feed.ask(update("trade", trades(0, 2)))
        r.take()
        first, second = r.rows.column("trade", "time")
        self.assertEqual(first, second)
        self.assertTrue(0 <= first < kdb.DAY_NS, first)

    def test_end_of_day_reaches_it_and_the_next_day_begins_with_an_empty_log(self):
        self.publish(0, 4)
        r = StockRdb(self.connect(self.tp))
        today = self.feed.ask(".u.d")
        self.feed.ask(".u.endofday[]")
        r.take()
        self.assertEqual(r.ended, [today.v])
        self.assertEqual(self.feed.ask(".u.d").v, today.v + 1)
        self.assertEqual(self.feed.ask(".u.i"), kdb.long(0))
        self.publish(100, 2)
        r.take_until(lambda r: r.rows.updates == 6)
        self.assertEqual(r.rows.seqs("quote") + r.rows.seqs("trade"), [100, 101])
        tomorrow = StockRdb(self.connect(self.tp))
        self.assertEqual(tomorrow.i, 2)
        self.assertNotEqual(tomorrow.log, r.log)
        day = EPOCH + datetime.timedelta(days=today.v + 1)
        self.assertTrue(tomorrow.log.endswith(f"sym{day:%Y.%m.%d}"), tomorrow.log)

    def test_a_second_subscription_replaces_the_first_and_add_extends_it(self):
        s = self.connect(self.tp)
        s.ask(kdb.lst(kdb.sym(".u.sub"), kdb.sym("trade"), kdb.syms("AAA")))
        s.ask(kdb.lst(kdb.sym(".u.sub"), kdb.sym("trade"), kdb.syms("BBB")))
        self.feed.ask(update("trade", trades(0, 6)))
        self.assertEqual(s.push()[2]["seq"].v, [1, 4])
        s.ask(kdb.lst(kdb.sym(".u.add"), kdb.sym("trade"), kdb.syms("CCC")))
        self.feed.ask(update("trade", trades(6, 6)))
        self.assertEqual(s.push()[2]["seq"].v, [7, 8, 10, 11])
        self.assertEqual(s.error_of(kdb.lst(kdb.sym(".u.sub"), kdb.sym("nosuch"), kdb.sym(""))), "nosuch")

    def test_a_subscriber_that_left_is_out_of_u_w(self):
        s = self.connect(self.tp)
        s.ask(kdb.lst(kdb.sym(".u.sub"), kdb.sym("trade"), kdb.sym("")))
        self.assertEqual(self.feed.ask("count .u.w`trade").v, 1)
        s.close()
        self.eventually(lambda: self.feed.ask("count .u.w`trade").v == 0, "the closed subscriber leaves .u.w")


class BatchMode(Scene):
    def test_updates_are_published_together_and_i_lags_behind_j(self):
        tp = self.tick("-t", "600000")
        feed = self.connect(tp)
        r = StockRdb(self.connect(tp))
        for i in range(0, 30, 3):
            feed.ask(update("trade", trades(i, 3)))
        self.assertEqual((feed.ask(".u.i").v, feed.ask(".u.j").v), (0, 10))
        late = StockRdb(self.connect(tp))
        self.assertEqual(late.i, 0)
        feed.ask(".z.ts[]")
        for subscriber in (r, late):
            data = subscriber.take()[2]
            self.assertEqual(data["seq"].v, list(range(30)), "one table for all updates since the last flush")
        self.assertEqual((feed.ask(".u.i").v, feed.ask(".u.j").v), (10, 10))

    def test_the_timer_publishes(self):
        tp = self.tick("-t", "20")
        feed, r = self.connect(tp), StockRdb(self.connect(tp))
        for i in range(200):
            feed.send(update("trade", trades(i, 1)))
        r.take_until(lambda r: len(r.rows.seqs()) == 200)
        self.assertEqual(r.rows.seqs(), list(range(200)))
        self.assertEqual(len(tplog.read(tplog.path_of(r.log))), 200)
