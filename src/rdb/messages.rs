//! What node and tickerplant say to each other besides updates: elastick's own protocol, the paper's, and stock kdb+tick's.
//! `ARCHITECTURE.md` section 4 has the table.

use crate::lease::Epoch;
use crate::log::Proof;
use crate::net::message;
use crate::table::{Schema, symbol, wire};
use proto::view::DictView;
use proto::{EncodeError, MessageKind, View, Writer, types};
use std::path::PathBuf;

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
        let keys = [&keys, fleet, leaving].concat();
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
}

/// ``(`.u.asg.status; d)``.
///
/// # Errors
/// As [`from`].
pub fn status(out: &mut Vec<u8>, status: &Status) -> Result<(), EncodeError> {
    call(out, ".u.asg.status", 1, |w| {
        w.dict_head();
        let keys = ["memory", "scale", "roll", "rows", "bytes", "next", "scaled", "lead"];
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

/// Reads the answer to [`SCHEMAS`].
///
/// # Errors
/// What makes no sense.
pub fn named_schemas(view: &View<'_>) -> Result<Vec<Schema>, String> {
    let dict = view.dict().ok_or("no dictionary of tables")?;
    let names = dict.keys.vector().ok_or("no names of tables")?.symbols();
    let tables = dict.values.list().ok_or("no list of tables")?.iter();
    let schema = |(name, table): (&[u8], View<'_>)| Schema::of(symbol::intern(name).ok()?, &wire::data(&table)?);
    names.zip(tables).map(schema).collect::<Option<Vec<Schema>>>().ok_or_else(|| "a value is no table".to_string())
}

/// Where a day's log is, as a file symbol says it.
fn log_path(view: &View<'_>) -> Option<PathBuf> {
    let text = std::str::from_utf8(view.symbol()?).ok()?.trim_start_matches(':');
    (!text.is_empty()).then(|| PathBuf::from(text))
}

fn index(view: Option<View<'_>>) -> Option<u64> {
    u64::try_from(view?.atom::<i64>()?).ok()
}

/// A list of (name; empty table) pairs, or one such pair, or pairs one after the other.
fn schemas(view: &View<'_>) -> Result<Vec<Schema>, String> {
    let list = view.list().ok_or("the list of tables is no list")?;
    let pair = |name: View<'_>, table: View<'_>| {
        let name = symbol::intern(name.symbol()?).ok()?;
        Schema::of(name, &wire::data(&table)?)
    };
    let items: Vec<View<'_>> = list.iter().collect();
    let found: Option<Vec<Schema>> = if items.first().is_some_and(|item| item.symbol().is_some()) {
        let (pairs, []) = items.as_chunks::<2>() else { return Err("a table has a name but no schema".to_string()) };
        pairs.iter().map(|[name, table]| pair(*name, *table)).collect()
    } else {
        let of_pair = |item: &View<'_>| {
            let mut parts = item.list()?.iter();
            pair(parts.next()?, parts.next()?)
        };
        items.iter().map(of_pair).collect()
    };
    found.ok_or_else(|| "an item in the list of tables is no (name; empty table)".to_string())
}

/// The answer to [`join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// How often the right to write the log has changed hands.
    pub epoch: Epoch,
    pub log: Option<PathBuf>,
    pub date: i32,
    pub tip: u64,
    pub tables: Vec<Schema>,
    /// Forget all rows.
    pub drop: bool,
}

/// Reads the answer to [`join`].
///
/// # Errors
/// What is missing or of the wrong type.
pub fn joined(view: &View<'_>) -> Result<Joined, String> {
    let dict = view.dict().ok_or("the answer to .u.asg.join is no dictionary")?;
    Ok(Joined {
        epoch: Epoch(index(dict.get(b"epoch")).unwrap_or_default()),
        log: dict.get(b"log").as_ref().and_then(log_path),
        date: date(&dict)?,
        tip: index(dict.get(b"tip")).ok_or("no tip")?,
        tables: schemas(&dict.get(b"tables").ok_or("no tables")?)?,
        drop: dict.get(b"drop").and_then(|drop| drop.atom::<bool>()).unwrap_or(false),
    })
}

fn date(dict: &DictView<'_>) -> Result<i32, String> {
    dict.get(b"date").and_then(|date| date.atom::<i32>()).ok_or_else(|| "no date".to_string())
}

/// ``(`.u.asg.live; d)``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub first: u64,
    pub tip: u64,
    /// Nodes of the queue that hold something, this one among them.
    pub position: Option<u32>,
    pub log: Option<PathBuf>,
    pub date: i32,
    pub tables: Vec<Schema>,
}

/// ``(`.u.asg.rebuild; d)``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuild {
    pub first: u64,
    pub last: u64,
    pub log: Option<PathBuf>,
    pub date: i32,
    /// Another holds the window until this one is told to show it.
    pub hidden: bool,
}

/// The paper's ``(`.sub.rep; schemas; L; (start; i))``, and stock kdb+tick's answer to the start-up string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    pub tables: Vec<Schema>,
    pub log: Option<PathBuf>,
    pub first: u64,
    pub tip: u64,
}

/// What a tickerplant tells a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Live(Live),
    Rebuild(Rebuild),
    Streamed {
        first: u64,
        last: u64,
    },
    Drop,
    Recheck {
        first: u64,
        last: u64,
    },
    /// Nodes that wait in the queue behind the live one.
    Waiting {
        nodes: u64,
    },
    /// A window that another answers for from now on.
    Handed {
        first: u64,
        last: u64,
    },
    /// A window that this node answers for from now on.
    Show {
        first: u64,
        last: u64,
    },
    /// Nothing is left: the node may end.
    Left,
    Need {
        desired: u32,
    },
    /// How many instances to ask for when a successor is wanted, and those that have joined.
    Group {
        desired: u32,
        joined: Vec<String>,
    },
    Replay(Replay),
    End {
        date: i32,
    },
    Bye {
        reason: String,
    },
    /// A call that a node has no function for, by its name.
    Unknown(String),
}

/// Reads a message that is no update.
///
/// # Errors
/// A known call with arguments that make no sense.
pub fn told(view: &View<'_>) -> Result<Told, String> {
    let mut items = view.list().map(|list| list.iter()).into_iter().flatten();
    let name = items.next().and_then(|name| name.text()).unwrap_or_default();
    let words = String::from_utf8_lossy(name).into_owned();
    let missing = |what: &str| format!("{words}: no {what}");
    let mut next = || items.next();
    let mut window = || -> Result<(u64, u64), String> {
        index(next()).zip(index(next())).filter(|(first, last)| first <= last).ok_or_else(|| missing("window"))
    };
    Ok(match name {
        b".u.asg.live" => {
            let dict = next().and_then(|d| d.dict()).ok_or_else(|| missing("dictionary"))?;
            Told::Live(Live {
                first: index(dict.get(b"first")).ok_or_else(|| missing("first"))?,
                tip: index(dict.get(b"tip")).ok_or_else(|| missing("tip"))?,
                position: index(dict.get(b"position")).and_then(|position| u32::try_from(position).ok()),
                log: dict.get(b"log").and_then(|log| log_path(&log)),
                date: date(&dict)?,
                tables: schemas(&dict.get(b"tables").ok_or_else(|| missing("tables"))?)?,
            })
        }
        b".u.asg.rebuild" => {
            let dict = next().and_then(|d| d.dict()).ok_or_else(|| missing("dictionary"))?;
            Told::Rebuild(Rebuild {
                first: index(dict.get(b"first")).ok_or_else(|| missing("first"))?,
                last: index(dict.get(b"last")).ok_or_else(|| missing("last"))?,
                log: dict.get(b"log").and_then(|log| log_path(&log)),
                date: date(&dict)?,
                hidden: dict.get(b"hidden").and_then(|hidden| hidden.atom::<bool>()).unwrap_or(false),
            })
        }
        b".u.asg.streamed" => window().map(|(first, last)| Told::Streamed { first, last })?,
        b".u.asg.recheck" => window().map(|(first, last)| Told::Recheck { first, last })?,
        b".u.asg.handed" => window().map(|(first, last)| Told::Handed { first, last })?,
        b".u.asg.show" => window().map(|(first, last)| Told::Show { first, last })?,
        b".u.asg.left" => Told::Left,
        b".u.asg.group" => {
            let desired = index(next()).and_then(|desired| u32::try_from(desired).ok());
            let joined = next().and_then(|names| names.vector()).ok_or_else(|| missing("names of instances"))?;
            let joined = joined.symbols().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            Told::Group { desired: desired.ok_or_else(|| missing("number of nodes"))?, joined }
        }
        b".u.asg.drop" => Told::Drop,
        b".u.asg.need" => {
            let desired = index(next()).and_then(|desired| u32::try_from(desired).ok());
            Told::Need { desired: desired.ok_or_else(|| missing("number of nodes"))? }
        }
        b".u.asg.waiting" => Told::Waiting { nodes: index(next()).ok_or_else(|| missing("number of nodes"))? },
        b".u.asg.bye" => {
            let reason = next().and_then(|reason| reason.text()).unwrap_or_default();
            Told::Bye { reason: String::from_utf8_lossy(reason).into_owned() }
        }
        b".u.end" => Told::End { date: next().and_then(|d| d.atom::<i32>()).ok_or_else(|| missing("date"))? },
        b".sub.rep" => {
            let tables = schemas(&next().ok_or_else(|| missing("schemas"))?)?;
            let log = next().and_then(|log| log_path(&log));
            let window = next().and_then(|window| window.vector()).ok_or_else(|| missing("window"))?;
            let at = |i| window.get_i64(i).and_then(|index| u64::try_from(index).ok()).ok_or_else(|| missing("window"));
            Told::Replay(Replay { tables, log, first: at(0)?, tip: at(1)? })
        }
        _ => Told::Unknown(words),
    })
}

/// Reads the answer to the start-up string of `r.q`: `(schemas; (i; L))`, with nulls where the tickerplant has no log.
///
/// # Errors
/// What makes no sense.
pub fn stock_answer(view: &View<'_>) -> Result<Replay, String> {
    let mut items = view.list().map(|list| list.iter()).into_iter().flatten();
    let tables = schemas(&items.next().ok_or("the answer has no schemas")?)?;
    let place: Vec<View<'_>> =
        items.next().and_then(|place| place.list()).map(|l| l.iter().collect()).unwrap_or_default();
    let tip = index(place.first().copied()).unwrap_or(0);
    Ok(Replay { tables, log: place.get(1).and_then(log_path), first: 0, tip })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, HEADER_BYTES, Limits};

    fn object(put: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        put(&mut writer);
        writer.finish().expect("encodes");
        out
    }

    fn view(bytes: &[u8]) -> View<'_> {
        View::parse(bytes, Endian::Little, &Limits::default()).expect("an object").0
    }

    fn put_trade(w: &mut Writer<'_>) {
        w.symbol("trade");
        w.table_head(["time", "sym"]);
        w.vector(types::TIMESPAN, 0, &[] as &[i64]);
        w.vector_head(types::SYMBOL, types::ATTR_GROUPED, 0);
    }

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

    #[test]
    fn schemas_are_read_as_pairs_and_one_after_the_other() {
        let pairs = object(|w| {
            w.list_head(1);
            w.list_head(2);
            put_trade(w);
        });
        let flat = object(|w| {
            w.list_head(2);
            put_trade(w);
        });
        let schemas = [schemas(&view(&pairs)).expect("pairs"), schemas(&view(&flat)).expect("flat")];
        assert_eq!(schemas[0], schemas[1]);
        assert_eq!((schemas[0].len(), schemas[0][0].columns.len()), (1, 2));
    }

    #[test]
    fn the_papers_replay_has_a_window_and_a_log() {
        let message = object(|w| {
            w.list_head(4);
            w.symbol(".sub.rep");
            w.list_head(1);
            w.list_head(2);
            put_trade(w);
            w.symbol(":/data/sym2024.05.01");
            w.vector(types::LONG, 0, &[3i64, 17]);
        });
        let Ok(Told::Replay(replay)) = told(&view(&message)) else { panic!("no replay") };
        assert_eq!((replay.first, replay.tip), (3, 17));
        assert_eq!(replay.log, Some(PathBuf::from("/data/sym2024.05.01")));
    }

    #[test]
    fn a_stock_tickerplant_without_a_log_has_nothing_to_replay() {
        let message = object(|w| {
            w.list_head(2);
            w.list_head(1);
            w.list_head(2);
            put_trade(w);
            w.list_head(2);
            w.null();
            w.null();
        });
        let answer = stock_answer(&view(&message)).expect("an answer");
        assert_eq!((answer.log, answer.first, answer.tip), (None, 0, 0));
    }

    #[test]
    fn calls_with_the_wrong_arguments_are_errors_in_words() {
        let message = object(|w| {
            w.list_head(3);
            w.symbol(".u.asg.recheck");
            w.atom_long(5);
            w.atom_long(2);
        });
        assert_eq!(told(&view(&message)), Err(".u.asg.recheck: no window".to_string()));
    }
}
