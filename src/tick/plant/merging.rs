//! Batch mode (`-t`): rows collected between two flushes.

use crate::tick::core::batch::Batch;
use crate::tick::core::schema::Tables;
use crate::tick::merge::Merge;
use std::time::{Duration, Instant};

/// Bytes of rows that batch mode collects before it publishes ahead of the timer.
const MERGE_BYTES: usize = 64 << 20;

/// Rows of batch mode and its timer.
struct Timed {
    rows: Merge,
    every: Duration,
    /// Next flush; `None` beyond the clock's range.
    next: Option<Instant>,
}

/// Batch mode, if it is on.
pub(super) struct Merging(Option<Timed>);

impl Merging {
    /// `every`: the publishing interval of batch mode; `None` switches it off.
    pub fn new(every: Option<Duration>, tables: &Tables, now: Instant) -> Merging {
        Merging(every.map(|every| Timed { rows: Merge::new(tables), every, next: now.checked_add(every) }))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Collects the rows of logged updates.
    pub fn add(&mut self, tables: &Tables, batch: &Batch) {
        if let Some(timed) = &mut self.0 {
            timed.rows.add(tables, batch);
        }
    }

    /// Returns whether to publish ahead of the timer.
    pub fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|timed| timed.rows.bytes() > MERGE_BYTES)
    }

    /// Takes the collected rows; `None` without batch mode.
    pub fn take(&mut self, tables: &Tables) -> Option<Batch> {
        self.0.as_mut().map(|timed| timed.rows.take(tables))
    }

    /// Restarts with changed tables.
    pub fn restart(&mut self, tables: &Tables) {
        if let Some(timed) = &mut self.0 {
            timed.rows = Merge::new(tables);
        }
    }

    /// Returns the time of the next flush.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.as_ref().and_then(|timed| timed.next)
    }

    /// Returns whether a flush is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }

    /// Sets the timer for the flush after this one.
    pub fn flushed(&mut self, now: Instant) {
        if let Some(timed) = &mut self.0 {
            timed.next = now.checked_add(timed.every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_due_at_their_interval() {
        let (now, every) = (Instant::now(), Duration::from_secs(1));
        let mut merging = Merging::new(Some(every), &Tables::default(), now);
        assert!(!merging.is_due(now) && merging.is_due(now + every));
        merging.flushed(now + every);
        assert_eq!(merging.deadline(), Some(now + every * 2));
    }

    #[test]
    fn without_an_interval_nothing_is_collected() {
        let mut merging = Merging::new(None, &Tables::default(), Instant::now());
        merging.flushed(Instant::now());
        assert!(!merging.is_on() && merging.deadline().is_none() && merging.take(&Tables::default()).is_none());
    }
}
