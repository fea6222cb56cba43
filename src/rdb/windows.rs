//! The windows that a node holds, with their proofs.

use crate::log::{Proof, TableProof, update_hash};
use std::ops::Range;

/// A window's part of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub proof: TableProof,
    /// Row range of the window in the store's table.
    pub place: Range<usize>,
}

/// A window `[first, next)` of update indices, or of message numbers if the tickerplant sends no indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub first: u64,
    pub next: u64,
    /// Rejected updates of the window: its proof differs from the log, and health fails.
    pub refused: u64,
    /// One entry for each table of the store, in its order.
    pub tables: Vec<Taken>,
}

impl Window {
    /// An empty window at `first`; `rows` are the row counts of the store's tables.
    pub fn new(first: u64, rows: &[usize]) -> Window {
        let taken = |rows: &usize| Taken { place: *rows..*rows, ..Taken::default() };
        Window { first, next: first, refused: 0, tables: rows.iter().map(taken).collect() }
    }

    /// Adapts the window to reordered or added tables of the store: for each new table, its previous position and its
    /// row count.
    pub fn reordered(&mut self, tables: &[(Option<usize>, usize)]) {
        let taken = |(before, rows): &(Option<usize>, usize)| {
            let kept = before.and_then(|before| self.tables.get(before).cloned());
            kept.unwrap_or(Taken { place: *rows..*rows, ..Taken::default() })
        };
        self.tables = tables.iter().map(taken).collect();
    }

    pub fn is_empty(&self) -> bool {
        self.first >= self.next
    }

    /// Records an update that the store has taken.
    pub fn enter(&mut self, table: usize, rows: usize, objects: &[u8]) {
        if let Some(taken) = self.tables.get_mut(table) {
            taken.proof.add(rows as u64, update_hash(objects));
            taken.place.end = taken.place.end.saturating_add(rows);
        }
    }

    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|taken| taken.proof.rows).sum()
    }

    /// Returns the proof of the window; `names` are those of the store's tables.
    pub fn proof<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Proof {
        let mut proof = Proof::new();
        for (name, taken) in names.zip(&self.tables) {
            proof.table_mut(name).merge(taken.proof);
        }
        proof
    }

    /// Returns the window's row range in each table.
    pub fn places(&self) -> Vec<Range<usize>> {
        self.tables.iter().map(|taken| taken.place.clone()).collect()
    }

    /// Adjusts row ranges after `cuts` were removed from the store.
    pub fn shift(&mut self, cuts: &[Range<usize>]) {
        for (taken, cut) in self.tables.iter_mut().zip(cuts) {
            if taken.place.start >= cut.end {
                taken.place.start = taken.place.start.saturating_sub(cut.len());
                taken.place.end = taken.place.end.saturating_sub(cut.len());
            }
        }
    }
}
