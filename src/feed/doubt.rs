//! Finds which updates in doubt the tickerplant accepted before the connection broke.
//!
//! Async messages have no response. When a connection breaks, those since the last completed round trip are in doubt: sending them again
//! could store them twice, skipping them could lose them. But the tickerplant has logged every accepted update, and the feed knows each
//! update's hash, so the log decides.

use super::update::Update;
use std::collections::HashMap;

/// Updates in doubt, and how many of them the log has so far.
#[derive(Debug)]
pub struct Doubt {
    /// Number of each in doubt, by table and hash.
    open: HashMap<(Vec<u8>, u64), u32>,
}

impl Doubt {
    /// Starts with every update in doubt and none found in the log.
    pub fn new(updates: &[Update]) -> Doubt {
        let mut open = HashMap::new();
        for update in updates {
            *open.entry((update.table.clone(), update.hash)).or_insert(0) += 1;
        }
        Doubt { open }
    }

    /// Counts an update found in the log.
    pub fn logged(&mut self, table: &[u8], hash: u64) {
        if let Some(count) = self.open.get_mut(&(table.to_vec(), hash)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Splits the updates into accepted and missing ones, in order.
    pub fn settle(mut self, updates: Vec<Update>) -> (Vec<Update>, Vec<Update>) {
        // Of equal updates the later ones are missing, because a connection keeps its order.
        let mut missing: Vec<Update> = Vec::new();
        let mut accepted: Vec<Update> = Vec::new();
        for update in updates.into_iter().rev() {
            match self.open.get_mut(&(update.table.clone(), update.hash)) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    missing.push(update);
                }
                _ => accepted.push(update),
            }
        }
        missing.reverse();
        accepted.reverse();
        (accepted, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(hash: u64, mark: u8) -> Update {
        Update { table: b"trade".to_vec(), rows: 1, hash, message: vec![mark] }
    }

    #[test]
    fn updates_missing_in_the_log_were_not_accepted() {
        let updates = vec![update(1, 0), update(2, 1), update(3, 2)];
        let mut doubt = Doubt::new(&updates);
        doubt.logged(b"trade", 1);
        doubt.logged(b"quote", 2);
        doubt.logged(b"trade", 99);
        let (accepted, missing) = doubt.settle(updates);
        assert_eq!((accepted, missing), (vec![update(1, 0)], vec![update(2, 1), update(3, 2)]));
    }

    #[test]
    fn of_equal_updates_the_first_were_accepted() {
        let updates = vec![update(7, 0), update(7, 1), update(7, 2)];
        let mut doubt = Doubt::new(&updates);
        doubt.logged(b"trade", 7);
        doubt.logged(b"trade", 7);
        let (accepted, missing) = doubt.settle(updates);
        assert_eq!((accepted, missing), (vec![update(7, 0), update(7, 1)], vec![update(7, 2)]));
    }
}
