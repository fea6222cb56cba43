//! Newtypes for the queue's numbers and names, so that an update index cannot be passed for a handle or a time.

use std::fmt;

/// Position of an update in the day's log, from 0; the tip is the index of the next update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateIndex(pub u64);

impl fmt::Display for UpdateIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A half-open range of update indices, `[first, last)`, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    first: UpdateIndex,
    last: UpdateIndex,
}

impl Window {
    /// Returns `[first, last)`, or `None` if it is empty.
    pub fn new(first: UpdateIndex, last: UpdateIndex) -> Option<Window> {
        (first < last).then_some(Window { first, last })
    }

    /// Returns the index of the first update.
    pub fn first(self) -> UpdateIndex {
        self.first
    }

    /// Returns the index after the last update.
    pub fn last(self) -> UpdateIndex {
        self.last
    }

    /// Returns the number of updates.
    pub fn updates(self) -> u64 {
        self.last.0.saturating_sub(self.first.0)
    }

    /// Returns the parts before and after `part`, which must be inside.
    pub fn without(self, part: Window) -> [Option<Window>; 2] {
        [Window::new(self.first, part.first), Window::new(part.last, self.last)]
    }

    /// Returns whether every update of `other` is inside.
    pub fn contains(self, other: Window) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{},{})", self.first, self.last)
    }
}

/// A connection's handle, as in kdb+'s `.z.w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub i32);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Date of a log, in days from 2000.01.01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub i32);

impl fmt::Display for Date {
    /// Formats as q does: `2026.11.21`. The computation starts years on 1 March, so that leap days come last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAYS_FROM_0000_03_01: i64 = 730_425;
        const DAYS_PER_400_YEARS: i64 = 146_097;
        let days = i64::from(self.0) + DAYS_FROM_0000_03_01;
        let (era, day) = (days.div_euclid(DAYS_PER_400_YEARS), days.rem_euclid(DAYS_PER_400_YEARS));
        let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        write!(f, "{year:04}.{month:02}.{day_of_month:02}")
    }
}

/// The time of a step. Time-outs use the steady clock only: a wall clock that is set back would suspend every grace period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds from 2000.01.01 UTC, as in kdb+ timestamps; for the time columns of the table.
    pub wall_ns: i64,
    /// Nanoseconds on a monotonic clock of arbitrary origin; for grace periods and repetitions.
    pub steady_ns: i64,
}

/// A symbol's bytes; need not be UTF-8.
pub type Symbol = Vec<u8>;

/// Name of a node; the node chooses it and keeps it over reconnects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(pub Symbol);

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// Name of a queue; in the cloud, the Auto Scaling group's name followed by the application's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(pub Symbol);

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_print_as_q_prints_them() {
        let printed = [-1, 0, 58, 59, 60, 365, 366, 9821, 36524, 36525].map(|day| Date(day).to_string());
        let expected = [
            "1999.12.31",
            "2000.01.01",
            "2000.02.28",
            "2000.02.29",
            "2000.03.01",
            "2000.12.31",
            "2001.01.01",
            "2026.11.21",
            "2099.12.31",
            "2100.01.01",
        ];
        assert_eq!(printed, expected);
    }

    #[test]
    fn a_window_is_never_empty() {
        assert_eq!(Window::new(UpdateIndex(5), UpdateIndex(5)), None);
        assert_eq!(Window::new(UpdateIndex(6), UpdateIndex(5)), None);
        assert_eq!(Window::new(UpdateIndex(5), UpdateIndex(7)).map(Window::updates), Some(2));
    }
}
