//! What each connection has published since its last record: sums, because a record per update would cost more than the update.

use super::record::{Call, Entry, Published, Who};
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Interval between two records of a connection.
const EVERY: Duration = Duration::from_secs(60);

/// Sums by connection. After its first update of a table, a connection's next ones allocate and lock nothing.
pub struct Sums<K> {
    places: HashMap<K, usize>,
    connections: Vec<Connection<K>>,
    /// The connection of the last update: publishers send many in a row.
    last: usize,
    /// When the sums are recorded; `None` while there are none.
    due: Option<Instant>,
}

struct Connection<K> {
    key: K,
    who: Who,
    /// By index of the table.
    tables: Vec<Published>,
    refused: u64,
}

impl<K> Default for Sums<K> {
    fn default() -> Sums<K> {
        Sums { places: HashMap::new(), connections: Vec::new(), last: 0, due: None }
    }
}

impl<K: Copy + Eq + Hash> Sums<K> {
    /// Adds an accepted update.
    pub fn add(&mut self, key: K, (table, rows, bytes, index): (usize, u64, u64, u64), who: impl FnOnce() -> Who) {
        let Some(connection) = self.of(key, who) else { return };
        if connection.tables.len() <= table {
            connection.tables.resize(table.saturating_add(1), Published::default());
        }
        let Some(sum) = connection.tables.get_mut(table) else { return };
        if sum.updates == 0 {
            sum.first = index;
        }
        sum.last = index;
        sum.updates = sum.updates.wrapping_add(1);
        sum.rows = sum.rows.wrapping_add(rows);
        sum.bytes = sum.bytes.wrapping_add(bytes);
    }

    /// Counts a rejected update.
    pub fn refuse(&mut self, key: K, who: impl FnOnce() -> Who) {
        if let Some(connection) = self.of(key, who) {
            connection.refused = connection.refused.wrapping_add(1);
        }
    }

    fn of(&mut self, key: K, who: impl FnOnce() -> Who) -> Option<&mut Connection<K>> {
        if self.connections.get(self.last).is_none_or(|connection| connection.key != key) {
            self.last = match self.places.get(&key) {
                Some(at) => *at,
                None => {
                    self.due = self.due.or_else(|| Instant::now().checked_add(EVERY));
                    self.connections.push(Connection { key, who: who(), tables: Vec::new(), refused: 0 });
                    let at = self.connections.len().saturating_sub(1);
                    self.places.insert(key, at);
                    at
                }
            };
        }
        self.connections.get_mut(self.last)
    }

    /// Returns when the sums are to be recorded.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Records the sums later, as they can go on.
    pub fn postpone(&mut self) {
        self.due = self.due.and(Instant::now().checked_add(EVERY));
    }

    /// Returns the records of all connections, and clears the sums. `table` names a table by its index.
    pub fn take(&mut self, table: impl Fn(usize) -> String) -> Vec<Entry> {
        (self.last, self.due) = (0, None);
        self.places.clear();
        std::mem::take(&mut self.connections).into_iter().flat_map(|of| of.entries(&table)).collect()
    }

    /// Returns the records of a connection that has closed.
    pub fn closed(&mut self, key: K, table: impl Fn(usize) -> String) -> Vec<Entry> {
        let Some(at) = self.places.remove(&key) else { return Vec::new() };
        let closed = self.connections.swap_remove(at);
        self.last = 0;
        if let Some(moved) = self.connections.get(at) {
            self.places.insert(moved.key, at);
        }
        if self.connections.is_empty() {
            self.due = None;
        }
        closed.entries(&table)
    }
}

impl<K> Connection<K> {
    fn entries(self, table: &impl Fn(usize) -> String) -> Vec<Entry> {
        let who = self.who;
        let sum = |(at, published): (usize, Published)| Entry {
            published: Some(published),
            ..Entry::new(who.clone(), Call { tables: vec![table(at)], ..Call::named(".u.upd") })
        };
        let sums = self.tables.into_iter().enumerate().filter(|(_, published)| published.updates > 0);
        let mut entries: Vec<Entry> = sums.map(sum).collect();
        if self.refused > 0 {
            let entry = Entry::new(who, Call::named(".u.upd"));
            let published = Published { updates: self.refused, ..Published::default() };
            entries.push(Entry { published: Some(published), ..entry.failed("rejected") });
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(entries: &[Entry]) -> Vec<(String, u64, u64, u64, u64)> {
        let seen = |entry: &Entry| {
            let of = entry.published.unwrap();
            (entry.call.tables.concat() + &entry.error, of.updates, of.rows, of.first, of.last)
        };
        entries.iter().map(seen).collect()
    }

    #[test]
    fn updates_are_summed_by_connection_and_table() {
        let mut sums = Sums::default();
        for (key, table, index) in [(1, 0, 10), (1, 0, 11), (2, 1, 12), (1, 2, 13), (2, 1, 14)] {
            sums.add(key, (table, 5, 100, index), Who::default);
        }
        sums.refuse(2, Who::default);
        sums.refuse(2, Who::default);
        assert!(sums.due().is_some());
        let before = sums.due();
        sums.postpone();
        assert!(sums.due() > before);
        let name = |at: usize| format!("t{at}");
        assert_eq!(seen(&sums.closed(1, name)), [("t0".into(), 2, 10, 10, 11), ("t2".into(), 1, 5, 13, 13)]);
        sums.add(2, (1, 5, 100, 15), Who::default);
        assert_eq!(seen(&sums.take(name)), [("t1".into(), 3, 15, 12, 15), ("rejected".into(), 2, 0, 0, 0)]);
        sums.postpone();
        assert!(sums.due().is_none() && sums.take(name).is_empty() && sums.closed(2, name).is_empty());
    }

    #[test]
    fn a_connection_that_closes_leaves_the_others_in_place() {
        let mut sums = Sums::default();
        (0..5).for_each(|key| sums.add(key, (0, 1, 1, 0), Who::default));
        for key in [0, 3, 4] {
            assert_eq!(sums.closed(key, |_| String::new()).len(), 1, "{key}");
        }
        sums.add(2, (0, 1, 1, 9), Who::default);
        assert_eq!(seen(&sums.closed(2, |_| String::new())), [(String::new(), 2, 2, 0, 9)]);
        assert_eq!(seen(&sums.closed(1, |_| String::new())), [(String::new(), 1, 1, 0, 0)]);
    }
}
