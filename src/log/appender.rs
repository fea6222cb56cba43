//! Appends with a stated durability, and the state after a failed write or sync.
//!
//! Three positions, each at or before the previous one: the *tip* (accepted), the *written* tip (in the file, visible to readers on this
//! host) and the *durable* tip (survives a power cut). The acknowledged tip is the tip or the durable tip, depending on the durability.

use super::error::LogError;
use super::file;
use super::group::GroupSync;
use super::scan::Mark;
use super::watch::Watch;
use super::writer::Waker;
use crate::config::Durability;
use crate::env::{LogFile, Spawner};
use crate::points::{self, Point};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Sync interval of a log on a network file system under `none` and `os`. Bounds the delay until another host sees an update and until this
/// host learns that it lost its lock; the kernel's write-back would take longer.
const NETWORK_SYNC_EVERY: Duration = Duration::from_secs(1);

/// How a log is appended to.
#[derive(Clone, Copy)]
pub(super) struct Mode {
    pub durability: Durability,
    /// The log is on a network file system.
    pub is_shared: bool,
    /// Buffer size under durability `none`, and limit of what waits for the thread that writes.
    pub buffer_most_bytes: usize,
}

/// A log file open for appending, with its sync and watch threads.
pub(super) struct Appender {
    file: Arc<dyn LogFile>,
    path: PathBuf,
    durability: Durability,
    written: Mark,
    tip_index: u64,
    durable_index: u64,
    /// Records accepted under durability `none` that are not written yet.
    buffer: Vec<u8>,
    buffer_most_bytes: usize,
    group: Option<GroupSync>,
    /// Bytes in the file; raised after each write.
    written_bytes: Arc<AtomicU64>,
    watch: Option<Watch>,
    /// The log is on a network file system.
    is_shared: bool,
    /// The sync thread also does the writes.
    writes_behind: bool,
    poison: Option<Poison>,
}

/// The failure after which the log rejects appends.
struct Poison {
    reason: String,
    is_lost: bool,
    /// The disk was full and the partial write was cut off, so what the file must contain is known: see [`Appender::resume`].
    is_full: bool,
}

/// Whether an error says that there is no room for more bytes.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Appender {
    /// Continues at `end`, which the caller has already synced.
    pub fn new(
        spawner: &dyn Spawner,
        file: Arc<dyn LogFile>,
        path: &Path,
        end: Mark,
        mode: Mode,
        waker: Option<Waker>,
    ) -> Result<Appender, LogError> {
        let Mode { durability, is_shared, buffer_most_bytes } = mode;
        let of_network = matches!(durability, Durability::None | Durability::Os) && is_shared;
        let interval = durability.group_interval().or(of_network.then_some(NETWORK_SYNC_EVERY));
        let written_bytes = Arc::new(AtomicU64::new(end.offset_bytes));
        let watch = Watch::start(spawner, &*file, path, is_shared, Arc::clone(&written_bytes), waker.clone());
        let watch = watch.map_err(LogError::io(path, "start a thread to watch"))?;
        let start = |interval| {
            GroupSync::start(spawner, Arc::clone(&file), interval, end.index, Arc::clone(&written_bytes), waker)
        };
        let group = interval.map(start).transpose().map_err(LogError::io(path, "start a thread to sync"))?;
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
            written_bytes,
            watch,
            is_shared,
            writes_behind: is_shared && durability.group_interval().is_some(),
            poison: None,
        })
    }

    /// Appends whole records. After an error none of them counts, and every later call fails.
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

    /// Writes the buffered records.
    pub fn flush(&mut self) -> Result<(), LogError> {
        self.check()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.buffer);
        let result = self.write(&held, self.tip_index);
        if result.is_err() && !self.can_resume() {
            // The buffered records are lost, as `none` permits; the tip must not claim them.
            self.tip_index = self.written.index;
        }
        if result.is_ok() || !self.can_resume() {
            held.clear();
        }
        self.buffer = held;
        result
    }

    /// Whether the log has failed only because its disk was full, so that [`Appender::resume`] may succeed.
    pub fn can_resume(&self) -> bool {
        let is_sound = self.group.as_ref().and_then(GroupSync::failure).is_none();
        is_sound && self.poison.as_ref().is_some_and(|poison| poison.is_full)
    }

    /// After the disk was full: accepts appends again if the file ends where the last accepted write did. Writes what is buffered. The caller
    /// then compares the end of the file with what was written, and syncs.
    ///
    /// # Errors
    /// The failure stays, for ever if the file has another size.
    pub fn resume(&mut self) -> Result<(), LogError> {
        if !self.can_resume() {
            return self.check();
        }
        let written_bytes = self.written.offset_bytes;
        match self.file.size_bytes() {
            Ok(size_bytes) if size_bytes == written_bytes => self.poison = None,
            Ok(size_bytes) => {
                self.give_up(format!("the file has {size_bytes} bytes, and {written_bytes} were written"))
            }
            // It may be readable later.
            Err(_) => {}
        }
        self.flush()
    }

    /// Ends the log for good.
    pub fn give_up(&mut self, reason: String) {
        self.poison = Some(Poison { reason, is_lost: false, is_full: false });
    }

    /// Makes every accepted update durable before it returns.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.flush()?;
        if let Some(group) = &self.group {
            group.settle();
            return self.check();
        }
        if self.durable_tip() < self.tip_index { self.sync_now(self.tip_index) } else { Ok(()) }
    }

    /// Index of the next update.
    pub fn tip(&self) -> u64 {
        self.tip_index
    }

    /// End of the last record passed to the file, or to the sync thread where that writes.
    pub fn end(&self) -> Mark {
        self.written
    }

    /// Updates before this index are in the file.
    pub fn written_index(&self) -> u64 {
        match &self.group {
            Some(group) if self.writes_behind => group.written_index(),
            _ => self.written.index,
        }
    }

    /// Whether the sync thread writes accepted updates to the file.
    pub fn writes_behind(&self) -> bool {
        self.writes_behind
    }

    /// The log file, open for writing.
    pub fn file(&self) -> &Arc<dyn LogFile> {
        &self.file
    }

    /// Why the log's path does not lead to the log file at the moment, for the operator.
    pub fn elsewhere(&self) -> Option<String> {
        self.watch.as_ref()?.elsewhere()
    }

    /// Bytes in memory that are not in the file yet: buffered under durability `none`, or passed to the thread that writes.
    pub fn held_bytes(&self) -> u64 {
        let of_thread = self.group.as_ref().filter(|_| self.writes_behind).map_or(0, GroupSync::held_bytes);
        self.buffer.len().saturating_add(of_thread) as u64
    }

    pub fn durable_tip(&self) -> u64 {
        self.group.as_ref().map_or(0, GroupSync::durable_index).max(self.durable_index)
    }

    /// Updates before this index survive a power cut. `None` if nothing syncs the log before it is closed: `none` and `os` on a local disk.
    pub fn synced_index(&self) -> Option<u64> {
        let is_synced = self.group.is_some() || self.durability == Durability::Each;
        is_synced.then(|| self.durable_tip())
    }

    /// Updates before this index may be acknowledged.
    pub fn acknowledged_tip(&self) -> u64 {
        match self.durability {
            // What is buffered when the log fails is not in the file.
            Durability::None | Durability::Os if self.poison.is_some() => self.written.index,
            Durability::None | Durability::Os => self.tip_index,
            Durability::Group(_) | Durability::Each | Durability::Replica { .. } => self.durable_tip(),
        }
    }

    /// Fails after a failed write or sync, including one in the sync thread, and once the file has lost updates.
    pub fn check(&mut self) -> Result<(), LogError> {
        if self.poison.is_none() {
            let failure = self.group.as_ref().and_then(GroupSync::failure);
            self.poison = failure.map(|error| self.poison_of("cannot sync", error));
        }
        if let Some(reason) = self.watch.as_ref().and_then(Watch::cut) {
            return Err(LogError::Cut { path: self.path.clone(), reason: reason.to_string() });
        }
        match &self.poison {
            Some(Poison { reason, is_lost, .. }) => {
                let (path, reason) = (self.path.clone(), reason.clone());
                Err(if *is_lost { LogError::Lost { path, reason } } else { LogError::Poisoned { path, reason } })
            }
            None => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8], next_index: u64) -> Result<(), LogError> {
        let offset_bytes = self.written.offset_bytes;
        match &self.group {
            Some(group) if self.writes_behind => group.write(bytes, offset_bytes, next_index, self.buffer_most_bytes),
            _ => {
                points::reach(Point::LogBeforeWrite);
                if let Err(error) = file::write_at_point(self.file.as_ref(), bytes, offset_bytes, Point::LogHalfWritten)
                {
                    return Err(self.failed_write(error));
                }
            }
        }
        points::reach(Point::LogWritten);
        self.written =
            Mark { offset_bytes: self.written.offset_bytes.saturating_add(bytes.len() as u64), index: next_index };
        if !self.writes_behind {
            self.written_bytes.store(self.written.offset_bytes, Ordering::Release);
        }
        if let Some(group) = self.group.as_ref().filter(|_| !self.writes_behind) {
            group.written(next_index);
        }
        Ok(())
    }

    /// Cuts off the partly written batch, so that the log ends with a whole record.
    fn failed_write(&mut self, error: io::Error) -> LogError {
        let mut poison = self.poison_of("cannot write", &error);
        match self.file.truncate(self.written.offset_bytes) {
            Ok(()) => poison.is_full = is_full(&error),
            Err(also) => poison.reason = format!("{}; and cannot truncate the partial record: {also}", poison.reason),
        }
        self.fail("write", error, poison)
    }

    fn sync_now(&mut self, index: u64) -> Result<(), LogError> {
        points::reach(Point::LogBeforeSync);
        match self.file.sync() {
            Ok(()) => {
                points::reach(Point::LogSynced);
                self.durable_index = index;
                Ok(())
            }
            Err(error) => {
                // The kernel may drop the data of a failed sync, and the next sync would return success.
                let poison = self.poison_of("cannot sync", &error);
                Err(self.fail("sync", error, poison))
            }
        }
    }

    /// On a network file system these errors mean that the server revoked this host's lock or no longer has the file.
    fn poison_of(&self, what: &str, error: &io::Error) -> Poison {
        let no_more = [Errno::IO, Errno::STALE, Errno::NOLCK].map(|errno| Some(errno.raw_os_error()));
        Poison {
            reason: format!("{what}: {error}"),
            is_lost: self.is_shared && no_more.contains(&error.raw_os_error()),
            is_full: false,
        }
    }

    fn fail(&mut self, action: &'static str, source: io::Error, poison: Poison) -> LogError {
        let (path, is_lost, reason) = (self.path.clone(), poison.is_lost, poison.reason.clone());
        self.poison = Some(poison);
        if is_lost { LogError::Lost { path, reason } } else { LogError::Io { path, action, source } }
    }
}
