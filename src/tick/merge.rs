//! Batch mode: rows wait, table by table, until the timer fires. Pure.
//!
//! Columns of one table follow one another item by item, so merging two updates is putting their items behind one another.

use super::core::batch::{Batch, Update};
use super::core::schema::Tables;
use super::filter;
use proto::Head;

/// Rows of one table that wait.
#[derive(Clone, Debug, Default)]
struct Waiting {
    rows: usize,
    /// Items of each column.
    items: Vec<Vec<u8>>,
}

/// Rows that were logged and not published yet.
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

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the rows of a turn.
    pub fn add(&mut self, tables: &Tables, batch: &Batch) {
        batch.updates().iter().for_each(|update| self.add_update(tables, batch, update));
    }

    fn add_update(&mut self, tables: &Tables, batch: &Batch, update: &Update) {
        let (Some(spec), Some(waiting)) = (tables.get(update.table), self.tables.get_mut(update.table)) else { return };
        let columns = filter::columns(spec, batch.columns(update));
        for (own, items) in waiting.items.iter_mut().zip(columns) {
            own.extend_from_slice(items);
            self.bytes = self.bytes.saturating_add(items.len());
        }
        waiting.rows = waiting.rows.saturating_add(update.rows);
    }

    /// What waits, as one update for each table that has rows; nothing waits afterwards.
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
