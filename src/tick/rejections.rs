//! Rejected updates of each connection, for the publisher that requests them with `.u.confirm`. Pure.
//!
//! An update is known to be in the log only after the write of its event-loop iteration. If that write fails, all updates of the iteration
//! count as rejected for the connections that sent them.

use std::collections::BTreeMap;

/// Reasons kept for each connection, and the most bytes of each.
const MAX_REASONS: usize = 5;
const MAX_REASON_BYTES: usize = 256;

/// Rejected updates of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    pub updates: u64,
    /// The first different reasons.
    pub reasons: Vec<String>,
    /// Number of the latest change that the connection caused in the file of rejected updates; 0 for none.
    pub change: u64,
}

impl Rejected {
    fn add(&mut self, updates: u64, reason: &str) {
        self.updates = self.updates.saturating_add(updates);
        if self.reasons.len() < MAX_REASONS {
            let end = (0..=MAX_REASON_BYTES.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
            let reason = reason.get(..end.unwrap_or(0)).unwrap_or_default();
            if !self.reasons.iter().any(|known| known == reason) {
                self.reasons.push(reason.to_string());
            }
        }
    }
}

/// Rejected updates of all connections that have any.
#[derive(Debug)]
pub struct Rejections<K> {
    /// Accepted updates of this iteration that are not logged yet: connections in order, with the number of consecutive updates.
    unlogged: Vec<(K, u64)>,
    rejected: BTreeMap<K, Rejected>,
}

impl<K> Default for Rejections<K> {
    fn default() -> Rejections<K> {
        Rejections { unlogged: Vec::new(), rejected: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Rejections<K> {
    /// Counts an update that the log is to receive at the end of the iteration.
    pub fn accepted(&mut self, conn: K) {
        match self.unlogged.last_mut() {
            Some((last, updates)) if *last == conn => *updates = updates.saturating_add(1),
            _ => self.unlogged.push((conn, 1)),
        }
    }

    /// Counts a rejected update.
    pub fn rejected(&mut self, conn: K, reason: &str) {
        self.rejected.entry(conn).or_default().add(1, reason);
    }

    /// The connection has caused a change in the file of rejected updates.
    pub fn changed(&mut self, conn: K, change: u64) {
        self.rejected.entry(conn).or_default().change = change;
    }

    /// Returns the number of the latest change that a connection caused in the file of rejected updates; 0 for none.
    pub fn change_of(&self, conn: K) -> u64 {
        self.of(conn).map_or(0, |rejected| rejected.change)
    }

    /// The log has received the accepted updates.
    pub fn logged(&mut self) {
        self.unlogged.clear();
    }

    /// The log has received none of the accepted updates.
    pub fn not_logged(&mut self, reason: &str) {
        for (conn, updates) in self.unlogged.drain(..) {
            self.rejected.entry(conn).or_default().add(updates, reason);
        }
    }

    /// Returns the rejected updates of a connection; `None` if there are none.
    pub fn of(&self, conn: K) -> Option<&Rejected> {
        self.rejected.get(&conn)
    }

    pub fn closed(&mut self, conn: K) {
        self.rejected.remove(&conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_rejects_the_updates_of_its_iteration_for_each_sender() {
        let mut rejections = Rejections::default();
        rejections.accepted(1);
        rejections.logged();
        for conn in [1, 1, 2, 1] {
            rejections.accepted(conn);
        }
        rejections.rejected(2, "type: other");
        rejections.not_logged("io: full");
        let of = |conn| rejections.of(conn).map(|rejected| (rejected.updates, rejected.reasons.clone()));
        assert_eq!(of(1), Some((3, vec!["io: full".to_string()])));
        assert_eq!(of(2), Some((2, vec!["type: other".to_string(), "io: full".to_string()])));
        assert_eq!(of(3), None);
    }

    #[test]
    fn few_and_short_reasons_are_kept() {
        let mut rejections = Rejections::default();
        for number in 0..100 {
            rejections.rejected(7, &format!("{number}{}", "é".repeat(1000)));
        }
        let rejected = rejections.of(7).cloned().unwrap_or_default();
        assert_eq!((rejected.updates, rejected.reasons.len()), (100, MAX_REASONS));
        assert!(rejected.reasons.iter().all(|reason| reason.len() <= MAX_REASON_BYTES));
        rejections.closed(7);
        assert_eq!(rejections.of(7), None);
    }
}
