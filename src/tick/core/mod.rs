//! Validates an update on its wire bytes and appends it to the log batch: recognises the call, checks the data against the schema, adds
//! the time, appends one log record. Pure.
//!
//! An update is never decoded. One pass over its bytes checks and copies it into the form that log, feed and replay share:
//! `` (`upd;`table;columns) `` with each column a little-endian vector without attributes. A row of atoms and a list of typed columns
//! take the fast path in `plain`; everything else takes `bulk`.

pub mod batch;
mod bulk;
pub mod call;
mod coerce;
mod nearest;
pub mod older;
mod plain;
pub mod refusal;
pub mod schema;
pub mod sequenced;

#[cfg(test)]
mod tests;

use bulk::Types;

pub use batch::{Batch, Update};
pub use call::Call;
pub use refusal::{Reason, Refusal};
pub use schema::{TableSpec, Tables};
pub use sequenced::publish_sequenced;

use proto::time::DAY_NS;
use proto::types;

/// Time given to the updates of one event-loop iteration that bring none: local time of the configured zone, as in kdb+tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 2000.01.01.
    pub timestamp_ns: i64,
}

impl Stamp {
    /// Returns the bytes of one item of a time column of type `ty`; `None` for types that hold no time.
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

/// Nesting levels that a message to subscribers has around the data: the call, the table, its dictionary. Readers of log and feed have
/// the same depth limit as the tickerplant.
const LEVELS_AROUND: usize = 4;

/// Rules for the updates of a tickerplant.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub limits: &'a proto::Limits,
    /// Values of other types are converted where nothing is lost (`--coerce`).
    pub coerce: bool,
}

impl<'a> Rules<'a> {
    /// Rules without conversions: for what a log contains.
    pub fn exact(limits: &'a proto::Limits) -> Rules<'a> {
        Rules { limits, coerce: false }
    }
}

/// An accepted update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub update: Update,
    /// Some of its values were converted.
    pub is_coerced: bool,
}

/// Checks an update and appends it to the batch. An update without rows is accepted and not recorded.
///
/// # Errors
/// Why the update is rejected; the batch is unchanged.
pub fn publish(
    tables: &Tables,
    call: &call::Call<'_>,
    stamp: Stamp,
    rules: Rules<'_>,
    batch: &mut Batch,
) -> Result<Accepted, Refusal> {
    let wrong = |reason| Refusal { table: call.table.to_vec(), reason };
    let Some((index, spec)) = tables.find(call.table) else {
        return Err(wrong(Reason::UnknownTable { tables: nearest::tables_like(tables, call.table) }));
    };
    let limits = rules.limits;
    let mut is_coerced = false;
    let start = batch.begin(&spec.record_head);
    let columns = match plain::columns(spec, call.data, stamp, batch.bytes_mut()) {
        Some(rows) => Ok(rows),
        // A less common form, or invalid data: the slow path accepts it or finds the reason.
        None => {
            let limits = proto::Limits { max_depth: limits.max_depth.saturating_sub(LEVELS_AROUND), ..*limits };
            let mut attempt = |types| {
                batch.restart(start, &spec.record_head);
                bulk::columns(spec, call.data, stamp, (&limits, types), batch.bytes_mut())
            };
            match attempt(Types::Own) {
                // Only an update that would be rejected for a type is converted, or, without `--coerce`, tested for the remedy.
                Err(Reason::ColumnType { column, expected, found, .. }) => match attempt(Types::Converted) {
                    Ok(_) if !rules.coerce => Err(Reason::ColumnType { column, expected, found, coercible: true }),
                    Err(_) if !rules.coerce => Err(Reason::ColumnType { column, expected, found, coercible: false }),
                    converted => {
                        is_coerced = true;
                        converted
                    }
                },
                own => own,
            }
        }
    };
    match columns {
        Ok(0) => {
            batch.take_back(start);
            Ok(Accepted { update: Update { table: index, rows: 0, columns: start, end: start }, is_coerced })
        }
        Ok(_) if batch.bytes().len().saturating_sub(start) as u64 > longest(spec, limits) => {
            let bytes = batch.bytes().len().saturating_sub(start) as u64;
            batch.take_back(start);
            Err(wrong(Reason::TooLong { bytes }))
        }
        Ok(rows) => Ok(Accepted { update: batch.finish(index, start, spec.record_head.len(), rows), is_coerced }),
        Err(reason) => {
            batch.take_back(start);
            Err(wrong(reason))
        }
    }
}

/// Largest record whose message to subscribers also stays within the limit.
fn longest(spec: &TableSpec, limits: &proto::Limits) -> u64 {
    limits.max_message_bytes.saturating_sub(spec.message_head(schema::Form::Indexed).len() as u64)
}
