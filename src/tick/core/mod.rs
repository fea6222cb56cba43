//! What the tickerplant does with an update, as bytes: recognise the call, check the data against the schema, add the time,
//! append one log record. Pure.
//!
//! An update is never decoded. One pass over its bytes checks and copies it in the one form that log, feed and replay share:
//! `` (`upd;`table;columns) `` with each column a vector, little-endian, without attributes. A row of atoms and a list of typed
//! columns take the short way in [`plain`]; everything else goes through [`bulk`].

pub mod batch;
mod bulk;
pub mod call;
pub mod older;
mod plain;
pub mod refusal;
pub mod schema;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Update};
pub use refusal::{Reason, Refusal};
pub use schema::{TableSpec, Tables};

use proto::time::DAY_NS;
use proto::types;

/// The time that updates of a turn are given, where they bring none. Local time of the configured zone, as kdb+tick has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds from 2000.01.01.
    pub timestamp_ns: i64,
}

impl Stamp {
    /// The value of a time column of this type, as the bytes of one item; none for types that hold no moment.
    fn item(self, ty: i8) -> Option<([u8; 8], usize)> {
        let of_day_ns = self.timestamp_ns.rem_euclid(DAY_NS);
        match ty {
            types::TIMESTAMP => Some((self.timestamp_ns.to_le_bytes(), 8)),
            types::TIMESPAN => Some((of_day_ns.to_le_bytes(), 8)),
            types::TIME => Some(((of_day_ns / 1_000_000).to_le_bytes(), 4)),
            _ => None,
        }
    }
}

/// Levels of nesting that a message to subscribers has around the data: the call, the table, its dictionary. Readers of log and
/// feed have the same limit as the tickerplant.
const LEVELS_AROUND: usize = 4;

/// Checks an update and appends it to the batch: its table and rows. An update without rows is accepted and leaves no trace.
///
/// # Errors
/// What is wrong with it; the batch is as it was.
pub fn publish(
    tables: &Tables,
    call: &call::Call<'_>,
    stamp: Stamp,
    limits: &proto::Limits,
    batch: &mut Batch,
) -> Result<Update, Refusal> {
    let Some((index, spec)) = tables.find(call.table) else {
        return Err(Refusal { table: call.table.to_vec(), reason: Reason::UnknownTable });
    };
    let start = batch.begin(&spec.record_head);
    let columns = match plain::columns(spec, call.data, stamp, batch.bytes_mut()) {
        Some(rows) => Ok(rows),
        // A less common form, or something is wrong with it: the long way takes it or says what.
        None => {
            batch.restart(start, &spec.record_head);
            let limits = proto::Limits { max_depth: limits.max_depth.saturating_sub(LEVELS_AROUND), ..*limits };
            bulk::columns(spec, call.data, stamp, &limits, batch.bytes_mut())
        }
    };
    match columns {
        Ok(0) => {
            batch.take_back(start);
            Ok(Update { table: index, rows: 0, columns: start, end: start })
        }
        Ok(_) if batch.bytes().len().saturating_sub(start) as u64 > longest(spec, limits) => {
            let bytes = batch.bytes().len().saturating_sub(start) as u64;
            batch.take_back(start);
            Err(Refusal { table: call.table.to_vec(), reason: Reason::TooLong { bytes } })
        }
        Ok(rows) => Ok(batch.finish(index, start, spec.record_head.len(), rows)),
        Err(reason) => {
            batch.take_back(start);
            Err(Refusal { table: call.table.to_vec(), reason })
        }
    }
}

/// Longest record whose message to subscribers is within the limit as well.
fn longest(spec: &TableSpec, limits: &proto::Limits) -> u64 {
    limits.max_message_bytes.saturating_sub(spec.message_head(schema::Form::Indexed).len() as u64)
}
