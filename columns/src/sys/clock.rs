//! The clock of the whole program: the system's, or a virtual one that the simulated environment sets for its thread.
//!
//! The simulated environment runs on one thread and sets the thread's time before it calls the code of a simulated
//! host. Production threads have no virtual time and pay one thread-local read per call.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Virtual time of a simulated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Virtual {
    /// Since the start of the simulation; never decreases.
    pub elapsed: Duration,
    /// Wall clock of the host since 1970. It may jump.
    pub wall: Duration,
}

thread_local! {
    static OWN: Cell<Option<Virtual>> = const { Cell::new(None) };
    /// CPU time spent in [`uncounted`].
    static UNCOUNTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Origin of virtual time: an `Instant` cannot be made from a number.
static BEGIN: OnceLock<Instant> = OnceLock::new();

/// Sets or clears this thread's virtual time.
pub fn set_virtual(time: Option<Virtual>) {
    OWN.set(time);
}

/// Returns this thread's virtual time, if it has one.
pub fn virtual_time() -> Option<Virtual> {
    OWN.get()
}

/// As [`Instant::now`].
pub fn now() -> Instant {
    match OWN.get() {
        None => Instant::now(),
        Some(own) => {
            let begin = *BEGIN.get_or_init(Instant::now);
            begin.checked_add(own.elapsed).unwrap_or(begin)
        }
    }
}

/// As [`Instant::elapsed`].
pub fn since(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
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

/// Returns the wall clock time since 1970.01.01 UTC.
pub fn wall() -> Duration {
    match OWN.get() {
        None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        Some(own) => own.wall,
    }
}

/// Returns the time since boot, suspend included (`CLOCK_BOOTTIME`), as a reference for the wall clock's advance.
pub fn since_boot() -> Duration {
    match OWN.get() {
        None => Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).unwrap_or_default(),
        Some(own) => own.elapsed,
    }
}

/// As [`std::thread::sleep`]; virtual time advances at once.
pub fn sleep(time: Duration) {
    match OWN.get() {
        None => std::thread::sleep(time),
        Some(own) => {
            OWN.set(Some(Virtual { elapsed: own.elapsed.saturating_add(time), wall: own.wall.saturating_add(time) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_advances_only_on_request() {
        let second = Duration::from_secs(1);
        set_virtual(Some(Virtual { elapsed: second, wall: Duration::from_secs(1000) }));
        let begin = now();
        sleep(second);
        assert_eq!((since(begin), wall()), (second, Duration::from_secs(1001)));
        set_virtual(None);
        assert!(wall() > Duration::from_secs(1001));
    }

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
