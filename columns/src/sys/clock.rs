//! The time, as all of this program asks for it: the system's, unless a simulated world gives the thread its own.
//!
//! A world that runs on one thread sets the thread's time before it calls into a host's code. Threads of production have none of
//! their own, and pay one look at a flag.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time of a simulated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Virtual {
    /// Since the world began, never less than it was.
    pub elapsed: Duration,
    /// What the host's wall clock shows, from 1970. It may jump.
    pub wall: Duration,
}

thread_local! {
    static OWN: Cell<Option<Virtual>> = const { Cell::new(None) };
    /// Processor time that was [`uncounted`].
    static UNCOUNTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Where virtual time begins: an instant cannot be made from a number.
static BEGIN: OnceLock<Instant> = OnceLock::new();

/// Gives this thread a time of its own, or takes it away.
pub fn set_virtual(time: Option<Virtual>) {
    OWN.set(time);
}

/// The thread's own time, if it has one.
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

/// How long this thread has run on a processor. Time in which others ran instead does not count, nor what was [`uncounted`].
pub fn thread_processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default().saturating_sub(UNCOUNTED.get())
}

/// Does what is not to be charged to whoever set it off, however long it takes.
pub fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    let before = thread_processor_time();
    let result = work();
    let taken = thread_processor_time().saturating_sub(before);
    UNCOUNTED.set(UNCOUNTED.get().saturating_add(taken));
    result
}

/// Whether a moment has passed, and this thread has run for as long as it may where that is said too.
pub fn has_passed(moment: Instant, processor_time: Option<Duration>) -> bool {
    Instant::now() >= moment && processor_time.is_none_or(|time| thread_processor_time() >= time)
}

/// What the wall clock shows, from 1970.01.01 UTC.
pub fn wall() -> Duration {
    match OWN.get() {
        None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        Some(own) => own.wall,
    }
}

/// Time since the machine started, time in which it slept counted: what the wall clock's advance is compared with.
pub fn since_boot() -> Duration {
    match OWN.get() {
        None => Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).unwrap_or_default(),
        Some(own) => own.elapsed,
    }
}

/// As [`std::thread::sleep`]; virtual time passes at once.
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
    fn virtual_time_passes_only_as_it_is_told() {
        let second = Duration::from_secs(1);
        set_virtual(Some(Virtual { elapsed: second, wall: Duration::from_secs(1000) }));
        let begin = now();
        sleep(second);
        assert_eq!((since(begin), wall()), (second, Duration::from_secs(1001)));
        set_virtual(None);
        assert!(wall() > Duration::from_secs(1001));
    }

    #[test]
    fn what_is_uncounted_is_not_charged() {
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
