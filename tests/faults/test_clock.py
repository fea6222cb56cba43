"""Jumping wall clocks: by years and back, forward while idle, days begun by a wrong clock, and starts far from the date of the
newest log."""

import datetime

from harness import pages
from harness.clock import Clock
from harness.scene import Scene, trades, update

from .limits import over

DAY = 86_400
YEARS = 3652 * DAY


class Clocks(Scene):
    program = "tick"

    def setUp(self):
        super().setUp()
        self.clock = Clock(self.directory)

    def plant(self, *options, name="tick"):
        arguments = ("-p", 0, "--schemas", self.directory / "sym.q", "--roll", "00:00 UTC")
        return self.start(name, "tick", "sym", self.logs, *arguments, *options, TZ="UTC", **self.clock.environment)

    def health(self, tp):
        status, text = pages.health(tp.port)
        self.assertEqual(status, 200)
        return text

    def metric(self, tp, name):
        return pages.metrics(tp.port)[name]

    def days(self):
        """The days that have a log."""
        names = (path.name[3:] for path in self.logs.iterdir() if path.name.startswith("sym2") and len(path.name) == 13)
        return sorted(datetime.datetime.strptime(name, "%Y.%m.%d").date() for name in names)

    def noon(self):
        """Sets the clock to noon, so that no midnight passes during a test."""
        now = datetime.datetime.now(datetime.timezone.utc)
        noon = now.replace(hour=12, minute=0, second=0, microsecond=0)
        self.off = (noon - now).total_seconds()
        self.clock.set(self.off)
        return noon.date()

    def test_a_clock_that_is_years_off_ends_no_day_and_is_told_until_it_is_back(self):
        today = self.noon()
        tp = self.plant()
        h = self.connect(tp)
        h.ask(update("trade", trades(0, 2)))
        for i, years in enumerate((YEARS, -YEARS)):
            with self.subTest(years=years):
                self.clock.set(self.off + years)
                where = "ahead" if years > 0 else "back"
                self.eventually(lambda: f"jumped 3652 days {where}" in tp.printed(), "the jump is logged")
                self.assertIn(f"degraded: the wall clock jumped 3652 days {where}", self.health(tp))
                self.assertAlmostEqual(self.metric(tp, "elastick_clock_jump_seconds"), YEARS, delta=120)
                h.ask(update("trade", trades(2 + i, 1)))
                self.assertEqual((h.ask(".u.i").v, self.days()), (2 + i, [today]))
                self.clock.set(self.off)
                self.eventually(lambda: self.health(tp).startswith("ok"), "the clock is right again")
                self.assertEqual(self.metric(tp, "elastick_clock_jump_seconds"), 0)
        self.assertEqual(self.days(), [today])
        # The day ends by the corrected clock.
        self.clock.set(self.off + DAY)
        self.eventually(lambda: self.days() == [today, today + datetime.timedelta(days=1)], "the day ends")

    def test_a_step_over_midnight_ends_the_day_while_nothing_happens(self):
        today = self.noon()
        tp = self.plant()
        tp.port
        self.clock.set(self.off + DAY / 2 + 60)
        tomorrow = today + datetime.timedelta(days=1)
        self.eventually(lambda: self.days() == [today, tomorrow], "an idle tickerplant ends the day")

    def test_a_step_back_over_midnight_ends_no_day_again(self):
        today = self.noon()
        days = [today + datetime.timedelta(days=i) for i in range(3)]
        tp = self.plant()
        h = self.connect(tp)
        h.ask(update("trade", trades(0, 2)))
        self.clock.set(self.off + DAY / 2 + 60)
        self.eventually(lambda: self.days() == days[:2], "the day ends")
        for i, late in enumerate((-600, 120)):
            self.clock.set(self.off + DAY / 2 + late)
            h.ask(update("trade", trades(2 + i, 1)))
            self.assertEqual((h.ask("(.u.d;.u.i)")[1].v, self.days()), (1 + i, days[:2]))
        self.assertTrue(self.health(tp).startswith("ok"))
        self.clock.set(self.off + 3 * DAY / 2 + 60)
        self.eventually(lambda: self.days() == days, "the next day ends, and no other has begun in between")

    @over("limit-clock-jump", "24h")
    def test_a_jump_beyond_the_limit_ends_no_day(self):
        today = self.noon()
        tp = self.plant(*self.test_a_jump_beyond_the_limit_ends_no_day.limit_options)
        tp.port
        self.clock.set(self.off + 2 * DAY)
        self.eventually(lambda: "jumped 2 days ahead" in tp.printed(), "the jump is logged")
        self.assertAlmostEqual(self.metric(tp, "elastick_clock_jump_seconds"), 2 * DAY, delta=120)
        self.assertEqual(self.days(), [today])

    def test_a_restart_confirms_the_clock(self):
        today = self.noon()
        tp = self.plant()
        self.connect(tp).ask(update("trade", trades(0, 2)))
        self.clock.set(self.off + 30 * DAY)
        self.eventually(lambda: "jumped 30 days ahead" in tp.printed(), "the jump is logged")
        tp.terminate()
        again = self.plant(name="again")
        again.port
        self.eventually(lambda: self.days() == [today, today + datetime.timedelta(days=30)], "the day ends")
        self.assertTrue(self.health(again).startswith("ok"))

    def stopped_at_noon(self):
        """A stopped tickerplant with two logged updates."""
        today = self.noon()
        first = self.plant(name="first")
        self.connect(first).ask(update("trade", trades(0, 2)))
        first.terminate()
        return today

    def test_a_start_years_ahead_of_the_newest_log_begins_no_day_until_the_clock_is_right(self):
        today = self.stopped_at_noon()
        self.clock.set(self.off + YEARS)
        tp = self.plant()
        future = f"{today + datetime.timedelta(seconds=YEARS):%Y.%m.%d}"
        self.assertIn(f"degraded: the clock shows {future}, 3652 days after the newest log", self.health(tp))
        self.assertIn(f"restart the tickerplant with --today {future}", tp.printed())
        self.assertEqual(self.metric(tp, "elastick_clock_jump_seconds"), YEARS)
        h = self.connect(tp)
        h.ask(update("trade", trades(2, 1)))
        self.assertEqual((h.ask(".u.i").v, self.days()), (2, [today]))
        self.clock.set(self.off + DAY)
        self.eventually(lambda: self.health(tp).startswith("ok"), "the clock is right")
        self.assertEqual(self.days(), [today, today + datetime.timedelta(days=1)])

    def test_the_date_confirms_a_clock_that_is_far_ahead_of_the_newest_log(self):
        today = self.stopped_at_noon()
        self.clock.set(self.off + 60 * DAY)
        later = today + datetime.timedelta(days=60)
        wrong = self.plant("--today", f"{today:%Y.%m.%d}", name="wrong")
        self.assertTrue(self.health(wrong).startswith("degraded"), "another date confirms nothing")
        wrong.terminate()
        tp = self.plant("--today", f"{later:%Y.%m.%d}")
        tp.port
        self.eventually(lambda: self.days() == [today, later], "the day begins")
        self.assertTrue(self.health(tp).startswith("ok"))

    @over("limit-clock-start", "48h")
    def test_a_start_beyond_the_limit_begins_no_day(self):
        today = self.stopped_at_noon()
        self.clock.set(self.off + 3 * DAY)
        tp = self.plant(*self.test_a_start_beyond_the_limit_begins_no_day.limit_options)
        self.assertIn("3 days after the newest log, more than --limit-clock-start", self.health(tp))
        self.assertEqual(self.days(), [today])

    def test_a_machine_that_boots_years_behind_goes_on_once_its_clock_is_set(self):
        today = self.noon()
        first = self.plant(name="first")
        self.connect(first).ask(update("trade", trades(0, 2)))
        first.terminate()
        self.clock.set(self.off - YEARS)
        tp = self.plant()
        self.assertIn("is 3652 days ahead of the clock", self.health(tp))
        self.clock.set(self.off)
        self.eventually(lambda: self.health(tp).startswith("ok"), "the clock is right")
        self.assertEqual(self.days(), [today])
        self.clock.set(self.off + DAY)
        self.eventually(lambda: self.days() == [today, today + datetime.timedelta(days=1)], "the day ends")

    def test_a_day_that_a_wrong_clock_began_is_told_with_what_to_do(self):
        today = self.noon()
        self.clock.set(self.off + YEARS)
        self.plant(name="wrong").port
        self.eventually(lambda: self.days() != [], "a log of the future")
        (future,) = self.days()
        self.processes[-1].terminate()
        self.clock.set(self.off)
        tp = self.plant()
        self.assertIn(f"day {future:%Y.%m.%d} is 3652 days ahead of the clock", self.health(tp))
        self.assertIn(f"sym{future:%Y.%m.%d} and the files beside it away", tp.printed())
        self.assertEqual(self.metric(tp, "elastick_day_ahead_days"), 3652)
        # The advice in its message works.
        tp.terminate()
        for path in self.logs.glob(f"sym{future:%Y.%m.%d}*"):
            path.unlink()
        tp = self.plant(name="after")
        self.assertTrue(self.health(tp).startswith("ok"))
        self.assertEqual(self.days(), [today])
