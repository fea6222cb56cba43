//! Protocols of other tickerplants: the paper's, and stock kdb+tick's.

use super::parts::{long, put_path};
use super::read::{index_of, path};
use super::subscription::Filter;
use super::{Malformed, names, tables};
use crate::net::message;
use crate::table::{Schema, symbol, wire};
use proto::{EncodeError, MessageKind, View, Writer, types};
use std::path::PathBuf;

/// Expression that distinguishes the paper's tickerplant from stock kdb+tick.
pub const HAS_QUEUE: &str = "`asg in key`.u";

/// Query for the empty tables of a q tickerplant, by name.
pub const SCHEMAS: &str = ".u.t!{0#value x}each .u.t";

/// The paper's function to end a window, which a node calls as a lambda.
const PAPER_ROLL: &[u8] = b"{.u.asg.roll[.z.w;x]}";

/// The paper's ``(`.sub.rep; schemas; L; (start; i))``, and stock kdb+tick's response to the start-up string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    pub tables: Vec<Schema>,
    pub log: Option<PathBuf>,
    pub first: u64,
    pub tip: u64,
}

/// Writes the arguments of the paper's `.sub.rep`.
pub(super) fn put_replay(writer: &mut Writer<'_>, replay: &Replay) {
    tables::put_pairs(writer, replay.tables.iter());
    put_path(writer, replay.log.as_deref());
    writer.vector(types::LONG, types::ATTR_NONE, &[long(replay.first), long(replay.tip)]);
}

/// Decodes the arguments of the paper's `.sub.rep`.
pub(super) fn read_replay(args: &[View<'_>]) -> Result<Replay, Malformed> {
    let missing = |what: &str| Malformed::of_type(format!("{}: no {what}", names::PAPER_REPLAY));
    let tables = tables::read_pairs(args.first().ok_or_else(|| missing("schemas"))?)?;
    let window = args.get(2).and_then(View::vector).ok_or_else(|| missing("window"))?;
    let at = |i| window.get_i64(i).and_then(|index| u64::try_from(index).ok()).ok_or_else(|| missing("window"));
    Ok(Replay { tables, log: args.get(1).and_then(path), first: at(0)?, tip: at(1)? })
}

/// Appends the paper's ``(`.u.asg.sub; tabs; syms; queue)``.
///
/// # Errors
/// A name that cannot be serialised.
pub fn append_paper_subscribe(out: &mut Vec<u8>, filter: &Filter, queue: &str) -> Result<(), EncodeError> {
    message::append(out, MessageKind::Async, |writer| {
        writer.list_head(4);
        writer.symbol(names::PAPER_SUBSCRIBE);
        filter.put(writer);
        writer.symbol(queue);
    })
}

/// Appends the paper's `({.u.asg.roll[.z.w;x]}; i)`, whose function item is a lambda.
///
/// # Errors
/// None with these arguments.
pub fn append_paper_roll(out: &mut Vec<u8>, next: u64) -> Result<(), EncodeError> {
    message::append(out, MessageKind::Async, |writer| {
        writer.list_head(2);
        writer.lambda(b"", PAPER_ROLL);
        writer.atom_long(long(next));
    })
}

/// Returns the start-up string of `tick/r.q`; with tables, one subscription for each of them in the same string.
pub fn stock_subscribe(filter: &Filter) -> String {
    match filter.tables.as_slice() {
        [] => "(.u.sub[`;`];`.u `i`L)".to_string(),
        [one] => format!("(enlist .u.sub[`{one};`];`.u `i`L)"),
        many => format!("(.u.sub[;`]each`{};`.u `i`L)", many.join("`")),
    }
}

/// Parses the response to that string: `(schemas; (i; L))`, with nulls if the tickerplant has no log.
///
/// # Errors
/// An invalid response.
pub fn stock_answer(view: &View<'_>) -> Result<Replay, Malformed> {
    let mut items = view.list().map(|list| list.iter()).into_iter().flatten();
    let tables = items.next().ok_or_else(|| Malformed::of_type("the reply has no schemas"))?;
    let tables = tables::read_pairs(&tables)?;
    let place: Vec<View<'_>> =
        items.next().and_then(|place| place.list()).map(|l| l.iter().collect()).unwrap_or_default();
    let tip = place.first().copied().and_then(index_of).unwrap_or(0);
    Ok(Replay { tables, log: place.get(1).and_then(path), first: 0, tip })
}

/// Parses the response to [`SCHEMAS`].
///
/// # Errors
/// An invalid response.
pub fn named_schemas(view: &View<'_>) -> Result<Vec<Schema>, Malformed> {
    let wrong = || Malformed::of_type("the reply is not a dictionary of names and tables");
    let dict = view.dict().ok_or_else(wrong)?;
    let names = dict.keys.vector().ok_or_else(wrong)?.symbols();
    let tables = dict.values.list().ok_or_else(wrong)?.iter();
    let schema = |(name, table): (&[u8], View<'_>)| Schema::of(symbol::intern(name).ok()?, &wire::data(&table).ok()?);
    names.zip(tables).map(schema).collect::<Option<Vec<Schema>>>().ok_or_else(wrong)
}
