//! A place in a log, for `elastick log`: an update's index, or a time.

use jiff::civil::{Date, DateTime, Time};

/// Where a range of updates begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPosition {
    /// Index of an update.
    Index(u64),
    /// Time of day, in nanoseconds from midnight.
    TimeOfDay(i64),
    /// Nanoseconds from 2000.01.01.
    Timestamp(i64),
}

/// Parses an index (`1000`), a time of day (`02:00`, `09:30:00.5`), or a timestamp (`2026.11.21D02:00`, `2026-11-21T02:00`).
///
/// # Errors
/// The text is none of them.
pub fn log_position(text: &str) -> Result<LogPosition, String> {
    let text = text.trim();
    let index: String = text.chars().filter(|digit| *digit != '_').collect();
    if !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()) {
        return index.parse().map(LogPosition::Index).map_err(|_| format!("{text:?} is too large for an index"));
    }
    time_of_day(text).or_else(|| timestamp(text)).ok_or_else(|| {
        format!("{text:?} is no index and no time; write it like 1000, 02:00, 09:30:00.5 or 2026.11.21D02:00")
    })
}

fn time_of_day(text: &str) -> Option<LogPosition> {
    // Without a colon it would be an index, or a date; with a letter, a timestamp.
    let is_time = text.contains(':') && text.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
    let time: Time = is_time.then_some(text)?.parse().ok()?;
    Some(LogPosition::TimeOfDay(time.duration_since(Time::MIN).as_nanos().try_into().ok()?))
}

fn timestamp(text: &str) -> Option<LogPosition> {
    const BEGIN: DateTime = DateTime::constant(2000, 1, 1, 0, 0, 0, 0);
    let (date, time) = text.split_once(['D', 'T']).unwrap_or((text, "00:00"));
    let date: Date = date.replace('.', "-").parse().ok()?;
    let time: Time = time.contains(':').then_some(time)?.parse().ok()?;
    Some(LogPosition::Timestamp(date.to_datetime(time).duration_since(BEGIN).as_nanos().try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60_000_000_000;

    #[test]
    fn a_position_is_an_index_a_time_of_day_or_a_timestamp() {
        assert_eq!(log_position("1_000"), Ok(LogPosition::Index(1000)));
        assert_eq!(log_position("02:00"), Ok(LogPosition::TimeOfDay(120 * MINUTE_NS)));
        assert_eq!(log_position("00:01:00.5"), Ok(LogPosition::TimeOfDay(MINUTE_NS + 500_000_000)));
        for text in ["2000.01.02D00:01", "2000-01-02T00:01:00"] {
            assert_eq!(log_position(text), Ok(LogPosition::Timestamp(1441 * MINUTE_NS)), "{text}");
        }
        assert_eq!(log_position("2000.01.02"), Ok(LogPosition::Timestamp(1440 * MINUTE_NS)));
    }

    #[test]
    fn anything_else_is_an_error_with_examples() {
        for text in ["", "-1", "noon", "25:00", "2026.13.01", "2026.11.21D", "99999999999999999999", "T02:00"] {
            assert!(log_position(text).is_err(), "{text}");
        }
        assert!(log_position("noon").unwrap_err().contains("2026.11.21D02:00"));
    }
}
