//! Decides when to trim the allocator: after the send buffers fall 16 MiB below their peak. Otherwise the process would keep the memory
//! that slow readers' buffers once needed.

use crate::sys::allocated::GIVE_BACK_EVERY;
use std::time::Instant;

/// Minimum drop before a trim, because a trim takes time; the process may keep as much.
const TRIM_BYTES: usize = 16 << 20;

/// State of the trim decision.
#[derive(Debug, Default)]
pub(super) struct Trim {
    /// Peak of the buffered bytes since the last trim.
    most_bytes: usize,
    /// When to retry a trim that was skipped because one had just happened.
    again_at: Option<Instant>,
}

impl Trim {
    /// Notes the buffered bytes after some were added: a connection that is closed for them may drop them before the next call of [`Trim::look`].
    pub(super) fn grew(&mut self, bytes: usize) {
        self.most_bytes = self.most_bytes.max(bytes);
    }

    /// Takes the currently buffered bytes. `give_back` trims and returns true, or returns false if it may not yet; then it is retried at
    /// the next call.
    pub(super) fn look(&mut self, bytes: usize, now: Instant, give_back: impl FnOnce() -> bool) {
        self.most_bytes = self.most_bytes.max(bytes);
        self.again_at = None;
        if self.most_bytes.saturating_sub(bytes) < TRIM_BYTES {
            return;
        }
        if give_back() {
            self.most_bytes = bytes;
        } else {
            self.again_at = now.checked_add(GIVE_BACK_EVERY);
        }
    }

    /// Deadline of a retry, for an otherwise idle loop.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each call with so many MiB: whether a trim was attempted.
    fn asked(trim: &mut Trim, looks: &[usize], gives: bool) -> Vec<bool> {
        let now = Instant::now();
        let look = |mib: &usize| {
            let mut asked = false;
            trim.look(mib << 20, now, || {
                asked = true;
                gives
            });
            assert_eq!(trim.again_at(), Some(now + GIVE_BACK_EVERY).filter(|_| asked && !gives));
            asked
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn the_allocator_is_trimmed_once_for_each_fall() {
        let mut trim = Trim::default();
        assert_eq!(asked(&mut trim, &[0, 30, 15, 14, 13, 0], true), [false, false, false, true, false, false]);
        assert_eq!(asked(&mut trim, &[15, 0, 16, 0, 0], true), [false, false, false, true, false]);
    }

    #[test]
    fn what_came_and_went_between_two_looks_counts() {
        let mut trim = Trim::default();
        assert_eq!(asked(&mut trim, &[1], true), [false]);
        trim.grew(30 << 20);
        assert_eq!(asked(&mut trim, &[1, 1], true), [true, false]);
    }

    #[test]
    fn a_failed_trim_is_retried() {
        let mut trim = Trim::default();
        assert_eq!(asked(&mut trim, &[30, 10, 5, 5], false), [false, true, true, true]);
        assert_eq!(asked(&mut trim, &[5, 5], true), [true, false]);
    }

    #[test]
    fn new_waiters_need_the_memory() {
        let mut trim = Trim::default();
        assert_eq!(asked(&mut trim, &[30, 10, 20], false), [false, true, false]);
    }
}
