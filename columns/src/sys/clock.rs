//! The clocks of a process, as a trait; CPU time, which belongs to the thread whatever the clock.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Clocks that a process goes by.
pub trait Clock: Send + Sync {
    /// As [`Instant::now`].
    fn now(&self) -> Instant;

    /// Returns the wall clock time since 1970.01.01 UTC. It may jump.
    fn wall(&self) -> Duration;

    /// Returns the time since boot, suspend included (`CLOCK_BOOTTIME`), as a reference for the wall clock's advance.
    fn since_boot(&self) -> Duration;

    /// As [`std::thread::sleep`].
    fn sleep(&self, time: Duration);

    /// As [`Instant::elapsed`].
    fn since(&self, earlier: Instant) -> Duration {
        self.now().saturating_duration_since(earlier)
    }
}

/// The operating system's clocks.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn since_boot(&self) -> Duration {
        Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).unwrap_or_default()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

thread_local! {
    /// CPU time spent in [`uncounted`].
    static UNCOUNTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the CPU time of this thread, without that spent in [`uncounted`].
pub fn thread_processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default().saturating_sub(UNCOUNTED.get())
}

/// Runs `work` without charging its CPU time to this thread, for work that a query merely triggers.
pub fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    let before = thread_processor_time();
    let result = work();
    let taken = thread_processor_time().saturating_sub(before);
    UNCOUNTED.set(UNCOUNTED.get().saturating_add(taken));
    result
}

/// Returns whether `moment` has passed and, if `processor_time` is given, this thread has used that much CPU time.
pub fn has_passed(moment: Instant, processor_time: Option<Duration>) -> bool {
    Instant::now() >= moment && processor_time.is_none_or(|time| thread_processor_time() >= time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncounted_memory_is_not_charged() {
        let work = Duration::from_millis(5);
        let until = |time| while thread_processor_time() < time {};
        let before = thread_processor_time();
        let by = before + work;
        uncounted(|| until(by));
        assert!(!has_passed(Instant::now(), Some(by)));
        until(by);
        assert!(has_passed(Instant::now(), Some(by)));
    }
}
