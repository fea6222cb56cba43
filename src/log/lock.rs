//! Enforces one writer per source and directory, with an epoch that grows at every change of writer.
//!
//! The writer holds an exclusive lock on `DIR/SRC.lock` for its lifetime. The file has two text lines of equal length; a writer overwrites
//! the older one, so a torn write leaves the other intact. A line has the epoch, the holder, whether the log was closed in order, and the
//! machine's boot id, from which the next writer decides whether the kernel may have lost the last one's writes. A third line has the
//! identity of the directory's logs.
//!
//! The file may be deleted, damaged or restored from a backup. Every side file's head therefore also has identity and epoch, and a writer
//! takes an epoch above the highest of any of them.

use super::error::LogError;
use super::file;
use super::identity::LogId;
use super::index::SideFile;
use super::name::{date_of, lock_path, log_of_side, log_path};
use crate::env::{Disk, LogFile, Open};
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of a line with its newline.
const LINE_BYTES: usize = 160;
/// State word of a writer that has not yet compared the log with its side file, though the kernel may have lost parts of it.
const UNCHECKED: &str = "unchecked";
/// Prefix of the identity line, which follows the two writer lines.
const IDENTITY: &str = "log ";
const IDENTITY_AT: u64 = 2 * LINE_BYTES as u64;
/// Prefix of the state word of a log that ended with an error; followed by the first update that may not be on disk.
const UNSYNCED: &str = "unsynced-";

/// Contents of a writer line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub epoch: u64,
    pub pid: u32,
    pub host: String,
    pub boot: String,
    /// The log was flushed, synced and closed.
    pub clean: bool,
    /// After an error: updates from this index on may be in the page cache but not on disk.
    pub unsynced_from: Option<u64>,
    /// The kernel may have lost writes of an earlier writer, and no start has accepted the log since. A start that is rejected or
    /// interrupted leaves the check to the next one.
    pub unchecked: bool,
}

impl Holder {
    /// Whether this holder replaced `other`: a higher epoch, or the same epoch taken by another process.
    pub(super) fn has_replaced(&self, other: &Holder) -> bool {
        let is_other = (self.pid, &self.host, &self.boot) != (other.pid, &other.host, &other.boot);
        self.epoch > other.epoch || (self.epoch == other.epoch && is_other)
    }

    fn here(disk: &dyn Disk, epoch: u64) -> Holder {
        let who = disk.who();
        Holder {
            epoch,
            pid: who.pid,
            host: word(&who.host),
            boot: word(&who.boot),
            clean: false,
            unsynced_from: None,
            unchecked: false,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let state = match self.unsynced_from {
            Some(index) => format!("{UNSYNCED}{index}"),
            None if self.clean => "closed".to_string(),
            None if self.unchecked => UNCHECKED.to_string(),
            None => "open".to_string(),
        };
        let text = format!("epoch {} pid {} host {} boot {} {state}", self.epoch, self.pid, self.host, self.boot);
        seal(&text)
    }

    fn decode(line: &[u8]) -> Option<Holder> {
        let text = unseal(line)?;
        let words: Vec<&str> = text.split(' ').collect();
        let ["epoch", epoch, "pid", pid, "host", host, "boot", boot, state] = words.as_slice() else { return None };
        Some(Holder {
            epoch: epoch.parse().ok()?,
            pid: pid.parse().ok()?,
            host: (*host).to_string(),
            boot: (*boot).to_string(),
            clean: *state == "closed",
            unsynced_from: state.strip_prefix(UNSYNCED).and_then(|index| index.parse().ok()),
            unchecked: *state == UNCHECKED,
        })
    }
}

/// Formats a line with its checksum.
fn seal(text: &str) -> Vec<u8> {
    let crc = crc32c::crc32c(text.as_bytes());
    let mut line = format!("{text} crc {crc:08x}").into_bytes();
    line.resize(LINE_BYTES - 1, b' ');
    line.push(b'\n');
    line
}

/// Returns the text of a line if its checksum agrees.
fn unseal(line: &[u8]) -> Option<&str> {
    let (text, crc) = std::str::from_utf8(line).ok()?.trim_end().rsplit_once(" crc ")?;
    (u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(text.as_bytes())).then_some(text)
}

/// One word, cleaned and cut to fit its place in a line.
fn word(text: &str) -> String {
    let word: String = text.trim().chars().filter(char::is_ascii_graphic).take(40).collect();
    if word.is_empty() { "?".to_string() } else { word }
}

/// Identity and highest epoch found in a directory.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    identity: Option<LogId>,
    epoch: u64,
}

impl Known {
    fn add(&mut self, identity: Option<LogId>, epoch: u64) {
        if self.identity.is_none() || (identity.is_some() && epoch > self.epoch) {
            self.identity = identity.or(self.identity);
        }
        self.epoch = self.epoch.max(epoch);
    }
}

/// The writer's lock, held until dropped.
pub struct WriterLock {
    disk: Arc<dyn Disk>,
    file: Arc<dyn LogFile>,
    path: PathBuf,
    holder: Holder,
    identity: LogId,
}

impl WriterLock {
    /// Takes the lock with `epoch`, or with one above the highest known. Also returns the last writer.
    pub fn take(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        src: &str,
        epoch: Option<u64>,
    ) -> Result<(WriterLock, Option<Holder>), LogError> {
        let path = lock_path(dir, src);
        let file = disk.open(&path, Open::Create).map_err(LogError::io(&path, "open"))?;
        let last = last_holder(&*file, &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LogError::Held { path, holder: describe(last.as_ref()) }),
            Err(TryLockError::Error(error)) => return Err(LogError::io(&path, "lock")(error)),
        }
        // Read again: the previous writer may have written until it released the lock.
        let last = last_holder(&*file, &path)?;
        let mut known = Known::default();
        known.add(identity_line(&*file, &path)?, last.as_ref().map_or(0, |holder| holder.epoch));
        if let Err(error) = ask_side_files(&**disk, dir, src, &mut known) {
            // With a lock file they are only confirmation.
            if last.is_none() {
                return Err(error);
            }
            tracing::warn!(path = %path.display(), %error, "cannot read the log or its side file for the epoch: using the lock file alone");
        }
        let stored = known.epoch;
        let epoch = match epoch {
            Some(given) if given <= stored => return Err(LogError::StaleEpoch { path, given, stored }),
            Some(given) => given,
            None => stored.saturating_add(1),
        };
        let identity = known.identity.unwrap_or_else(|| LogId(disk.draw()));
        let holder = Holder::here(&**disk, epoch);
        let mut lock = WriterLock { disk: Arc::clone(disk), file, path, holder, identity };
        // Until this writer has rewritten that range, its successor has to.
        lock.holder.unsynced_from =
            last.as_ref().filter(|last| lock.same_boot(last)).and_then(|last| last.unsynced_from);
        lock.holder.unchecked =
            last.as_ref().is_some_and(|last| !last.clean && (last.unchecked || !lock.same_boot(last)));
        lock.write()?;
        lock.write_identity()?;
        Ok((lock, last))
    }

    /// Identity of the directory's logs.
    pub fn identity(&self) -> LogId {
        self.identity
    }

    /// Draws a new identity and takes an epoch above `seen`: updates that nodes hold under the old identity are not in this directory.
    ///
    /// # Errors
    /// `Lost` if the lock file names another writer by now.
    pub fn begin_anew(&mut self, seen: u64) -> Result<(), LogError> {
        if let Ok(Some(holder)) = read_holder(&*self.disk, &self.path)
            && holder.has_replaced(&self.holder)
        {
            let reason = format!("another tickerplant has taken over ({})", describe(Some(&holder)));
            return Err(LogError::Lost { path: self.path.clone(), reason });
        }
        self.holder.epoch = self.holder.epoch.max(seen).saturating_add(1);
        self.identity = LogId(self.disk.draw());
        // The write may replace either line, because the higher epoch wins.
        self.write()?;
        self.write_identity()
    }

    /// The current holder.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Path of the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a server on another host grants the lock, and can revoke it.
    pub fn is_on_nfs(&self) -> bool {
        self.file.is_shared()
    }

    pub fn epoch(&self) -> u64 {
        self.holder.epoch
    }

    /// Whether this is still the last writer's boot, so that the page cache has all of its writes.
    pub fn same_boot(&self, last: &Holder) -> bool {
        last.boot == self.holder.boot && last.boot != "?"
    }

    /// Records that updates from this index on may not be on disk, even if the page cache shows them.
    pub fn mark_unsynced(&mut self, from: u64) -> Result<(), LogError> {
        if self.holder.unsynced_from == Some(from) {
            return Ok(());
        }
        self.holder.unsynced_from = Some(from);
        self.write()
    }

    /// Records that a start accepted the log: compared as needed, repaired and synced.
    pub fn mark_accepted(&mut self) -> Result<(), LogError> {
        if self.holder.unsynced_from.is_none() && !self.holder.unchecked {
            return Ok(());
        }
        (self.holder.unsynced_from, self.holder.unchecked) = (None, false);
        self.write()
    }

    /// Records that the log was closed in order.
    pub fn mark_clean(&mut self) -> Result<(), LogError> {
        self.holder.clean = true;
        self.write()
    }

    fn write_identity(&self) -> Result<(), LogError> {
        let line = seal(&format!("{IDENTITY}{}", self.identity));
        file::write_all(&*self.file, &line, IDENTITY_AT)
            .and_then(|()| self.file.sync())
            .map_err(LogError::io(&self.path, "write"))
    }

    fn write(&mut self) -> Result<(), LogError> {
        let slot = (self.holder.epoch % 2).saturating_mul(LINE_BYTES as u64);
        file::write_all(&*self.file, &self.holder.encode(), slot)
            .and_then(|()| self.file.sync())
            .map_err(LogError::io(&self.path, "write"))
    }
}

fn last_holder(file: &dyn LogFile, path: &Path) -> Result<Option<Holder>, LogError> {
    let mut text = [0; 2 * LINE_BYTES];
    let read = file::read_full(file, &mut text, 0).map_err(LogError::io(path, "read"))?;
    let lines = text.get(..read).unwrap_or_default().chunks(LINE_BYTES);
    Ok(lines.filter_map(Holder::decode).max_by_key(|holder| holder.epoch))
}

fn identity_line(file: &dyn LogFile, path: &Path) -> Result<Option<LogId>, LogError> {
    let mut line = [0; LINE_BYTES];
    let read = file::read_full(file, &mut line, IDENTITY_AT).map_err(LogError::io(path, "read"))?;
    let text = line.get(..read).and_then(unseal);
    Ok(text.and_then(|text| text.strip_prefix(IDENTITY)?.parse().ok()))
}

/// Adds identity and epochs of all days' side files.
fn ask_side_files(disk: &dyn Disk, dir: &Path, src: &str, known: &mut Known) -> Result<(), LogError> {
    for side in disk.list(dir).map_err(LogError::io(dir, "list"))? {
        let Some(log) = log_of_side(&side) else { continue };
        if date_of(&log).is_none_or(|date| log_path(dir, src, date) != log) {
            continue;
        }
        let Some(found) = SideFile::open_if_there(disk, &side).map_err(LogError::io(&side, "read"))? else { continue };
        let last = found.entries().checked_sub(1).and_then(|at| found.entry(at));
        known.add(found.head().identity, found.head().epoch);
        known.epoch = known.epoch.max(last.map_or(0, |entry| entry.epoch));
    }
    Ok(())
}

/// Returns the last writer that the lock file names, bypassing the page cache.
pub(super) fn read_holder(disk: &dyn Disk, path: &Path) -> Result<Option<Holder>, LogError> {
    let file = disk.open(path, Open::Fresh).map_err(LogError::io(path, "open"))?;
    last_holder(&*file, path)
}

pub(super) fn describe(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("process {} on {}, epoch {}", holder.pid, holder.host, holder.epoch),
        None => "its process id is not written yet".to_string(),
    }
}

/// Locks the log itself as well: a network file system's server then rejects writes of a holder whose lock it revoked, which a lock on
/// another file would not achieve.
pub fn lock_log(file: &dyn LogFile, path: &Path) -> Result<(), LogError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(LogError::Held { path: path.to_path_buf(), holder: "it holds a lock on the log".to_string() })
        }
        Err(TryLockError::Error(error)) => Err(LogError::io(path, "lock")(error)),
    }
}
