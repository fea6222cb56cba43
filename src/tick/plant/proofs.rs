//! Proofs of windows: those that nodes have sent, and those that the queue wants.

use crate::log::Proof;
use crate::queue::{Date, Handle, Window};
use std::collections::{BTreeMap, BTreeSet};

/// Node, day and window of a proof.
pub(super) type ProofKey = (Handle, Date, Window);

/// Proofs kept for windows that are still open: enough for every node to send one too early.
const PROOFS_KEPT: usize = 4096;

/// Received proofs, and windows to be proved; either may come first.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    held: BTreeMap<ProofKey, Proof>,
    expected: BTreeSet<ProofKey>,
}

impl Proofs {
    /// Keeps a received proof, unless too many are kept.
    pub fn came(&mut self, key: ProofKey, proof: Proof) {
        if self.held.len() < PROOFS_KEPT {
            self.held.insert(key, proof);
        }
    }

    pub fn want(&mut self, key: ProofKey) {
        self.expected.insert(key);
    }

    pub fn is_wanted(&self, key: &ProofKey) -> bool {
        self.expected.contains(key)
    }

    pub fn forget(&mut self, handle: Handle) {
        self.held.retain(|(of, ..), _| *of != handle);
        self.expected.retain(|(of, ..)| *of != handle);
    }

    /// Drops the proof of a window that is not to be proved.
    pub fn forget_unwanted(&mut self, key: &ProofKey) {
        if !self.expected.contains(key) {
            self.held.remove(key);
        }
    }

    /// Takes the proof of a wanted window, if it has arrived.
    pub fn take(&mut self, key: &ProofKey) -> Option<Proof> {
        if !self.expected.contains(key) {
            return None;
        }
        let proof = self.held.remove(key)?;
        self.expected.remove(key);
        Some(proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::UpdateIndex;

    fn key(handle: i32, last: u64) -> ProofKey {
        let window = Window::new(UpdateIndex(0), UpdateIndex(last)).expect("a window");
        (Handle(handle), Date(1), window)
    }

    #[test]
    fn a_proof_is_taken_once_wanted_and_arrived_in_either_order() {
        let mut proofs = Proofs::default();
        proofs.came(key(5, 9), Proof::new());
        assert!(proofs.take(&key(5, 9)).is_none(), "it is not wanted yet");
        proofs.want(key(5, 9));
        assert!(proofs.take(&key(5, 9)).is_some() && proofs.take(&key(5, 9)).is_none());
        proofs.want(key(6, 9));
        assert!(proofs.take(&key(6, 9)).is_none(), "it has not arrived yet");
        proofs.came(key(6, 9), Proof::new());
        assert!(proofs.take(&key(6, 9)).is_some());
    }

    #[test]
    fn the_proofs_of_a_node_end_with_its_connection() {
        let mut proofs = Proofs::default();
        proofs.came(key(5, 9), Proof::new());
        proofs.want(key(5, 8));
        proofs.forget(Handle(5));
        assert!(proofs.held.is_empty() && proofs.expected.is_empty());
    }

    #[test]
    fn proofs_beyond_the_limit_are_not_kept() {
        let mut proofs = Proofs::default();
        (1..PROOFS_KEPT as u64 + 9).for_each(|last| proofs.came(key(5, last), Proof::new()));
        assert_eq!(proofs.held.len(), PROOFS_KEPT);
    }
}
