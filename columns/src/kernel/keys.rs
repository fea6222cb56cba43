//! Lookup and grouping of equal items, by hash.

use super::blocks;
use crate::sys::budget::{self, BLOCK as CHUNK};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::hash::Hash;

type Map<K, V> = HashMap<K, V, FixedState>;

fn map<K, V>(room: usize) -> Map<K, V> {
    HashMap::with_capacity_and_hasher(room.min(1 << 16), FixedState::with_seed(0x0071_7565_7279))
}

/// Returns for each needle the index of its first occurrence in `haystack`, or the length of `haystack` if it has none.
///
/// `room` is called with a number of bytes before they are allocated, and regularly with 0, so that it can end long work.
///
/// # Errors
/// Those of `room`.
pub fn positions<T: Hash + Eq, E>(
    haystack: &[T],
    needles: &[T],
    mut room: impl FnMut(usize) -> Result<(), E>,
) -> Result<Vec<i64>, E> {
    /// Bytes of one map entry, as in [`groups`].
    const ENTRY_BYTES: usize = 20;
    let missing = haystack.len() as i64;
    if needles.len() < 8 {
        let find = |n| {
            let mut before = 0;
            for block in haystack.chunks(CHUNK) {
                match block.iter().position(|h| h == n) {
                    Some(at) => return (before + at) as i64,
                    None if budget::spend(block.len()) => break,
                    None => before += block.len(),
                }
            }
            missing
        };
        return Ok(needles.iter().map(find).collect());
    }
    room(needles.len().saturating_mul(size_of::<i64>()))?;
    if needles.len().saturating_mul(4) < haystack.len() {
        return positions_of_few(haystack, needles, room);
    }
    let mut first: Map<&T, i64> = map(haystack.len());
    for (i, item) in haystack.iter().enumerate() {
        if i.is_multiple_of(CHUNK) {
            room(0)?;
            budget::note(CHUNK.min(haystack.len() - i));
        }
        if first.len() == first.capacity() {
            room(first.len().saturating_mul(2 * ENTRY_BYTES))?;
        }
        first.entry(item).or_insert(i as i64);
    }
    let mut out = Vec::with_capacity(needles.len());
    for chunk in needles.chunks(CHUNK) {
        room(0)?;
        budget::note(chunk.len());
        out.extend(chunk.iter().map(|n| first.get(n).copied().unwrap_or(missing)));
    }
    Ok(out)
}

/// As [`positions`], for a list much longer than what is sought: hashes the needles, and passes over the list until all are found.
fn positions_of_few<T: Hash + Eq, E>(
    haystack: &[T],
    needles: &[T],
    mut room: impl FnMut(usize) -> Result<(), E>,
) -> Result<Vec<i64>, E> {
    let missing = haystack.len() as i64;
    let mut at: Map<&T, i64> = map(needles.len());
    room(needles.len().saturating_mul(2 * (size_of::<&T>() + size_of::<i64>())))?;
    at.extend(needles.iter().map(|needle| (needle, missing)));
    let mut left = at.len();
    'found: for (block, items) in haystack.chunks(CHUNK).enumerate() {
        room(0)?;
        budget::note(items.len());
        for (i, item) in items.iter().enumerate() {
            if let Some(at) = at.get_mut(item).filter(|at| **at == missing) {
                *at = (block * CHUNK + i) as i64;
                left -= 1;
                if left == 0 {
                    break 'found;
                }
            }
        }
    }
    let mut out = Vec::with_capacity(needles.len());
    for chunk in needles.chunks(CHUNK) {
        room(0)?;
        budget::note(chunk.len());
        out.extend(chunk.iter().map(|needle| at.get(needle).copied().unwrap_or(missing)));
    }
    Ok(out)
}

/// Returns a float's bits, with a single zero and a single null: two floats are the same key if these are equal.
pub fn float_bits(float: f64) -> u64 {
    if float.is_nan() {
        f64::NAN.to_bits()
    } else if float == 0.0 {
        0
    } else {
        float.to_bits()
    }
}

/// Items grouped by equality.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Group of each item; groups are numbered by first appearance.
    pub ids: Vec<u32>,
    /// Index of the first item of each group.
    pub firsts: Vec<u32>,
}

/// Groups equal items. `room` is called as in [`positions`].
///
/// # Errors
/// Those of `room`.
pub fn groups<T: Hash + Eq, E>(items: &[T], mut room: impl FnMut(usize) -> Result<(), E>) -> Result<Groups, E> {
    /// Bytes of one map entry and its control data, at the load factor at which the map grows.
    const ENTRY_BYTES: usize = 20;
    room(items.len().saturating_mul(size_of::<u32>()))?;
    let mut seen: Map<&T, u32> = map(items.len());
    let mut out = Groups { ids: Vec::with_capacity(items.len()), firsts: Vec::new() };
    for (i, item) in items.iter().enumerate() {
        if i.is_multiple_of(CHUNK) {
            room(0)?;
            budget::note(CHUNK.min(items.len() - i));
        }
        if seen.len() == seen.capacity() {
            room(seen.len().saturating_mul(2 * ENTRY_BYTES))?;
        }
        let next = out.firsts.len() as u32;
        let id = *seen.entry(item).or_insert(next);
        if id == next {
            out.firsts.push(i as u32);
        }
        out.ids.push(id);
    }
    Ok(out)
}

/// As [`groups`], for numbers below `limit`, by direct addressing. Ends early past the limits of the thread.
pub fn groups_dense(items: impl ExactSizeIterator<Item = u32>, limit: usize) -> Groups {
    let mut seen = vec![u32::MAX; limit];
    let mut out = Groups { ids: Vec::with_capacity(items.len()), firsts: Vec::new() };
    for (i, item) in items.enumerate() {
        if i.is_multiple_of(CHUNK) && budget::spend(CHUNK) {
            break;
        }
        let Some(id) = seen.get_mut(item as usize) else { continue };
        if *id == u32::MAX {
            *id = out.firsts.len() as u32;
            out.firsts.push(i as u32);
        }
        out.ids.push(*id);
    }
    out
}

/// Returns the item indices of each of `count` groups, in order; `ids` holds the group of each item. Ends early past the limits
/// of the thread.
pub fn members(ids: &[u32], count: usize) -> Vec<Vec<u32>> {
    let mut sizes = vec![0usize; count];
    for ids in ids.chunks(CHUNK) {
        if budget::spend(ids.len()) {
            break;
        }
        for id in ids {
            if let Some(size) = sizes.get_mut(*id as usize) {
                *size += 1;
            }
        }
    }
    let mut out: Vec<Vec<u32>> = Vec::with_capacity(count);
    for sizes in sizes.chunks(CHUNK) {
        if budget::spend(sizes.len()) {
            out.resize(count, Vec::new());
            break;
        }
        out.extend(sizes.iter().map(|size| Vec::with_capacity(*size)));
    }
    for (i, id) in ids.iter().enumerate() {
        if i.is_multiple_of(CHUNK) && budget::spend(CHUNK) {
            break;
        }
        if let Some(group) = out.get_mut(*id as usize) {
            group.push(i as u32);
        }
    }
    out
}

impl Groups {
    /// Returns the item indices of each group, in order.
    pub fn members(&self) -> Vec<Vec<u32>> {
        members(&self.ids, self.firsts.len())
    }

    /// Groups pairs: two items share a group if they share one on both sides.
    ///
    /// # Errors
    /// Those of `room`.
    pub fn refine<E>(&self, other: &Groups, mut room: impl FnMut(usize) -> Result<(), E>) -> Result<Groups, E> {
        room(self.ids.len().saturating_mul(size_of::<u64>()))?;
        let pairs: Vec<u64> = blocks::both(&self.ids, &other.ids, |a, b| u64::from(*a) << 32 | u64::from(*b));
        groups(&pairs, room)
    }
}
