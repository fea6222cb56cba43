//! Messages of a tickerplant to a node, besides updates and responses.

use super::foreign::{self, Replay};
use super::parts::{long, put_path, put_samples, read_samples};
use super::read::{Fields, index_of, path};
use super::{Malformed, names, tables};
use crate::log::Sample;
use crate::net::message;
use crate::table::{Schema, symbol};
use bytes::Bytes;
use proto::{EncodeError, MessageKind, View, Writer};
use std::path::PathBuf;

/// A message to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToNode {
    Live(Live),
    Rebuild(Rebuild),
    /// All of `[first, last)` has been sent.
    Streamed {
        first: u64,
        last: u64,
    },
    /// The proof differs: the node drops the window, which is rebuilt.
    Recheck {
        first: u64,
        last: u64,
    },
    /// Another node serves the window from now on.
    Handed {
        first: u64,
        last: u64,
    },
    /// This node serves the window from now on.
    Show {
        first: u64,
        last: u64,
    },
    /// The node drops all rows.
    Drop,
    /// The node no longer holds anything and may end.
    Left,
    /// The cluster sleeps: the node drops all rows and ends.
    Sleep,
    /// So many nodes are missing: the node asks the fleet for `desired` in total.
    Need {
        desired: u32,
        missing: u32,
    },
    /// Number of instances to request when a successor is needed, and the instances that have joined.
    Group {
        desired: u32,
        joined: Vec<String>,
    },
    /// Number of nodes waiting in the queue after the live one.
    Waiting {
        nodes: u64,
    },
    /// Number of updates of the queue that no connected node serves.
    Unserved {
        updates: u64,
    },
    /// A table has changed at update `index`, or, if that is `None`, at an update that this node does not receive.
    Schema {
        schema: Schema,
        index: Option<u64>,
    },
    /// The day has ended.
    End {
        date: i32,
    },
    /// The tickerplant is shutting down: the node reconnects.
    Bye {
        reason: String,
    },
    /// The paper's tickerplant makes this node live.
    Replay(Replay),
}

/// The node becomes live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub first: u64,
    pub tip: u64,
    /// Number of instances of the node's group without a standby in this queue, including its own; without a group, of nodes of the queue
    /// that hold a window. The node requests one more for its successor.
    pub position: Option<u32>,
    pub log: Option<PathBuf>,
    /// In days since 2000.01.01.
    pub date: i32,
    pub epoch: u64,
    pub tables: Vec<Schema>,
    /// Checksums of parts of the log, to recognise its file.
    pub samples: Vec<Sample>,
}

/// The node rebuilds a closed window from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuild {
    pub first: u64,
    pub last: u64,
    pub log: Option<PathBuf>,
    pub date: i32,
    /// Another node serves the window until this one gets [`ToNode::Show`].
    pub hidden: bool,
    /// Checksums of parts of the log, to recognise its file.
    pub samples: Vec<Sample>,
}

impl ToNode {
    /// Returns the name of the function called.
    pub fn name(&self) -> &'static str {
        match self {
            ToNode::Live(_) => names::LIVE,
            ToNode::Rebuild(_) => names::REBUILD,
            ToNode::Streamed { .. } => names::STREAMED,
            ToNode::Recheck { .. } => names::RECHECK,
            ToNode::Handed { .. } => names::HANDED,
            ToNode::Show { .. } => names::SHOW,
            ToNode::Drop => names::DROP,
            ToNode::Left => names::LEFT,
            ToNode::Sleep => names::SLEEP,
            ToNode::Need { .. } => names::NEED,
            ToNode::Group { .. } => names::GROUP,
            ToNode::Waiting { .. } => names::WAITING,
            ToNode::Unserved { .. } => names::UNSERVED,
            ToNode::Schema { .. } => names::SCHEMA,
            ToNode::End { .. } => names::END,
            ToNode::Bye { .. } => names::BYE,
            ToNode::Replay(_) => names::PAPER_REPLAY,
        }
    }

    /// Encodes the complete message.
    ///
    /// # Errors
    /// A name that cannot be serialised, or a message too long for its header.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        message::message(MessageKind::Async, |writer| {
            let arguments: usize = match self {
                ToNode::Streamed { .. } | ToNode::Recheck { .. } | ToNode::Handed { .. } | ToNode::Show { .. } => 2,
                ToNode::Group { .. } | ToNode::Need { .. } => 2,
                ToNode::Schema { .. } | ToNode::Replay(_) => 3,
                _ => 1,
            };
            writer.list_head(arguments.saturating_add(1));
            writer.symbol(self.name());
            self.put_arguments(writer);
        })
    }

    fn put_arguments(&self, writer: &mut Writer<'_>) {
        match self {
            ToNode::Live(live) => live.put(writer),
            ToNode::Rebuild(rebuild) => rebuild.put(writer),
            ToNode::Streamed { first, last }
            | ToNode::Recheck { first, last }
            | ToNode::Handed { first, last }
            | ToNode::Show { first, last } => {
                writer.atom_long(long(*first));
                writer.atom_long(long(*last));
            }
            ToNode::Drop => writer.atom_bool(false),
            ToNode::Left | ToNode::Sleep => writer.atom_bool(true),
            ToNode::Need { desired, missing } => {
                writer.atom_long(i64::from(*desired));
                writer.atom_long(i64::from(*missing));
            }
            ToNode::Group { desired, joined } => {
                writer.atom_long(i64::from(*desired));
                writer.symbols(joined);
            }
            ToNode::Waiting { nodes: count } | ToNode::Unserved { updates: count } => writer.atom_long(long(*count)),
            ToNode::Schema { schema, index } => {
                writer.symbol(symbol::text(schema.name));
                tables::put_empty(writer, schema);
                writer.atom_long(index.map_or(proto::types::NULL_LONG, long));
            }
            ToNode::End { date } => writer.atom_date(*date),
            ToNode::Bye { reason } => writer.chars(reason),
            ToNode::Replay(replay) => foreign::put_replay(writer, replay),
        }
    }

    /// Decodes a message other than an update; `None` for a function that nodes do not have.
    ///
    /// # Errors
    /// Arguments that are missing or of the wrong type.
    pub fn decode(view: &View<'_>) -> Result<Option<ToNode>, Malformed> {
        let items: Vec<View<'_>> = view.list().map(|list| list.iter().collect()).unwrap_or_default();
        let Some((name, args)) = items.split_first() else { return Ok(None) };
        let Some(name) = name.text().and_then(|name| std::str::from_utf8(name).ok()) else { return Ok(None) };
        let missing = |what: &str| Malformed::of_type(format!("{name}: no {what}"));
        let at = |place: usize| args.get(place).copied();
        let window = || -> Result<(u64, u64), Malformed> {
            let ends = at(0).and_then(index_of).zip(at(1).and_then(index_of));
            ends.filter(|(first, last)| first <= last).ok_or_else(|| missing("window"))
        };
        let count = || at(0).and_then(index_of).ok_or_else(|| missing("number of nodes"));
        let desired = || u32::try_from(count()?).map_err(|_| missing("number of nodes"));
        Ok(Some(match name {
            names::LIVE => ToNode::Live(Live::read(&Fields::of(names::LIVE, args.first())?)?),
            names::REBUILD => ToNode::Rebuild(Rebuild::read(&Fields::of(names::REBUILD, args.first())?)?),
            names::STREAMED => window().map(|(first, last)| ToNode::Streamed { first, last })?,
            names::RECHECK => window().map(|(first, last)| ToNode::Recheck { first, last })?,
            names::HANDED => window().map(|(first, last)| ToNode::Handed { first, last })?,
            names::SHOW => window().map(|(first, last)| ToNode::Show { first, last })?,
            names::DROP => ToNode::Drop,
            names::LEFT => ToNode::Left,
            names::SLEEP => ToNode::Sleep,
            names::NEED => {
                let desired = desired()?;
                // Older releases did not say how many are missing.
                let more = at(1).and_then(index_of).and_then(|nodes| u32::try_from(nodes).ok());
                ToNode::Need { desired, missing: more.unwrap_or(desired) }
            }
            names::GROUP => {
                let joined = at(1).and_then(|names| names.vector()).ok_or_else(|| missing("names of instances"))?;
                let joined = joined.symbols().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
                ToNode::Group { desired: desired()?, joined }
            }
            names::WAITING => ToNode::Waiting { nodes: count()? },
            names::UNSERVED => {
                ToNode::Unserved { updates: at(0).and_then(index_of).ok_or_else(|| missing("number of updates"))? }
            }
            names::SCHEMA => {
                let schema = at(0).zip(at(1)).and_then(|(name, table)| tables::read(name, table));
                ToNode::Schema { schema: schema.ok_or_else(|| missing("table"))?, index: at(2).and_then(index_of) }
            }
            names::END => {
                ToNode::End { date: at(0).and_then(|date| date.atom::<i32>()).ok_or_else(|| missing("date"))? }
            }
            names::BYE => {
                let reason = at(0).and_then(|reason| reason.text()).unwrap_or_default();
                ToNode::Bye { reason: String::from_utf8_lossy(reason).into_owned() }
            }
            names::PAPER_REPLAY => ToNode::Replay(foreign::read_replay(args)?),
            _ => return Ok(None),
        }))
    }
}

impl Live {
    fn put(&self, writer: &mut Writer<'_>) {
        writer.dict_head();
        let keys = ["first", "tip", "position", "log", "date", "epoch", "tables", "samples"];
        writer.symbols(keys);
        writer.list_head(keys.len());
        writer.atom_long(long(self.first));
        writer.atom_long(long(self.tip));
        writer.atom_long(self.position.map_or(proto::types::NULL_LONG, i64::from));
        put_path(writer, self.log.as_deref());
        writer.atom_date(self.date);
        writer.atom_long(long(self.epoch));
        tables::put_pairs(writer, self.tables.iter());
        put_samples(writer, &self.samples);
    }

    fn read(fields: &Fields<'_>) -> Result<Live, Malformed> {
        Ok(Live {
            first: fields.must("first", index_of)?,
            tip: fields.must("tip", index_of)?,
            position: fields.count("position")?.and_then(|position| u32::try_from(position).ok()),
            log: fields.get("log").and_then(|log| path(&log)),
            date: fields.must("date", |date| date.atom::<i32>())?,
            epoch: fields.count("epoch")?.unwrap_or_default(),
            tables: tables::read_pairs(&fields.must("tables", Some)?)?,
            samples: read_samples(fields)?,
        })
    }
}

impl Rebuild {
    fn put(&self, writer: &mut Writer<'_>) {
        writer.dict_head();
        let keys = ["first", "last", "log", "date", "hidden", "samples"];
        writer.symbols(keys);
        writer.list_head(keys.len());
        writer.atom_long(long(self.first));
        writer.atom_long(long(self.last));
        put_path(writer, self.log.as_deref());
        writer.atom_date(self.date);
        writer.atom_bool(self.hidden);
        put_samples(writer, &self.samples);
    }

    fn read(fields: &Fields<'_>) -> Result<Rebuild, Malformed> {
        Ok(Rebuild {
            first: fields.must("first", index_of)?,
            last: fields.must("last", index_of)?,
            log: fields.get("log").and_then(|log| path(&log)),
            date: fields.must("date", |date| date.atom::<i32>())?,
            hidden: fields.atom::<bool>("hidden")?.unwrap_or(false),
            samples: read_samples(fields)?,
        })
    }
}
