//! Batch mode: rows wait, table by table, until the timer fires. Pure.
//!
//! The items of a column are contiguous, so merging two updates concatenates their items.

use super::core::batch::{Batch, Update};
use super::core::schema::Tables;
use super::filter;
use crate::bug;
use proto::Head;

/// Waiting rows of one table.
#[derive(Clone, Debug, Default)]
struct Waiting {
    rows: usize,
    /// Items of each column.
    items: Vec<Vec<u8>>,
}

/// Rows that are logged but not yet published.
#[derive(Clone, Debug)]
pub struct Merge {
    tables: Vec<Waiting>,
    bytes: usize,
}

impl Merge {
    pub fn new(tables: &Tables) -> Merge {
        let waiting = |columns: usize| Waiting { rows: 0, items: vec![Vec::new(); columns] };
        Merge { tables: tables.iter().map(|spec| waiting(spec.columns.len())).collect(), bytes: 0 }
    }

    /// Size in bytes of the waiting rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the rows of a batch.
    pub fn add(&mut self, tables: &Tables, batch: &Batch) {
        batch
            .updates()
            .iter()
            .filter(|update| update.is_update())
            .for_each(|update| self.add_update(tables, batch, update));
    }

    fn add_update(&mut self, tables: &Tables, batch: &Batch, update: &Update) {
        let (Some(spec), Some(waiting)) = (tables.get(update.table), self.tables.get_mut(update.table)) else {
            return bug!("an accepted update is of table {}, which batch mode does not have", update.table);
        };
        let columns = filter::columns(spec, batch.columns(update));
        for (own, items) in waiting.items.iter_mut().zip(columns) {
            own.extend_from_slice(items);
            self.bytes = self.bytes.saturating_add(items.len());
        }
        waiting.rows = waiting.rows.saturating_add(update.rows);
    }

    /// Takes the waiting rows, as one update for each table that has any.
    pub fn take(&mut self, tables: &Tables) -> Batch {
        let mut merged = Batch::default();
        for (at, (waiting, spec)) in self.tables.iter_mut().zip(tables.iter()).enumerate() {
            if waiting.rows == 0 {
                continue;
            }
            let mut columns = Vec::new();
            for (items, column) in waiting.items.iter_mut().zip(&spec.columns) {
                Head::saturating(column.ty, waiting.rows).write(&mut columns);
                columns.append(items);
            }
            merged.push(at, &spec.record_head, &columns, waiting.rows);
            waiting.rows = 0;
        }
        self.bytes = 0;
        merged
    }
}
