//! Identities and samples that distinguish a log from another one at the same path.

use super::error::LogError;
use super::index::Entry;
use crate::env::LogFile;
use std::fmt;
use std::num::ParseIntError;
use std::path::Path;
use std::str::FromStr;

/// Identity of a directory's logs: a random number drawn by the directory's first writer and kept by later ones, in the lock file and in
/// every side file. Epochs are comparable only within one identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for LogId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<LogId, ParseIntError> {
        u64::from_str_radix(text, 16).map(LogId)
    }
}

/// A writer of a log, as nodes remember it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterId {
    /// Identity of the directory's logs.
    pub log: LogId,
    pub epoch: u64,
    /// Distinguishes two writers of the same epoch, which exist if the directory was restored to an earlier state.
    pub writer: LogId,
}

/// How the writer that a node remembers relates to the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// The current writer, or an earlier one whose updates are all in the log up to the end of its epoch.
    Same,
    /// Another log: the node's updates are not in this one.
    Other,
    /// This log in a later state that the directory no longer has, or a writer that replaced this one.
    Later,
}

impl WriterId {
    /// Classifies the remembered writer `seen`.
    pub fn look_at(&self, seen: &WriterId) -> Remembered {
        if seen.log != self.log {
            Remembered::Other
        } else if seen.epoch > self.epoch || (seen.epoch == self.epoch && seen.writer != self.writer) {
            Remembered::Later
        } else {
            Remembered::Same
        }
    }
}

/// Bytes sampled at the start and at the end of a log.
const SAMPLE_BYTES: u64 = 64 << 10;
/// Longest sample that is published, because a reader reads all of it. A block may be longer, as it ends with a whole batch; it is left out.
const MAX_SAMPLE_BYTES: u64 = 4 << 20;
/// Samples that a reader compares.
pub const MAX_SAMPLES: usize = 8;

/// Checksum of a range of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub offset_bytes: u64,
    pub length_bytes: u64,
    pub crc: u32,
}

/// Whether a file contains a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Yes,
    /// The file ends before the sample does.
    NotYet,
    No,
}

impl Sample {
    fn entry(&self) -> Entry {
        Entry {
            offset_bytes: self.offset_bytes,
            length_bytes: self.length_bytes,
            first_index: 0,
            updates: 0,
            epoch: 0,
            synced_index: 0,
            crc: self.crc,
            is_damaged: false,
        }
    }

    pub(super) fn look(&self, file: &dyn LogFile, path: &Path) -> Result<Holds, LogError> {
        // The size first: what is written after a read must not make its bytes differ.
        let size = file.size_bytes().map_err(LogError::io(path, "read"))?;
        if size < self.offset_bytes.saturating_add(self.length_bytes) {
            return Ok(Holds::NotYet);
        }
        Ok(if self.entry().agrees_with(file, path)? { Holds::Yes } else { Holds::No })
    }
}

/// Samples that a writer publishes, so that a reader of the same path can verify that it reads the same file: one from the start and one of
/// the latest block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    first: Option<Sample>,
    last: Option<Sample>,
}

impl Samples {
    /// Samples the log between `begin` and `end`.
    pub fn of(file: &dyn LogFile, path: &Path, begin: u64, end: u64) -> Result<Samples, LogError> {
        let sample = |offset_bytes: u64, end: u64| -> Result<Option<Sample>, LogError> {
            let length_bytes = end.saturating_sub(offset_bytes);
            let mut bytes = vec![0; usize::try_from(length_bytes).unwrap_or(0)];
            let read = super::file::read_full(file, &mut bytes, offset_bytes).map_err(LogError::io(path, "read"))?;
            let crc = crc32c::crc32c(&bytes);
            Ok((read == bytes.len() && read > 0).then_some(Sample { offset_bytes, length_bytes, crc }))
        };
        let first = sample(begin, end.min(begin.saturating_add(SAMPLE_BYTES)))?;
        Ok(Samples { first, last: sample(end.saturating_sub(SAMPLE_BYTES).max(begin), end)? })
    }

    /// Records a closed block.
    pub fn block(&mut self, block: &Entry) {
        let Entry { offset_bytes, length_bytes, crc, .. } = *block;
        let sample = Some(Sample { offset_bytes, length_bytes, crc });
        self.first = self.first.or(sample);
        self.last = sample;
    }

    /// Returns the samples, with that of the bytes since the last block.
    pub fn with(&self, open: Option<Sample>) -> Vec<Sample> {
        let mut all: Vec<Sample> = [self.first, self.last, open].into_iter().flatten().collect();
        all.retain(|sample| sample.length_bytes > 0 && sample.length_bytes <= MAX_SAMPLE_BYTES);
        all.dedup();
        all
    }
}
