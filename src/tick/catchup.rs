//! Reading the log for subscribers that are behind, and putting what is read into their messages. Runs on a thread of its own,
//! since a disk may take its time.

use super::core::batch::Batch;
use super::core::call::Call;
use super::core::older::{Older, older};
use super::core::schema::{Form, Tables};
use super::core::{Stamp, publish};
use super::feed::ReadJob;
use super::lane::LaneSpec;
use super::worker::Worker;
use crate::log::{LogError, LogReader, LogSource, Next, Waker, parts};
use crate::sys::clock;
use bytes::Bytes;
use proto::log::Record;
use proto::{Limits, MessageKind, Writer, encode};
use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Logs held open for subscribers that will ask for more.
const OPEN_READERS: usize = 64;

/// What the thread is to do.
pub enum Job<K> {
    Read(Part<K>),
    /// Nobody is behind any more: a log that is held open is not gone when it is removed.
    LetGo,
}

/// A read, and the log that it is of.
pub struct Part<K> {
    pub read: ReadJob<K>,
    pub log: LogSource,
    /// How long the log may take to show what is to be read.
    pub patience: Duration,
}

/// What was read.
pub struct Done<K> {
    pub subscriber: K,
    pub serial: u64,
    /// Messages, and the index behind the last update that they cover.
    pub outcome: Result<(Bytes, u64), LogError>,
}

/// What reading takes.
#[derive(Clone)]
pub struct Setup {
    pub tables: Arc<Tables>,
    pub limits: Limits,
    pub chunk_bytes: usize,
}

/// Starts the thread.
///
/// # Errors
/// The system's.
pub fn start<K: Copy + Eq + Hash + Send + 'static>(
    setup: Setup,
    waker: Waker,
) -> io::Result<Worker<Job<K>, Option<Done<K>>>> {
    Worker::start("catch-up", 1, waker, move || reading(setup.clone()))
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
            None => LogReader::of(&job.log, setup.limits, setup.chunk_bytes),
        };
        let outcome = reader.and_then(|mut reader| {
            let chunk = read(&setup, &mut reader, &job)?;
            if readers.len() >= OPEN_READERS {
                readers.clear();
            }
            readers.insert(subscriber, reader);
            Ok(chunk)
        });
        Some(Done { subscriber, serial, outcome })
    }
}

fn read<K>(setup: &Setup, reader: &mut LogReader, job: &Part<K>) -> Result<(Bytes, u64), LogError> {
    let read = &job.read;
    if reader.position() != read.from.index {
        reader.seek(read.from.index)?;
    }
    let mut frames = Vec::new();
    let now = clock::now();
    let by = now.checked_add(job.patience).unwrap_or(now);
    loop {
        match reader.next_chunk(read.bytes, read.until)? {
            Next::Chunk(chunk) => {
                for (index, record) in chunk.iter() {
                    append_messages(setup, &read.spec, record, index, &mut frames);
                }
                return Ok((frames.into(), chunk.last_index()));
            }
            // A log that does not have what was written to it is not the log that was written.
            Next::NotYet => reader.reopen_until(read.until, by)?,
        }
    }
}

/// Puts one log record into a lane's message, in the form in which updates travel, whoever wrote the log. A record that is no
/// update of a table of ours is sent as it stands to nodes that take everything, and passed over for others.
fn append_messages(setup: &Setup, spec: &LaneSpec, record: &[u8], index: u64, out: &mut Vec<u8>) {
    let Some(record) = parts(record, &setup.limits) else { return };
    let call = Call { table: record.table, data: record.columns.raw() };
    if record.function != b"upd" {
        return;
    }
    if let Some((table, own)) = setup.tables.find(record.table)
        && let Some(older) = older(own, &record)
    {
        return append_older(setup, spec, table, &older, index, out);
    }
    let mut batch = Batch::default();
    match publish(&setup.tables, &call, Stamp::default(), &setup.limits, &mut batch) {
        Ok(update) if update.rows > 0 => spec.encode(&setup.tables, &batch, &update, index, out),
        // A node that takes everything counts what it refuses; without the record it would see a gap in the indices.
        _ if spec.key.form == Form::Indexed && spec.is_everything() => append_as_logged(&record, index, out),
        _ => {}
    }
}

/// A record that was logged before columns were added. A node gets the columns that were logged, which its proof is of, and fills the
/// others itself; anyone else gets them filled with nulls.
fn append_older(setup: &Setup, spec: &LaneSpec, table: usize, older: &Older<'_>, index: u64, out: &mut Vec<u8>) {
    let (Some(own), Some(filter)) = (setup.tables.get(table), spec.filter(table)) else { return };
    if spec.key.form == Form::Table {
        return spec.encode_columns(&setup.tables, table, &older.filled(own), older.rows, index, out);
    }
    let mut columns = Vec::new();
    if filter.select(own, older.bytes, older.rows, &mut columns) == 0 {
        return;
    }
    append_indexed(&own.name, index, out, |writer| {
        writer.list_head(older.columns);
        writer.raw(&columns);
    });
}

/// A record as it stands in the log, for a node.
fn append_as_logged(record: &Record<'_>, index: u64, out: &mut Vec<u8>) {
    append_indexed(record.table, index, out, |writer| writer.raw(record.columns.raw()));
}

/// The message `` (`upd; table; data; index) ``.
fn append_indexed(table: &[u8], index: u64, out: &mut Vec<u8>, data: impl FnOnce(&mut Writer<'_>)) {
    let start = out.len();
    encode::begin_message(MessageKind::Async, out);
    let mut writer = Writer::new(out);
    writer.list_head(4);
    writer.symbol("upd");
    writer.symbol(table);
    data(&mut writer);
    writer.atom_long(index.cast_signed());
    if writer.finish().is_err() || encode::finish_message(out, start).is_err() {
        out.truncate(start);
    }
}
