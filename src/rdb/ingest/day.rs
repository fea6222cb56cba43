//! The day that a node is in, and the tip of its log as last reported.

use proto::types::NULL_INT;

/// Day and tip of the tickerplant's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Day {
    /// The day of the rows held, if any.
    date: Option<i32>,
    /// The node's day if it joined on a later one: the end of that day may still arrive.
    missed: Option<i32>,
    tip: Option<u64>,
    /// A day has ended: request the date of the next.
    is_unknown: bool,
}

impl Day {
    pub fn date(&self) -> Option<i32> {
        self.date
    }

    /// Date for a message about windows; null if unknown.
    pub fn date_or_null(&self) -> i32 {
        self.date.unwrap_or(NULL_INT)
    }

    pub fn tip(&self) -> Option<u64> {
        self.tip
    }

    /// Joined on this day.
    pub fn joined(&mut self, date: i32, tip: u64) {
        self.missed = self.date.filter(|own| *own < date);
        self.began(date, tip);
    }

    /// A live window of this day began.
    pub fn began(&mut self, date: i32, tip: u64) {
        self.date = Some(date);
        self.tip = Some(tip);
    }

    /// A window was assigned by a tickerplant in q, which reports no date.
    pub fn began_undated(&mut self, tip: u64) {
        self.tip = Some(tip);
    }

    /// Rebuilds a window of this day.
    pub fn rebuilds(&mut self, date: i32) {
        self.date = Some(date);
    }

    /// Returns whether the node has already left the day that ends.
    pub fn has_left(&self, date: i32) -> bool {
        self.date.is_some_and(|own| date < own) && self.missed != Some(date)
    }

    /// The day of a node without a live window ended.
    pub fn ended(&mut self) {
        self.date = None;
    }

    /// The day of a live node ended. `is_unknown`: the date of the next must be requested, since weekends and holidays lie between days.
    pub fn ended_live(&mut self, date: i32, is_unknown: bool) {
        self.began(date.saturating_add(1), 0);
        self.is_unknown = is_unknown;
    }

    /// Sets the date from the tickerplant's response; `None` for a null.
    pub fn is_on(&mut self, date: Option<i32>) {
        self.date = date;
    }

    /// Returns whether the date must be requested.
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// As [`Day::is_unknown`], and notes that it is requested.
    pub fn takes_unknown(&mut self) -> bool {
        std::mem::take(&mut self.is_unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_day_that_was_missed_still_counts_and_that_of_an_earlier_one_does_not() {
        let mut day = Day::default();
        day.joined(5, 9);
        assert!(day.has_left(4) && !day.has_left(5));
        day.joined(7, 0);
        assert!(!day.has_left(5) && day.has_left(6));
    }

    #[test]
    fn a_live_node_goes_on_with_the_next_day_and_asks_for_its_date_once() {
        let mut day = Day::default();
        day.joined(5, 9);
        day.ended_live(5, true);
        assert_eq!((day.date(), day.tip()), (Some(6), Some(0)));
        assert!(day.takes_unknown() && !day.takes_unknown());
        day.is_on(Some(8));
        assert_eq!(day.date_or_null(), 8);
    }
}
