//! Join of a node, and the tickerplant's response.

use super::from_node::read_when;
use super::parts::{long, put_id, put_path, read_id};
use super::read::{Fields, index_of, path, short};
use super::subscription::{Filter, subscription};
use super::{Malformed, VERSION, names, tables};
use crate::lease::Epoch;
use crate::log::WriterId;
use crate::net::message;
use crate::queue::{Leaving, OpenWindow, Subscription, UpdateIndex, Window};
use crate::table::Schema;
use bytes::Bytes;
use proto::{EncodeError, MessageKind, View, Writer, types};
use std::path::PathBuf;

/// State of a node when it joins. `S` is its subscription: a [`Filter`] when encoded, tables and symbols when decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join<S = Filter> {
    pub node: Vec<u8>,
    pub queue: Vec<u8>,
    pub subscription: S,
    /// Port for queries.
    pub port: Option<u16>,
    /// Day that its rows belong to, in days since 2000.01.01; `None` if it has no rows.
    pub date: Option<i32>,
    /// Closed windows that it holds completely.
    pub held: Vec<Window>,
    /// Its open window, if it is live.
    pub open: Option<OpenWindow>,
    /// Group of the fleet and id of this instance; `None` without a fleet.
    pub group: Option<Vec<u8>>,
    pub instance: Option<Vec<u8>>,
    /// Random id of the process, which tells it apart from another one of the same name; older versions send none.
    pub process: Option<Vec<u8>>,
    /// Name under which the process has a lease of its own; `None` without one.
    pub owner: Option<Vec<u8>>,
    /// Writer of the log from which its rows come.
    pub writer: Option<WriterId>,
    /// Set if the node is about to leave.
    pub leaving: Option<Leaving>,
}

impl Join {
    /// Appends the call ``(`.u.asg.join; d)``.
    ///
    /// # Errors
    /// A name that cannot be serialised.
    pub fn append(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        message::append(out, MessageKind::Sync, |writer| {
            writer.list_head(2);
            writer.symbol(names::JOIN);
            self.put(writer);
        })
    }

    fn put(&self, writer: &mut Writer<'_>) {
        let optional = [
            (self.group.is_some(), &["group"][..]),
            (self.instance.is_some(), &["instance"]),
            (self.process.is_some(), &["process"]),
            (self.owner.is_some(), &["owner"]),
            (self.writer.is_some(), &["id", "epoch", "writer"]),
            (self.leaving.is_some(), &["by", "replaced"]),
        ];
        let always = ["proto", "node", "queue", "tabs", "syms", "port", "date", "held", "live", "first", "next"];
        let optional = optional.iter().filter(|(is_there, _)| *is_there).flat_map(|(_, keys)| keys.iter().copied());
        let keys: Vec<&str> = always.into_iter().chain(optional).collect();
        writer.dict_head();
        writer.symbols(&keys);
        writer.list_head(keys.len());
        writer.atom_long(VERSION);
        writer.symbol(&self.node);
        writer.symbol(&self.queue);
        self.subscription.put(writer);
        writer.atom_int(i32::from(self.port.unwrap_or_default()));
        writer.atom_date(self.date.unwrap_or(types::NULL_INT));
        let held: Vec<i64> = self.held.iter().flat_map(|of| [long(of.first().0), long(of.last().0)]).collect();
        writer.vector(types::LONG, types::ATTR_NONE, &held);
        writer.atom_bool(self.open.is_some());
        writer.atom_long(self.open.map_or(types::NULL_LONG, |open| long(open.first.0)));
        writer.atom_long(self.open.map_or(types::NULL_LONG, |open| long(open.next.0)));
        for name in [&self.group, &self.instance, &self.process, &self.owner].into_iter().flatten() {
            writer.symbol(name);
        }
        if let Some(of) = self.writer {
            put_id(writer, Some(of.log));
            writer.atom_long(long(of.epoch));
            put_id(writer, Some(of.writer));
        }
        if let Some(leaving) = self.leaving {
            writer.atom_timestamp(leaving.by_ns);
            writer.atom_bool(leaving.replaced);
        }
    }
}

impl Join<Subscription> {
    /// Decodes the call's arguments.
    ///
    /// # Errors
    /// `nyi` for another version; `type` for a value that is missing or of the wrong type; `limit` for a name that is too long.
    pub fn decode(args: &[View<'_>]) -> Result<Join<Subscription>, Malformed> {
        let fields = Fields::of("join", args.first())?;
        if fields.must("proto", |version| version.atom::<i64>())? != VERSION {
            let detail = format!("join: only protocol {VERSION} is supported");
            return Err(Malformed { term: "nyi", detail });
        }
        let name = |key: &str| {
            let text = fields.text(key)?.ok_or_else(|| fields.wrong(key))?;
            short(key, text).map(<[u8]>::to_vec)
        };
        let live = fields.atom::<bool>("live")?.unwrap_or(false);
        let index = |key: &str| Ok::<_, Malformed>(fields.count(key)?.map(UpdateIndex));
        let open = match (live, index("first")?, index("next")?) {
            (true, Some(first), Some(next)) => Some(OpenWindow { first, next }),
            _ => None,
        };
        Ok(Join {
            node: name("node")?,
            queue: name("queue")?,
            subscription: subscription(&fields.must("tabs", Some)?, &fields.must("syms", Some)?)?,
            port: fields.atom::<i32>("port")?.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0),
            date: fields.atom::<i32>("date")?.filter(|date| *date != types::NULL_INT),
            held: fields.must("held", windows)?,
            open,
            group: fields.name("group")?,
            instance: fields.name("instance")?,
            process: fields.name("process")?,
            owner: fields.name("owner")?,
            writer: read_writer(&fields)?,
            leaving: read_when(&fields)?,
        })
    }
}

/// Decodes windows from `first0 last0 first1 last1 …`.
fn windows(view: View<'_>) -> Option<Vec<Window>> {
    let ends = view.vector()?.to_vec::<i64>()?;
    let (pairs, []) = ends.as_chunks::<2>() else { return None };
    let index = |i: i64| u64::try_from(i).ok().map(UpdateIndex);
    pairs.iter().map(|[first, last]| Window::new(index(*first)?, index(*last)?)).collect()
}

/// Decodes the writer from the keys `id`, `epoch` and `writer`; `None` if any of them is missing.
fn read_writer(fields: &Fields<'_>) -> Result<Option<WriterId>, Malformed> {
    let epoch = fields.count("epoch")?;
    let ids = read_id(fields, "id").zip(read_id(fields, "writer"));
    Ok(ids.zip(epoch).map(|((log, writer), epoch)| WriterId { log, epoch, writer }))
}

/// Response to [`Join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Epoch of the log's writer.
    pub epoch: Epoch,
    /// Writer of the log; `None` from a tickerplant without a log, or an older one.
    pub writer: Option<WriterId>,
    pub log: Option<PathBuf>,
    pub date: i32,
    pub tip: u64,
    pub tables: Vec<Schema>,
    /// The node must drop all rows.
    pub drop: bool,
}

impl Joined {
    /// Returns the name of the response among the messages to a node.
    pub fn name(&self) -> &'static str {
        if self.drop { names::DROP } else { names::JOINED }
    }

    /// Encodes the complete response.
    ///
    /// # Errors
    /// A name that cannot be serialised, or a message too long for its header.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        message::message(MessageKind::Response, |writer| {
            writer.dict_head();
            let keys = ["epoch", "date", "tip", "log", "tables", "drop", "id", "writer"];
            writer.symbols(keys);
            writer.list_head(keys.len());
            writer.atom_long(long(self.epoch.0));
            writer.atom_date(self.date);
            writer.atom_long(long(self.tip));
            put_path(writer, self.log.as_deref());
            tables::put_pairs(writer, self.tables.iter());
            writer.atom_bool(self.drop);
            put_id(writer, self.writer.map(|of| of.log));
            put_id(writer, self.writer.map(|of| of.writer));
        })
    }

    /// Decodes the response.
    ///
    /// # Errors
    /// A value that is missing or of the wrong type.
    pub fn decode(view: &View<'_>) -> Result<Joined, Malformed> {
        let fields = Fields::of("the reply to .u.asg.join", Some(view))?;
        let epoch = fields.count("epoch")?;
        Ok(Joined {
            epoch: Epoch(epoch.unwrap_or_default()),
            writer: read_writer(&fields)?,
            log: fields.get("log").and_then(|log| path(&log)),
            date: fields.must("date", |date| date.atom::<i32>())?,
            tip: fields.must("tip", index_of)?,
            tables: tables::read_pairs(&fields.must("tables", Some)?)?,
            drop: fields.atom::<bool>("drop")?.unwrap_or(false),
        })
    }
}
