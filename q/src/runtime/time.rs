//! Calendar arithmetic from 2000.01.01, and the system clock in q's units.

use columns::kernel::num::Num;

pub use proto::time::DAY_NS;
use proto::time::EPOCH_UNIX_S;

pub fn is_digit(c: u8) -> bool {
    c.is_ascii_digit()
}

/// Days from 2000.01.01 to a civil date (proleptic Gregorian). Years start in March here, so that the leap day comes last.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 730_425
}

/// Year, month and day of a number of days from 2000.01.01.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 730_425;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Months from 2000.01 to the month of a day.
pub fn month_of_day(days: i64) -> i64 {
    let (year, month, _) = civil_from_days(days);
    (year - 2000) * 12 + month - 1
}

/// First day of a month, as days from 2000.01.01.
pub fn day_of_month(month: i64) -> i64 {
    days_from_civil(2000 + month.div_euclid(12), month.rem_euclid(12) + 1, 1)
}

fn number(text: &[u8]) -> Option<i64> {
    if text.is_empty() || !text.iter().all(|c| is_digit(*c)) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses `yyyy.mm.dd` to days from 2000.01.01; `None` if there is no such day.
pub fn parse_date(text: &[u8]) -> Option<i32> {
    let mut parts = text.split(|c| *c == b'.');
    let (year, month, day) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if parts.next().is_some() {
        return None;
    }
    date(year, month, day)
}

/// Days from 2000.01.01 to a date; `None` if there is no such day.
pub fn date(year: i64, month: i64, day: i64) -> Option<i32> {
    if !(1..=12).contains(&month) || !(1..=9999).contains(&year) || day < 1 {
        return None;
    }
    let next = if month == 12 { days_from_civil(year + 1, 1, 1) } else { days_from_civil(year, month + 1, 1) };
    let days = days_from_civil(year, month, day);
    (days < next).then_some(days as i32)
}

/// Parses `hh:mm`, `hh:mm:ss` or `hh:mm:ss.fffffffff` (also `hh`) to nanoseconds.
pub fn parse_clock_ns(text: &[u8]) -> Option<i64> {
    let mut parts = text.split(|c| *c == b':');
    let hours = number(parts.next()?)?;
    let minutes = parts.next().map_or(Some(0), number)?;
    let (mut seconds, mut fraction_ns) = (0, 0);
    if let Some(rest) = parts.next() {
        let mut halves = rest.splitn(2, |c| *c == b'.');
        seconds = number(halves.next()?)?;
        if let Some(digits) = halves.next() {
            let digits = digits.get(..digits.len().min(9))?;
            let scale = 10i64.checked_pow(9 - u32::try_from(digits.len()).ok()?)?;
            fraction_ns = if digits.is_empty() { 0 } else { number(digits)?.checked_mul(scale)? };
        }
    }
    if parts.next().is_some() || minutes > 59 || seconds > 59 {
        return None;
    }
    hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// Parses a clock without colons to nanoseconds: `hh`, `hhmm`, `hhmmss`, `hhmmssfff`.
pub fn parse_clock_digits_ns(text: &[u8]) -> Option<i64> {
    if !text.iter().all(|c| is_digit(*c)) {
        return None;
    }
    let mut spelled = Vec::new();
    for (i, c) in text.iter().enumerate() {
        match i {
            2 | 4 => spelled.push(b':'),
            6 => spelled.push(b'.'),
            _ => {}
        }
        spelled.push(*c);
    }
    parse_clock_ns(&spelled)
}

/// Nanoseconds from 2000.01.01 UTC to now.
pub fn now_utc_ns() -> i64 {
    let unix = jiff::Timestamp::now().as_nanosecond();
    i64::try_from(unix - i128::from(EPOCH_UNIX_S) * 1_000_000_000).unwrap_or(i64::NULL)
}

/// Nanoseconds from 2000.01.01 to now in local time.
pub fn now_local_ns() -> i64 {
    let now = jiff::Zoned::now();
    now_utc_ns().saturating_add(i64::from(now.offset().seconds()) * 1_000_000_000)
}
