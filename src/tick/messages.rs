//! What the tickerplant tells subscribers, besides updates, and the values of `.u`. `ARCHITECTURE.md` section 4 has the table.

use super::core::schema::{TableSpec, Tables};
use crate::log::{LogId, Sample, WriterId};
use crate::net::message;
use crate::queue::Window;
use crate::table::schema::ColumnSchema;
use crate::table::wire::attribute_code;
use bytes::Bytes;
use proto::{MessageKind, Writer, types};

/// Where updates of a day are, as a node must know it.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The log's file handle, `:` and a path; empty without a log.
    pub log: &'a [u8],
    pub date: i32,
    /// Who writes the log; none without a log.
    pub writer: Option<WriterId>,
    pub tip: u64,
    /// What the log holds.
    pub samples: Vec<Sample>,
}

impl Place<'_> {
    fn put_samples(&self, writer: &mut Writer<'_>) {
        let words = |of: &Sample| [long(of.offset_bytes), long(of.length_bytes), i64::from(of.crc)];
        let words: Vec<i64> = self.samples.iter().flat_map(words).collect();
        writer.vector(types::LONG, types::ATTR_NONE, &words);
    }

    fn epoch(&self) -> i64 {
        long(self.writer.map_or(0, |of| of.epoch))
    }
}

/// An update index as q has it.
pub fn long(index: u64) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// An empty table as subscribers get it: `` `g# `` on `sym`, whatever the schema says; a keyed one as it is.
pub fn put_empty_table(writer: &mut Writer<'_>, spec: &TableSpec) {
    let put = |writer: &mut Writer<'_>, range: std::ops::Range<usize>, grouped: bool| {
        let names = spec.column_names.get(range.clone()).unwrap_or_default();
        writer.table_head(names);
        let columns: &[ColumnSchema] = spec.schema.columns.get(range).unwrap_or_default();
        for (column, name) in columns.iter().zip(names) {
            let attr = if grouped && name == b"sym" { types::ATTR_GROUPED } else { attribute_code(column.attr) };
            writer.vector_head(column.ty, attr, 0);
        }
    };
    let keys = spec.schema.keys.min(spec.columns.len());
    if keys == 0 {
        put(writer, 0..spec.columns.len(), true);
    } else {
        writer.dict_head();
        put(writer, 0..keys, false);
        put(writer, keys..spec.columns.len(), false);
    }
}

/// A pair `(name; empty table)`.
pub fn put_pair(writer: &mut Writer<'_>, spec: &TableSpec) {
    writer.list_head(2);
    writer.symbol(&spec.name);
    put_empty_table(writer, spec);
}

/// The log's record of a table that has changed: `` (`.u.schema;`t;empty table) ``.
///
/// # Errors
/// Names that cannot travel.
pub fn schema_record(spec: &TableSpec) -> Result<Vec<u8>, proto::EncodeError> {
    let mut record = Vec::new();
    let mut writer = Writer::new(&mut record);
    writer.list_head(3);
    writer.symbol(proto::log::SCHEMA);
    writer.symbol(&spec.name);
    put_empty_table(&mut writer, spec);
    writer.finish()?;
    Ok(record)
}

/// ``(`.u.schema; t; empty table; index)``, the index null to a node that is not fed.
pub fn schema(spec: &TableSpec, index: Option<u64>) -> Bytes {
    call(".u.schema", 3, |writer| {
        writer.symbol(&spec.name);
        put_empty_table(writer, spec);
        writer.atom_long(index.map_or(i64::MIN, long));
    })
}

/// Pairs for the tables given.
pub fn put_pairs(writer: &mut Writer<'_>, tables: &Tables, chosen: &[usize]) {
    writer.list_head(chosen.len());
    chosen.iter().filter_map(|table| tables.get(*table)).for_each(|spec| put_pair(writer, spec));
}

fn call(name: &str, arguments: usize, put: impl FnOnce(&mut Writer<'_>)) -> Bytes {
    let sent = message::message(MessageKind::Async, |writer| {
        writer.list_head(arguments.saturating_add(1));
        writer.symbol(name);
        put(writer);
    });
    sent.unwrap_or_else(|error| {
        // Names come from a schema or a handshake and were checked for what cannot travel.
        ::log::error!("{name} cannot be sent: {error}");
        Bytes::new()
    })
}

/// ``(`.u.end; date)``.
pub fn end(date: i32) -> Bytes {
    call(".u.end", 1, |writer| writer.atom_date(date))
}

/// ``(`.u.asg.live; d)``.
pub fn live(tables: &Tables, chosen: &[usize], place: Place<'_>, first: u64, position: usize) -> Bytes {
    call(".u.asg.live", 1, |writer| {
        writer.dict_head();
        let keys = ["first", "tip", "position", "log", "date", "epoch", "tables", "samples"];
        writer.symbols(keys);
        writer.list_head(keys.len());
        writer.atom_long(long(first));
        writer.atom_long(long(place.tip));
        writer.atom_long(long(position as u64));
        writer.symbol(place.log);
        writer.atom_date(place.date);
        writer.atom_long(place.epoch());
        put_pairs(writer, tables, chosen);
        place.put_samples(writer);
    })
}

/// ``(`.u.asg.rebuild; d)``.
pub fn rebuild(place: Place<'_>, window: Window, hidden: bool) -> Bytes {
    call(".u.asg.rebuild", 1, |writer| {
        writer.dict_head();
        let keys = ["first", "last", "log", "date", "hidden", "samples"];
        writer.symbols(keys);
        writer.list_head(keys.len());
        writer.atom_long(long(window.first().0));
        writer.atom_long(long(window.last().0));
        writer.symbol(place.log);
        writer.atom_date(place.date);
        writer.atom_bool(hidden);
        place.put_samples(writer);
    })
}

/// The paper's ``(`.sub.rep; schemas; L; (start; i))``.
pub fn paper_replay(tables: &Tables, chosen: &[usize], log: &[u8], first: u64, last: u64) -> Bytes {
    call(".sub.rep", 3, |writer| {
        put_pairs(writer, tables, chosen);
        writer.symbol(log);
        writer.vector(types::LONG, types::ATTR_NONE, &[long(first), long(last)]);
    })
}

/// ``(`.u.asg.streamed; first; last)``.
pub fn streamed(first: u64, last: u64) -> Bytes {
    window_call(".u.asg.streamed", first, last)
}

/// ``(`.u.asg.recheck; first; last)``.
pub fn recheck(window: Window) -> Bytes {
    window_call(".u.asg.recheck", window.first().0, window.last().0)
}

/// ``(`.u.asg.handed; first; last)``.
pub fn handed(window: Window) -> Bytes {
    window_call(".u.asg.handed", window.first().0, window.last().0)
}

/// ``(`.u.asg.show; first; last)``.
pub fn show(window: Window) -> Bytes {
    window_call(".u.asg.show", window.first().0, window.last().0)
}

fn window_call(name: &str, first: u64, last: u64) -> Bytes {
    call(name, 2, |writer| {
        writer.atom_long(long(first));
        writer.atom_long(long(last));
    })
}

/// ``(`.u.asg.drop; 0b)``.
pub fn drop_all() -> Bytes {
    call(".u.asg.drop", 1, |writer| writer.atom_bool(false))
}

/// ``(`.u.asg.need; desired)``.
pub fn need(desired: usize) -> Bytes {
    call(".u.asg.need", 1, |writer| writer.atom_long(long(desired as u64)))
}

/// ``(`.u.asg.left; 1b)``.
pub fn left() -> Bytes {
    call(".u.asg.left", 1, |writer| writer.atom_bool(true))
}

/// ``(`.u.asg.group; desired; joined)``.
pub fn group(desired: usize, joined: &[Vec<u8>]) -> Bytes {
    call(".u.asg.group", 2, |writer| {
        writer.atom_long(long(desired as u64));
        writer.symbols(joined);
    })
}

/// ``(`.u.asg.waiting; nodes)``.
pub fn waiting(nodes: usize) -> Bytes {
    call(".u.asg.waiting", 1, |writer| writer.atom_long(long(nodes as u64)))
}

/// ``(`.u.asg.bye; "reason")``.
pub fn bye(reason: &str) -> Bytes {
    call(".u.asg.bye", 1, |writer| writer.chars(reason))
}

/// Puts the answer to `.u.asg.join`.
pub fn put_joined(writer: &mut Writer<'_>, tables: &Tables, chosen: &[usize], place: Place<'_>, drop: bool) {
    writer.dict_head();
    let keys = ["epoch", "date", "tip", "log", "tables", "drop", "id", "writer"];
    writer.symbols(keys);
    writer.list_head(keys.len());
    writer.atom_long(place.epoch());
    writer.atom_date(place.date);
    writer.atom_long(long(place.tip));
    writer.symbol(place.log);
    put_pairs(writer, tables, chosen);
    writer.atom_bool(drop);
    let text = |id: Option<LogId>| id.map(|id| id.to_string()).unwrap_or_default();
    writer.symbol(text(place.writer.map(|of| of.log)));
    writer.symbol(text(place.writer.map(|of| of.writer)));
}
