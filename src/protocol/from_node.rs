//! Messages of a joined node to the tickerplant.

use super::parts::{long, put_proof, read_proof};
use super::read::{Fields, date, index};
use super::{Malformed, names};
use crate::log::Proof;
use crate::net::message;
use crate::queue::{Date, Leaving as When, Status, UpdateIndex};
use proto::{EncodeError, MessageKind, View, Writer, types};

/// A message of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum FromNode {
    /// Requests the feed from this update on: from the log up to the tip, then live.
    From { next: u64 },
    /// Requests these updates of the window that the node is to rebuild.
    Stream { first: u64, last: u64 },
    /// The node is full: its window of that day ends before `next`.
    Rolling { next: u64, proof: Proof, date: Option<i32> },
    /// Proof of `[first, last)` of that day as the node holds it.
    Proved { first: u64, last: u64, proof: Proof, date: Option<i32> },
    /// The node's instance is about to end.
    Leaving(Leaving),
    /// Memory, thresholds and progress of the node.
    Status(Status),
}

/// Time and reason of a node's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    pub when: When,
    pub reason: Vec<u8>,
}

impl FromNode {
    /// Returns the name of the function called.
    pub fn name(&self) -> &'static str {
        match self {
            FromNode::From { .. } => names::FROM,
            FromNode::Stream { .. } => names::STREAM,
            FromNode::Rolling { .. } => names::ROLLING,
            FromNode::Proved { .. } => names::PROVED,
            FromNode::Leaving(_) => names::LEAVING,
            FromNode::Status(_) => names::STATUS,
        }
    }

    /// Appends the message.
    ///
    /// # Errors
    /// A name that cannot be serialised.
    pub fn append(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        message::append(out, MessageKind::Async, |writer| {
            match self {
                FromNode::From { next } => {
                    head(writer, self.name(), 1);
                    writer.atom_long(long(*next));
                }
                FromNode::Stream { first, last } => {
                    head(writer, self.name(), 2);
                    writer.atom_long(long(*first));
                    writer.atom_long(long(*last));
                }
                FromNode::Rolling { next, proof, date } => {
                    head(writer, self.name(), 2 + usize::from(date.is_some()));
                    writer.atom_long(long(*next));
                    put_proof(writer, proof);
                    date.iter().for_each(|date| writer.atom_date(*date));
                }
                FromNode::Proved { first, last, proof, date } => {
                    head(writer, self.name(), 3 + usize::from(date.is_some()));
                    writer.atom_long(long(*first));
                    writer.atom_long(long(*last));
                    put_proof(writer, proof);
                    date.iter().for_each(|date| writer.atom_date(*date));
                }
                FromNode::Leaving(leaving) => {
                    head(writer, self.name(), 1);
                    put_leaving(writer, leaving);
                }
                FromNode::Status(status) => {
                    head(writer, self.name(), 1);
                    put_status(writer, status);
                }
            };
        })
    }

    /// Decodes a call of this function with these arguments; `None` for another function.
    ///
    /// # Errors
    /// Arguments that are missing or of the wrong type.
    pub fn decode(name: &str, args: &[View<'_>]) -> Result<Option<FromNode>, Malformed> {
        Ok(Some(match name {
            names::FROM => FromNode::From { next: index(args, 0)? },
            names::STREAM => FromNode::Stream { first: index(args, 0)?, last: index(args, 1)? },
            names::ROLLING => {
                FromNode::Rolling { next: index(args, 0)?, proof: read_proof(args, 1)?, date: date(args, 2)? }
            }
            names::PROVED => FromNode::Proved {
                first: index(args, 0)?,
                last: index(args, 1)?,
                proof: read_proof(args, 2)?,
                date: date(args, 3)?,
            },
            names::LEAVING => FromNode::Leaving(read_leaving(args)?),
            names::STATUS => FromNode::Status(read_status(args)?),
            _ => return Ok(None),
        }))
    }
}

/// Bytes of a reason that are kept, for the log.
const MAX_REASON_BYTES: usize = 1024;

fn head(writer: &mut Writer<'_>, name: &str, arguments: usize) {
    writer.list_head(arguments.saturating_add(1));
    writer.symbol(name);
}

fn put_leaving(writer: &mut Writer<'_>, leaving: &Leaving) {
    writer.dict_head();
    writer.symbols(["by", "replaced", "reason"]);
    writer.list_head(3);
    writer.atom_timestamp(leaving.when.by_ns);
    writer.atom_bool(leaving.when.replaced);
    writer.chars(&leaving.reason);
}

fn read_leaving(args: &[View<'_>]) -> Result<Leaving, Malformed> {
    let fields = Fields::of(names::LEAVING, args.first())?;
    let when = read_when(&fields)?.ok_or_else(|| fields.wrong("by"))?;
    let reason = fields.text("reason")?.unwrap_or_default();
    Ok(Leaving { when, reason: reason.get(..MAX_REASON_BYTES).unwrap_or(reason).to_vec() })
}

/// Decodes the end of a node from the keys `by` and `replaced` of this message or of a join; `None` if they are missing.
pub(super) fn read_when(fields: &Fields<'_>) -> Result<Option<When>, Malformed> {
    let by_ns = fields.atom::<i64>("by")?.filter(|by_ns| *by_ns != types::NULL_LONG);
    let replaced = fields.atom::<bool>("replaced")?.unwrap_or(false);
    Ok(by_ns.map(|by_ns| When { by_ns, replaced }))
}

fn put_status(writer: &mut Writer<'_>, status: &Status) {
    let float = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let count = |value: Option<u64>| value.map_or(types::NULL_LONG, long);
    writer.dict_head();
    let keys =
        ["memory", "scale", "roll", "rows", "bytes", "next", "scaled", "lead", "refused", "max", "quiet", "date"];
    writer.symbols(keys);
    writer.list_head(keys.len());
    writer.atom_float(float(status.memory_percent));
    writer.atom_float(float(status.scale_percent));
    writer.atom_float(float(status.roll_percent));
    writer.atom_long(count(status.rows));
    writer.atom_long(count(status.bytes));
    writer.atom_long(count(status.next.map(|next| next.0)));
    writer.atom_bool(status.scaled);
    writer.atom_timespan(status.lead_ns.unwrap_or(types::NULL_LONG));
    writer.atom_long(count(status.refused));
    writer.atom_long(count(status.fleet_max.map(u64::from)));
    writer.atom_timespan(status.quiet_ns.unwrap_or(types::NULL_LONG));
    writer.atom_date(status.date.map_or(types::NULL_INT, |date| date.0));
}

fn read_status(args: &[View<'_>]) -> Result<Status, Malformed> {
    let fields = Fields::of(names::STATUS, args.first())?;
    let float = |key: &str| Ok::<_, Malformed>(fields.atom::<f64>(key)?.filter(|value| value.is_finite()));
    let span = |key: &str| Ok::<_, Malformed>(fields.atom::<i64>(key)?.filter(|ns| *ns != types::NULL_LONG));
    Ok(Status {
        memory_percent: float("memory")?,
        scale_percent: float("scale")?,
        roll_percent: float("roll")?,
        rows: fields.count("rows")?,
        bytes: fields.count("bytes")?,
        next: fields.count("next")?.map(UpdateIndex),
        scaled: fields.atom::<bool>("scaled")?.unwrap_or(false),
        lead_ns: span("lead")?,
        refused: fields.count("refused")?,
        fleet_max: fields.count("max")?.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
        quiet_ns: span("quiet")?,
        date: fields.atom::<i32>("date")?.filter(|date| *date != types::NULL_INT).map(Date),
    })
}
