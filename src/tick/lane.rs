//! A lane: one distinct subscription. What it sends is encoded once, however many subscribe to it.

use super::core::batch::{Batch, Update};
use super::core::schema::{Form, Tables};
use super::filter::{Filter, Symbols};
use proto::{compress, encode, types};
use std::sync::Arc;

/// What makes a subscription distinct.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey {
    /// For each table of the tickerplant, in its order: the symbols wanted, or that the table is not.
    pub tables: Vec<Option<Symbols>>,
    pub form: Form,
    /// Batch mode: rows are told table by table when the timer fires, not update by update.
    pub merged: bool,
    /// The peer is on another host and takes compressed messages.
    pub compress: bool,
}

impl LaneKey {
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(Option::is_none)
    }
}

/// A lane's key, and its filters ready for use.
#[derive(Debug)]
pub struct LaneSpec {
    pub key: LaneKey,
    filters: Vec<Option<Filter>>,
}

impl LaneSpec {
    pub fn new(key: LaneKey) -> Arc<LaneSpec> {
        let filters = key.tables.iter().map(|symbols| symbols.as_ref().map(Filter::new)).collect();
        Arc::new(LaneSpec { key, filters })
    }

    /// The filter of a table; `None` if the table is not wanted.
    pub fn filter(&self, table: usize) -> Option<&Filter> {
        self.filters.get(table)?.as_ref()
    }

    /// Whether every row of every table is wanted.
    pub fn is_everything(&self) -> bool {
        self.filters.iter().all(|filter| matches!(filter, Some(Filter::All)))
    }

    /// Appends the message that tells one update, unless no row of it is wanted.
    pub fn encode(&self, tables: &Tables, batch: &Batch, update: &Update, index: u64, out: &mut Vec<u8>) {
        self.encode_columns(tables, update.table, batch.columns(update), update.rows, index, out);
    }

    /// As [`LaneSpec::encode`], for columns that stand somewhere else.
    pub fn encode_columns(
        &self,
        tables: &Tables,
        table: usize,
        columns: &[u8],
        rows: usize,
        index: u64,
        out: &mut Vec<u8>,
    ) {
        let (Some(filter), Some(spec)) = (self.filter(table), tables.get(table)) else { return };
        let start = out.len();
        out.extend_from_slice(spec.message_head(self.key.form));
        if filter.select(spec, columns, rows, out) == 0 {
            out.truncate(start);
            return;
        }
        if self.key.form == Form::Indexed {
            out.push(types::LONG.saturating_neg().cast_unsigned());
            out.extend_from_slice(&index.cast_signed().to_le_bytes());
        }
        if encode::finish_message(out, start).is_err() {
            // Only a message of a terabyte has no header; records are far shorter.
            out.truncate(start);
        } else if self.key.compress
            && let Some(small) = out.get(start..).and_then(compress::compress)
        {
            out.truncate(start);
            out.extend_from_slice(&small);
        }
    }
}
