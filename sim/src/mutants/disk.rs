//! Mutants of a process's disk.

use super::{Defect, is_planted};
use elastick::env::{Disk, LogFile, Open, WriterProcess};
use elastick::log::date_of;
use elastick::sys::fs::Place;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the disk as a process with the mutant uses it.
pub fn of(disk: impl Disk + 'static) -> Arc<dyn Disk> {
    let is_of_disk = [Defect::SyncErrorIgnored, Defect::AckBeforeDurable, Defect::PublishBeforeLog];
    if is_of_disk.into_iter().any(is_planted) { Arc::new(Mutant(disk)) } else { Arc::new(disk) }
}

struct Mutant<D>(D);

impl<D: Disk> Disk for Mutant<D> {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
        let file = self.0.open(path, how)?;
        let is_log = date_of(path).is_some();
        Ok(Arc::new(MutantFile { file, is_log, late: Mutex::default() }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_directory_of(&self, path: &Path) -> io::Result<()> {
        self.0.sync_directory_of(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.list(directory)
    }

    fn who(&self) -> WriterProcess {
        self.0.who()
    }

    fn draw(&self) -> u64 {
        self.0.draw()
    }
}

struct MutantFile {
    file: Arc<dyn LogFile>,
    is_log: bool,
    /// A write that has returned and not taken effect: bytes and offset.
    late: Mutex<Option<(Vec<u8>, u64)>>,
}

impl MutantFile {
    /// Does the late write. Its error is lost, as that of a write after which the process goes on.
    fn catch_up(&self) {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((bytes, offset_bytes)) = late else { return };
        let mut rest = bytes.as_slice();
        let mut at = offset_bytes;
        while let Ok(written @ 1..) = self.file.write_at(rest, at) {
            rest = rest.get(written..).unwrap_or_default();
            at = at.saturating_add(written as u64);
        }
    }
}

impl LogFile for MutantFile {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        self.catch_up();
        self.file.read_at(buffer, offset_bytes)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<usize> {
        self.catch_up();
        if !self.is_log || !is_planted(Defect::PublishBeforeLog) {
            return self.file.write_at(bytes, offset_bytes);
        }
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Some((bytes.to_vec(), offset_bytes));
        Ok(bytes.len())
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.catch_up();
        self.file.truncate(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.catch_up();
        if is_planted(Defect::AckBeforeDurable) {
            return Ok(());
        }
        self.file.sync().or_else(|error| if is_planted(Defect::SyncErrorIgnored) { Ok(()) } else { Err(error) })
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.catch_up();
        self.file.size_bytes()
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    fn is_shared(&self) -> bool {
        self.file.is_shared()
    }

    fn identity(&self) -> io::Result<Place> {
        self.file.identity()
    }
}
