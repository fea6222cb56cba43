//! Waits for the lock of a log that another process writes.

use super::error::LogError;
use super::lock::{WriterLock, lock_log};
use super::name::{lock_path, logs_of, queue_path};
use super::writer::{Locked, LogOptions, check_mount};
use crate::env::{LogFile, Open};
use crate::sys::fs::Place;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A process that wants the lock of another one. It keeps the lock file open and never creates one: if the path leads elsewhere, because the
/// directory was moved, unmounted or emptied, a lock there would not be that of the log.
pub struct Contender {
    options: LogOptions,
    path: PathBuf,
    /// Keeps the file's place from being given to another one.
    _file: Arc<dyn LogFile>,
    place: Place,
    /// The file as it was opened for an attempt that failed, locked if only the log or the epoch was in the way: [`Contender::release`].
    kept: Mutex<Option<Arc<dyn LogFile>>>,
}

impl Contender {
    /// Opens the lock file, which must exist.
    ///
    /// # Errors
    /// The system's.
    pub fn open(options: LogOptions) -> Result<Contender, LogError> {
        let path = lock_path(&options.dir, &options.src);
        let file = options.env.disk.open(&path, Open::Write).map_err(LogError::io(&path, "open"))?;
        let place = file.identity().map_err(LogError::io(&path, "look at"))?;
        Ok(Contender { options, path, _file: file, place, kept: Mutex::default() })
    }

    /// As [`Contender::open`] for a process that may be the first one of the directory: makes directory and lock file if they are missing. Not
    /// for the successor of a process that is known to have them.
    ///
    /// # Errors
    /// `Misplaced` if the directory is not on the required file system; nothing is written then. The system's.
    pub fn make(options: LogOptions) -> Result<Contender, LogError> {
        let LogOptions { env, dir, src, mount, .. } = &options;
        check_mount(dir, mount)?;
        env.disk.create_dir_all(dir).map_err(LogError::io(dir, "create the directory"))?;
        WriterLock::open_file(&*env.disk, dir, src)?;
        Contender::open(options)
    }

    pub fn options(&self) -> &LogOptions {
        &self.options
    }

    /// Tries to take the lock, with `epoch`, or with one above the highest known. After `Held` and `StaleEpoch` the lock file may stay locked for the next
    /// attempt, so that nobody comes in between.
    ///
    /// # Errors
    /// `Held` while another process has it; `OtherLock` if the path leads to another file; `StaleEpoch` if the log has a later epoch.
    pub fn attempt(&self, epoch: Option<u64>) -> Result<Locked, LogError> {
        self.check_place()?;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let file = match kept {
            Some(file) => file,
            None => self.options.env.disk.open(&self.path, Open::Write).map_err(LogError::io(&self.path, "open"))?,
        };
        let taken = self.take(&file, epoch);
        if let Err(LogError::Held { .. } | LogError::StaleEpoch { .. }) = taken {
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
        taken
    }

    fn take(&self, file: &Arc<dyn LogFile>, epoch: Option<u64>) -> Result<Locked, LogError> {
        // If so, `take` only confirms it.
        if file.try_lock().is_ok() {
            self.check_released()?;
        }
        let LogOptions { env, dir, src, address, .. } = &self.options;
        let (lock, last) = WriterLock::take(Arc::clone(file), &env.disk, dir, src, epoch, address.as_deref())?;
        self.check_place()?;
        Ok(Locked::of(lock, last))
    }

    /// Unlocks what failed attempts have locked. A process that is not to have the log any more would keep it from everybody.
    pub fn release(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the last writer has given up its locks: it has ended, or the file server has taken them, and does not write any more. Locks
    /// nothing itself after it has returned.
    ///
    /// # Errors
    /// The system's.
    pub fn is_abandoned(&self) -> Result<bool, LogError> {
        self.check_place()?;
        let disk = &*self.options.env.disk;
        // The lock of a file that is kept would stay.
        let file = disk.open(&self.path, Open::Write).map_err(LogError::io(&self.path, "open"))?;
        match lock_log(&*file, &self.path).and_then(|()| self.check_released()) {
            Ok(()) => Ok(true),
            Err(LogError::Held { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Checks that nobody has the newest log or its journal: a process that ends, or is killed, releases one lock after the other. The lock file stays
    /// locked meanwhile.
    ///
    /// # Errors
    /// `Held`; the system's.
    fn check_released(&self) -> Result<(), LogError> {
        let LogOptions { env, dir, src, .. } = &self.options;
        let disk = &*env.disk;
        let Some((_, log)) = logs_of(disk, dir, src).map_err(LogError::io(dir, "list"))?.pop() else { return Ok(()) };
        for path in [queue_path(&log), log] {
            match disk.open(&path, Open::Write) {
                Ok(file) => lock_log(&*file, &path)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(LogError::io(&path, "open")(error)),
            }
        }
        Ok(())
    }

    /// Checks that the path still leads to the lock file that is open.
    ///
    /// # Errors
    /// `OtherLock` if it leads to another file; the system's.
    pub fn check_place(&self) -> Result<(), LogError> {
        let there = self.options.env.disk.open(&self.path, Open::Read).map_err(LogError::io(&self.path, "open"))?;
        let place = there.identity().map_err(LogError::io(&self.path, "look at"))?;
        if place == self.place { Ok(()) } else { Err(LogError::OtherLock { path: self.path.clone() }) }
    }
}
