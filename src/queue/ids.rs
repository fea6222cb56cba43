//! Numbers and names of the queue, each a type of its own: an update index is never mistaken for a handle or a time.

use std::fmt;

/// How many updates of the day's log come before an update; the tip is the index of the next one.
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
    /// `None` where no update lies between the two.
    pub fn new(first: UpdateIndex, last: UpdateIndex) -> Option<Window> {
        (first < last).then_some(Window { first, last })
    }

    /// The first update inside.
    pub fn first(self) -> UpdateIndex {
        self.first
    }

    /// The first update after it.
    pub fn last(self) -> UpdateIndex {
        self.last
    }

    /// How many updates it holds.
    pub fn updates(self) -> u64 {
        self.last.0.saturating_sub(self.first.0)
    }

    /// What lies before and behind `part`, which is inside.
    pub fn without(self, part: Window) -> [Option<Window>; 2] {
        [Window::new(self.first, part.first), Window::new(part.last, self.last)]
    }

    /// Whether every update of `other` is inside.
    pub fn contains(self, other: Window) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{},{})", self.first, self.last)
    }
}

/// A connection as kdb+ names it (`.z.w`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub i32);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Days from 2000.01.01, the date of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub i32);

impl fmt::Display for Date {
    /// As q prints it, `2026.11.21`. The calendar is counted from a 1 March, so that leap days end its years.
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

/// The time of a step, by both clocks. Nothing is decided by the wall clock: one that is set back would stop every grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds from 2000.01.01 UTC, as kdb+ timestamps count. For the time columns of the table.
    pub wall_ns: i64,
    /// Nanoseconds of a clock that never goes back, from anywhere. For graces and repetitions.
    pub steady_ns: i64,
}

/// A symbol's bytes; need not be UTF-8.
pub type Symbol = Vec<u8>;

/// The name that a node gives itself and keeps over reconnects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(pub Symbol);

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// The name of a queue; in the cloud the Auto Scaling group's with the application's after it.
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
