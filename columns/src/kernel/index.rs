//! Hash index over the items of a growing list.

use crate::sys::budget::{self, BLOCK};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};

/// Positions of items by their hash: the first of equal ones. Holds no items, so every call is given the same list.
#[derive(Debug, Default)]
pub struct Index {
    positions: HashTable<u32>,
    /// Items at the start of the list that are in the index.
    covered: usize,
    /// The list has been searched before.
    was_searched: bool,
}

pub(crate) const STATE: FixedState = FixedState::with_seed(0x0069_6e64_6578);
/// Bytes of an entry and its control byte, at the load factor at which the table grows.
const ENTRY_BYTES: usize = 6;

impl Index {
    /// Adds the items that the list has gained. `room` is called as in [`super::keys::positions`]. Positions from 2^32 on are not held: the
    /// index then stays behind, and [`Index::find`] searches what is left.
    ///
    /// # Errors
    /// Those of `room`; items added so far stay.
    pub fn cover<T: Hash + Eq, E>(
        &mut self,
        items: &[T],
        mut room: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let hash = |at: &u32| items.get(*at as usize).map_or(0, |item| STATE.hash_one(item));
        while let Some(block) = items.get(self.covered..).filter(|left| !left.is_empty()) {
            let count = block.len().min(BLOCK);
            if u32::try_from(self.covered + count).is_err() {
                return Ok(());
            }
            if count == BLOCK {
                room(0)?;
                budget::note(count);
            }
            if self.positions.capacity() - self.positions.len() < count {
                room((self.positions.len() + count).saturating_mul(2 * ENTRY_BYTES))?;
                self.positions.reserve(count, hash);
            }
            for item in block.iter().take(count) {
                let at = self.covered as u32;
                let same = |other: &u32| items.get(*other as usize) == Some(item);
                self.positions.entry(STATE.hash_one(item), same, hash).or_insert(at);
                self.covered += 1;
            }
        }
        Ok(())
    }

    /// Whether an index pays for a search of `sought` items in a list of `count`: one that covers a part of it, or that is not the first search
    /// of a few items.
    pub fn pays(&mut self, sought: usize, count: usize) -> bool {
        std::mem::replace(&mut self.was_searched, true) || self.covered > 0 || sought.saturating_mul(16) > count
    }

    /// Whether all items are in the index.
    pub fn covers<T>(&self, items: &[T]) -> bool {
        self.covered == items.len()
    }

    /// Number of different items in the index.
    pub fn distinct(&self) -> usize {
        self.positions.len()
    }

    /// Returns the position of the first item equal to `item`.
    pub fn find<T: Hash + Eq>(&self, items: &[T], item: &T) -> Option<usize> {
        let same = |at: &u32| items.get(*at as usize) == Some(item);
        if let Some(at) = self.positions.find(STATE.hash_one(item), same) {
            return Some(*at as usize);
        }
        let left = items.get(self.covered..)?;
        left.iter().position(|own| own == item).map(|at| self.covered + at)
    }
}

#[cfg(test)]
mod tests {
    use super::Index;

    #[test]
    fn finds_the_first_of_equal_items_however_the_list_has_grown() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut items, mut index): (Vec<i64>, Index) = Default::default();
        for _ in 0..200 {
            let more = random.usize(0..40);
            items.extend((0..more).map(|_| random.i64(0..500)));
            if random.bool() {
                index.cover(&items, |_| Ok::<(), ()>(())).expect("there is room");
            }
            for item in 0..500 {
                assert_eq!(index.find(&items, &item), items.iter().position(|own| *own == item));
            }
        }
    }

    #[test]
    fn an_error_of_room_leaves_a_usable_index() {
        let items: Vec<i64> = (0..200_000).collect();
        let mut index = Index::default();
        let mut calls = 0;
        let stop = |_| {
            calls += 1;
            if calls > 3 { Err(()) } else { Ok(()) }
        };
        assert!(index.cover(&items, stop).is_err());
        assert_eq!(index.find(&items, &199_999), Some(199_999));
    }
}
