//! Which of the updates in doubt a tickerplant had accepted when the connection broke.
//!
//! Asynchronous messages have no answers. Those since the last round trip that was answered are in doubt when a connection
//! breaks: sending them again might store them twice, leaving them might lose them. But the tickerplant has logged what it
//! accepted, and the feed knows each update's hash: the log tells.

use super::update::Update;
use std::collections::HashMap;

/// Updates in doubt, and what the log says of them so far.
#[derive(Debug)]
pub struct Doubt {
    /// How many of each are in doubt, by table and hash.
    open: HashMap<(Vec<u8>, u64), u32>,
}

impl Doubt {
    pub fn new(updates: &[Update]) -> Doubt {
        let mut open = HashMap::new();
        for update in updates {
            *open.entry((update.table.clone(), update.hash)).or_insert(0) += 1;
        }
        Doubt { open }
    }

    /// Takes in an update found in the log.
    pub fn logged(&mut self, table: &[u8], hash: u64) {
        if let Some(count) = self.open.get_mut(&(table.to_vec(), hash)) {
            *count = count.saturating_sub(1);
        }
    }

    /// The updates in doubt as those that were accepted and those that were not, in their order.
    pub fn settle(mut self, updates: Vec<Update>) -> (Vec<Update>, Vec<Update>) {
        // Of equal updates the later ones are those that did not arrive: one connection keeps its order.
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
    fn what_the_log_does_not_hold_was_not_accepted() {
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
