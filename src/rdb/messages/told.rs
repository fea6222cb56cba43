//! What a tickerplant says to a node.

use crate::lease::Epoch;
use crate::log::{LogId, MAX_SAMPLES, Sample, WriterId, parts};
use crate::table::{Schema, symbol, wire};
use proto::view::DictView;
use proto::{Limits, View};
use std::path::PathBuf;

/// Reads the answer to [`super::SCHEMAS`].
///
/// # Errors
/// What makes no sense.
pub fn named_schemas(view: &View<'_>) -> Result<Vec<Schema>, String> {
    let dict = view.dict().ok_or("no dictionary of tables")?;
    let names = dict.keys.vector().ok_or("no names of tables")?.symbols();
    let tables = dict.values.list().ok_or("no list of tables")?.iter();
    let schema = |(name, table): (&[u8], View<'_>)| Schema::of(symbol::intern(name).ok()?, &wire::data(&table).ok()?);
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
        Schema::of(name, &wire::data(&table).ok()?)
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

/// The answer to [`super::join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// How often the right to write the log has changed hands.
    pub epoch: Epoch,
    /// Whose log it is; none from a tickerplant without a log, or one that does not tell.
    pub writer: Option<WriterId>,
    pub log: Option<PathBuf>,
    pub date: i32,
    pub tip: u64,
    pub tables: Vec<Schema>,
    /// Forget all rows.
    pub drop: bool,
}

/// Reads the answer to [`super::join`].
///
/// # Errors
/// What is missing or of the wrong type.
pub fn joined(view: &View<'_>) -> Result<Joined, String> {
    let dict = view.dict().ok_or("the answer to .u.asg.join is no dictionary")?;
    let epoch = index(dict.get(b"epoch")).unwrap_or_default();
    let id = |name: &[u8]| -> Option<LogId> { std::str::from_utf8(dict.get(name)?.symbol()?).ok()?.parse().ok() };
    Ok(Joined {
        epoch: Epoch(epoch),
        writer: id(b"id").zip(id(b"writer")).map(|(log, writer)| WriterId { log, epoch, writer }),
        log: dict.get(b"log").as_ref().and_then(log_path),
        date: date(&dict)?,
        tip: index(dict.get(b"tip")).ok_or("no tip")?,
        tables: schemas(&dict.get(b"tables").ok_or("no tables")?)?,
        drop: dict.get(b"drop").and_then(|drop| drop.atom::<bool>()).unwrap_or(false),
    })
}

/// Samples of the log: offset, length and checksum of each in turn; none from a tickerplant that does not tell them.
fn samples(dict: &DictView<'_>) -> Result<Vec<Sample>, String> {
    let Some(words) = dict.get(b"samples") else { return Ok(Vec::new()) };
    let wrong = || "the samples of the log make no sense".to_string();
    let words = words.vector().and_then(|words| words.to_vec::<i64>()).ok_or_else(wrong)?;
    let (samples, []) = words.as_chunks::<3>() else { return Err(wrong()) };
    let sample = |[offset, length, crc]: &[i64; 3]| {
        let (offset_bytes, length_bytes) = (u64::try_from(*offset).ok()?, u64::try_from(*length).ok()?);
        Some(Sample { offset_bytes, length_bytes, crc: u32::try_from(*crc).ok()? })
    };
    samples.iter().take(MAX_SAMPLES).map(sample).collect::<Option<_>>().ok_or_else(wrong)
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
    /// What the log holds.
    pub samples: Vec<Sample>,
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
    /// What the log holds.
    pub samples: Vec<Sample>,
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
    /// A table has changed, by update `index`, or by one that is not this node's to take.
    Schema {
        schema: Schema,
        index: Option<u64>,
    },
    End {
        date: i32,
    },
    Bye {
        reason: String,
    },
    /// A call that a node has no function for, by its name.
    Unknown(String),
}

/// The table of a log's record `` (`.u.schema;`t;empty table) ``; `None` for other records.
pub fn logged_schema(record: &[u8], limits: &Limits) -> Option<Schema> {
    let record = parts(record, limits).filter(proto::log::Record::is_schema)?;
    Schema::of(symbol::intern(record.table).ok()?, &wire::data(&record.columns).ok()?)
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
                samples: samples(&dict)?,
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
                samples: samples(&dict)?,
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
        proto::log::SCHEMA => {
            let name = next().and_then(|name| symbol::intern(name.symbol()?).ok());
            let schema = name.zip(next()).and_then(|(name, table)| Schema::of(name, &wire::data(&table).ok()?));
            Told::Schema { schema: schema.ok_or_else(|| missing("table"))?, index: index(next()) }
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
    use proto::{Endian, Writer, types};

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
