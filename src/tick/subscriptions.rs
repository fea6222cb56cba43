//! `.u.w`: which subscriber has which tables and symbols. Pure.

use super::core::schema::Form;
use super::filter::Symbols;
use super::lane::LaneKey;

/// Symbols as a subscriber named them: `` ` `` for all, else a list that `.u.w` shows in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedSymbols {
    All,
    List(Vec<Vec<u8>>),
}

impl RequestedSymbols {
    /// Adds symbols, as `.u.add` does for an existing handle. All plus anything is all.
    fn union(&mut self, other: &RequestedSymbols) {
        match (&mut *self, other) {
            (RequestedSymbols::List(own), RequestedSymbols::List(other)) => {
                for symbol in other {
                    if !own.contains(symbol) {
                        own.push(symbol.clone());
                    }
                }
            }
            (_, RequestedSymbols::All) => *self = RequestedSymbols::All,
            (RequestedSymbols::All, _) => {}
        }
    }

    fn symbols(&self) -> Symbols {
        match self {
            RequestedSymbols::All => Symbols::All,
            RequestedSymbols::List(list) => Symbols::Some(list.iter().cloned().collect()),
        }
    }
}

/// Subscriptions of all tables, in the order in which they were made.
#[derive(Clone, Debug)]
pub struct Subscriptions<K> {
    tables: Vec<Vec<(K, RequestedSymbols)>>,
}

impl<K: Copy + PartialEq> Subscriptions<K> {
    pub fn new(tables: usize) -> Subscriptions<K> {
        Subscriptions { tables: (0..tables).map(|_| Vec::new()).collect() }
    }

    /// Returns the subscribers of a table.
    pub fn of(&self, table: usize) -> &[(K, RequestedSymbols)] {
        self.tables.get(table).map_or(&[], Vec::as_slice)
    }

    /// `.u.add`: adds to the subscriber's subscription of the table.
    pub fn add(&mut self, table: usize, subscriber: K, symbols: RequestedSymbols) {
        let Some(entries) = self.tables.get_mut(table) else { return };
        match entries.iter_mut().find(|(who, _)| *who == subscriber) {
            Some((_, own)) => own.union(&symbols),
            None => entries.push((subscriber, symbols)),
        }
    }

    /// `.u.del`: ends the subscriber's subscription of the table.
    pub fn remove(&mut self, table: usize, subscriber: K) {
        if let Some(entries) = self.tables.get_mut(table) {
            entries.retain(|(who, _)| *who != subscriber);
        }
    }

    /// Returns a subscriber's subscription of a table and its position in the list.
    pub fn entry(&self, table: usize, subscriber: K) -> Option<(usize, RequestedSymbols)> {
        let mut entries = self.of(table).iter().enumerate();
        entries.find(|(_, (who, _))| *who == subscriber).map(|(place, (_, symbols))| (place, symbols.clone()))
    }

    /// Undoes a change: `before` is the result of [`Subscriptions::entry`].
    pub fn put_back(&mut self, table: usize, subscriber: K, before: Option<(usize, RequestedSymbols)>) {
        self.remove(table, subscriber);
        if let (Some((place, symbols)), Some(entries)) = (before, self.tables.get_mut(table)) {
            entries.insert(place.min(entries.len()), (subscriber, symbols));
        }
    }

    /// Ends the subscriber's subscriptions of all tables.
    pub fn remove_everywhere(&mut self, subscriber: K) {
        (0..self.tables.len()).for_each(|table| self.remove(table, subscriber));
    }

    /// Returns the fan-out group of a subscriber.
    pub fn key(&self, subscriber: K, form: Form, merged: bool, compress: bool) -> LaneKey {
        let of_table = |entries: &Vec<(K, RequestedSymbols)>| {
            entries.iter().find(|(who, _)| *who == subscriber).map(|(_, symbols)| symbols.symbols())
        };
        LaneKey { tables: self.tables.iter().map(of_table).collect(), form, merged, compress }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(symbols: &[&str]) -> RequestedSymbols {
        RequestedSymbols::List(symbols.iter().map(|symbol| symbol.as_bytes().to_vec()).collect())
    }

    #[test]
    fn adding_unites_and_keeps_the_order() {
        let mut subscriptions = Subscriptions::new(1);
        subscriptions.add(0, 7, list(&["B", "A"]));
        subscriptions.add(0, 7, list(&["C", "A"]));
        assert_eq!(subscriptions.of(0), [(7, list(&["B", "A", "C"]))]);
    }

    #[test]
    fn a_change_can_be_undone() {
        let mut subscriptions = Subscriptions::new(2);
        for subscriber in [7, 8, 9] {
            subscriptions.add(0, subscriber, list(&["A"]));
        }
        let before = [subscriptions.entry(0, 8), subscriptions.entry(1, 8)];
        subscriptions.remove(0, 8);
        subscriptions.add(0, 8, RequestedSymbols::All);
        subscriptions.add(1, 8, RequestedSymbols::All);
        (0..).zip(before).for_each(|(table, before)| subscriptions.put_back(table, 8, before));
        assert_eq!(subscriptions.of(0), [7, 8, 9].map(|subscriber| (subscriber, list(&["A"]))));
        assert_eq!(subscriptions.of(1), []);
    }

    #[test]
    fn all_and_more_are_all() {
        for (first, second) in [(RequestedSymbols::All, list(&["A"])), (list(&["A"]), RequestedSymbols::All)] {
            let mut subscriptions = Subscriptions::new(1);
            subscriptions.add(0, 7, first);
            subscriptions.add(0, 7, second);
            assert_eq!(subscriptions.of(0), [(7, RequestedSymbols::All)]);
        }
    }

    #[test]
    fn a_key_names_the_tables_that_are_wanted() {
        let mut subscriptions = Subscriptions::new(3);
        subscriptions.add(0, 7, RequestedSymbols::All);
        subscriptions.add(2, 7, list(&["B", "A"]));
        subscriptions.add(1, 8, RequestedSymbols::All);
        let key = subscriptions.key(7, Form::Table, false, false);
        let some = Symbols::Some([b"A".to_vec(), b"B".to_vec()].into());
        assert_eq!(key.tables, [Some(Symbols::All), None, Some(some)]);
        subscriptions.remove_everywhere(7);
        assert!(subscriptions.key(7, Form::Table, false, false).is_empty());
    }
}
