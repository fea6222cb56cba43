//! Which days of a log directory may be deleted, and their deletion.
//!
//! A day is due if it is more than `keep` days old *and* more than `keep` days of the same source follow it: a clock that is wrong, or a
//! tickerplant that did not run for a month, cannot empty the directory. The newest day is never due, since it is being written or will be
//! continued. A due day whose log is not known to be whole is kept, unless forced: its files may be the only evidence of what was lost.

use super::days::{Day, DayState};
use super::error::LogError;
use crate::env::Disk;
use jiff::Span;
use jiff::civil::Date;

/// What retention does with a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Kept up to this date, or longer if fewer newer days follow by then.
    Until(Date),
    /// Kept as one of the newest days, whatever its date.
    Newest,
    /// Due, but not known to be whole.
    Held(DayState),
    Delete,
}

/// Decides for each day, in the same order. `days` are sorted by source and date.
pub fn fates(days: &[Day], today: Date, keep: u32, force: bool) -> Vec<Fate> {
    let newer = |day: &Day| days.iter().filter(|other| other.src == day.src && other.date > day.date).count();
    let keep_count = usize::try_from(keep).unwrap_or(usize::MAX);
    let fate = |day: &Day| {
        let until = until(day.date, keep);
        if until >= today {
            return Fate::Until(until);
        }
        // The current day is not one of those that were logged before it.
        if newer(day) <= keep_count {
            return Fate::Newest;
        }
        match &day.state {
            DayState::Whole | DayState::Missing => Fate::Delete,
            _ if force => Fate::Delete,
            state => Fate::Held(state.clone()),
        }
    };
    days.iter().map(fate).collect()
}

/// Last date on which a day of this date is kept.
pub fn until(date: Date, keep: u32) -> Date {
    date.checked_add(Span::new().days(i64::from(keep).min(MAX_DAYS))).unwrap_or(Date::MAX)
}

/// The most days that a [`Span`] may have, and more than the calendar.
const MAX_DAYS: i64 = 4_000_000;

/// Deletes all files of a day. The log goes first: if the deletion is interrupted, the rest of the day is no log without its checksums but
/// side files without their log, which the next one deletes.
///
/// # Errors
/// A file cannot be deleted.
pub fn delete(disk: &dyn Disk, day: &Day) -> Result<(), LogError> {
    for (path, _) in &day.files {
        disk.remove(path).map_err(LogError::io(path, "delete"))?;
    }
    disk.sync_directory_of(&day.log).map_err(LogError::io(&day.log, "sync the directory of"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn day(src: &str, date: Date, state: DayState) -> Day {
        let log = PathBuf::from(format!("{src}{date}"));
        Day { src: src.to_string(), date, log, files: Vec::new(), records: None, state }
    }

    /// The days from the 1st to the 9th of November.
    fn nine() -> Vec<Day> {
        (1..10).map(|at| day("sym", Date::constant(2026, 11, at), DayState::Whole)).collect()
    }

    fn deleted(days: &[Day], today: Date, keep: u32, force: bool) -> Vec<i8> {
        let fates = fates(days, today, keep, force);
        days.iter().zip(fates).filter(|(_, fate)| *fate == Fate::Delete).map(|(day, _)| day.date.day()).collect()
    }

    const NINTH: Date = Date::constant(2026, 11, 9);

    #[test]
    fn days_are_kept_for_so_many_days() {
        assert_eq!(deleted(&nine(), NINTH, 7, false), [1]);
        assert_eq!(deleted(&nine(), NINTH, 3, false), [1, 2, 3, 4, 5]);
        assert_eq!(deleted(&nine(), NINTH, 9, false), [0_i8; 0]);
        assert_eq!(fates(&nine(), NINTH, 7, false).get(1), Some(&Fate::Until(NINTH)));
    }

    #[test]
    fn a_clock_that_is_years_ahead_leaves_the_newest_days() {
        let later = Date::constant(2036, 11, 9);
        assert_eq!(deleted(&nine(), later, 7, true), [1]);
        assert_eq!(fates(&nine(), later, 7, true).last(), Some(&Fate::Newest));
        assert_eq!(deleted(&nine()[..3], later, 7, true), [0_i8; 0]);
    }

    #[test]
    fn a_day_that_is_not_whole_is_kept_unless_forced() {
        for state in
            [DayState::Unchecked, DayState::Unfinished(3), DayState::Shortened, DayState::Damaged, DayState::Repaired]
        {
            let mut days = nine();
            days[1].state = state.clone();
            assert_eq!(deleted(&days, NINTH, 5, false), [1, 3]);
            assert_eq!(fates(&days, NINTH, 5, false)[1], Fate::Held(state));
            assert_eq!(deleted(&days, NINTH, 5, true), [1, 2, 3]);
        }
    }

    #[test]
    fn the_newest_day_stays_even_by_force_and_sources_do_not_count_for_each_other() {
        let mut days = nine();
        days.push(day("tick", Date::constant(2020, 1, 1), DayState::Whole));
        assert_eq!(fates(&days, NINTH, 1, true).last(), Some(&Fate::Newest));
        assert_eq!(until(NINTH, u32::MAX), Date::MAX);
    }
}
