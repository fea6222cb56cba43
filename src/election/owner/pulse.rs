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
pub struct Pulse {
    clock: Arc<dyn Clock>,
    limit_ns: u64,
    beat_ns: AtomicU64,
    is_doubtful: AtomicBool,
}

impl Pulse {
    /// `limit`: life of the lease on which the owner relies.
    pub fn new(clock: Arc<dyn Clock>, limit: Duration) -> Pulse {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let pulse = Pulse { clock, limit_ns, beat_ns: AtomicU64::new(0), is_doubtful: AtomicBool::new(false) };
        pulse.beat_ns.store(pulse.now_ns(), Ordering::SeqCst);
        pulse
    }

    /// Beats until the result is dropped.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(self: &Arc<Pulse>, spawner: &dyn Spawner) -> io::Result<Every> {
        let pulse = Arc::clone(self);
        Every::start(spawner, "owner-pulse", Duration::from_nanos(self.limit_ns) / BEATS, move || {
            pulse.beat();
            ControlFlow::Continue(())
        })
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.since_boot().as_nanos()).unwrap_or(u64::MAX)
    }

    fn beat(&self) {
        let now_ns = self.now_ns();
        if now_ns.saturating_sub(self.beat_ns.load(Ordering::SeqCst)) >= self.limit_ns {
            self.is_doubtful.store(true, Ordering::SeqCst);
        }
        self.beat_ns.store(now_ns, Ordering::SeqCst);
    }

    /// Whether the process stood still, and has not joined since.
    pub fn is_doubtful(&self) -> bool {
        let age_ns = self.now_ns().saturating_sub(self.beat_ns.load(Ordering::SeqCst));
        age_ns >= self.limit_ns || self.is_doubtful.load(Ordering::SeqCst)
    }

    /// The tickerplant has said what this node holds.
    pub fn joined(&self) {
        self.is_doubtful.store(false, Ordering::SeqCst);
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
        let pulse = Pulse::new(Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_nanos(10));
        let at = |ns| clock.0.store(ns, Ordering::SeqCst);
        at(9);
        assert!(!pulse.is_doubtful());
        pulse.beat();
        at(18);
        assert!(!pulse.is_doubtful());
        at(19);
        assert!(pulse.is_doubtful(), "the thread has not run yet");
        pulse.beat();
        assert!(pulse.is_doubtful(), "it has, but the node has not joined");
        pulse.joined();
        assert!(!pulse.is_doubtful());
    }

    #[test]
    fn it_beats_whatever_a_store_does() {
        let clock = Arc::new(SetClock::default());
        let pulse = Arc::new(Pulse::new(Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_millis(1)));
        let _beats = pulse.start(&Threads).unwrap();
        for ns in [900_000, 1_800_000, 2_700_000] {
            clock.0.store(ns, Ordering::SeqCst);
            while pulse.beat_ns.load(Ordering::SeqCst) != ns {
                std::thread::yield_now();
            }
        }
        assert!(!pulse.is_doubtful());
    }
}
