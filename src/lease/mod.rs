//! Fencing: which tickerplant may write. Pure.
//!
//! A tickerplant raises the epoch each time it takes the log's directory, and stamps it into the log's side file and into the
//! answer to a node's join. Whoever has seen an epoch takes nothing from a lower one: a tickerplant that was thought dead and
//! goes on writing is ignored.

use std::fmt;

/// How often the right to write has changed hands; grows by one each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of whoever takes over; `None` at the end of the numbers.
    pub fn next(self) -> Option<Epoch> {
        self.0.checked_add(1).map(Epoch)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something came from a writer that has been replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epoch {found} is over; {seen} has begun")]
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

    /// Lets an epoch pass and remembers it.
    ///
    /// # Errors
    /// [`Fenced`] if a higher one has passed before.
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
    fn a_lower_epoch_is_refused_and_changes_nothing() {
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
