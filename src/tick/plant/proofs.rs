//! Proofs of windows: those that nodes have sent, and those that the queue wants.

use crate::log::Proof;
use crate::queue::{Date, Handle, Window};
use std::collections::BTreeMap;

/// Node, day and window of a proof.
pub(super) type ProofKey = (Handle, Date, Window);

/// Windows to be proved, and the proof that a node has sent with the message being handled: of a window that the queue closes in that step.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    early: Option<(ProofKey, Proof)>,
    /// With the end of the time to send it, on the steady clock; `None` for an ended day, where nothing follows if it never comes.
    expected: BTreeMap<ProofKey, Option<i64>>,
}

impl Proofs {
    /// Returns the proofs that are expected and the time left for each, as text.
    pub fn shape(&self, now_ns: i64) -> String {
        let left = |by_ns: &Option<i64>| by_ns.map(|by_ns| by_ns.saturating_sub(now_ns));
        let expected: Vec<_> = self.expected.iter().map(|(key, by_ns)| (key, left(by_ns))).collect();
        format!("{:?} {expected:?}", self.early)
    }

    /// Keeps a proof until the step that may want it is done.
    pub fn came_early(&mut self, key: ProofKey, proof: Proof) {
        self.early = Some((key, proof));
    }

    /// Takes the early proof of a window.
    pub fn take_early(&mut self, key: &ProofKey) -> Option<Proof> {
        self.early.take_if(|(of, _)| of == key).map(|(_, proof)| proof)
    }

    /// Drops the early proof, which the queue did not want.
    pub fn drop_early(&mut self) {
        self.early = None;
    }

    /// Expects a proof until `due_ns`.
    pub fn expect(&mut self, key: ProofKey, due_ns: Option<i64>) {
        self.expected.insert(key, due_ns);
    }

    /// Whether this proof was expected; it is not any more.
    pub fn take_expected(&mut self, key: &ProofKey) -> bool {
        self.expected.remove(key).is_some()
    }

    /// As [`Proofs::take_expected`] for an ended day, of which a node proves the window up to its last update: the day may have ended later.
    pub fn take_expected_of(&mut self, handle: Handle, date: Date) -> bool {
        let found = self.expected.keys().find(|(of, day, _)| (*of, *day) == (handle, date)).copied();
        found.is_some_and(|key| self.take_expected(&key))
    }

    /// Returns when the next expected proof is overdue; `None` if none is expected.
    pub fn deadline_ns(&self) -> Option<i64> {
        self.expected.values().flatten().min().copied()
    }

    /// Removes and returns a window whose proof is overdue.
    pub fn take_overdue(&mut self, now_ns: i64) -> Option<ProofKey> {
        let is_overdue = |due_ns: &Option<i64>| due_ns.is_some_and(|due_ns| due_ns <= now_ns);
        let key = self.expected.iter().find(|(_, due_ns)| is_overdue(due_ns)).map(|(key, _)| *key)?;
        self.expected.remove(&key);
        Some(key)
    }

    /// Expects nothing more of a node that has disconnected.
    pub fn forget(&mut self, handle: Handle) {
        self.expected.retain(|(of, ..), _| *of != handle);
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
    fn an_early_proof_is_taken_once_for_its_window() {
        let mut proofs = Proofs::default();
        proofs.came_early(key(5, 9), Proof::new());
        assert!(proofs.take_early(&key(5, 8)).is_none() && proofs.take_early(&key(6, 9)).is_none());
        assert!(proofs.take_early(&key(5, 9)).is_some() && proofs.take_early(&key(5, 9)).is_none());
        proofs.came_early(key(5, 9), Proof::new());
        proofs.drop_early();
        assert!(proofs.take_early(&key(5, 9)).is_none());
    }

    #[test]
    fn an_expected_proof_is_taken_once() {
        let mut proofs = Proofs::default();
        assert!(!proofs.take_expected(&key(5, 9)));
        proofs.expect(key(5, 9), Some(1));
        assert!(proofs.take_expected(&key(5, 9)) && !proofs.take_expected(&key(5, 9)));
        proofs.expect(key(5, 9), None);
        assert!(!proofs.take_expected_of(Handle(6), Date(1)) && !proofs.take_expected_of(Handle(5), Date(2)));
        assert!(proofs.take_expected_of(Handle(5), Date(1)) && !proofs.take_expected_of(Handle(5), Date(1)));
    }

    #[test]
    fn a_proof_is_overdue_once_at_its_time() {
        let mut proofs = Proofs::default();
        proofs.expect(key(5, 7), None);
        assert_eq!(proofs.deadline_ns(), None);
        proofs.expect(key(5, 9), Some(100));
        proofs.expect(key(5, 8), Some(200));
        assert_eq!(proofs.deadline_ns(), Some(100));
        assert_eq!(proofs.take_overdue(99), None);
        assert_eq!(proofs.take_overdue(100), Some(key(5, 9)));
        assert_eq!((proofs.take_overdue(100), proofs.deadline_ns()), (None, Some(200)));
    }

    #[test]
    fn the_proofs_of_a_node_end_with_its_connection() {
        let mut proofs = Proofs::default();
        proofs.expect(key(5, 8), Some(1));
        proofs.expect(key(6, 8), Some(1));
        proofs.forget(Handle(5));
        assert!(!proofs.take_expected(&key(5, 8)) && proofs.take_expected(&key(6, 8)));
    }
}
