//! Detects that the log's path no longer leads to the open file, or that the file lost bytes written to it.
//!
//! Writes and syncs go through a descriptor and succeed whatever happens to the name, and a hole is no error either: a log that `logrotate`
//! truncates, or that is removed or moved, accepts updates without an error. A thread checks once a second.
//!
//! The thread keeps no descriptor, so that closing the log frees it at once. It may hang with the file system, so nothing waits for it. A
//! file without a descriptor is not checked.

use super::file;
use super::writer::Waker;
use crate::env::task::Every;
use crate::env::{Descriptor, LogFile, Spawner};
use crate::sys::fs;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Interval between checks.
const EVERY: Duration = Duration::from_secs(1);
/// Bytes remembered from the start of the log, and from before its written end.
const SAMPLE_BYTES: u64 = 4096;

/// What happened to the log's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// Its path leads nowhere or to another file; the descriptor still has all updates. With a description.
    Elsewhere(String),
    /// Updates written to it are gone. With a description.
    Cut(String),
}

#[derive(Default)]
struct Shared {
    /// Why the path does not lead to the log, as long as that lasts.
    elsewhere: Mutex<Option<String>>,
    /// Set once: truncated updates do not come back.
    cut: OnceLock<String>,
}

/// Checks the log; ends on drop.
pub(super) struct Watch {
    shared: Arc<Shared>,
    _task: Every,
}

impl Watch {
    /// Watches a log. `written_bytes` must be raised only after the bytes are in the file. Calls `waker` when the result of the check
    /// changes. Returns `None` if the file has no descriptor.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        spawner: &dyn Spawner,
        file: &dyn LogFile,
        path: &Path,
        is_shared: bool,
        written_bytes: Arc<AtomicU64>,
        waker: Option<Waker>,
    ) -> io::Result<Option<Watch>> {
        let Some(mut look) = Look::new(file, path, is_shared) else { return Ok(None) };
        look.remember(file, written_bytes.load(Ordering::Acquire));
        let shared = Arc::<Shared>::default();
        let of_task = Arc::clone(&shared);
        let task = Every::start(spawner, "log-watch", EVERY, move || {
            let harm = look.look(written_bytes.load(Ordering::Acquire));
            if of_task.note(harm)
                && let Some(waker) = &waker
            {
                waker();
            }
            ControlFlow::Continue(())
        })?;
        Ok(Some(Watch { shared, _task: task }))
    }

    /// Why the path does not lead to the log at the moment.
    pub fn elsewhere(&self) -> Option<String> {
        self.shared.elsewhere.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why acknowledged updates are no longer in the log.
    pub fn cut(&self) -> Option<&str> {
        self.shared.cut.get().map(String::as_str)
    }
}

impl Shared {
    /// Returns true if the result changed.
    fn note(&self, harm: Option<Harm>) -> bool {
        let elsewhere = match harm {
            Some(Harm::Cut(reason)) => return self.cut.set(reason).is_ok(),
            Some(Harm::Elsewhere(reason)) => Some(reason),
            None => None,
        };
        let mut noted = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *noted != elsewhere;
        *noted = elsewhere;
        changed
    }
}

/// Bytes of the file as last seen.
struct Seen {
    offset_bytes: u64,
    bytes: Vec<u8>,
}

impl Seen {
    fn of(file: &dyn LogFile, offset_bytes: u64, end_bytes: u64) -> Option<Seen> {
        let mut bytes = vec![0; usize::try_from(end_bytes.saturating_sub(offset_bytes)).ok()?];
        let read = file::read_full(file, &mut bytes, offset_bytes).ok()?;
        (read == bytes.len()).then_some(Seen { offset_bytes, bytes })
    }

    /// Whether the file has other bytes there now; false if it cannot be read.
    fn differs(&self, file: &dyn LogFile) -> bool {
        let mut now = vec![0; self.bytes.len()];
        file::read_full(file, &mut now, self.offset_bytes).is_ok_and(|read| now.get(..read) != Some(&self.bytes))
    }
}

/// State of the periodic check.
pub(super) struct Look {
    path: PathBuf,
    own: Descriptor,
    /// On a network file system a size may be stale: report truncation only when two checks agree.
    is_shared: bool,
    seems_cut: bool,
    first: Option<Seen>,
    /// Bytes before the written end, as of the last check. If the file was truncated and then extended, its size is right, but zeros
    /// replace the records.
    last: Option<Seen>,
}

impl Look {
    pub fn new(file: &dyn LogFile, path: &Path, is_shared: bool) -> Option<Look> {
        let own = file.descriptor()?;
        Some(Look { path: path.to_path_buf(), own, is_shared, seems_cut: false, first: None, last: None })
    }

    /// Runs one check. `written_bytes` must be in the file before the call.
    pub fn look(&mut self, written_bytes: u64) -> Option<Harm> {
        if let Some(file) = self.open() {
            let lost = self.what_is_lost(&file, written_bytes);
            let was_seen = std::mem::replace(&mut self.seems_cut, lost.is_some());
            match lost {
                Some(lost) if was_seen || !self.is_shared => return Some(Harm::Cut(lost)),
                Some(_) => {}
                None => self.remember(&file, written_bytes),
            }
        }
        self.elsewhere().map(Harm::Elsewhere)
    }

    fn remember(&mut self, file: &dyn LogFile, written_bytes: u64) {
        if self.first.as_ref().is_none_or(|first| (first.bytes.len() as u64) < SAMPLE_BYTES) {
            self.first = Seen::of(file, 0, written_bytes.min(SAMPLE_BYTES)).or(self.first.take());
        }
        self.last = Seen::of(file, written_bytes.saturating_sub(SAMPLE_BYTES), written_bytes);
    }

    /// Reopens the file that is written, whatever its name is now.
    fn open(&self) -> Option<File> {
        let by_number = PathBuf::from(format!("/proc/self/fd/{}", self.own.number));
        [&by_number, &self.path].into_iter().find_map(|path| {
            let file = File::open(path).ok()?;
            (fs::place_of(&file).ok()? == self.own.place).then_some(file)
        })
    }

    fn what_is_lost(&self, file: &File, written_bytes: u64) -> Option<String> {
        let now_bytes = file.size_bytes().ok()?;
        if now_bytes < written_bytes {
            return Some(format!(
                "another program truncated the log: it has {now_bytes} of the {written_bytes} bytes written"
            ));
        }
        let differs =
            |seen: &Option<Seen>| seen.as_ref().filter(|seen| seen.differs(file)).map(|seen| seen.offset_bytes);
        differs(&self.first).or_else(|| differs(&self.last)).map(|at| {
            format!("another program truncated or overwrote the log: bytes from {at} on differ from what was written")
        })
    }

    /// Why the path does not lead to the file.
    fn elsewhere(&self) -> Option<String> {
        let what = match fs::place_at(&self.path) {
            Ok(place) if place == self.own.place => return None,
            Ok(_) => "the log's path leads to another file",
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                "there is no file at the log's path"
            }
            // For example a silent server: no evidence about the file.
            Err(_) => return None,
        };
        let number = self.own.number;
        let is_removed = self.open().is_some_and(|file| fs::is_removed(&file).unwrap_or(false));
        let moved_to = std::fs::read_link(format!("/proc/self/fd/{number}")).ok().filter(|_| !is_removed);
        Some(match moved_to.filter(|to| *to != self.path) {
            Some(to) => {
                format!("{what}: the log was moved to {}. Move it back before this process exits", to.display())
            }
            None => format!(
                "{what}: the log was removed, and only this process still has it open. Copy /proc/{}/fd/{number} \
                 before this process exits",
                std::process::id()
            ),
        })
    }
}
