//! Options of `elastick plan` for clusters that sleep.

use crate::cli::CliError;
use crate::config::{TradingCalendar, Wake, units, wake};
use crate::feed::curve::DAY_NS;
use crate::monitor::text;
use crate::plan::day::Sleep;
use crate::plan::shape::Shape;
use clap::{Arg, ArgMatches};
use jiff::ToSpan;
use jiff::civil::{Date, Time};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

pub const DAYS_A_YEAR: usize = 365;
/// A day whose prices have no date in a calendar.
const SOME_DAY: Date = jiff::civil::date(2026, 1, 1);

/// How the planned clusters sleep.
pub struct SleepInputs {
    pub sleep: Sleep,
    /// When the log of a day begins.
    pub begin_ns: u64,
    /// Trading days in a year; `None` without a calendar.
    pub trading_days: Option<usize>,
}

/// Returns the options.
pub fn options() -> [Arg; 4] {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).allow_hyphen_values(true).help(help)
    };
    [
        option("wake", "WHEN", "Also: what it costs if all nodes end with the day, and the first one of the next day comes with its first-update, its \
             first-query, or by a calendar; schedule: the live node stays")
            .value_parser(wake),
        option("idle-off", "TIME", "Also: what it costs if all nodes end once no update and no query has come for so long").value_parser(units::duration),
        option("queries", "FROM-TO", "When clients query, for --wake and --idle-off: 09:00-18:00 (default: while the market is open)").value_parser(hours),
        option("calendar", "FILE", "Trading calendar of --wake calendar, as of elastick tick: when the day ends, and when the first node is requested")
            .value_parser(clap::value_parser!(PathBuf)),
    ]
}

/// Parses two times of a day.
fn hours(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?}: expected two times of a day, as 09:00-18:00");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let at = |time: &str| match time {
        "24:00" => Some(DAY_NS),
        time => Some(of_day(time.parse::<Time>().ok()?)),
    };
    let (from, to) = at(from).zip(at(to)).ok_or_else(wrong)?;
    if from >= to {
        return Err(format!("{text:?}: the first time must be before the second"));
    }
    Ok(from..to)
}

fn of_day(time: Time) -> u64 {
    let since = Time::midnight().duration_until(time);
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

/// Reads the options; `None` if no cluster is to sleep. `shape`: the planned day. `priced`: the date of the prices.
///
/// # Errors
/// `Usage` if they contradict one another or the calendar is wrong.
pub fn inputs(matches: &ArgMatches, shape: &Shape, priced: &str) -> Result<Option<SleepInputs>, CliError> {
    let usage = |text: &str| Err(CliError::Usage(text.to_string()));
    let kind = matches.get_one::<Wake>("wake").copied();
    // As for a tickerplant, 0 is never.
    let idle = matches.get_one::<Duration>("idle-off").copied().filter(|idle| !idle.is_zero());
    let calendar = matches.get_one::<PathBuf>("calendar");
    let queries = matches.get_one::<Range<u64>>("queries").cloned();
    match (kind, calendar) {
        (Some(Wake::Calendar), None) => return usage("--wake calendar needs --calendar FILE"),
        (Some(Wake::Calendar), Some(_)) | (_, None) => {}
        (_, Some(_)) => return usage("--calendar is for --wake calendar"),
    }
    if kind.is_none() && idle.is_none() {
        return match queries {
            Some(_) => usage("--queries is for --wake and --idle-off"),
            None => Ok(None),
        };
    }
    let (open_ns, close_ns) = shape.open_hours();
    let is_given = queries.is_some();
    let queries = queries.unwrap_or(open_ns..close_ns);
    let idle_ns = idle.map(|idle| u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
    let mut of = SleepInputs {
        sleep: Sleep { wake: kind.unwrap_or_default(), idle_ns, prepare_ns: None, queries },
        begin_ns: 0,
        trading_days: None,
    };
    if let Some(path) = calendar {
        let calendar = TradingCalendar::read(path).map_err(CliError::Usage)?;
        of.follow(&calendar, priced.parse().unwrap_or(SOME_DAY), is_given)?;
    }
    Ok(Some(of))
}

impl SleepInputs {
    /// Lets days begin and end as those of a market, from a date on. `is_given`: the operator has said when clients query.
    fn follow(&mut self, calendar: &TradingCalendar, from: Date, is_given: bool) -> Result<(), CliError> {
        let full = |date: &Date| !calendar.session(*date).is_half;
        let days = std::iter::successors(Some(calendar.trading_from(from)), |date| Some(calendar.next_after(*date)));
        let session = calendar.session(days.take(DAYS_A_YEAR).find(full).unwrap_or(from));
        let clock = |at: jiff::Timestamp| of_day(at.to_zoned(calendar.zone.clone()).time());
        let prepare_ns = u64::try_from(calendar.prepare.as_nanos()).unwrap_or(0).min(DAY_NS - 1);
        self.begin_ns = clock(session.end) % DAY_NS;
        let since = |at_ns: u64| (at_ns + DAY_NS - self.begin_ns) % DAY_NS;
        self.sleep.prepare_ns = Some(since((clock(session.open) + DAY_NS - prepare_ns) % DAY_NS));
        let Range { start, end } = self.sleep.queries;
        let mut queries = since(start)..since(end.saturating_sub(1)).saturating_add(1);
        if queries.start >= queries.end && !is_given {
            // They query until the day ends.
            queries.end = DAY_NS;
        }
        if queries.start >= queries.end {
            let end = text::clock(self.begin_ns);
            return Err(CliError::Usage(format!(
                "--queries: clients query at {end}, when the day of the calendar ends"
            )));
        }
        self.sleep.queries = queries;
        let year = from.checked_add(365.days()).unwrap_or(from);
        self.trading_days = Some(calendar.trading_between(from.yesterday().unwrap_or(from), year).min(DAYS_A_YEAR));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn hours_are_two_times_of_a_day_in_order() {
        assert_eq!(hours("09:00-18:30"), Ok(9 * HOUR..18 * HOUR + HOUR / 2));
        assert_eq!(hours("00:00-24:00"), Ok(0..DAY_NS));
        for wrong in ["", "9", "18:00-09:00", "09:00-09:00", "25:00-26:00", "-1:00-02:00", "a-b"] {
            assert!(hours(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_calendar_turns_the_day_so_that_it_begins_where_the_one_before_ends() {
        let text = "zone = \"America/New_York\"\nopen = \"09:30\"\nclose = \"16:00\"\nend = \"17:00\"\nprepare = \"30m\"\n\
                    holidays = [\"2026-01-01\", \"2026-01-19\"]\n";
        let calendar = TradingCalendar::parse(text).unwrap();
        let sleep = Sleep { wake: Wake::Calendar, idle_ns: None, prepare_ns: None, queries: 8 * HOUR..16 * HOUR };
        let mut of = SleepInputs { sleep, begin_ns: 0, trading_days: None };
        of.follow(&calendar, SOME_DAY, true).unwrap();
        assert_eq!((of.begin_ns, of.sleep.prepare_ns), (17 * HOUR, Some(16 * HOUR)));
        assert_eq!((of.sleep.queries.clone(), of.trading_days), (15 * HOUR..23 * HOUR, Some(259)));
        of.sleep.queries = 16 * HOUR..18 * HOUR;
        of.begin_ns = 0;
        assert!(of.follow(&calendar, SOME_DAY, true).is_err(), "they query over the end of the day");
    }
}
