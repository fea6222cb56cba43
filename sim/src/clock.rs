//! The clocks of a simulated environment.

use elastick::sys::clock::Clock;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtual {
    /// Since the start of the simulation; never decreases.
    pub elapsed: Duration,
    /// Wall clock since 1970. It may jump.
    pub wall: Duration,
}

/// A clock that moves when the simulation sets it, and for as long as a process sleeps.
#[derive(Debug)]
pub struct VirtualClock(Mutex<Virtual>);

/// Origin of virtual time: an `Instant` cannot be made from a number. All clocks share it, so that state fingerprints of two processes
/// agree.
static BEGIN: OnceLock<Instant> = OnceLock::new();

impl VirtualClock {
    pub fn new(time: Virtual) -> VirtualClock {
        VirtualClock(Mutex::new(time))
    }

    pub fn set(&self, time: Virtual) {
        *self.time() = time;
    }

    fn time(&self) -> MutexGuard<'_, Virtual> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        let begin = *BEGIN.get_or_init(Instant::now);
        begin.checked_add(self.time().elapsed).unwrap_or(begin)
    }

    fn wall(&self) -> Duration {
        self.time().wall
    }

    fn since_boot(&self) -> Duration {
        self.time().elapsed
    }

    fn sleep(&self, time: Duration) {
        let mut now = self.time();
        *now = Virtual { elapsed: now.elapsed.saturating_add(time), wall: now.wall.saturating_add(time) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_advances_only_on_request() {
        let second = Duration::from_secs(1);
        let clock = VirtualClock::new(Virtual { elapsed: second, wall: Duration::from_secs(1000) });
        let begin = clock.now();
        clock.sleep(second);
        assert_eq!((clock.since(begin), clock.wall()), (second, Duration::from_secs(1001)));
    }
}
