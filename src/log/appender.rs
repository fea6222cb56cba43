//! Appending with a stated durability, and what is true after a write or a sync has failed.
//!
//! Three positions, each at or behind the one before: the *tip* (accepted), the *written* tip (in the file, so that a
//! reader on this host sees it) and the *durable* tip (survives a power cut). What may be acknowledged is the tip or the
//! durable tip, by the durability.

use super::error::LogError;
use super::file::{self, LogFile};
use super::group::GroupSync;
use super::scan::Mark;
use super::writer::Waker;
use crate::config::Durability;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct Appender {
    file: Arc<dyn LogFile>,
    path: PathBuf,
    durability: Durability,
    written: Mark,
    tip_index: u64,
    durable_index: u64,
    /// Accepted under durability `none` and not written yet.
    buffer: Vec<u8>,
    buffer_most_bytes: usize,
    group: Option<GroupSync>,
    poison: Option<String>,
}

impl Appender {
    /// Goes on behind `end`, which the caller has made durable.
    pub fn new(
        file: Arc<dyn LogFile>,
        path: &Path,
        end: Mark,
        durability: Durability,
        buffer_most_bytes: usize,
        waker: Option<Waker>,
    ) -> Result<Appender, LogError> {
        let group = match durability {
            Durability::Group(interval) => Some(
                GroupSync::start(Arc::clone(&file), interval, end.index, waker)
                    .map_err(LogError::io(path, "start a thread to sync"))?,
            ),
            Durability::None | Durability::Os | Durability::Each => None,
        };
        Ok(Appender {
            file,
            path: path.to_path_buf(),
            durability,
            written: end,
            tip_index: end.index,
            durable_index: end.index,
            buffer: Vec::new(),
            buffer_most_bytes,
            group,
            poison: None,
        })
    }

    /// Accepts whole records. On an error none of them counts, and nothing is accepted any more.
    pub fn append(&mut self, batch: &[u8], updates: u64) -> Result<(), LogError> {
        self.check()?;
        if self.durability == Durability::None {
            if self.buffer.len().saturating_add(batch.len()) > self.buffer_most_bytes {
                self.flush()?;
            }
            if batch.len() < self.buffer_most_bytes {
                self.buffer.extend_from_slice(batch);
                self.tip_index = self.tip_index.saturating_add(updates);
                return Ok(());
            }
        }
        let next_index = self.tip_index.saturating_add(updates);
        self.write(batch, next_index)?;
        if self.durability == Durability::Each {
            self.sync_now(next_index)?;
        }
        self.tip_index = next_index;
        Ok(())
    }

    /// Writes what is held back.
    pub fn flush(&mut self) -> Result<(), LogError> {
        self.check()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.buffer);
        let result = self.write(&held, self.tip_index);
        held.clear();
        self.buffer = held;
        if result.is_err() {
            // What was only held back is gone, as `none` says; the tip must not claim it.
            self.tip_index = self.written.index;
        }
        result
    }

    /// Makes everything accepted so far durable before it returns.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.flush()?;
        if self.durable_tip() < self.tip_index { self.sync_now(self.tip_index) } else { Ok(()) }
    }

    /// Index of the next update.
    pub fn tip(&self) -> u64 {
        self.tip_index
    }

    pub fn written(&self) -> Mark {
        self.written
    }

    pub fn durable_tip(&self) -> u64 {
        self.group.as_ref().map_or(0, GroupSync::durable_index).max(self.durable_index)
    }

    /// Updates before this may be acknowledged.
    pub fn acknowledged_tip(&self) -> u64 {
        match self.durability {
            Durability::None | Durability::Os => self.tip_index,
            Durability::Group(_) | Durability::Each => self.durable_tip(),
        }
    }

    /// The error of every call after a failed write or sync, also of one that failed in the syncing thread.
    pub fn check(&mut self) -> Result<(), LogError> {
        if self.poison.is_none() {
            self.poison = self.group.as_ref().and_then(GroupSync::failure).map(str::to_string);
        }
        match &self.poison {
            Some(reason) => Err(LogError::Poisoned { path: self.path.clone(), reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8], next_index: u64) -> Result<(), LogError> {
        if let Err(error) = file::write_all(self.file.as_ref(), bytes, self.written.offset_bytes) {
            return Err(self.failed_write(error));
        }
        self.written =
            Mark { offset_bytes: self.written.offset_bytes.saturating_add(bytes.len() as u64), index: next_index };
        if let Some(group) = &self.group {
            group.written(next_index);
        }
        Ok(())
    }

    /// Takes back the part of the batch that was written, so that the log ends with a whole record.
    fn failed_write(&mut self, error: io::Error) -> LogError {
        let reason = match self.file.truncate(self.written.offset_bytes) {
            Ok(()) => format!("cannot write: {error}"),
            Err(also) => format!("cannot write: {error}; nor cut off the part that was written: {also}"),
        };
        self.poison = Some(reason);
        LogError::Io { path: self.path.clone(), action: "write", source: error }
    }

    fn sync_now(&mut self, index: u64) -> Result<(), LogError> {
        match self.file.sync() {
            Ok(()) => {
                self.durable_index = index;
                Ok(())
            }
            Err(error) => {
                // After a failed sync the kernel may have dropped the data and will not fail again.
                self.poison = Some(format!("cannot sync: {error}"));
                Err(LogError::Io { path: self.path.clone(), action: "sync", source: error })
            }
        }
    }
}
