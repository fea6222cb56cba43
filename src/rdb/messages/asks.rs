//! What a node says to a tickerplant.

use crate::log::{Proof, WriterId};
use crate::net::message;
use proto::{EncodeError, MessageKind, Writer, types};

/// The version of the protocol that this node speaks.
const PROTOCOL: i64 = 1;

/// Tables and symbols that a node takes; empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    pub tables: Vec<String>,
    pub symbols: Vec<String>,
}

impl Subscription {
    /// Whether every update of the log comes.
    pub fn is_everything(&self) -> bool {
        self.tables.is_empty() && self.symbols.is_empty()
    }

    /// The first two arguments of `.u.asg.sub`, as one object each.
    fn put_tables(&self, w: &mut Writer<'_>) {
        if self.tables.is_empty() { w.symbol("") } else { w.symbols(&self.tables) }
    }

    fn put_symbols(&self, w: &mut Writer<'_>) {
        match (self.tables.len(), self.symbols.is_empty()) {
            (0, true) => w.symbol(""),
            (0, false) => w.symbols(&self.symbols),
            (tables, true) => w.symbols(vec![""; tables]),
            (tables, false) => {
                w.list_head(tables);
                (0..tables).for_each(|_| w.symbols(&self.symbols));
            }
        }
    }
}

/// What a node says of itself when it joins.
#[derive(Clone, Debug)]
pub struct Join<'a> {
    pub node: &'a str,
    pub queue: &'a str,
    pub subscription: &'a Subscription,
    pub port: u16,
    /// The day its rows belong to, in days from 2000.01.01; none if it holds nothing.
    pub date: Option<i32>,
    pub held: &'a [(u64, u64)],
    /// First update of its open window and the next it expects, if it is live.
    pub open: Option<(u64, u64)>,
    /// The fleet's group and this instance; empty where there is no fleet.
    pub group: &'a str,
    pub instance: &'a str,
    /// This process, where its name was given to it; else empty.
    pub process: &'a str,
    /// The writer of the log that its rows are from.
    pub writer: Option<WriterId>,
    /// Since it is about to leave.
    pub leaving: Option<Leaving<'a>>,
}

/// That a node is about to leave.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// When it ends, nanoseconds from 2000.01.01 UTC.
    pub by_ns: i64,
    /// The fleet has given the instance up and launches another.
    pub replaced: bool,
    pub reason: &'a str,
}

fn long(index: u64) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// The message ``(`.u.asg.join; d)``.
///
/// # Errors
/// A name that cannot travel.
pub fn join(out: &mut Vec<u8>, join: &Join<'_>) -> Result<(), EncodeError> {
    message::append(out, MessageKind::Sync, |w| {
        w.list_head(2);
        w.symbol(".u.asg.join");
        w.dict_head();
        let keys = ["proto", "node", "queue", "tabs", "syms", "port", "date", "held", "live", "first", "next"];
        let fleet = if join.group.is_empty() { &[][..] } else { &["group", "instance"][..] };
        let leaving = if join.leaving.is_some() { &["by", "replaced"][..] } else { &[][..] };
        let writer = if join.writer.is_some() { &["id", "epoch", "writer"][..] } else { &[][..] };
        let process = if join.process.is_empty() { &[][..] } else { &["process"][..] };
        let keys = [&keys, fleet, process, writer, leaving].concat();
        w.symbols(&keys);
        w.list_head(keys.len());
        w.atom_long(PROTOCOL);
        w.symbol(join.node);
        w.symbol(join.queue);
        join.subscription.put_tables(w);
        join.subscription.put_symbols(w);
        w.atom_int(i32::from(join.port));
        w.atom_date(join.date.unwrap_or(types::NULL_INT));
        let held: Vec<i64> = join.held.iter().flat_map(|(first, last)| [long(*first), long(*last)]).collect();
        w.vector(types::LONG, types::ATTR_NONE, &held);
        w.atom_bool(join.open.is_some());
        w.atom_long(join.open.map_or(types::NULL_LONG, |(first, _)| long(first)));
        w.atom_long(join.open.map_or(types::NULL_LONG, |(_, next)| long(next)));
        if !join.group.is_empty() {
            w.symbol(join.group);
            w.symbol(join.instance);
        }
        if !join.process.is_empty() {
            w.symbol(join.process);
        }
        if let Some(of) = join.writer {
            w.symbol(of.log.to_string());
            w.atom_long(long(of.epoch));
            w.symbol(of.writer.to_string());
        }
        if let Some(leaving) = join.leaving {
            w.atom_timestamp(leaving.by_ns);
            w.atom_bool(leaving.replaced);
        }
    })
}

fn call(out: &mut Vec<u8>, name: &str, arguments: usize, put: impl FnOnce(&mut Writer<'_>)) -> Result<(), EncodeError> {
    message::append(out, MessageKind::Async, |w| {
        w.list_head(arguments.saturating_add(1));
        w.symbol(name);
        put(w);
    })
}

fn put_proof(w: &mut Writer<'_>, proof: &Proof) {
    w.table_head(["tab", "updates", "rows", "hash"]);
    let column = |of: fn(&crate::log::TableProof) -> u64| -> Vec<i64> {
        proof.iter().map(|(_, table)| of(&table).cast_signed()).collect()
    };
    w.symbols(proof.iter().map(|(name, _)| name.to_vec()).collect::<Vec<_>>());
    w.vector(types::LONG, types::ATTR_NONE, &column(|table| table.updates));
    w.vector(types::LONG, types::ATTR_NONE, &column(|table| table.rows));
    w.vector(types::LONG, types::ATTR_NONE, &column(|table| table.hash));
}

/// ``(`.u.asg.from; next)``.
///
/// # Errors
/// None that these arguments can cause; as all of these.
pub fn from(out: &mut Vec<u8>, next: u64) -> Result<(), EncodeError> {
    call(out, ".u.asg.from", 1, |w| w.atom_long(long(next)))
}

/// ``(`.u.asg.stream; first; last)``.
///
/// # Errors
/// As [`from`].
pub fn stream(out: &mut Vec<u8>, first: u64, last: u64) -> Result<(), EncodeError> {
    call(out, ".u.asg.stream", 2, |w| {
        w.atom_long(long(first));
        w.atom_long(long(last));
    })
}

/// ``(`.u.asg.rolling; next; proof; date)``.
///
/// # Errors
/// As [`from`].
pub fn rolling(out: &mut Vec<u8>, next: u64, proof: &Proof, date: i32) -> Result<(), EncodeError> {
    call(out, ".u.asg.rolling", 3, |w| {
        w.atom_long(long(next));
        put_proof(w, proof);
        w.atom_date(date);
    })
}

/// ``(`.u.asg.proved; first; last; proof; date)``.
///
/// # Errors
/// As [`from`].
pub fn proved(out: &mut Vec<u8>, first: u64, last: u64, proof: &Proof, date: i32) -> Result<(), EncodeError> {
    call(out, ".u.asg.proved", 4, |w| {
        w.atom_long(long(first));
        w.atom_long(long(last));
        put_proof(w, proof);
        w.atom_date(date);
    })
}

/// ``(`.u.asg.leaving; d)``.
///
/// # Errors
/// As [`from`].
pub fn leaving(out: &mut Vec<u8>, leaving: &Leaving<'_>) -> Result<(), EncodeError> {
    call(out, ".u.asg.leaving", 1, |w| {
        w.dict_head();
        let keys = ["by", "replaced", "reason"];
        w.symbols(keys);
        w.list_head(keys.len());
        w.atom_timestamp(leaving.by_ns);
        w.atom_bool(leaving.replaced);
        w.chars(leaving.reason);
    })
}

/// How a node is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    pub memory_percent: f64,
    pub scale_percent: f64,
    pub roll_percent: f64,
    pub rows: u64,
    pub bytes: u64,
    pub next: Option<u64>,
    pub scaled: bool,
    pub lead_ns: Option<i64>,
    /// Updates missing in the windows held, because they were refused.
    pub refused: u64,
}

/// ``(`.u.asg.status; d)``.
///
/// # Errors
/// As [`from`].
pub fn status(out: &mut Vec<u8>, status: &Status) -> Result<(), EncodeError> {
    call(out, ".u.asg.status", 1, |w| {
        w.dict_head();
        let keys = ["memory", "scale", "roll", "rows", "bytes", "next", "scaled", "lead", "refused"];
        w.symbols(keys);
        w.list_head(keys.len());
        w.atom_float(status.memory_percent);
        w.atom_float(status.scale_percent);
        w.atom_float(status.roll_percent);
        w.atom_long(long(status.rows));
        w.atom_long(long(status.bytes));
        w.atom_long(status.next.map_or(types::NULL_LONG, long));
        w.atom_bool(status.scaled);
        w.atom_timespan(status.lead_ns.unwrap_or(types::NULL_LONG));
        w.atom_long(long(status.refused));
    })
}

/// The paper's ``(`.u.asg.sub; tabs; syms; queue)``.
///
/// # Errors
/// As [`from`].
pub fn paper_subscribe(out: &mut Vec<u8>, subscription: &Subscription, queue: &str) -> Result<(), EncodeError> {
    call(out, ".u.asg.sub", 3, |w| {
        subscription.put_tables(w);
        subscription.put_symbols(w);
        w.symbol(queue);
    })
}

/// The paper's `({.u.asg.roll[.z.w;x]}; i)`: the function item is a lambda.
///
/// # Errors
/// As [`from`].
pub fn paper_roll(out: &mut Vec<u8>, next: u64) -> Result<(), EncodeError> {
    message::append(out, MessageKind::Async, |w| {
        w.list_head(2);
        w.lambda(b"", b"{.u.asg.roll[.z.w;x]}");
        w.atom_long(long(next));
    })
}

/// The start-up string of `tick/r.q`; with tables, one subscription for each of them in the same string.
pub fn stock_subscribe(subscription: &Subscription) -> String {
    match subscription.tables.as_slice() {
        [] => "(.u.sub[`;`];`.u `i`L)".to_string(),
        [one] => format!("(enlist .u.sub[`{one};`];`.u `i`L)"),
        many => format!("(.u.sub[;`]each`{};`.u `i`L)", many.join("`")),
    }
}

/// Tells the paper's tickerplant from stock kdb+tick.
pub const HAS_QUEUE: &str = "`asg in key`.u";

/// Asks a tickerplant in q for its empty tables, by name.
pub const SCHEMAS: &str = ".u.t!{0#value x}each .u.t";

#[cfg(test)]
mod tests {
    use super::*;
    use proto::HEADER_BYTES;

    #[test]
    fn the_papers_roll_travels_as_a_lambda_and_a_long() {
        let mut out = Vec::new();
        paper_roll(&mut out, 9746).expect("encodes");
        let text = b"{.u.asg.roll[.z.w;x]}";
        let mut expected = vec![1, 0, 0, 0, 0, 0, 0, 0];
        expected.extend_from_slice(&[0, 0, 2, 0, 0, 0, 0x64, 0, 10, 0, 21, 0, 0, 0]);
        expected.extend_from_slice(text);
        expected.push(0xf9);
        expected.extend_from_slice(&9746i64.to_le_bytes());
        expected[4] = u8::try_from(expected.len()).expect("short");
        assert_eq!(out, expected);
    }

    #[test]
    fn the_papers_subscription_is_three_symbols() {
        let mut out = Vec::new();
        paper_subscribe(&mut out, &Subscription::default(), "q.r-asg").expect("encodes");
        assert_eq!(&out[HEADER_BYTES..], b"\0\0\x04\0\0\0\xf5.u.asg.sub\0\xf5\0\xf5\0\xf5q.r-asg\0");
    }
}
