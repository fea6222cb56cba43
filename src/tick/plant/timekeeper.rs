//! Time of the tickerplant: the time of an event-loop iteration, the monotonic clock of the queue, and the day with the clock that ends it.

use crate::config::{TradingCalendar, before};
use crate::queue::{Date, Now};
use crate::sys::clock as sys_clock;
use crate::tick::clock::{self, Clock, Steady};
use crate::tick::core::Stamp;
use crate::tick::day::trust::Change;
use crate::tick::day::{Action, Calendar, ClockLimits, Day, DayEvent};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Poll interval of the wall clock while idle: after the clock is set forward, an idle tickerplant rolls at most that late.
const WALL_CHECK_NS: i64 = 1_000_000_000;

/// Duration in days, or in hours below two days.
fn in_words(ns: i64) -> String {
    const HOUR: u64 = 3_600_000_000_000;
    match ns.unsigned_abs().saturating_add(HOUR / 2) / HOUR {
        hours @ 0..48 => format!("{hours} hours"),
        hours => format!("{} days", hours.saturating_add(12) / 24),
    }
}

/// Clocks and day of a tickerplant.
pub(super) struct Timekeeper {
    clock: Arc<dyn sys_clock::Clock>,
    zone: Clock,
    steady: Steady,
    day: Day,
    /// Time of this event-loop iteration; read when its first message needs it.
    stamp: Stamp,
    has_begun: bool,
}

impl Timekeeper {
    /// Starts in the day of the newest log, or in today's.
    pub fn start(
        clock: &Arc<dyn sys_clock::Clock>,
        zone: Clock,
        newest_log: Option<Date>,
        clock_limits: ClockLimits,
    ) -> Timekeeper {
        let now = clock::of_day(&**clock);
        let day = Day::start(newest_log, zone.calendar(now.wall_ns), now, clock_limits);
        let steady = Steady::start(clock);
        Timekeeper { clock: Arc::clone(clock), zone, steady, day, stamp: Stamp::default(), has_begun: false }
    }

    /// Takes the time of an event-loop iteration. Returns whether it has only begun.
    pub fn begin_iteration(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first {
            self.stamp = self.zone.stamp(clock::utc_now_ns(&*self.clock));
        }
        is_first
    }

    pub fn end_iteration(&mut self) {
        self.has_begun = false;
    }

    /// Returns the time of this event-loop iteration.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Returns the time for a step of the queue.
    pub fn now(&self) -> Now {
        Now { wall_ns: clock::utc_now_ns(&*self.clock), steady_ns: self.steady.now_ns() }
    }

    /// Returns the clock of the queue's grace periods.
    pub fn steady_ns(&self) -> i64 {
        self.steady.now_ns()
    }

    /// Returns the instant at which that clock shows `at_ns`.
    pub fn instant(&self, at_ns: i64) -> Option<Instant> {
        self.steady.instant(at_ns)
    }

    /// Returns the day of new updates; during a roll, still the old one.
    pub fn date(&self) -> Date {
        self.day.date()
    }

    /// Returns whether the day is to end by the clock.
    pub fn is_due(&self) -> bool {
        self.day.is_due(clock::of_day(&*self.clock))
    }

    /// Returns the time until the clock must be looked at again.
    pub fn left(&self) -> Duration {
        // The wall clock may be set forward while the loop is idle.
        let left_ns = self.day.left_ns(clock::of_day(&*self.clock)).clamp(0, WALL_CHECK_NS);
        Duration::from_nanos(left_ns.unsigned_abs())
    }

    /// Returns the calendar of the clock by which days end.
    fn calendar(&self, now: Now) -> Calendar {
        self.zone.calendar(self.day.time_ns(now))
    }

    /// Returns when the day ends, in the zone of the roll and in UTC; `None` if it is over already, or does not end by the clock.
    pub fn end_of_day(&self) -> Option<String> {
        let calendar = self.zone.calendar(clock::of_day(&*self.clock).wall_ns);
        let ends_by_clock = calendar.today == self.day.date() && self.clock_fault(None).is_none();
        ends_by_clock.then(|| self.zone.in_words(calendar.next_roll_ns))
    }

    /// Looks whether the wall clock has jumped or is back. Returns the event of the day if it is due.
    pub fn check_clock(&mut self, log: Option<&Path>) -> Option<DayEvent> {
        let now = clock::of_day(&*self.clock);
        let changed = self.day.has_changed(now).then(|| self.zone.calendar(now.wall_ns));
        match changed.and_then(|calendar| self.day.check_clock(now, calendar)) {
            Some(Change::Jumped(_)) => tracing::error!("{}", self.clock_fault(log).unwrap_or_default()),
            Some(Change::Back) => tracing::warn!("the wall clock is right again: days end by it again"),
            Some(Change::SetRight) => {
                tracing::warn!(date = %self.day.date(), "the wall clock, which was far from the day, has been corrected")
            }
            None => {}
        }
        if !self.day.is_due(now) {
            return None;
        }
        self.reread_calendar();
        Some(DayEvent::Clock(self.calendar(now)))
    }

    /// Reads the file of the trading days again, before a day ends. One that cannot be read or is no calendar changes nothing.
    pub fn reread_calendar(&mut self) {
        let Some(before) = self.zone.trading_days() else { return };
        match before.reread() {
            Ok(calendar) if calendar == *before => {}
            Ok(calendar) => {
                tracing::info!("the calendar has changed: days end by the new one");
                self.zone = Clock::trading(Arc::new(calendar));
            }
            Err(error) => tracing::error!("--calendar {error}; days end by the calendar as it was read before"),
        }
    }

    /// Describes a day that is ahead of the clock and ends by it nevertheless; `None` if it is not, or if [`Timekeeper::clock_fault`] says more.
    pub fn ahead(&self) -> Option<String> {
        let calendar = self.zone.calendar(clock::of_day(&*self.clock).wall_ns);
        let (date, today, days) = (self.day.date(), calendar.today, self.day.days_ahead(calendar));
        if days <= 0 || self.clock_fault(None).is_some() {
            return None;
        }
        let words = if days == 1 { "1 day".to_string() } else { format!("{days} days") };
        let end = self.zone.in_words(self.zone.end_of(date));
        Some(format!(
            "day {date} is {words} ahead of the clock, which shows {today}: updates of today go to the log of {date} until that \
             day ends at {end}. If the clock is wrong, correct it; if the day was begun too early, `elastick log join` \
             makes one log of it and of the day before once it has ended"
        ))
    }

    /// Returns why the day may not be ended by hand.
    pub fn too_far_ahead(&self, force: bool) -> Option<String> {
        let calendar = self.calendar(clock::of_day(&*self.clock));
        let (date, days) = (self.day.date(), self.day.days_ahead(calendar));
        let words = if days == 1 { "1 day".to_string() } else { format!("{days} days") };
        let otherwise = match (self.day.may_end_by_hand(calendar, force), self.day.may_end_by_hand(calendar, true)) {
            (true, _) => return None,
            (false, true) => "call .u.endofday[`force] to end it nevertheless",
            (false, false) => "wait, or restart the tickerplant with a longer --limit-clock-jump",
        };
        Some(format!("day {date} is already {words} ahead of the clock; {otherwise}"))
    }

    /// Returns the event with which a client ends the day.
    pub fn ended_by_hand(&self) -> DayEvent {
        match self.zone.trading_days() {
            Some(_) => DayEvent::ManualTo(self.zone.next_after(self.day.date())),
            None => DayEvent::Manual,
        }
    }

    /// Returns how many of the days between two logs should have one: with a calendar, the trading days.
    pub fn days_left_out(&self, to: Date, dates: u32) -> usize {
        let (from, to) = (clock::civil_date(self.day.date()), clock::civil_date(to));
        let dates = usize::try_from(dates).unwrap_or(usize::MAX);
        self.zone.trading_days().map_or(dates, |trading| trading.trading_between(from, to))
    }

    /// Returns the trading days, if there is a calendar.
    pub fn trading_days(&self) -> Option<&TradingCalendar> {
        self.zone.trading_days()
    }

    /// Returns whether the market of the current day is about to open or has opened: from `prepare` before the open on.
    pub fn is_preparing(&self) -> bool {
        let Some(trading) = self.zone.trading_days() else { return false };
        let session = trading.session(clock::civil_date(self.day.date()));
        let from_ns = clock::from_2000_ns(before(session.open, trading.prepare));
        self.day.time_ns(clock::of_day(&*self.clock)) >= from_ns
    }

    /// Returns today's date, by the clock by which days end.
    pub fn today(&self) -> Date {
        self.calendar(clock::of_day(&*self.clock)).today
    }

    /// Passes an event to the day. Returns the next action to carry out.
    pub fn step(&mut self, event: DayEvent) -> Option<Action> {
        self.day.step(event, clock::of_day(&*self.clock))
    }

    /// Describes what is wrong with the clock or the day, and what to do; `log`: the path of the day's log.
    pub fn clock_fault(&self, log: Option<&Path>) -> Option<String> {
        let now = clock::of_day(&*self.clock);
        let calendar = self.zone.calendar(now.wall_ns);
        let (date, today) = (self.day.date(), calendar.today);
        let too_late = self.day.too_late(calendar);
        if let Some(days) = too_late.filter(|_| self.day.ignores_wall_clock()) {
            return Some(format!(
                "the clock shows {today}, {days} days after the newest log, more than --limit-clock-start: updates \
                 go to day {date}, which does not end by the clock. If the clock is wrong, correct it; if it is \
                 right, restart the tickerplant with --today {today}"
            ));
        }
        if let Some(jump) = self.day.jump_ns(now) {
            let (by, where_to) = (in_words(jump), if jump < 0 { "back" } else { "ahead" });
            let confirm = too_late.map_or(String::new(), |_| format!(" with --today {today}"));
            return Some(format!(
                "the wall clock jumped {by} {where_to}, more than --limit-clock-jump: days end by the monotonic \
                 clock until it is corrected; if it is right now, restart the tickerplant{confirm}"
            ));
        }
        let days = self.day.stuck_ahead(self.calendar(now))?;
        let log = log.map_or_else(String::new, |path| format!(" {}", path.display()));
        Some(format!(
            "day {date} is {days} days ahead of the clock and does not end before that date: correct the clock, or \
             stop the tickerplant, move its log{log} and the files beside it away, and restart it"
        ))
    }

    /// Returns the seconds by which the wall clock jumped or is too far ahead of the newest log, and the days by which the day is ahead of
    /// the clock.
    pub fn figures(&self) -> (f64, u64) {
        let now = clock::of_day(&*self.clock);
        let pause = self.day.too_late(self.zone.calendar(now.wall_ns)).filter(|_| self.day.ignores_wall_clock());
        let jump = match pause {
            Some(days) => Duration::from_nanos(days.saturating_mul(proto::time::DAY_NS).unsigned_abs()),
            None => Duration::from_nanos(self.day.jump_ns(now).unwrap_or(0).unsigned_abs()),
        };
        let ahead = self.day.days_ahead(self.calendar(now));
        (jump.as_secs_f64(), ahead.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::roll_time;

    fn started(newest_log: impl Fn(Date) -> Date) -> Timekeeper {
        let roll = || roll_time("00:00 UTC").expect("a time");
        let clock: Arc<dyn sys_clock::Clock> = Arc::new(sys_clock::SystemClock);
        let today = Clock::new(roll()).calendar(clock::utc_now_ns(&*clock)).today;
        let day_ns = proto::time::DAY_NS;
        let clock_limits = ClockLimits { jump_ns: 2 * day_ns, pause_ns: 9 * day_ns, today: None };
        Timekeeper::start(&clock, Clock::new(roll()), Some(newest_log(today)), clock_limits)
    }

    #[test]
    fn the_time_of_an_iteration_is_taken_once() {
        let mut time = started(|today| today);
        assert_eq!(time.stamp(), Stamp::default());
        assert!(time.begin_iteration());
        let stamp = time.stamp();
        assert!(!time.begin_iteration() && time.stamp() == stamp);
        time.end_iteration();
        assert!(time.begin_iteration());
    }

    #[test]
    fn a_past_day_is_due_at_once() {
        let time = started(|today| Date(today.0 - 1));
        assert!(time.is_due() && time.left().is_zero() && time.clock_fault(None).is_none());
    }

    #[test]
    fn a_day_that_is_ahead_of_the_clock_and_its_end_are_named() {
        let time = started(|today| Date(today.0 + 1));
        let (date, end) = (time.date(), clock::civil_date(Date(time.date().0 + 1)));
        let words = time.ahead().unwrap_or_default();
        for part in [format!("day {date} is 1 day ahead"), format!("ends at {end} 00:00:00 UTC")] {
            assert!(words.contains(&part), "{words}");
        }
        assert!(time.end_of_day().is_none());
        assert_eq!(started(|today| today).ahead(), None);
        assert_eq!(started(|today| Date(today.0 + 5)).ahead(), None, "clock_fault() says more");
    }

    #[test]
    fn a_log_far_ahead_of_the_clock_is_named() {
        let time = started(|today| Date(today.0 + 5));
        let fault = time.clock_fault(Some(Path::new("/logs/sym"))).unwrap_or_default();
        assert!(!time.is_due() && fault.contains("5 days ahead") && fault.contains("its log /logs/sym"), "{fault}");
        assert!(time.too_far_ahead(true).is_some() && time.figures() == (0.0, 5));
    }

    #[test]
    fn a_clock_far_ahead_of_the_newest_log_ends_no_day() {
        let time = started(|today| Date(today.0 - 20));
        let fault = time.clock_fault(None).unwrap_or_default();
        assert!(!time.is_due() && fault.contains("--limit-clock-start"), "{fault}");
    }

    #[test]
    fn the_end_of_a_day_is_known_unless_it_is_over_or_far_away() {
        let end = started(|today| today).end_of_day().unwrap_or_default();
        assert!(end.ends_with("00:00:00 UTC"), "{end}");
        assert_eq!([-1, 5].map(|days| started(|today| Date(today.0 + days)).end_of_day()), [None, None]);
    }

    #[test]
    fn a_changed_calendar_holds_from_the_end_of_the_day_on_and_a_bad_one_does_not() {
        let path = std::env::temp_dir().join(format!("elastick-calendar-{}.toml", std::process::id()));
        let all_days = "zone = \"Etc/UTC\"\nopen = \"09:00\"\nclose = \"17:00\"\n\
            weekdays = [\"mon\", \"tue\", \"wed\", \"thu\", \"fri\", \"sat\", \"sun\"]\n";
        let write = |text: &str| std::fs::write(&path, text).expect("it can be written");
        write(all_days);
        let trading = TradingCalendar::read(&path).expect("a calendar");
        let clock: Arc<dyn sys_clock::Clock> = Arc::new(sys_clock::SystemClock);
        let today = Clock::trading(Arc::new(trading.clone())).calendar(clock::utc_now_ns(&*clock)).today;
        let day_ns = proto::time::DAY_NS;
        let clock_limits = ClockLimits { jump_ns: 2 * day_ns, pause_ns: 9 * day_ns, today: None };
        let mut time =
            Timekeeper::start(&clock, Clock::trading(Arc::new(trading)), Some(Date(today.0 - 1)), clock_limits);
        let holiday = clock::civil_date(Date(today.0 + 1));
        let is_trading = |time: &Timekeeper| time.trading_days().map(|trading| trading.is_trading(holiday));
        write("zone = 1");
        assert!(matches!(time.check_clock(None), Some(DayEvent::Clock(_))));
        assert_eq!(is_trading(&time), Some(true));
        write(&format!("{all_days}holidays = [\"{holiday}\"]\n"));
        assert!(matches!(time.check_clock(None), Some(DayEvent::Clock(_))));
        assert_eq!(is_trading(&time), Some(false));
        std::fs::remove_file(&path).expect("it can be removed");
        time.reread_calendar();
        assert_eq!(is_trading(&time), Some(false));
    }

    #[test]
    fn jumps_are_in_hours_or_days() {
        let hour = 3_600_000_000_000;
        assert_eq!([in_words(-3 * hour), in_words(47 * hour), in_words(50 * hour)], ["3 hours", "47 hours", "2 days"]);
    }
}
