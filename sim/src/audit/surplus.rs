//! Instances beyond those that a group needs, and the faults of a day that explain them.

use std::collections::{BTreeMap, BTreeSet};

/// Reason for one surplus instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// An operator raised the capacity by one.
    Raised,
    /// A node drained while its fleet did not respond whether it will be replaced: the queue requests a successor, and the group replaces
    /// the node too.
    Unanswered,
    /// A server was taken back: the queue requests a node for the handoff while the server still stands, and the group replaces it when it goes.
    TakenBack,
    /// The table gave up a node whose instance still exists: it rejoins and waits.
    GivenUp,
    /// A standby could not take a window, and another was requested.
    Unable,
    /// At the day's end it had no row in the table, or was still launching, so it received no request to end.
    Unseated,
    /// It ended after its day's end, before its capacity was lowered: the group replaces it.
    EndedAtNight,
    /// A node requested it that did not know of the day's end yet, when the group had become smaller.
    AskedLate,
    /// A power cut or a takeover took its row from the table's journal: its work went to others before it had rejoined.
    Forgotten,
    /// It was already surplus when the day began.
    Kept,
}

impl Reason {
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Raised => "one too many: capacity raised",
            Reason::Unanswered => "one too many: left without an answer of its fleet",
            Reason::TakenBack => "one too many: server taken back",
            Reason::GivenUp => "one too many: given up while its instance is there",
            Reason::Unable => "one too many: standby that cannot take a window",
            Reason::Unseated => "one too many: not in the table at the day's end",
            Reason::EndedAtNight => "one too many: ended between the day's end and its own",
            Reason::AskedLate => "one too many: requested after an end of day that the node did not know of",
            Reason::Forgotten => "one too many: its row went with a power cut",
            Reason::Kept => "one too many: there when the day began",
        }
    }
}

/// Explanations of surplus instances by group, each counted once.
#[derive(Debug, Default)]
pub struct Surplus {
    explained: BTreeMap<usize, BTreeSet<(Reason, Vec<u8>)>>,
}

impl Surplus {
    /// Allows one more instance; `what` distinguishes it from others with the same reason. Returns false if it was known.
    pub fn explain(&mut self, group: usize, reason: Reason, what: &[u8]) -> bool {
        self.explained.entry(group).or_default().insert((reason, what.to_vec()))
    }

    /// Returns how many surplus instances are explained.
    pub fn most(&self, group: usize) -> usize {
        self.explained.get(&group).map_or(0, BTreeSet::len)
    }

    /// Drops the last day's explanations.
    pub fn forget(&mut self) {
        self.explained.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_explains_one_instance_of_its_group() {
        let mut surplus = Surplus::default();
        assert!(surplus.explain(0, Reason::Raised, b"1"));
        assert!(!surplus.explain(0, Reason::Raised, b"1"));
        assert!(surplus.explain(0, Reason::GivenUp, b"1"));
        assert_eq!((surplus.most(0), surplus.most(1)), (2, 0));
        surplus.forget();
        assert_eq!(surplus.most(0), 0);
    }
}
