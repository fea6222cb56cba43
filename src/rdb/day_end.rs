//! The owner's `.u.end` of a node: days that have ended and are kept until it has returned.
//!
//! The ingest thread hands over a snapshot of the ended day and goes on with the new one. A thread of the pool calls the
//! function on that snapshot, within `--limit-day-end-time`.

use super::shared::Moment;
use crate::sys::clock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Days kept at the same time. A day that ends while so many are kept is not given to `.u.end`.
const KEPT_MOST: usize = 2;
/// An evaluation looks at its deadline between steps; one that has not returned this long after it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// A day that has ended.
#[derive(Debug)]
pub struct Kept {
    /// Days from 2000.01.01.
    pub date: i32,
    pub bytes: u64,
    /// Tables and windows as they were at its end.
    pub moment: Moment,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Kept>,
    /// When the function counts as hanging.
    until: Option<Instant>,
    /// The day that the function is called for now, and since when.
    running: Option<(i32, Instant)>,
    /// The last day that was given to the function, and how that failed.
    last: Option<(i32, Result<(), String>)>,
}

/// The days that are kept, and what became of earlier ones.
#[derive(Debug, Default)]
pub struct DayEnds {
    /// A start-up file defines `.u.end`.
    wanted: AtomicBool,
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

    /// Has days kept from now on; the function may take this long.
    pub fn want(&self, time: Duration) {
        self.time_ns.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.wanted.store(true, Ordering::SeqCst);
    }

    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Keeps a day. Returns for how long at most, `None` where too many are kept.
    pub fn keep(&self, kept: Kept) -> Option<Duration> {
        let mut inner = self.inner();
        if self.open.load(Ordering::SeqCst) >= KEPT_MOST {
            let reason = "the function of an earlier day is still running";
            inner.last = Some((kept.date, Err(reason.to_string())));
            self.failed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let days = self.open.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        self.bytes.fetch_add(kept.bytes, Ordering::SeqCst);
        inner.waiting.push_back(kept);
        let most = self.time().saturating_mul(u32::try_from(days).unwrap_or(u32::MAX)).saturating_add(HANGS_AFTER);
        inner.until = clock::now().checked_add(most);
        Some(most)
    }

    /// The next day to call the function for.
    pub fn take(&self) -> Option<Kept> {
        self.inner().waiting.pop_front()
    }

    /// The function is called for a day.
    pub fn begun(&self, date: i32) {
        self.inner().running = Some((date, clock::now()));
    }

    /// The day that the function is called for, and for how long it has run.
    pub fn running(&self) -> Option<(i32, Duration)> {
        let (date, since) = self.inner().running?;
        Some((date, clock::now().saturating_duration_since(since)))
    }

    /// How long a call may take.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.time_ns.load(Ordering::Relaxed))
    }

    /// The function has returned, and its day is let go.
    pub fn done(&self, date: i32, bytes: u64, result: Result<(), String>) {
        let counter = if result.is_ok() { &self.succeeded } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner();
        (inner.last, inner.running) = (Some((date, result)), None);
        drop(inner);
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a day is kept.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }

    /// Until when a node that ends waits for the function; `None` while no day is kept.
    pub fn until(&self) -> Option<Instant> {
        if self.is_open() { self.inner().until } else { None }
    }

    /// Bytes of the days that are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Calls that returned, and those that failed.
    pub fn counts(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// The last day whose function failed, with the reason; `None` once a later day's has returned.
    pub fn failure(&self) -> Option<(i32, String)> {
        match &self.inner().last {
            Some((date, Err(reason))) => Some((*date, reason.clone())),
            _ => None,
        }
    }

    /// `running`, `done` or `failed`; empty before the first day.
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
    use crate::rdb::shared::Shared;
    use crate::table::store::Store;

    fn kept(date: i32) -> Kept {
        Kept { date, bytes: 100, moment: Shared::new(Store::new(1 << 20).shared()).view() }
    }

    #[test]
    fn days_are_kept_until_their_function_has_returned_and_no_more_than_two() {
        let days = DayEnds::default();
        days.want(Duration::from_secs(60));
        assert_eq!(days.keep(kept(1)), Some(Duration::from_secs(90)));
        assert_eq!(days.keep(kept(2)), Some(Duration::from_secs(150)));
        assert_eq!((days.bytes(), days.state()), (200, "running"));
        assert_eq!(days.keep(kept(3)), None);
        assert_eq!(days.failure().map(|(date, _)| date), Some(3));
        assert_eq!(days.take().map(|kept| kept.date), Some(1));
        assert_eq!(days.running(), None);
        days.begun(1);
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
