//! The updates of a model's days, as bytes: what the publisher sends, and what the log must then hold. They are made here by
//! hand, not by what is checked.

use crate::log::LogFile;
use crate::log::disk::{Disk, Open, Who};
use bytes::Bytes;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Days that a model may have.
pub const DAYS: usize = 3;
/// Updates that a model may have.
pub const UPDATES: usize = 15;
/// Rows of an update: as many as make a node look at its memory after each.
pub const ROWS: usize = 1024;
pub const TABLE: &str = "trade";
/// The first day, counted from 2000.01.01.
pub const FIRST_DATE: i32 = 9_821;
/// Where the log is.
pub const LOG_DIR: &str = "/logs";

const LONG: u8 = 7;
const TIMESPAN: u8 = 16;
const SYMBOL_ATOM: u8 = 245;
const HEAD: [u8; 8] = [0xff, 1, 0, 0, 0, 0, 0, 0];

/// What stands in each row of an update: no two updates of a model have the same.
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

/// What a publisher sends, as a sync message's object.
pub fn published(day: usize, index: usize) -> Vec<u8> {
    call(".u.upd", number(day, index))
}

/// The logs that there will be, if every update is of that day.
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

    /// How many updates these bytes of a day's log hold.
    ///
    /// # Errors
    /// They are not that many first updates of the day.
    pub fn count(&self, day: usize, bytes: &[u8]) -> Result<usize, String> {
        let count = bytes.len().saturating_sub(HEAD.len()) / self.record_bytes.max(1);
        let expected = self.days.get(day).and_then(|whole| whole.get(..self.bytes_of(count)));
        match expected == Some(bytes) {
            true => Ok(count),
            false => Err(format!("the log of day {day} is not what was published: {} bytes of it", bytes.len())),
        }
    }
}

/// How many updates each day's log has.
pub type Tips = [u8; DAYS];

/// The disk as a node sees it: the logs as they are at the moment, and nothing else.
pub struct Rom {
    logs: Arc<Logs>,
    bytes: [Arc<AtomicUsize>; DAYS],
}

impl Rom {
    pub fn new(logs: Arc<Logs>) -> Rom {
        Rom { logs, bytes: std::array::from_fn(|_| Arc::default()) }
    }

    pub fn set(&self, tips: &Tips) {
        for (bytes, tip) in self.bytes.iter().zip(tips) {
            bytes.store(self.logs.bytes_of(usize::from(*tip)), Ordering::Relaxed);
        }
    }
}

/// The path of a day's log.
pub fn log_path(day: usize) -> PathBuf {
    let date = crate::queue::Date(FIRST_DATE.saturating_add(i32::try_from(day).unwrap_or(0)));
    crate::log::log_path(Path::new(LOG_DIR), "sym", crate::tick::clock::civil_date(date))
}

struct RomFile {
    whole: Bytes,
    bytes: Arc<AtomicUsize>,
}

fn read_only() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl Disk for Rom {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
        let day = (0..DAYS).find(|day| log_path(*day) == path).ok_or(io::ErrorKind::NotFound)?;
        match (how, self.logs.days.get(day), self.bytes.get(day)) {
            (Open::Read | Open::Fresh, Some(whole), Some(bytes)) => {
                Ok(Arc::new(RomFile { whole: whole.clone(), bytes: Arc::clone(bytes) }))
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

    fn sync_directory_of(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok((0..DAYS).map(log_path).collect())
    }

    fn who(&self) -> Who {
        Who { pid: 0, host: "node".to_string(), boot: "1".to_string() }
    }

    fn draw(&self) -> u64 {
        1
    }
}

impl LogFile for RomFile {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        let from = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let there = self.whole.get(from..self.bytes.load(Ordering::Relaxed)).unwrap_or_default();
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
