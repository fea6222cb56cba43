//! How many instances a group needs, compared with what nodes request from their fleet. Where no instance is lost, no node may request
//! more, or replace an instance that does its work.

use super::Broken;
use std::collections::{BTreeMap, VecDeque};

/// A request may be based on a state this old: messages are delayed, and requests are repeated.
const REMEMBERED_NS: u64 = 120_000_000_000;

/// Recent needs of each group: time and number of instances.
#[derive(Debug, Default)]
pub struct Needed(BTreeMap<usize, VecDeque<(u64, u32)>>);

impl Needed {
    /// Records how many instances a group needs now.
    pub fn note(&mut self, group: usize, instances: u32, now_ns: u64) {
        let of = self.0.entry(group).or_default();
        while of.front().is_some_and(|(at_ns, _)| now_ns.saturating_sub(*at_ns) > REMEMBERED_NS) {
            of.pop_front();
        }
        // A number that is not above all later ones is never the maximum.
        while of.back().is_some_and(|(_, before)| *before <= instances) {
            of.pop_back();
        }
        of.push_back((now_ns, instances));
    }

    /// Shifts recorded times when a night is skipped.
    pub fn skip(&mut self, ns: u64) {
        for of in self.0.values_mut() {
            of.iter_mut().for_each(|(at_ns, _)| *at_ns = at_ns.saturating_add(ns));
        }
    }

    /// Returns the latest number of instances that the group had use for.
    pub fn latest(&self, group: usize) -> u32 {
        self.0.get(&group).and_then(|of| of.back()).map_or(0, |(_, instances)| *instances)
    }

    /// Checks a request against recent needs.
    ///
    /// # Errors
    /// More instances were requested than the group recently needed.
    pub fn check(&self, group: usize, requested: u32) -> Result<(), Broken> {
        let most = self.0.get(&group).and_then(|of| of.front()).map_or(0, |(_, most)| *most);
        if requested <= most {
            return Ok(());
        }
        Err(Broken(format!("group {group} got a request for {requested} instances, where {most} are enough")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recently_needed_instances_may_be_requested_and_no_more() {
        let mut needed = Needed::default();
        needed.note(0, 3, 0);
        needed.note(0, 2, REMEMBERED_NS);
        assert_eq!(needed.check(0, 3), Ok(()));
        assert!(needed.check(0, 4).is_err());
        assert_eq!((needed.latest(0), needed.latest(1)), (2, 0));
        needed.note(0, 2, REMEMBERED_NS + 1);
        assert!(needed.check(0, 3).is_err());
        assert!(needed.check(1, 1).is_err());
    }
}
