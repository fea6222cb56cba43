//! Ended days, kept until the owner's `.u.end` has processed them.
//!
//! The ingest thread hands over a snapshot of the ended day and goes on with the new one. A pool thread calls the
//! function on that snapshot, within `--limit-day-end-time`.

use super::shared::Moment;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of days kept. `.u.end` is not called for a further one.
const MAX_KEPT: usize = 2;
/// An evaluation checks its deadline between steps; one that runs this much past it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// An ended day.
#[derive(Debug)]
pub struct Kept {
    /// Days from 2000.01.01.
    pub date: i32,
    pub bytes: u64,
    /// Tables and windows as of its end.
    pub moment: Moment,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Kept>,
    /// When the function counts as hanging.
    until: Option<Instant>,
    /// The day for which the function runs, and since when.
    running: Option<(i32, Instant)>,
    /// Result of the last call.
    last: Option<(i32, Result<(), String>)>,
}

/// Days kept, and the results of earlier calls.
#[derive(Debug, Default)]
pub struct DayEnds {
    /// A start-up file defines `.u.end`.
    is_needed: AtomicBool,
    time_ns: AtomicU64,
    open: AtomicUsize,
    bytes: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    inner: Mutex<Inner>,
}

impl DayEnds {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts keeping days; `time` is the limit of one call.
    pub fn start_keeping(&self, time: Duration) {
        self.time_ns.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.is_needed.store(true, Ordering::SeqCst);
    }

    pub fn is_wanted(&self) -> bool {
        self.is_needed.load(Ordering::SeqCst)
    }

    /// Keeps a day. Returns the longest time until its call has returned; `None` if too many days are kept.
    pub fn keep(&self, kept: Kept) -> Option<Duration> {
        let mut inner = self.inner();
        if self.open.load(Ordering::SeqCst) >= MAX_KEPT {
            let reason = "the function of an earlier day is still running";
            inner.last = Some((kept.date, Err(reason.to_string())));
            self.failed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let days = self.open.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        self.bytes.fetch_add(kept.bytes, Ordering::SeqCst);
        inner.waiting.push_back(kept);
        let most = self.time().saturating_mul(u32::try_from(days).unwrap_or(u32::MAX)).saturating_add(HANGS_AFTER);
        inner.until = Instant::now().checked_add(most);
        Some(most)
    }

    /// Returns the next day to call the function for.
    pub fn take(&self) -> Option<Kept> {
        self.inner().waiting.pop_front()
    }

    /// Records the start of a call.
    pub fn call_begins(&self, date: i32) {
        self.inner().running = Some((date, Instant::now()));
    }

    /// Returns the day of the running call and its duration so far.
    pub fn running(&self) -> Option<(i32, Duration)> {
        let (date, since) = self.inner().running?;
        Some((date, Instant::now().saturating_duration_since(since)))
    }

    /// Time limit of one call.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.time_ns.load(Ordering::Relaxed))
    }

    /// Records the result of a call and releases its day.
    pub fn done(&self, date: i32, bytes: u64, result: Result<(), String>) {
        let counter = if result.is_ok() { &self.succeeded } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner();
        (inner.last, inner.running) = (Some((date, result)), None);
        drop(inner);
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether a day is kept.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }

    /// Returns until when an ending node waits for the function; `None` if no day is kept.
    pub fn until(&self) -> Option<Instant> {
        if self.is_open() { self.inner().until } else { None }
    }

    /// Bytes of the days kept.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Returns the number of successful and of failed calls.
    pub fn counts(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Returns the day and reason of the last failure; `None` once a later call has succeeded.
    pub fn failure(&self) -> Option<(i32, String)> {
        match &self.inner().last {
            Some((date, Err(reason))) => Some((*date, reason.clone())),
            _ => None,
        }
    }

    /// Returns `running`, `done` or `failed`; empty before the first day.
    pub fn state(&self) -> &'static str {
        match &self.inner().last {
            _ if self.is_open() => "running",
            None => "",
            Some((_, Ok(()))) => "done",
            Some((_, Err(_))) => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::rdb::shared::Shared;
    use crate::table::store::Store;

    fn kept(date: i32) -> Kept {
        Kept { date, bytes: 100, moment: Shared::new(Env::system().clock, Store::new(1 << 20).shared()).view() }
    }

    #[test]
    fn days_are_kept_until_their_function_has_returned_and_no_more_than_two() {
        let days = DayEnds::default();
        days.start_keeping(Duration::from_secs(60));
        assert_eq!(days.keep(kept(1)), Some(Duration::from_secs(90)));
        assert_eq!(days.keep(kept(2)), Some(Duration::from_secs(150)));
        assert_eq!((days.bytes(), days.state()), (200, "running"));
        assert_eq!(days.keep(kept(3)), None);
        assert_eq!(days.failure().map(|(date, _)| date), Some(3));
        assert_eq!(days.take().map(|kept| kept.date), Some(1));
        assert_eq!(days.running(), None);
        days.call_begins(1);
        assert_eq!(days.running().map(|(date, _)| date), Some(1));
        days.done(1, 100, Ok(()));
        assert_eq!(days.running(), None);
        assert_eq!((days.bytes(), days.failure()), (100, None));
        assert_eq!(days.take().map(|kept| kept.date), Some(2));
        days.done(2, 100, Err("type".to_string()));
        assert_eq!((days.is_open(), days.bytes(), days.until(), days.counts()), (false, 0, None, (1, 2)));
        assert_eq!((days.failure(), days.state()), (Some((2, "type".to_string())), "failed"));
    }
}
