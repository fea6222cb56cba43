//! The clock of the driver's tests.

use crate::sys::clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that stands still until it is set.
#[derive(Default)]
pub struct SetClock(pub AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> Duration {
        Duration::ZERO
    }

    fn since_boot(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) {}
}
