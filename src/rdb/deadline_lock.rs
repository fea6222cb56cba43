//! Write lock of the evaluations that assign globals: one at a time, and each waits only until its deadline.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// A lock whose acquisition has a deadline.
#[derive(Debug, Default)]
pub struct DeadlineLock {
    taken: Mutex<bool>,
    free: Condvar,
}

/// Guard: releases the lock on drop.
pub struct DeadlineGuard<'a>(&'a DeadlineLock);

impl DeadlineLock {
    /// Acquires the lock; returns `None` if that takes until `by`.
    pub fn take(&self, by: Option<Instant>) -> Option<DeadlineGuard<'_>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken {
            taken = match by {
                None => self.free.wait(taken).unwrap_or_else(PoisonError::into_inner),
                Some(by) => {
                    let left = by.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.free.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *taken = true;
        Some(DeadlineGuard(self))
    }
}

impl Drop for DeadlineGuard<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_for_the_lock_gives_up_at_its_deadline() {
        let deadline_lock = DeadlineLock::default();
        let held = deadline_lock.take(None);
        assert!(held.is_some());
        assert!(deadline_lock.take(Some(Instant::now())).is_none());
        drop(held);
        assert!(deadline_lock.take(Some(Instant::now())).is_some());
    }
}
