//! Write lock of the evaluations that assign globals: one at a time, and each waits only until its deadline or until its client is gone.

use crate::sys::interrupt::Cancel;
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
    /// Acquires the lock; returns `None` if that takes until `by`, or once `cancel` is set ([`DeadlineLock::look_again`]).
    pub fn take(&self, by: Option<Instant>, cancel: Option<&Cancel>) -> Option<DeadlineGuard<'_>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken {
            if cancel.is_some_and(Cancel::is_set) {
                return None;
            }
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
        drop(taken);
        // A cancelled waiter that was notified of the free lock passes it on by dropping the guard.
        Some(DeadlineGuard(self)).filter(|_| !cancel.is_some_and(Cancel::is_set))
    }

    /// Makes the waiters look at their flags.
    pub fn look_again(&self) {
        // With the lock: a waiter that has looked at its flag waits already.
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        self.free.notify_all();
        drop(taken);
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
        let held = deadline_lock.take(None, None);
        assert!(held.is_some());
        assert!(deadline_lock.take(Some(Instant::now()), None).is_none());
        drop(held);
        assert!(deadline_lock.take(Some(Instant::now()), None).is_some());
    }

    #[test]
    fn a_waiter_whose_client_has_gone_leaves_the_lock_to_the_next() {
        let (deadline_lock, gone) = (DeadlineLock::default(), Cancel::default());
        let held = deadline_lock.take(None, None);
        std::thread::scope(|threads| {
            let given_up = threads.spawn(|| deadline_lock.take(None, Some(&gone)).is_none());
            let next = threads.spawn(|| deadline_lock.take(None, Some(&Cancel::default())).is_some());
            gone.set();
            deadline_lock.look_again();
            assert!(given_up.join().expect("no panic"), "while another holds the lock");
            drop(held);
            assert!(next.join().expect("no panic"));
        });
        assert!(deadline_lock.take(None, Some(&gone)).is_none(), "free, and its client has gone");
        assert!(deadline_lock.take(None, None).is_some());
    }
}
