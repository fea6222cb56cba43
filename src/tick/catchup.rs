//! Reads the log for subscribers in catch-up and encodes it as their messages. Runs on its own thread, because a disk read may block.

use super::core::batch::Batch;
use super::core::call::Call;
use super::core::older::{Older, older};
use super::core::schema::{Current, Form, Tables};
use super::core::{Accepted, Rules, Stamp, publish};
use super::feed::{CaughtUp, ReadJob};
use super::lane::LaneSpec;
use super::worker::Worker;
use crate::env::Env;
use crate::log::{LogError, LogReader, LogSource, Next, Waker, parts};
use crate::points::{self, Point};
use proto::log::Record;
use proto::{Limits, MessageKind, Writer, encode};
use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Log readers kept open between two reads of their subscribers.
const OPEN_READERS: usize = 64;

/// Job of the catch-up thread.
pub enum Job<K> {
    Read(Part<K>),
    /// No subscriber is in catch-up: close the open logs, because a removed file keeps its disk space while it is open.
    CloseLog,
}

/// One read, and the log to read from.
pub struct Part<K> {
    pub read: ReadJob<K>,
    pub log: LogSource,
    /// How long to wait until the log shows the requested updates.
    pub visible_within: Duration,
}

/// Result of a read.
pub struct Done<K> {
    pub subscriber: K,
    pub serial: u64,
    pub outcome: Result<CaughtUp, LogError>,
}

/// What the catch-up thread needs for every read.
#[derive(Clone)]
pub struct Setup {
    pub env: Env,
    pub tables: Current,
    pub limits: Limits,
    pub chunk_bytes: usize,
}

/// Starts the thread.
///
/// # Errors
/// The operating system's, if no thread can be started.
pub fn start<K: Copy + Eq + Hash + Send + 'static>(
    setup: Setup,
    waker: Waker,
) -> io::Result<Worker<Job<K>, Option<Done<K>>>> {
    let spawner = Arc::clone(&setup.env.spawner);
    Worker::start(&*spawner, "catch-up", (1, false), waker, move || reading(setup.clone()))
}

fn reading<K: Copy + Eq + Hash>(setup: Setup) -> impl FnMut(Job<K>) -> Option<Done<K>> {
    let mut readers: HashMap<K, LogReader> = HashMap::new();
    move |job: Job<K>| {
        let Job::Read(job) = job else {
            readers.clear();
            return None;
        };
        let (subscriber, serial) = (job.read.subscriber, job.read.serial);
        let reader = match readers.remove(&subscriber).filter(|reader| reader.path() == job.log.path()) {
            Some(reader) => Ok(reader),
            None => LogReader::of(&setup.env, &job.log, setup.limits, setup.chunk_bytes),
        };
        let outcome = reader.and_then(|mut reader| {
            let chunk = read(&setup, &mut reader, &job)?;
            points::reach(Point::CatchUpRead);
            if readers.len() >= OPEN_READERS {
                readers.clear();
            }
            readers.insert(subscriber, reader);
            Ok(chunk)
        });
        Some(Done { subscriber, serial, outcome })
    }
}

fn read<K>(setup: &Setup, reader: &mut LogReader, job: &Part<K>) -> Result<CaughtUp, LogError> {
    let read = &job.read;
    if reader.position() != read.from.index {
        reader.seek(read.from.index)?;
    }
    let tables = setup.tables.get();
    let (mut frames, mut rows) = (Vec::new(), 0u64);
    let now = setup.env.clock.now();
    let by = now.checked_add(job.visible_within).unwrap_or(now);
    loop {
        match reader.next_chunk(read.bytes, read.until)? {
            Next::Chunk(chunk) => {
                for (index, record) in chunk.iter() {
                    let sent = append_messages(setup, &tables, &read.spec, record, index, &mut frames);
                    rows = rows.saturating_add(sent as u64);
                }
                return Ok(CaughtUp { messages: frames.into(), reached: chunk.last_index(), rows });
            }
            // The file lacks updates that were accepted: the sync thread has yet to write them, or another file is at this path.
            Next::NotYet => reader.reopen_until(read.until, by)?,
        }
    }
}

/// Appends one log record to `out` in the wire form of a fan-out group, whichever program wrote the log. A record that is not an update
/// of a known table goes only to nodes that subscribe to everything; other subscribers skip it. Returns the rows of an update.
fn append_messages(
    setup: &Setup,
    tables: &Tables,
    spec: &LaneSpec,
    record: &[u8],
    index: u64,
    out: &mut Vec<u8>,
) -> usize {
    // A node that subscribes to everything counts records that it rejects; without a message it would see a gap in the indices.
    let is_whole_node = spec.key.form == Form::Indexed && spec.is_everything();
    let Some(record) = parts(record, &setup.limits) else {
        spec.encode_other(b"", index, out);
        return 0;
    };
    if record.is_schema() {
        let wants = tables.find(record.table).is_some_and(|(table, _)| spec.filter(table).is_some());
        if spec.key.form == Form::Indexed && (wants || is_whole_node) {
            append_call(proto::log::SCHEMA, record.table, index, out, |writer| writer.raw(record.columns.raw()));
        }
        return 0;
    }
    if record.function != b"upd" {
        // The record calls another function: no node holds it, and its columns must not be taken for those of an update.
        spec.encode_other(record.table, index, out);
        return 0;
    }
    let call = Call { table: record.table, data: record.columns.raw() };
    if let Some((table, own)) = tables.find(record.table)
        && let Some(older) = older(own, &record)
    {
        return append_older(tables, spec, table, &older, index, out);
    }
    let mut batch = Batch::default();
    match publish(tables, &call, Stamp::default(), Rules::exact(&setup.limits), &mut batch) {
        Ok(Accepted { update, .. }) if update.rows > 0 => spec.encode(tables, &batch, &update, index, out),
        _ if is_whole_node => {
            append_as_logged(&record, index, out);
            0
        }
        _ => 0,
    }
}

/// Appends a record that was logged before columns were added. A node gets the logged columns, which its proof covers, and fills the
/// others itself; other subscribers get nulls in them. Returns the rows.
fn append_older(
    tables: &Tables,
    spec: &LaneSpec,
    table: usize,
    older: &Older<'_>,
    index: u64,
    out: &mut Vec<u8>,
) -> usize {
    let (Some(own), Some(filter)) = (tables.get(table), spec.filter(table)) else { return 0 };
    if spec.key.form == Form::Table {
        return spec.encode_columns(tables, table, &older.filled(own), older.rows, index, out);
    }
    let mut columns = Vec::new();
    let rows = filter.select(own, older.bytes, older.rows, &mut columns);
    if rows > 0 {
        append_indexed(&own.name, index, out, |writer| {
            writer.list_head(older.columns);
            writer.raw(&columns);
        });
    }
    rows
}

/// Appends a record as it is in the log, for a node.
fn append_as_logged(record: &Record<'_>, index: u64, out: &mut Vec<u8>) {
    append_indexed(record.table, index, out, |writer| writer.raw(record.columns.raw()));
}

/// Appends the message `` (`upd; table; data; index) ``.
fn append_indexed(table: &[u8], index: u64, out: &mut Vec<u8>, data: impl FnOnce(&mut Writer<'_>)) {
    append_call(b"upd", table, index, out, data);
}

/// Appends the message `` (function; table; data; index) ``.
fn append_call(function: &[u8], table: &[u8], index: u64, out: &mut Vec<u8>, data: impl FnOnce(&mut Writer<'_>)) {
    let start = out.len();
    encode::begin_message(MessageKind::Async, out);
    let mut writer = Writer::new(out);
    writer.list_head(4);
    writer.symbol(function);
    writer.symbol(table);
    data(&mut writer);
    writer.atom_long(index.cast_signed());
    if writer.finish().is_err() || encode::finish_message(out, start).is_err() {
        out.truncate(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Attr;
    use crate::table::schema::{ColumnSchema, Schema};
    use crate::table::symbol::intern;
    use crate::tick::filter::Symbols;
    use crate::tick::lane::LaneKey;
    use proto::{Value, View};

    fn tables() -> Tables {
        let sym = |text: &str| intern(text.as_bytes()).unwrap();
        let column = |(name, ty)| ColumnSchema { name: sym(name), ty, attr: Attr::None };
        let columns = [("time", 16), ("sym", 11), ("cond", 10)].map(column).to_vec();
        Tables::new([Schema { name: sym("trade"), columns, keys: 0 }]).unwrap()
    }

    /// Messages that a fan-out group of all of `trade` gets from a log with a schema change, as (function, other items).
    fn sent(form: Form) -> Vec<(String, Vec<Value>)> {
        let tables = tables();
        let call = |items: [Value; 3]| Value::list(items);
        let (upd, trade) = (|| Value::symbol("upd"), || Value::symbol("trade"));
        let old = || [Value::timespans(vec![1]), Value::symbols(["a"])];
        let new = || Value::list(old().into_iter().chain([Value::chars("x")]));
        let mut change = messages_schema(&tables);
        let mut records: Vec<Vec<u8>> = [
            call([upd(), trade(), Value::list(old())]),
            call([upd(), trade(), new()]),
            call([Value::symbol("insert"), trade(), new()]),
            Value::list([Value::symbol("f"), Value::Long(1)]),
        ]
        .iter()
        .map(|record| {
            let mut bytes = Vec::new();
            encode::encode_object(record, &mut bytes).unwrap();
            bytes
        })
        .collect();
        records.insert(1, std::mem::take(&mut change));
        let setup = Setup {
            env: Env::system(),
            tables: Current::new(std::sync::Arc::new(tables.clone())),
            limits: Limits::default(),
            chunk_bytes: 1 << 16,
        };
        let key = LaneKey { tables: vec![Some(Symbols::All)], form, merged: false, compress: false };
        let spec = LaneSpec::new(key);
        let mut sent = Vec::new();
        for (record, index) in records.iter().zip(0..) {
            let mut out = Vec::new();
            append_messages(&setup, &tables, &spec, record, index, &mut out);
            let Some(body) = out.get(8..).filter(|body| !body.is_empty()) else { continue };
            let (view, _) = View::parse(body, proto::Endian::Little, &Limits::default()).unwrap();
            let items: Vec<View<'_>> = view.list().unwrap().iter().collect();
            let name = String::from_utf8_lossy(items[0].symbol().unwrap()).into_owned();
            sent.push((name, items[1..].iter().map(|item| item.to_value()).collect()));
        }
        sent
    }

    fn messages_schema(tables: &Tables) -> Vec<u8> {
        crate::protocol::tables::schema_record(&tables.get(0).unwrap().schema).unwrap()
    }

    #[test]
    fn a_stock_subscriber_is_sent_all_columns_of_every_update_and_nothing_of_the_change() {
        let sent = sent(Form::Table);
        assert_eq!(sent.len(), 2);
        for ((name, items), cond) in sent.iter().zip([" ", "x"]) {
            let (time, sym) = (Value::timespans(vec![1]), Value::symbols(["a"]));
            let table = Value::table([("time", time), ("sym", sym), ("cond", Value::chars(cond))]);
            assert_eq!((name.as_str(), items), ("upd", &vec![Value::symbol("trade"), table]));
        }
    }

    #[test]
    fn a_node_is_sent_a_message_for_every_record_so_that_it_sees_no_gap() {
        let sent = sent(Form::Indexed);
        let names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["upd", ".u.schema", "upd", "upd", "upd"]);
        let indices: Vec<&Value> = sent.iter().map(|(_, items)| &items[2]).collect();
        assert_eq!(indices, (0..5).map(Value::Long).collect::<Vec<_>>().iter().collect::<Vec<_>>());
        // A record that is not a call of `upd` has no columns to send.
        let empty = Value::list([]);
        assert_eq!(sent[3].1[..2], [Value::symbol("trade"), empty.clone()]);
        assert_eq!(sent[4].1[..2], [Value::symbol(""), empty]);
    }
}
