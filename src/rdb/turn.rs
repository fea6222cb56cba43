//! Write lock of the evaluations that assign globals: one at a time, and each waits only until its deadline.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// A lock whose acquisition has a deadline.
#[derive(Debug, Default)]
pub struct Turn {
    taken: Mutex<bool>,
    free: Condvar,
}

/// Guard: releases the lock on drop.
pub struct Held<'a>(&'a Turn);

impl Turn {
    /// Acquires the lock; returns `None` if that takes until `by`.
    pub fn take(&self, by: Option<Instant>) -> Option<Held<'_>> {
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
        Some(Held(self))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_and_another_waits_no_longer_than_it_may() {
        let turn = Turn::default();
        let held = turn.take(None);
        assert!(held.is_some());
        assert!(turn.take(Some(Instant::now())).is_none());
        drop(held);
        assert!(turn.take(Some(Instant::now())).is_some());
    }
}
