//! Notices that this process stood still for longer than its lease lasts, as on a host that was suspended: others may have been given its windows.
//!
//! A thread that does nothing else beats: one that also called the store would stand still with it, and a store that hangs must cost no node. Between
//! the end of the pause and the next beat, readers find the last one too old; from then on a flag says it, until the node has joined again.

use crate::env::Spawner;
use crate::env::task::Every;
use crate::sys::clock::Clock;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Beats in the life of the lease.
const BEATS: u32 = 8;

/// The last beat, and whether one was late.
pub struct StallDetector {
    clock: Arc<dyn Clock>,
    limit_ns: u64,
    beat_ns: AtomicU64,
    has_stalled: AtomicBool,
}

impl StallDetector {
    /// `limit`: life of the lease on which the owner relies.
    pub fn new(clock: Arc<dyn Clock>, limit: Duration) -> StallDetector {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let detector =
            StallDetector { clock, limit_ns, beat_ns: AtomicU64::new(0), has_stalled: AtomicBool::new(false) };
        detector.beat_ns.store(detector.now_ns(), Ordering::SeqCst);
        detector
    }

    /// Beats until the result is dropped.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(self: &Arc<StallDetector>, spawner: &dyn Spawner) -> io::Result<Every> {
        let detector = Arc::clone(self);
        Every::start(spawner, "owner-stall", Duration::from_nanos(self.limit_ns) / BEATS, move || {
            detector.beat();
            ControlFlow::Continue(())
        })
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.since_boot().as_nanos()).unwrap_or(u64::MAX)
    }

    fn beat(&self) {
        let now_ns = self.now_ns();
        if now_ns.saturating_sub(self.beat_ns.load(Ordering::SeqCst)) >= self.limit_ns {
            self.has_stalled.store(true, Ordering::SeqCst);
        }
        self.beat_ns.store(now_ns, Ordering::SeqCst);
    }

    /// Whether the process stood still, and has not joined since.
    pub fn has_stalled(&self) -> bool {
        let age_ns = self.now_ns().saturating_sub(self.beat_ns.load(Ordering::SeqCst));
        age_ns >= self.limit_ns || self.has_stalled.load(Ordering::SeqCst)
    }

    /// The tickerplant has said what this node holds.
    pub fn joined(&self) {
        self.has_stalled.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::set_clock::SetClock;
    use crate::env::task::Threads;

    #[test]
    fn a_pause_is_in_doubt_until_the_node_has_joined_again() {
        let clock = Arc::new(SetClock::default());
        let detector = StallDetector::new(Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_nanos(10));
        let at = |ns| clock.0.store(ns, Ordering::SeqCst);
        at(9);
        assert!(!detector.has_stalled());
        detector.beat();
        at(18);
        assert!(!detector.has_stalled());
        at(19);
        assert!(detector.has_stalled(), "the thread has not run yet");
        detector.beat();
        assert!(detector.has_stalled(), "it has, but the node has not joined");
        detector.joined();
        assert!(!detector.has_stalled());
    }

    #[test]
    fn it_beats_whatever_a_store_does() {
        let clock = Arc::new(SetClock::default());
        let detector = Arc::new(StallDetector::new(Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_millis(1)));
        let _beats = detector.start(&Threads).expect("a thread");
        for ns in [900_000, 1_800_000, 2_700_000] {
            clock.0.store(ns, Ordering::SeqCst);
            while detector.beat_ns.load(Ordering::SeqCst) != ns {
                std::thread::yield_now();
            }
        }
        assert!(!detector.has_stalled());
    }
}
