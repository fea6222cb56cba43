//! The updates of a model's days, as bytes: the publisher's messages, and the log that must result. They are encoded by hand, not by the
//! code under test.

use bytes::Bytes;
use elastick::env::{Disk, LogFile, Open, WriterProcess};
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most days of a model.
pub const DAYS: usize = 3;
/// Most updates of a model.
pub const UPDATES: usize = 15;
/// Rows of an update: enough for a node to check its memory after each.
pub const ROWS: usize = 1024;
pub const TABLE: &str = "trade";
/// The first day, counted from 2000.01.01.
pub const FIRST_DATE: i32 = 9_821;
/// Directory of the log.
pub const LOG_DIR: &str = "/logs";

const LONG: u8 = 7;
const TIMESPAN: u8 = 16;
const SYMBOL_ATOM: u8 = 245;
const HEAD: [u8; 8] = [0xff, 1, 0, 0, 0, 0, 0, 0];

/// Returns the number in each row of an update; it is unique in a model.
pub fn number(day: usize, index: usize) -> i64 {
    i64::try_from(day.saturating_mul(1000).saturating_add(index).saturating_add(1)).unwrap_or(0)
}

fn list(count: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0, count, 0, 0, 0]);
}

fn symbol(text: &str, out: &mut Vec<u8>) {
    out.push(SYMBOL_ATOM);
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn columns(number: i64, out: &mut Vec<u8>) {
    list(2, out);
    for ty in [TIMESPAN, LONG] {
        out.extend_from_slice(&[ty, 0]);
        out.extend_from_slice(&u32::try_from(ROWS).unwrap_or(0).to_le_bytes());
        (0..ROWS).for_each(|_| out.extend_from_slice(&number.to_le_bytes()));
    }
}

fn call(function: &str, number: i64) -> Vec<u8> {
    let mut out = Vec::new();
    list(3, &mut out);
    symbol(function, &mut out);
    symbol(TABLE, &mut out);
    columns(number, &mut out);
    out
}

/// Returns an update as the object of a sync message.
pub fn published(day: usize, index: usize) -> Vec<u8> {
    call(".u.upd", number(day, index))
}

/// Returns the number of the update in a message to a node; `None` for other messages.
pub fn number_of(message: &[u8]) -> Option<i64> {
    let objects = elastick::rdb::update::update(message)?.objects;
    objects.last_chunk::<8>().map(|number| i64::from_le_bytes(*number))
}

/// Each day's complete log, if all updates were of that day.
pub struct Logs {
    days: Vec<Bytes>,
    record_bytes: usize,
}

impl Logs {
    pub fn new() -> Logs {
        let record = |day, index| call("upd", number(day, index));
        let day = |day| {
            let records = (0..UPDATES).flat_map(|index| record(day, index));
            HEAD.iter().copied().chain(records).collect::<Vec<u8>>().into()
        };
        Logs { days: (0..DAYS).map(day).collect(), record_bytes: record(0, 0).len() }
    }

    fn bytes_of(&self, updates: usize) -> usize {
        updates.saturating_mul(self.record_bytes).saturating_add(HEAD.len())
    }

    /// Returns the number of updates in the bytes of a day's log.
    ///
    /// # Errors
    /// The bytes are not a prefix of the expected log.
    pub fn count(&self, day: usize, bytes: &[u8]) -> Result<usize, String> {
        let count = bytes.len().saturating_sub(HEAD.len()) / self.record_bytes.max(1);
        let expected = self.days.get(day).and_then(|whole| whole.get(..self.bytes_of(count)));
        match expected == Some(bytes) {
            true => Ok(count),
            false => Err(format!("the log of day {day} is not what was published: {} bytes of it", bytes.len())),
        }
    }
}

/// Number of updates in each day's log.
pub type Tips = [u8; DAYS];

/// The disk as a node sees it: the logs as they are at the moment, and nothing else.
pub struct Rom {
    logs: Arc<Logs>,
    bytes: [Arc<AtomicUsize>; DAYS],
    /// Offset from which each day's log cannot be read.
    readable: [Arc<AtomicUsize>; DAYS],
}

impl Rom {
    pub fn new(logs: Arc<Logs>) -> Rom {
        let readable = std::array::from_fn(|_| Arc::new(AtomicUsize::new(usize::MAX)));
        Rom { logs, bytes: std::array::from_fn(|_| Arc::default()), readable }
    }

    /// Makes the logs unreadable from the first of these updates on.
    pub fn cannot_read(&self, numbers: &[i64]) {
        for (day, readable) in self.readable.iter().enumerate() {
            let first = (0..UPDATES).find(|index| numbers.contains(&number(day, *index)));
            readable.store(first.map_or(usize::MAX, |index| self.logs.bytes_of(index)), Ordering::Relaxed);
        }
    }

    pub fn set(&self, tips: &Tips) {
        for (bytes, tip) in self.bytes.iter().zip(tips) {
            bytes.store(self.logs.bytes_of(usize::from(*tip)), Ordering::Relaxed);
        }
    }
}

/// Returns the path of a day's log.
pub fn log_path(day: usize) -> PathBuf {
    let date = elastick::queue::Date(FIRST_DATE.saturating_add(i32::try_from(day).unwrap_or(0)));
    elastick::log::log_path(Path::new(LOG_DIR), "sym", elastick::tick::clock::civil_date(date))
}

/// One day's log, opened for reading.
struct RomFile {
    whole: Bytes,
    bytes: Arc<AtomicUsize>,
    readable: Arc<AtomicUsize>,
}

fn read_only() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl Disk for Rom {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
        let day = (0..DAYS).find(|day| log_path(*day) == path).ok_or(io::ErrorKind::NotFound)?;
        match (how, self.logs.days.get(day), self.bytes.get(day), self.readable.get(day)) {
            (Open::Read | Open::Fresh, Some(whole), Some(bytes), Some(readable)) => {
                let (bytes, readable) = (Arc::clone(bytes), Arc::clone(readable));
                Ok(Arc::new(RomFile { whole: whole.clone(), bytes, readable }))
            }
            _ => Err(read_only()),
        }
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn rename_new(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_directory_of(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok((0..DAYS).map(log_path).collect())
    }

    fn who(&self) -> WriterProcess {
        WriterProcess { pid: 0, host: "node".to_string(), boot: "1".to_string() }
    }

    fn draw(&self) -> u64 {
        1
    }
}

impl LogFile for RomFile {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        let from = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let (bytes, readable) = (self.bytes.load(Ordering::Relaxed), self.readable.load(Ordering::Relaxed));
        if (readable..bytes).contains(&from) {
            return Err(io::Error::other("cannot be read"));
        }
        let there = self.whole.get(from..bytes.min(readable)).unwrap_or_default();
        let count = there.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), there.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(read_only())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn sync(&self) -> io::Result<()> {
        Err(read_only())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.load(Ordering::Relaxed) as u64)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        Err(TryLockError::WouldBlock)
    }
}
