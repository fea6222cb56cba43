//! How many instances a group can have use for, and what nodes ask their fleet for. Where no instance is lost, nobody may ask for
//! more than are needed, nor have one replaced that does its work.

use super::Broken;
use std::collections::{BTreeMap, VecDeque};

/// A number that a node asks for may be as old as this: it was told late, or asked for again and again.
const REMEMBERED_NS: u64 = 120_000_000_000;

/// What each group had use for, lately.
#[derive(Debug, Default)]
pub struct Wanted(BTreeMap<usize, VecDeque<(u64, u32)>>);

impl Wanted {
    /// At this moment a group has use for so many instances.
    pub fn note(&mut self, group: usize, instances: u32, now_ns: u64) {
        let of = self.0.entry(group).or_default();
        while of.front().is_some_and(|(at_ns, _)| now_ns.saturating_sub(*at_ns) > REMEMBERED_NS) {
            of.pop_front();
        }
        // Only what is more than all that came later will ever be looked at.
        while of.back().is_some_and(|(_, before)| *before <= instances) {
            of.pop_back();
        }
        of.push_back((now_ns, instances));
    }

    /// A night passes.
    pub fn skip(&mut self, ns: u64) {
        for of in self.0.values_mut() {
            of.iter_mut().for_each(|(at_ns, _)| *at_ns = at_ns.saturating_add(ns));
        }
    }

    /// # Errors
    /// That more were asked for than the group had use for at any time lately.
    pub fn check(&self, group: usize, asked: u32) -> Result<(), Broken> {
        let most = self.0.get(&group).and_then(|of| of.front()).map_or(0, |(_, most)| *most);
        if asked <= most {
            return Ok(());
        }
        Err(Broken(format!("group {group} was asked for {asked} instances, where {most} are enough")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wanted_lately_may_be_asked_for_and_no_more() {
        let mut wanted = Wanted::default();
        wanted.note(0, 3, 0);
        wanted.note(0, 2, REMEMBERED_NS);
        assert_eq!(wanted.check(0, 3), Ok(()));
        assert!(wanted.check(0, 4).is_err());
        wanted.note(0, 2, REMEMBERED_NS + 1);
        assert!(wanted.check(0, 3).is_err());
        assert!(wanted.check(1, 1).is_err());
    }
}
