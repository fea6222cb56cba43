//! One writer for each source and directory, and the epoch that grows with every change of writer.
//!
//! `DIR/SRC.lock` is held with an exclusive lock as long as its writer lives. It has two lines of text of one length;
//! a writer overwrites the older one, so a crash while writing leaves the other. A line says the epoch, who holds it,
//! whether the writer closed the log in order, and the machine's boot, so that the next writer knows whether the
//! operating system can have lost what the last one wrote. A third line has the identity of the directory's logs.
//!
//! The file may be deleted, damaged or restored from a backup. So every side file has identity and epoch in its head as well, and a
//! writer begins above the highest epoch that it finds in any of them.

use super::disk;
use super::error::LogError;
use super::file::{self, LogFile};
use super::identity::LogId;
use super::index::SideFile;
use super::name::{date_of, lock_path, log_of_side, log_path};
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a line with its newline.
const LINE_BYTES: usize = 160;
/// The word of a writer that has not compared the log with its side file yet, though the system may have lost parts of it.
const UNCHECKED: &str = "unchecked";
/// Begins the line with the identity, behind the lines of two writers.
const IDENTITY: &str = "log ";
const IDENTITY_AT: u64 = 2 * LINE_BYTES as u64;
/// Begins the word for a log that ended with an error, before the update from which it may not be on the disk.
const UNSYNCED: &str = "unsynced-";

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub epoch: u64,
    pub pid: u32,
    pub host: String,
    pub boot: String,
    /// Whether the log was flushed, synced and closed.
    pub clean: bool,
    /// After an error: what follows this update may be shown by the operating system, and be on no disk.
    pub unsynced_from: Option<u64>,
    /// The operating system may have lost what a writer before gave it, and no writer has accepted the log since: a start that was
    /// refused, or cut short, leaves that to the next one.
    pub unchecked: bool,
}

impl Holder {
    /// Whether this one writes where `other` did: it came later, or took the same number.
    pub(super) fn has_replaced(&self, other: &Holder) -> bool {
        let is_other = (self.pid, &self.host, &self.boot) != (other.pid, &other.host, &other.boot);
        self.epoch > other.epoch || (self.epoch == other.epoch && is_other)
    }

    fn here(epoch: u64) -> Holder {
        let who = disk::who();
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

/// A line of the file.
fn seal(text: &str) -> Vec<u8> {
    let crc = crc32c::crc32c(text.as_bytes());
    let mut line = format!("{text} crc {crc:08x}").into_bytes();
    line.resize(LINE_BYTES - 1, b' ');
    line.push(b'\n');
    line
}

/// What a line says, if it is as it was written.
fn unseal(line: &[u8]) -> Option<&str> {
    let (text, crc) = std::str::from_utf8(line).ok()?.trim_end().rsplit_once(" crc ")?;
    (u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(text.as_bytes())).then_some(text)
}

/// One word that fits its place in a line.
fn word(text: &str) -> String {
    let word: String = text.trim().chars().filter(char::is_ascii_graphic).take(40).collect();
    if word.is_empty() { "?".to_string() } else { word }
}

/// What a directory says of its logs: whose they are, and the highest epoch of a writer.
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

/// The lock, held until it is dropped.
pub struct WriterLock {
    file: Arc<dyn LogFile>,
    path: PathBuf,
    holder: Holder,
    identity: LogId,
}

impl WriterLock {
    /// Takes the lock with `epoch`, or with one more than the last writer's. Answers the last writer as well.
    pub fn take(dir: &Path, src: &str, epoch: Option<u64>) -> Result<(WriterLock, Option<Holder>), LogError> {
        let path = lock_path(dir, src);
        let file = disk::open(&path, disk::Open::Create).map_err(LogError::io(&path, "open"))?;
        let last = last_holder(&*file, &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LogError::Held { path, holder: describe(last.as_ref()) }),
            Err(TryLockError::Error(error)) => return Err(LogError::io(&path, "lock")(error)),
        }
        // Read again: the one before may have written until it let go.
        let last = last_holder(&*file, &path)?;
        let mut known = Known::default();
        known.add(identity_line(&*file, &path)?, last.as_ref().map_or(0, |holder| holder.epoch));
        if let Err(error) = ask_side_files(dir, src, &mut known) {
            // With a lock file they only confirm it.
            if last.is_none() {
                return Err(error);
            }
            ::log::warn!("the epoch comes from {} alone: {error}", path.display());
        }
        let stored = known.epoch;
        let epoch = match epoch {
            Some(given) if given <= stored => return Err(LogError::StaleEpoch { path, given, stored }),
            Some(given) => given,
            None => stored.saturating_add(1),
        };
        let identity = known.identity.unwrap_or_else(|| LogId(disk::draw()));
        let mut lock = WriterLock { file, path, holder: Holder::here(epoch), identity };
        // Until this writer has written it again, the next one has to.
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

    /// Gives the logs another identity, and this writer an epoch above `seen`. Updates that nodes hold by the former are not those of
    /// this directory any more.
    ///
    /// # Errors
    /// `Lost` if the lock file names another writer by now; then the logs are that one's.
    pub fn begin_anew(&mut self, seen: u64) -> Result<(), LogError> {
        if let Ok(Some(holder)) = read_holder(&self.path)
            && holder.has_replaced(&self.holder)
        {
            let reason = format!("another tickerplant has taken over ({})", describe(Some(&holder)));
            return Err(LogError::Lost { path: self.path.clone(), reason });
        }
        self.holder.epoch = self.holder.epoch.max(seen).saturating_add(1);
        self.identity = LogId(disk::draw());
        // The line with the old epoch may be that of the same place, or the other one: the higher epoch counts.
        self.write()?;
        self.write_identity()
    }

    /// Who holds it.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The lock's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the lock is another host's to give, and to take.
    pub fn is_on_nfs(&self) -> bool {
        self.file.is_shared()
    }

    pub fn epoch(&self) -> u64 {
        self.holder.epoch
    }

    /// Whether everything that the last writer gave to the operating system is still there for us.
    pub fn same_boot(&self, last: &Holder) -> bool {
        last.boot == self.holder.boot && last.boot != "?"
    }

    /// Says that from this update on the log may not be on the disk, whatever the operating system shows of it.
    pub fn mark_unsynced(&mut self, from: u64) -> Result<(), LogError> {
        if self.holder.unsynced_from == Some(from) {
            return Ok(());
        }
        self.holder.unsynced_from = Some(from);
        self.write()
    }

    /// Says that the log was opened: compared where that was needed, put right, and on the disk.
    pub fn mark_accepted(&mut self) -> Result<(), LogError> {
        if self.holder.unsynced_from.is_none() && !self.holder.unchecked {
            return Ok(());
        }
        (self.holder.unsynced_from, self.holder.unchecked) = (None, false);
        self.write()
    }

    /// Says that the log was closed in order.
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

/// Adds what the side files of all days say.
fn ask_side_files(dir: &Path, src: &str, known: &mut Known) -> Result<(), LogError> {
    for side in disk::list(dir).map_err(LogError::io(dir, "list"))? {
        let Some(log) = log_of_side(&side) else { continue };
        if date_of(&log).is_none_or(|date| log_path(dir, src, date) != log) {
            continue;
        }
        let Some(found) = SideFile::open_if_there(&side).map_err(LogError::io(&side, "read"))? else { continue };
        let last = found.entries().checked_sub(1).and_then(|at| found.entry(at));
        known.add(found.head().identity, found.head().epoch);
        known.epoch = known.epoch.max(last.map_or(0, |entry| entry.epoch));
    }
    Ok(())
}

/// The last writer that a lock file names, as its server has it now.
pub(super) fn read_holder(path: &Path) -> Result<Option<Holder>, LogError> {
    let file = disk::open(path, disk::Open::Fresh).map_err(LogError::io(path, "open"))?;
    last_holder(&*file, path)
}

pub(super) fn describe(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("process {} on {}, epoch {}", holder.pid, holder.host, holder.epoch),
        None => "its process has not written its number yet".to_string(),
    }
}

/// Takes the lock of the log itself too: on a network file system the server then refuses the writes of a holder that
/// it has given up, which a lock on another file would not bring about.
pub fn lock_log(file: &dyn LogFile, path: &Path) -> Result<(), LogError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(LogError::Held { path: path.to_path_buf(), holder: "it holds a lock on the log".to_string() })
        }
        Err(TryLockError::Error(error)) => Err(LogError::io(path, "lock")(error)),
    }
}
