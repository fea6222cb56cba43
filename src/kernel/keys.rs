//! Looking items up and putting equal ones together, by hash.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::hash::Hash;

type Map<K, V> = HashMap<K, V, FixedState>;

fn map<K, V>(room: usize) -> Map<K, V> {
    HashMap::with_capacity_and_hasher(room.min(1 << 16), FixedState::with_seed(0x0071_7565_7279))
}

/// For each needle the index of its first equal in `haystack`, or the haystack's length.
pub fn positions<T: Hash + Eq>(haystack: &[T], needles: &[T]) -> Vec<i64> {
    let missing = haystack.len() as i64;
    if needles.len() < 8 {
        let find = |n| haystack.iter().position(|h| h == n).map_or(missing, |p| p as i64);
        return needles.iter().map(find).collect();
    }
    let mut first: Map<&T, i64> = map(haystack.len());
    for (i, item) in haystack.iter().enumerate() {
        first.entry(item).or_insert(i as i64);
    }
    needles.iter().map(|n| first.get(n).copied().unwrap_or(missing)).collect()
}

/// Equal items as one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// For each item its group; groups are numbered by their first appearance.
    pub ids: Vec<u32>,
    /// For each group the index of its first item.
    pub firsts: Vec<u32>,
}

pub fn groups<T: Hash + Eq>(items: &[T]) -> Groups {
    let mut seen: Map<&T, u32> = map(items.len());
    let mut out = Groups { ids: Vec::with_capacity(items.len()), firsts: Vec::new() };
    for (i, item) in items.iter().enumerate() {
        let next = out.firsts.len() as u32;
        let id = *seen.entry(item).or_insert(next);
        if id == next {
            out.firsts.push(i as u32);
        }
        out.ids.push(id);
    }
    out
}

/// As [`groups`], of small numbers below `limit`, by direct address.
pub fn groups_dense(items: impl ExactSizeIterator<Item = u32>, limit: usize) -> Groups {
    let mut seen = vec![u32::MAX; limit];
    let mut out = Groups { ids: Vec::with_capacity(items.len()), firsts: Vec::new() };
    for (i, item) in items.enumerate() {
        let Some(id) = seen.get_mut(item as usize) else { continue };
        if *id == u32::MAX {
            *id = out.firsts.len() as u32;
            out.firsts.push(i as u32);
        }
        out.ids.push(*id);
    }
    out
}

/// The items of each of `count` groups, in order; `ids` says the group of each item.
pub fn members(ids: &[u32], count: usize) -> Vec<Vec<u32>> {
    let mut sizes = vec![0usize; count];
    for id in ids {
        if let Some(size) = sizes.get_mut(*id as usize) {
            *size += 1;
        }
    }
    let mut out: Vec<Vec<u32>> = sizes.into_iter().map(Vec::with_capacity).collect();
    for (i, id) in ids.iter().enumerate() {
        if let Some(group) = out.get_mut(*id as usize) {
            group.push(i as u32);
        }
    }
    out
}

impl Groups {
    /// The items of each group, in order.
    pub fn members(&self) -> Vec<Vec<u32>> {
        members(&self.ids, self.firsts.len())
    }

    /// Groups of pairs: items are together where both sides have them together.
    pub fn refine(&self, other: &Groups) -> Groups {
        let pairs: Vec<u64> =
            self.ids.iter().zip(&other.ids).map(|(a, b)| u64::from(*a) << 32 | u64::from(*b)).collect();
        groups(&pairs)
    }
}
