//! A fan-out group (`Lane`): all subscribers of one selection and one form of message. Messages are encoded once for all of them.

use super::core::batch::{Batch, Update};
use super::core::schema::{Form, Tables};
use super::filter::{Filter, Symbols};
use proto::{MessageKind, Writer, compress, encode, types};
use std::sync::Arc;

/// Identity of a fan-out group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey {
    /// For each table, in the tickerplant's order: the symbols wanted, or `None` if the table is not subscribed.
    pub tables: Vec<Option<Symbols>>,
    pub form: Form,
    /// Batch mode: rows are sent table by table on the timer, not update by update.
    pub merged: bool,
    /// The peer is on another host and accepts compressed messages.
    pub compress: bool,
}

impl LaneKey {
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(Option::is_none)
    }
}

/// Key of a fan-out group with its prepared filters.
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

    /// Returns the filter of a table; `None` if the table is not wanted.
    pub fn filter(&self, table: usize) -> Option<&Filter> {
        self.filters.get(table)?.as_ref()
    }

    /// Whether every row of every table is wanted.
    pub fn is_everything(&self) -> bool {
        self.filters.iter().all(|filter| matches!(filter, Some(Filter::All)))
    }

    /// Appends the message of one update, unless no row of it is wanted. Returns the number of rows in it.
    pub fn encode(&self, tables: &Tables, batch: &Batch, update: &Update, index: u64, out: &mut Vec<u8>) -> usize {
        if !update.is_update() {
            self.encode_other(b"", index, out);
            return 0;
        }
        self.encode_columns(tables, update.table, batch.columns(update), update.rows, index, out)
    }

    /// Appends the message of a record that is not an update of a known table: an update without columns for a node that subscribes to
    /// everything, which would otherwise see a gap in the indices; nothing for others.
    pub fn encode_other(&self, table: &[u8], index: u64, out: &mut Vec<u8>) {
        if self.key.form != Form::Indexed || !self.is_everything() {
            return;
        }
        let start = encode::begin_message(MessageKind::Async, out);
        let mut writer = Writer::new(out);
        writer.list_head(4);
        writer.symbol("upd");
        writer.symbol(table);
        writer.list_head(0);
        writer.atom_long(index.cast_signed());
        if writer.finish().is_err() || encode::finish_message(out, start).is_err() {
            out.truncate(start);
        }
    }

    /// As [`LaneSpec::encode`], for columns outside a batch.
    pub fn encode_columns(
        &self,
        tables: &Tables,
        table: usize,
        columns: &[u8],
        rows: usize,
        index: u64,
        out: &mut Vec<u8>,
    ) -> usize {
        let (Some(filter), Some(spec)) = (self.filter(table), tables.get(table)) else { return 0 };
        let start = out.len();
        out.extend_from_slice(spec.message_head(self.key.form));
        let rows = filter.select(spec, columns, rows, out);
        if rows == 0 {
            out.truncate(start);
            return 0;
        }
        if self.key.form == Form::Indexed {
            out.push(types::LONG.saturating_neg().cast_unsigned());
            out.extend_from_slice(&index.cast_signed().to_le_bytes());
        }
        if encode::finish_message(out, start).is_err() {
            // Unreachable in practice: only a message of a terabyte fails, and records are far shorter.
            out.truncate(start);
            return 0;
        }
        if self.key.compress
            && let Some(small) = out.get(start..).and_then(compress::compress)
        {
            out.truncate(start);
            out.extend_from_slice(&small);
        }
        rows
    }
}
