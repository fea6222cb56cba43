//! Time of day in the configured zone, and the time of the day roll.

use super::core::Stamp;
use super::day::Calendar;
use crate::config::TradingCalendar;
use crate::config::units::RollTime;
use crate::queue::{Date, Now};
use crate::sys::clock as time;
use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, Zoned};
use proto::time::EPOCH_UNIX_S;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NS: i64 = 1_000_000_000;

/// Current time in nanoseconds since 2000.01.01 UTC.
pub fn utc_now_ns(clock: &dyn time::Clock) -> i64 {
    let ns = i64::try_from(clock.wall().as_nanos()).unwrap_or(i64::MAX);
    ns.saturating_sub(EPOCH_UNIX_S.saturating_mul(NS))
}

/// Clocks of the day roll: wall clock, and time since boot.
pub fn of_day(clock: &dyn time::Clock) -> Now {
    let steady_ns = i64::try_from(clock.since_boot().as_nanos()).unwrap_or(i64::MAX);
    Now { wall_ns: utc_now_ns(clock), steady_ns }
}

/// Returns the calendar date of a day number; the first or the last date for one beyond the calendar, as a client may send.
pub fn civil_date(date: Date) -> civil::Date {
    let first = civil::Date::constant(2000, 1, 1);
    let last = if date.0 < 0 { civil::Date::MIN } else { civil::Date::MAX };
    Span::new().try_days(date.0).map_or(last, |days| first.saturating_add(days))
}

/// Returns the day number of a calendar date.
pub fn day_number(date: civil::Date) -> Date {
    let first = civil::Date::constant(2000, 1, 1);
    let days = first.until(date).map_or(0, |span| span.get_days());
    Date(days)
}

/// Monotonic clock in nanoseconds since its creation, used for deadlines.
pub struct Steady {
    clock: Arc<dyn time::Clock>,
    began: Instant,
}

impl Steady {
    pub fn start(clock: &Arc<dyn time::Clock>) -> Steady {
        Steady { clock: Arc::clone(clock), began: clock.now() }
    }

    pub fn now_ns(&self) -> i64 {
        i64::try_from(self.clock.since(self.began).as_nanos()).unwrap_or(i64::MAX)
    }

    /// Returns the instant at which the clock shows `at_ns`.
    pub fn instant(&self, at_ns: i64) -> Option<Instant> {
        self.began.checked_add(Duration::from_nanos(u64::try_from(at_ns).unwrap_or(0)))
    }
}

/// Wall clock in the zone of the day roll.
pub struct Clock {
    roll: RollTime,
    /// Trading days, by which days end instead.
    trading: Option<Arc<TradingCalendar>>,
    /// Cached UTC offset of the zone, and the time until which it is valid.
    offset_ns: i64,
    offset_until_ns: i64,
}

impl Clock {
    pub fn new(roll: RollTime) -> Clock {
        Clock { roll, trading: None, offset_ns: 0, offset_until_ns: i64::MIN }
    }

    /// Returns a clock whose days are trading days.
    pub fn trading(calendar: Arc<TradingCalendar>) -> Clock {
        let roll = RollTime { time: civil::Time::midnight(), zone: calendar.zone.clone() };
        Clock { trading: Some(calendar), ..Clock::new(roll) }
    }

    /// Returns the trading days, if there is a calendar.
    pub fn trading_days(&self) -> Option<&TradingCalendar> {
        self.trading.as_deref()
    }

    /// Returns the day after another.
    pub fn next_after(&self, date: Date) -> Date {
        match &self.trading {
            Some(trading) => day_number(trading.next_after(civil_date(date))),
            None => Date(date.0.saturating_add(1)),
        }
    }

    /// Returns local time, like kdb+'s `.z.P`.
    pub fn stamp(&mut self, utc_ns: i64) -> Stamp {
        // Zone offsets change at whole minutes.
        const OFFSET_STEP_NS: i64 = 60 * NS;
        if utc_ns >= self.offset_until_ns || utc_ns < self.offset_until_ns.saturating_sub(OFFSET_STEP_NS) {
            let offset = self.roll.zone.to_offset(timestamp(utc_ns));
            self.offset_ns = i64::from(offset.seconds()).saturating_mul(NS);
            self.offset_until_ns = utc_ns.div_euclid(OFFSET_STEP_NS).saturating_add(1).saturating_mul(OFFSET_STEP_NS);
        }
        Stamp { timestamp_ns: utc_ns.saturating_add(self.offset_ns) }
    }

    /// Returns the day of a moment, and when the next day begins. A day that rolls at noon or later (17:00) is named after the date on which
    /// it ends, as trading days are; a day that rolls before noon, after the date on which it begins.
    pub fn calendar(&self, utc_ns: i64) -> Calendar {
        if let Some(trading) = &self.trading {
            let session = trading.at(timestamp(utc_ns));
            let (today, next) = (day_number(session.date), day_number(trading.next_after(session.date)));
            return Calendar { today, next, next_roll_ns: from_2000_ns(session.end) };
        }
        let now = timestamp(utc_ns).to_zoned(self.roll.zone.clone());
        let today_roll = self.roll_of(now.date());
        let (begun, next) = if now.timestamp() < today_roll.timestamp() {
            (now.date().yesterday().unwrap_or(now.date()), today_roll)
        } else {
            (now.date(), self.roll_of(now.date().tomorrow().unwrap_or(now.date())))
        };
        let name = if self.ends_on_its_date() { begun.tomorrow().unwrap_or(begun) } else { begun };
        Calendar::daily(day_number(name), from_2000_ns(next.timestamp()))
    }

    /// Returns when the day with this name ends.
    pub fn end_of(&self, date: Date) -> i64 {
        let date = civil_date(date);
        if let Some(trading) = &self.trading {
            return from_2000_ns(trading.session(trading.trading_from(date)).end);
        }
        let last = if self.ends_on_its_date() { date } else { date.tomorrow().unwrap_or(date) };
        from_2000_ns(self.roll_of(last).timestamp())
    }

    fn ends_on_its_date(&self) -> bool {
        self.roll.time >= civil::Time::constant(12, 0, 0, 0)
    }

    /// Returns a moment in the zone of the roll and, unless that is UTC, in UTC.
    pub fn in_words(&self, utc_ns: i64) -> String {
        let at = timestamp(utc_ns);
        let [local, utc] = [self.roll.zone.clone(), TimeZone::UTC]
            .map(|zone| at.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %Z").to_string());
        if local == utc { utc } else { format!("{local} ({utc})") }
    }

    fn roll_of(&self, date: civil::Date) -> Zoned {
        let at = date.to_datetime(self.roll.time);
        // A local time skipped by a daylight saving change becomes the time one hour later.
        at.to_zoned(self.roll.zone.clone()).unwrap_or_else(|_| Timestamp::MAX.to_zoned(self.roll.zone.clone()))
    }
}

/// Returns the moment so many nanoseconds after 2000.01.01 UTC.
pub fn timestamp(utc_ns: i64) -> Timestamp {
    let from_1970 = SignedDuration::from_secs(EPOCH_UNIX_S).saturating_add(SignedDuration::from_nanos(utc_ns));
    Timestamp::from_duration(from_1970).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns a moment in nanoseconds since 2000.01.01 UTC.
pub fn from_2000_ns(at: Timestamp) -> i64 {
    let ns = i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX);
    ns.saturating_sub(EPOCH_UNIX_S.saturating_mul(NS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::roll_time;

    fn ns(text: &str) -> i64 {
        from_2000_ns(text.parse().unwrap())
    }

    fn clock(roll: &str) -> Clock {
        Clock::new(roll_time(roll).unwrap())
    }

    fn day(text: &str) -> Date {
        day_number(text.parse().unwrap())
    }

    #[test]
    fn local_time_is_that_of_the_zone() {
        let mut clock = clock("00:00 America/New_York");
        for (utc, local) in [
            ("2026-11-01T05:59:59Z", "2026-11-01T01:59:59Z"),
            ("2026-11-01T06:00:00Z", "2026-11-01T01:00:00Z"),
            ("2026-07-01T00:00:00Z", "2026-06-30T20:00:00Z"),
        ] {
            assert_eq!(clock.stamp(ns(utc)).timestamp_ns, ns(local), "{utc}");
        }
    }

    #[test]
    fn a_day_that_rolls_at_midnight_is_the_civil_day() {
        let calendar = clock("00:00 UTC").calendar(ns("2026-11-21T23:59:59Z"));
        assert_eq!(calendar, Calendar::daily(day("2026-11-21"), ns("2026-11-22T00:00:00Z")));
    }

    #[test]
    fn a_day_that_rolls_in_the_evening_is_named_after_its_end() {
        let clock = clock("17:00 America/New_York");
        let before = clock.calendar(ns("2026-11-20T21:59:00Z"));
        assert_eq!(before, Calendar::daily(day("2026-11-20"), ns("2026-11-20T22:00:00Z")));
        let after = clock.calendar(ns("2026-11-20T22:00:00Z"));
        assert_eq!(after, Calendar::daily(day("2026-11-21"), ns("2026-11-21T22:00:00Z")));
    }

    #[test]
    fn a_day_that_rolls_in_the_morning_is_named_after_its_begin() {
        let calendar = clock("05:00 UTC").calendar(ns("2026-11-21T04:00:00Z"));
        assert_eq!(calendar, Calendar::daily(day("2026-11-20"), ns("2026-11-21T05:00:00Z")));
    }

    #[test]
    fn the_end_of_a_day_is_that_of_its_calendar() {
        for roll in ["17:00 America/New_York", "12:00 UTC", "05:00 UTC", "00:00 Asia/Tokyo"] {
            for at in ["2026-11-21T04:00:00Z", "2026-11-21T13:00:00Z", "2026-11-21T23:00:00Z"] {
                let calendar = clock(roll).calendar(ns(at));
                assert_eq!(clock(roll).end_of(calendar.today), calendar.next_roll_ns, "{roll}, {at}");
            }
        }
    }

    #[test]
    fn with_a_calendar_days_are_trading_days() {
        let text = "zone = \"America/New_York\"\nopen = \"09:30\"\nclose = \"16:00\"\nend = \"17:00\"\nholidays = [\"2026-11-26\"]\n";
        let clock = Clock::trading(Arc::new(TradingCalendar::parse(text).unwrap()));
        let friday = clock.calendar(ns("2026-11-25T22:00:00Z"));
        let next_roll_ns = ns("2026-11-27T22:00:00Z");
        assert_eq!(friday, Calendar { today: day("2026-11-27"), next: day("2026-11-30"), next_roll_ns });
        assert_eq!(clock.calendar(next_roll_ns).today, day("2026-11-30"));
        assert_eq!(clock.next_after(day("2026-11-25")), day("2026-11-27"));
        assert_eq!(
            clock.end_of(day("2026-11-28")),
            ns("2026-11-30T22:00:00Z"),
            "a day begun by hand ends with the next"
        );
    }

    #[test]
    fn day_numbers_are_those_of_kdb() {
        assert_eq!(day("2000-01-01"), Date(0));
        assert_eq!(civil_date(day("2026-11-21")), civil::Date::constant(2026, 11, 21));
        assert_eq!([i32::MIN, i32::MAX].map(|day| civil_date(Date(day))), [civil::Date::MIN, civil::Date::MAX]);
    }
}
