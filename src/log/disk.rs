//! The file system under the logs, as a trait: the system's, unless a simulated world gives the thread another.

use super::file::LogFile;
use crate::sys::fs;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// To be read.
    Read,
    /// To be read past what this host remembers of it, where another host may write it.
    Fresh,
    /// To be read and written; it must be there.
    Write,
    /// To be read and written; made if it is missing.
    Create,
    /// To be read and written; an error if it is there.
    New,
}

/// Who writes, as a lock file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub pid: u32,
    pub host: String,
    /// Changes with every start of the machine.
    pub boot: String,
}

/// Files by name.
pub trait Disk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>>;
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the name of a new or renamed file durable.
    fn sync_directory_of(&self, path: &Path) -> io::Result<()>;
    /// The files of a directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    fn who(&self) -> Who;

    /// A random number, for an identity that nothing else has.
    fn draw(&self) -> u64 {
        fastrand::u64(1..)
    }
}

/// The operating system's.
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

    fn who(&self) -> Who {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Who {
            pid: std::process::id(),
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
        }
    }
}

thread_local! {
    static OWN: RefCell<Option<Arc<dyn Disk>>> = const { RefCell::new(None) };
}

/// Gives this thread a disk of its own, or takes it away. Files that are open stay what they are.
pub fn set_virtual(disk: Option<Arc<dyn Disk>>) {
    OWN.set(disk);
}

/// Whether a world runs this thread: then what would be a thread of its own is stepped by that world.
pub fn is_virtual() -> bool {
    OWN.with_borrow(Option::is_some)
}

fn with<T>(ask: impl FnOnce(&dyn Disk) -> T) -> T {
    match OWN.with_borrow(Clone::clone) {
        Some(own) => ask(&*own),
        None => ask(&System),
    }
}

/// # Errors
/// The file system's.
pub fn open(path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
    with(|disk| disk.open(path, how))
}

/// # Errors
/// The file system's.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    with(|disk| disk.create_dir_all(path))
}

/// # Errors
/// The file system's.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    with(|disk| disk.rename(from, to))
}

/// # Errors
/// The file system's.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    with(|disk| disk.sync_directory_of(path))
}

/// The files of a directory.
///
/// # Errors
/// The file system's.
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    with(|disk| disk.list(directory))
}

/// Who writes here.
pub fn who() -> Who {
    with(|disk| disk.who())
}

/// A random number, for an identity that nothing else has.
pub fn draw() -> u64 {
    with(|disk| disk.draw())
}
