//! Enforces one writer per source and directory, with an epoch that grows at every change of writer.
//!
//! The writer holds an exclusive lock on `DIR/SRC.lock` for its lifetime. The file has two text lines of equal length; a writer overwrites
//! the older one, so a torn write leaves the other intact. A line has the epoch, the holder, whether the log was closed in order, and the
//! machine's boot id, from which the next writer decides whether the kernel may have lost the last one's writes. A third line has the
//! identity of the directory's logs, a fourth one the address at which the holder is reached.
//!
//! The file may be deleted, damaged or restored from a backup. Every side file's head therefore also has identity and epoch, and a writer
//! takes an epoch above the highest of any of them.

use super::error::LogError;
use super::file;
use super::holder::{Holder, LINE_BYTES, describe, seal, unseal};
use super::identity::LogId;
use super::index::SideFile;
use super::name::{date_of, lock_path, log_of_side, log_path};
use crate::env::{Disk, LogFile, Open};
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Prefix of the identity line, which follows the two writer lines.
const IDENTITY: &str = "log ";
const IDENTITY_AT: u64 = 2 * LINE_BYTES as u64;
/// Prefix of the address line, which comes last.
const ADDRESS: &str = "address ";
const ADDRESS_AT: u64 = 3 * LINE_BYTES as u64;
/// Longest address that fits into its line. A longer one is left out.
pub const MAX_ADDRESS_BYTES: usize = 100;

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
    /// Where the holder is reached, if it says so.
    address: Option<String>,
}

impl WriterLock {
    /// Opens the lock file of a source, and creates it if it is missing.
    ///
    /// # Errors
    /// The system's.
    pub fn open_file(disk: &dyn Disk, dir: &Path, src: &str) -> Result<Arc<dyn LogFile>, LogError> {
        let path = lock_path(dir, src);
        disk.open(&path, Open::Create).map_err(LogError::io(&path, "open"))
    }

    /// Locks an open lock file, with `epoch`, or with one above the highest known. Also returns the last writer. A process that is not active sends
    /// its clients to `address`, `HOST:PORT`.
    pub fn take(
        file: Arc<dyn LogFile>,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        src: &str,
        epoch: Option<u64>,
        address: Option<&str>,
    ) -> Result<(WriterLock, Option<Holder>), LogError> {
        let path = lock_path(dir, src);
        let (last, known) = hold(&*file, &**disk, dir, src)?;
        let stored = known.epoch;
        let epoch = match epoch {
            Some(given) if given <= stored => return Err(LogError::StaleEpoch { path, given, stored }),
            Some(given) => given,
            None => stored.saturating_add(1),
        };
        let identity = known.identity.unwrap_or_else(|| LogId(disk.draw()));
        let holder = Holder::here(&**disk, epoch);
        let address = address.filter(|address| address.len() <= MAX_ADDRESS_BYTES).map(String::from);
        let mut lock = WriterLock { disk: Arc::clone(disk), file, path, holder, identity, address };
        // Until this writer has rewritten that range, its successor has to.
        lock.inherit(last.as_ref());
        lock.write()?;
        lock.write_identity()?;
        lock.write_address()?;
        Ok((lock, last))
    }

    /// Locks an open lock file for a process that copies the logs of another one: under the highest epoch known, of which it is no writer, and
    /// without a change of the file before [`WriterLock::adopt`]. Also returns the last writer, and whether the directory has an identity.
    pub fn take_to_follow(
        file: Arc<dyn LogFile>,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        src: &str,
    ) -> Result<(WriterLock, Option<Holder>, bool), LogError> {
        let path = lock_path(dir, src);
        let (last, Known { identity, epoch }) = hold(&*file, &**disk, dir, src)?;
        let holder = Holder::here(&**disk, epoch);
        let is_named = identity.is_some();
        let identity = identity.unwrap_or(LogId(0));
        let mut lock = WriterLock { disk: Arc::clone(disk), file, path, holder, identity, address: None };
        lock.inherit(last.as_ref());
        Ok((lock, last, is_named))
    }

    /// Takes what the next writer of this directory has to know of the last one.
    fn inherit(&mut self, last: Option<&Holder>) {
        let unsynced_from = last.filter(|last| self.same_boot(last)).and_then(|last| last.unsynced_from);
        let unchecked = last.is_some_and(|last| !last.clean && (last.unchecked || !self.same_boot(last)));
        (self.holder.unsynced_from, self.holder.unchecked) = (unsynced_from, unchecked);
    }

    /// Takes over identity and epoch of the logs that are copied here, so that a later writer of this directory has a higher epoch.
    pub fn adopt(&mut self, identity: LogId, epoch: u64) -> Result<(), LogError> {
        (self.identity, self.holder.epoch) = (identity, epoch);
        self.write()?;
        self.write_identity()
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
        self.write_identity()?;
        self.write_address()
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

    /// With the epoch, so that a process that does not say its address is not taken for the one before.
    fn write_address(&self) -> Result<(), LogError> {
        let Some(address) = &self.address else { return Ok(()) };
        let line = seal(&format!("{ADDRESS}{} {address}", self.holder.epoch));
        file::write_all(&*self.file, &line, ADDRESS_AT)
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

/// Locks an open lock file. Returns the last writer, and what is known of the directory.
fn hold(file: &dyn LogFile, disk: &dyn Disk, dir: &Path, src: &str) -> Result<(Option<Holder>, Known), LogError> {
    let path = lock_path(dir, src);
    let last = last_holder(file, &path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LogError::Held { path, holder: describe(last.as_ref()) }),
        Err(TryLockError::Error(error)) => return Err(LogError::io(&path, "lock")(error)),
    }
    // Read again: the previous writer may have written until it released the lock.
    let last = last_holder(file, &path)?;
    let mut known = Known::default();
    known.add(identity_line(file, &path)?, last.as_ref().map_or(0, |holder| holder.epoch));
    if let Err(error) = ask_side_files(disk, dir, src, &mut known) {
        // With a lock file they are only confirmation.
        if last.is_none() {
            return Err(error);
        }
        tracing::warn!(path = %path.display(), %error, "cannot read the log or its side file for the epoch: using the lock file alone");
    }
    Ok((last, known))
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

/// Returns the identity of a directory's logs: that in the lock file, or else that in the side files.
pub(super) fn read_identity(disk: &dyn Disk, dir: &Path, src: &str) -> Result<Option<LogId>, LogError> {
    let path = lock_path(dir, src);
    let file = disk.open(&path, Open::Fresh).map_err(LogError::io(&path, "open"))?;
    let mut known = Known { identity: identity_line(&*file, &path)?, ..Known::default() };
    if known.identity.is_none() {
        ask_side_files(disk, dir, src, &mut known)?;
    }
    Ok(known.identity)
}

/// Returns the address of the holder with this epoch, if it has said one.
pub(super) fn read_address(disk: &dyn Disk, path: &Path, epoch: u64) -> Result<Option<String>, LogError> {
    let file = disk.open(path, Open::Fresh).map_err(LogError::io(path, "open"))?;
    let mut line = [0; LINE_BYTES];
    let read = file::read_full(&*file, &mut line, ADDRESS_AT).map_err(LogError::io(path, "read"))?;
    let text = line.get(..read).and_then(unseal).and_then(|text| text.strip_prefix(ADDRESS));
    let (of, address) = text.and_then(|text| text.split_once(' ')).unwrap_or_default();
    let is_shown = |byte: &u8| byte.is_ascii_graphic();
    Ok((of.parse() == Ok(epoch)).then(|| address.bytes().filter(is_shown).map(char::from).collect()))
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
