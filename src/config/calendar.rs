//! `--calendar FILE`: the trading days of a market, in TOML, and when each opens, closes and ends.

use super::file::line_of;
use super::units;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// Longest run of days without trading that a calendar may have. A longer one is a typing error, and a roll would skip that many logs.
const MAX_CLOSED_DAYS: i32 = 31;
/// Maximum number of holidays and half days.
const MAX_DATES: usize = 10_000;
/// Largest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Trading days of a market.
#[derive(Clone, Debug, PartialEq)]
pub struct TradingCalendar {
    pub zone: TimeZone,
    /// By weekday, from Monday.
    weekdays: [bool; 7],
    /// In the evening before, if it is not before the close.
    open: Time,
    close: Time,
    end: Time,
    /// Time before the open at which the cluster is to start.
    pub prepare: Duration,
    holidays: BTreeSet<Date>,
    /// Date to close.
    half_days: BTreeMap<Date, Time>,
    /// Its file; `None` if it was parsed from text.
    path: Option<PathBuf>,
}

/// One trading day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub date: Date,
    pub is_half: bool,
    pub open: Timestamp,
    pub close: Timestamp,
    /// End of the day: its log ends, and the next trading day begins.
    pub end: Timestamp,
}

impl TradingCalendar {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or does not describe a calendar. The message names the file and the line.
    pub fn read(path: &Path) -> Result<TradingCalendar, String> {
        let shown = path.display();
        let bytes = std::fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?.len();
        if bytes > MAX_BYTES {
            return Err(format!("{shown}: {bytes} bytes are too many for a calendar"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        let calendar = TradingCalendar::parse(&text).map_err(|error| format!("{shown}: {error}"))?;
        Ok(TradingCalendar { path: Some(path.to_path_buf()), ..calendar })
    }

    /// Reads its file again.
    ///
    /// # Errors
    /// As [`TradingCalendar::read`].
    pub fn reread(&self) -> Result<TradingCalendar, String> {
        self.path.as_deref().map_or_else(|| Ok(self.clone()), TradingCalendar::read)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text is no calendar, or one without trading days.
    pub fn parse(text: &str) -> Result<TradingCalendar, String> {
        let document = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line_of(text, at), error.message().replace('\n', ", "))
        })?;
        let mut fields = Fields::default();
        for (key, value) in document.get_ref() {
            let line = line_of(text, key.span().start);
            fields
                .take(key.get_ref(), value.get_ref())
                .map_err(|error| format!("line {line}: {}: {error}", key.get_ref()))?;
        }
        fields.finish()
    }

    /// Whether a date is a trading day.
    pub fn is_trading(&self, date: Date) -> bool {
        let at = usize::try_from(date.weekday().to_monday_zero_offset()).unwrap_or(0);
        self.weekdays.get(at).copied().unwrap_or(false) && !self.holidays.contains(&date)
    }

    /// Returns the first trading day from a date on. A calendar has one within a month; past the end of time, the date itself.
    pub fn trading_from(&self, date: Date) -> Date {
        days_from(date).find(|day| self.is_trading(*day)).unwrap_or(date)
    }

    /// Returns the trading day after a date.
    pub fn next_after(&self, date: Date) -> Date {
        date.tomorrow().map_or(date, |next| self.trading_from(next))
    }

    /// Returns the trading day to which a moment belongs: the first that has not ended.
    pub fn at(&self, now: Timestamp) -> Session {
        let date = self.trading_from(now.to_zoned(self.zone.clone()).date());
        match self.session(date) {
            session if session.end > now => session,
            _ => self.session(self.next_after(date)),
        }
    }

    /// Returns the times of a date as if it were a trading day.
    pub fn session(&self, date: Date) -> Session {
        let half = self.half_days.get(&date);
        let close = half.copied().unwrap_or(self.close);
        // The end of a half day is as long after its close as on other days.
        let after = self.close.until(self.end).unwrap_or_default();
        let end = close.checked_add(after).unwrap_or(close);
        let evening = self.open >= self.close;
        let opens_on = if evening { date.yesterday().unwrap_or(date) } else { date };
        let [open, close, end] =
            [(opens_on, self.open), (date, close), (date, end)].map(|(date, time)| self.moment(date, time));
        Session { date, is_half: half.is_some(), open, close, end }
    }

    /// Returns the moment of a local time. One that a change of the clock skips is an hour later.
    fn moment(&self, date: Date, time: Time) -> Timestamp {
        date.to_datetime(time).to_zoned(self.zone.clone()).map_or(Timestamp::MAX, |zoned| zoned.timestamp())
    }

    /// Returns the number of trading days between two dates, both excluded.
    pub fn trading_between(&self, from: Date, to: Date) -> usize {
        days_from(from).skip(1).take_while(|day| *day < to).filter(|day| self.is_trading(*day)).count()
    }
}

/// Returns the dates from a date on, for the longest time between two days of a tickerplant.
fn days_from(date: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(date), |day| day.tomorrow().ok()).take(4_000)
}

/// Fields of a file as read.
#[derive(Default)]
struct Fields {
    zone: Option<TimeZone>,
    weekdays: Option<[bool; 7]>,
    open: Option<Time>,
    close: Option<Time>,
    end: Option<Time>,
    prepare: Duration,
    holidays: BTreeSet<Date>,
    half_days: BTreeMap<Date, Time>,
}

impl Fields {
    fn take(&mut self, key: &str, value: &DeValue<'_>) -> Result<(), String> {
        match key {
            "zone" => self.zone = Some(units::zone_named(text(value)?)?),
            "open" => self.open = Some(time(text(value)?)?),
            "close" => self.close = Some(time(text(value)?)?),
            "end" => self.end = Some(time(text(value)?)?),
            "prepare" => self.prepare = units::duration(text(value)?)?,
            "weekdays" => {
                let mut weekdays = [false; 7];
                for name in texts(value)? {
                    let day = weekday(name)?;
                    let at = usize::try_from(day.to_monday_zero_offset()).unwrap_or(0);
                    weekdays.iter_mut().skip(at).take(1).for_each(|day| *day = true);
                }
                self.weekdays = Some(weekdays);
            }
            "holidays" => {
                for name in texts(value)? {
                    self.holidays.insert(units::date(name)?);
                }
            }
            "half-days" => {
                let table =
                    value.as_table().ok_or("write a section [half-days] with lines like 2026-11-27 = \"13:00\"")?;
                for (date, close) in table {
                    let close = time(text(close.get_ref())?)?;
                    self.half_days.insert(units::date(date.get_ref())?, close);
                }
            }
            _ => {
                return Err(
                    "is unknown; a calendar has zone, weekdays, open, close, end, prepare, holidays and [half-days]"
                        .to_string(),
                );
            }
        }
        match self.holidays.len().saturating_add(self.half_days.len()) > MAX_DATES {
            true => Err(format!("more than {MAX_DATES} dates")),
            false => Ok(()),
        }
    }

    fn finish(self) -> Result<TradingCalendar, String> {
        let Fields { zone, weekdays, open, close, end, prepare, holidays, half_days } = self;
        let missing = |key: &str, example: &str| format!("{key} is missing: write {key} = {example}");
        let open = open.ok_or_else(|| missing("open", "\"09:30\""))?;
        let close = close.ok_or_else(|| missing("close", "\"16:00\""))?;
        let zone = zone.ok_or_else(|| missing("zone", "\"America/New_York\""))?;
        let weekdays = weekdays.unwrap_or([true, true, true, true, true, false, false]);
        if !weekdays.contains(&true) {
            return Err("the market never opens: weekdays is empty".to_string());
        }
        let end = end.unwrap_or(close);
        if end < close {
            return Err(format!(
                "end {} is before close {}: the day ends once the market has closed",
                shown(end),
                shown(close)
            ));
        }
        let calendar = TradingCalendar { zone, weekdays, open, close, end, prepare, holidays, half_days, path: None };
        calendar.check_dates()?;
        Ok(calendar)
    }
}

impl TradingCalendar {
    fn check_dates(&self) -> Result<(), String> {
        for (date, close) in &self.half_days {
            if self.holidays.contains(date) {
                return Err(format!("{date} is both a holiday and a half day"));
            }
            if !self.is_trading(*date) {
                return Err(format!("half day {date} is a {:?}, when the market is closed", date.weekday()));
            }
            if *close > self.close || (self.open < self.close && *close <= self.open) {
                let hours = format!("{} to {}", shown(self.open), shown(self.close));
                return Err(format!("half day {date} closes at {}, which is not within {hours}", shown(*close)));
            }
        }
        let longest = Span::new().days(MAX_CLOSED_DAYS);
        for holiday in &self.holidays {
            let last = holiday.checked_add(longest).unwrap_or(Date::MAX);
            if !days_from(*holiday).take_while(|day| *day <= last).any(|day| self.is_trading(day)) {
                return Err(format!(
                    "the market never opens from {holiday} to {last}: more than {MAX_CLOSED_DAYS} days in a row are closed"
                ));
            }
        }
        Ok(())
    }
}

fn shown(time: Time) -> String {
    time.strftime("%H:%M").to_string()
}

fn text<'a>(value: &'a DeValue<'_>) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| "write it in quotes, as \"…\"".to_string())
}

fn texts<'a>(value: &'a DeValue<'_>) -> Result<Vec<&'a str>, String> {
    let items = value.as_array().ok_or("write a list, as [\"…\", \"…\"]")?;
    items.iter().map(|item| text(item.get_ref())).collect()
}

fn time(text: &str) -> Result<Time, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a time of day; write it like \"16:00\""))
}

fn weekday(name: &str) -> Result<Weekday, String> {
    use Weekday::{Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};
    let days = [Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday];
    let lower = name.trim().to_ascii_lowercase();
    let is_it = |day: &Weekday| {
        let full = format!("{day:?}").to_ascii_lowercase();
        lower.len() >= 3 && full.starts_with(&lower)
    };
    days.into_iter()
        .find(is_it)
        .ok_or_else(|| format!("{name:?} is not a weekday; write mon, tue, wed, thu, fri, sat or sun"))
}

/// Returns the moment some time before another.
pub fn before(at: Timestamp, by: Duration) -> Timestamp {
    let ns = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
    at.checked_sub(ns.nanoseconds()).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW_YORK: &str = r#"
zone = "America/New_York"
weekdays = ["mon", "tue", "wed", "thu", "fri"]
open = "09:30"
close = "16:00"
end = "17:00"
prepare = "30m"
holidays = ["2026-11-26", "2026-12-25"]

[half-days]
2026-11-27 = "13:00"
"#;

    fn calendar() -> TradingCalendar {
        TradingCalendar::parse(NEW_YORK).expect("a calendar")
    }

    fn date(text: &str) -> Date {
        text.parse().expect("a date")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_moment_belongs_to_the_first_trading_day_that_has_not_ended() {
        let calendar = calendar();
        for (now, day) in [
            ("2026-11-25T21:59:59Z", "2026-11-25"),
            // Thanksgiving follows.
            ("2026-11-25T22:00:00Z", "2026-11-27"),
            ("2026-11-26T15:00:00Z", "2026-11-27"),
            // A half day ends at 14:00, an hour after its close.
            ("2026-11-27T18:59:59Z", "2026-11-27"),
            ("2026-11-27T19:00:00Z", "2026-11-30"),
            ("2026-11-29T12:00:00Z", "2026-11-30"),
            ("2026-12-24T22:00:00Z", "2026-12-28"),
        ] {
            assert_eq!(calendar.at(at(now)).date, date(day), "{now}");
        }
    }

    #[test]
    fn a_session_has_its_times_in_the_zone_of_the_market() {
        let half = calendar().session(date("2026-11-27"));
        let times = [half.open, half.close, half.end].map(|time| time.to_string());
        assert_eq!(times, ["2026-11-27T14:30:00Z", "2026-11-27T18:00:00Z", "2026-11-27T19:00:00Z"]);
        assert!(half.is_half);
        // In summer New York is four hours behind.
        assert_eq!(calendar().session(date("2026-07-01")).open, at("2026-07-01T13:30:00Z"));
        assert_eq!(before(half.open, calendar().prepare), at("2026-11-27T14:00:00Z"));
    }

    #[test]
    fn a_market_may_open_in_the_evening_before() {
        let text = "zone = \"America/Chicago\"\nopen = \"17:00\"\nclose = \"16:00\"\n";
        let monday = TradingCalendar::parse(text).expect("a calendar").session(date("2026-11-30"));
        assert_eq!((monday.open, monday.end), (at("2026-11-29T23:00:00Z"), at("2026-11-30T22:00:00Z")));
    }

    #[test]
    fn days_between_two_logs_are_trading_days() {
        let between = |from, to| calendar().trading_between(date(from), date(to));
        assert_eq!(between("2026-11-27", "2026-11-30"), 0, "a weekend");
        assert_eq!(between("2026-11-23", "2026-11-27"), 2, "Tuesday and Wednesday");
        assert_eq!(between("2026-11-30", "2026-11-30"), 0);
    }

    #[test]
    fn what_is_no_calendar_is_rejected_in_words() {
        let ok = "zone = \"UTC\"\nopen = \"09:00\"\nclose = \"17:00\"\n";
        let closed: Vec<String> = (1..=31).map(|day| format!("\"2027-01-{day:02}\"")).collect();
        for (text, words) in [
            ("open = \"09:00\"\nclose = \"17:00\"".to_string(), "zone is missing"),
            ("zone = \"UTC\"\nclose = \"17:00\"".to_string(), "open is missing: write open = \"09:30\""),
            (format!("{ok}weekdays = []"), "the market never opens: weekdays is empty"),
            (
                format!(
                    "{ok}weekdays = [\"mon\"]\nholidays = [\"2027-01-04\",\"2027-01-11\",\"2027-01-18\",\"2027-01-25\",\"2027-02-01\"]"
                ),
                "never opens from 2027-01-04",
            ),
            (format!("{ok}holidays = [{}]", closed.join(",")), ""),
            (format!("{ok}weekdays = [\"funday\"]"), "line 4: weekdays: \"funday\" is not a weekday"),
            (format!("{ok}end = \"16:00\""), "end 16:00 is before close 17:00"),
            (format!("{ok}holidays = [\"2026-13-01\"]"), "line 4: holidays: "),
            (format!("{ok}[half-days]\n2026-11-28 = \"13:00\""), "half day 2026-11-28 is a Saturday"),
            (format!("{ok}[half-days]\n2026-11-27 = \"08:00\""), "not within 09:00 to 17:00"),
            (
                format!("{ok}holidays = [\"2026-11-27\"]\n[half-days]\n2026-11-27 = \"13:00\""),
                "both a holiday and a half day",
            ),
            (format!("{ok}opening = \"09:00\""), "line 4: opening: is unknown; a calendar has zone"),
            (format!("{ok}prepare = \"soon\""), "line 4: prepare: "),
            (format!("{ok}open = \"09:00\""), "line 4: "),
            ("zone = \"Mars/Olympus\"".to_string(), "line 1: zone: \"Mars/Olympus\" is not a known time zone"),
            ("zone = ".to_string(), "line 1: "),
        ] {
            match TradingCalendar::parse(&text) {
                Ok(_) => assert!(words.is_empty(), "{text} is accepted"),
                Err(error) => assert!(!words.is_empty() && error.contains(words), "{text}: {error}"),
            }
        }
    }
}
