//! Memory limit for the sum of all queries that run in a process at one time.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Bound on what evaluations hold together, beside the limit of each. With 100 MB and two queries that hold 45 MB each, a third one that needs 20 MB gets
/// `'wsfull`.
#[derive(Debug)]
pub struct SharedMemory {
    /// Bytes that they hold ([`columns::sys::allocated::shown_in`]).
    held_bytes: &'static AtomicI64,
    max_bytes: AtomicU64,
    /// What each may hold whatever the others hold, so that `count trade` works beside them.
    each_bytes: AtomicU64,
}

impl SharedMemory {
    /// Memory without a bound until one is set.
    pub fn new(held_bytes: &'static AtomicI64) -> SharedMemory {
        SharedMemory { held_bytes, max_bytes: AtomicU64::new(u64::MAX), each_bytes: AtomicU64::new(0) }
    }

    /// Bytes that the evaluations hold now.
    pub fn held_bytes(&self) -> u64 {
        u64::try_from(self.held_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Sets what they may hold together, from their next check of the limits on.
    pub fn set_max(&self, bytes: u64) {
        self.max_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets what each may hold in any case.
    pub fn set_each(&self, bytes: u64) {
        self.each_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether an evaluation that holds so many bytes may take `more_bytes`.
    pub(super) fn has_room(&self, holds_bytes: u64, more_bytes: u64) -> bool {
        holds_bytes.saturating_add(more_bytes) <= self.each_bytes.load(Ordering::Relaxed)
            || self.held_bytes().saturating_add(more_bytes) <= self.max_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::SharedMemory;
    use std::sync::atomic::{AtomicI64, Ordering};

    #[test]
    fn what_all_hold_is_bounded_and_a_little_is_everybodys() {
        static HELD: AtomicI64 = AtomicI64::new(0);
        let shared = SharedMemory::new(&HELD);
        assert!(shared.has_room(1 << 40, 1 << 40), "no bound yet");
        shared.set_max(100);
        shared.set_each(10);
        HELD.store(90, Ordering::Relaxed);
        assert!(shared.has_room(50, 10) && !shared.has_room(50, 11));
        assert!(shared.has_room(5, 5) && !shared.has_room(5, 11));
        // More is held than may be: rows have come since.
        shared.set_max(50);
        assert!(shared.has_room(10, 0) && !shared.has_room(50, 0));
    }
}
