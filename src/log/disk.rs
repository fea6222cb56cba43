//! The file system under the logs, as a trait: the operating system's, or a virtual one that the simulator sets for a thread.

use super::file::LogFile;
use crate::sys::fs;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Read only.
    Read,
    /// Read only and bypassing the page cache (`O_DIRECT`), for a file that another host may write.
    Fresh,
    /// Read and write; the file must exist.
    Write,
    /// Read and write; creates the file if it is missing.
    Create,
    /// Read and write; fails if the file exists.
    New,
}

/// The writing process, as recorded in a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterProcess {
    pub pid: u32,
    pub host: String,
    /// Changes with every boot of the machine.
    pub boot: String,
}

/// A file system.
pub trait Disk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>>;
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the directory entry of a new or renamed file durable.
    fn sync_directory_of(&self, path: &Path) -> io::Result<()>;
    /// Paths of the directory's entries.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    fn who(&self) -> WriterProcess;

    /// A random number for a unique identity.
    fn draw(&self) -> u64 {
        fastrand::u64(1..)
    }
}

/// The operating system's file system.
struct System;

impl Disk for System {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
        let mut options = OpenOptions::new();
        options.read(true).truncate(false);
        let file = match how {
            Open::Read => File::open(path),
            Open::Fresh => fs::open_fresh(path),
            Open::Write => options.write(true).open(path),
            Open::Create => options.write(true).create(true).open(path),
            Open::New => options.write(true).create_new(true).open(path),
        };
        Ok(Arc::new(file?))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_directory_of(&self, path: &Path) -> io::Result<()> {
        fs::sync_directory_of(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect())
    }

    fn who(&self) -> WriterProcess {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        WriterProcess {
            pid: std::process::id(),
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
        }
    }
}

thread_local! {
    static OWN: RefCell<Option<Arc<dyn Disk>>> = const { RefCell::new(None) };
}

/// Sets or removes this thread's virtual disk. Open files are not affected.
pub fn set_virtual(disk: Option<Arc<dyn Disk>>) {
    OWN.set(disk);
}

/// Whether the simulator runs this thread; it then steps the background threads itself.
pub fn is_virtual() -> bool {
    OWN.with_borrow(Option::is_some)
}

fn with<T>(ask: impl FnOnce(&dyn Disk) -> T) -> T {
    match OWN.with_borrow(Clone::clone) {
        Some(own) => ask(&*own),
        None => ask(&System),
    }
}

/// Opens a file.
///
/// # Errors
/// The file system's.
pub fn open(path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
    with(|disk| disk.open(path, how))
}

/// Creates a directory and its parents.
///
/// # Errors
/// The file system's.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    with(|disk| disk.create_dir_all(path))
}

/// Renames a file.
///
/// # Errors
/// The file system's.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    with(|disk| disk.rename(from, to))
}

/// Makes the directory entry of a new or renamed file durable.
///
/// # Errors
/// The file system's.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    with(|disk| disk.sync_directory_of(path))
}

/// Returns the paths of the directory's entries.
///
/// # Errors
/// The file system's.
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    with(|disk| disk.list(directory))
}

/// Returns the process, host and boot that a lock file records.
pub fn who() -> WriterProcess {
    with(|disk| disk.who())
}

/// Returns a random number for a unique identity.
pub fn draw() -> u64 {
    with(|disk| disk.draw())
}
