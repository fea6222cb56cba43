//! Peak memory of one call.

use elastick::sys::allocated::{peak_bytes, start_peak};

/// Calls `work`; panics if this thread allocates more than `most_bytes` above its present use meanwhile.
pub fn within<R>(most_bytes: usize, work: impl FnOnce() -> R) -> R {
    let found = start_peak();
    let result = work();
    let peak = peak_bytes().saturating_sub(found);
    assert!(peak <= i64::try_from(most_bytes).unwrap_or(i64::MAX), "{peak} bytes held, at most {most_bytes} expected");
    result
}
