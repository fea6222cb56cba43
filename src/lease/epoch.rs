//! Fencing by epoch: decides which tickerplant's messages are valid.
//!
//! A tickerplant takes a higher epoch each time it opens the log's directory, and writes it to the log's side file and to the response to a
//! node's join. A process that has seen an epoch ignores lower ones, so a tickerplant that was declared dead and continues to write has no
//! effect.

use std::fmt;

/// Fencing token: the number of times that the right to write has changed hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The first number that is none: a store may keep signed ones, and somebody must be able to have a higher one.
const END_OF_EPOCHS: u64 = i64::MAX.unsigned_abs();

impl Epoch {
    /// The epoch that a store has; `None` if nobody could have a higher one.
    pub fn checked(number: u64) -> Option<Epoch> {
        (number < END_OF_EPOCHS).then_some(Epoch(number))
    }

    /// Next epoch; `None` on overflow.
    pub fn next(self) -> Option<Epoch> {
        Epoch::checked(self.0.checked_add(1)?)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Rejected: sent by a writer that has been replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epoch {found} is outdated: epoch {seen} has begun")]
pub struct Fenced {
    pub found: Epoch,
    pub seen: Epoch,
}

/// The highest epoch seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    seen: Epoch,
}

impl Fence {
    pub fn new(seen: Epoch) -> Fence {
        Fence { seen }
    }

    pub fn seen(&self) -> Epoch {
        self.seen
    }

    /// Accepts an epoch that is not lower than any before, and records it.
    ///
    /// # Errors
    /// [`Fenced`] if a higher epoch was accepted before.
    pub fn pass(&mut self, found: Epoch) -> Result<(), Fenced> {
        if found < self.seen {
            return Err(Fenced { found, seen: self.seen });
        }
        self.seen = found;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_epoch_is_rejected_and_changes_nothing() {
        let mut fence = Fence::new(Epoch(4));
        assert_eq!(fence.pass(Epoch(3)), Err(Fenced { found: Epoch(3), seen: Epoch(4) }));
        assert_eq!(fence.seen(), Epoch(4));
    }

    #[test]
    fn the_same_epoch_and_higher_ones_pass() {
        let mut fence = Fence::default();
        assert_eq!(fence.pass(Epoch(1)), Ok(()));
        assert_eq!(fence.pass(Epoch(1)), Ok(()));
        assert_eq!(fence.pass(Epoch(7)), Ok(()));
        assert_eq!(fence.pass(Epoch(6)), Err(Fenced { found: Epoch(6), seen: Epoch(7) }));
    }

    #[test]
    fn the_next_epoch_is_one_more_until_numbers_end() {
        assert_eq!(Epoch(8).next(), Some(Epoch(9)));
        assert_eq!(Epoch(u64::MAX).next(), None);
    }
}
