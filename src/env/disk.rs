//! The file system under the logs, as a trait.

use super::file::LogFile;
use crate::sys::fs::{self, Room};
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
pub trait Disk: Send + Sync {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>>;
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file to a name that must be free: fails if a file has it, also if another host gives it that name at the same time.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Deletes a file, not a directory.
    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes the directory entry of a new, renamed or deleted file durable.
    fn sync_directory_of(&self, path: &Path) -> io::Result<()>;
    /// Paths of the directory's entries.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    fn who(&self) -> WriterProcess;

    /// Free space on the file system of a directory.
    fn room(&self, _: &Path) -> io::Result<Room> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A random number for a unique identity.
    fn draw(&self) -> u64 {
        fastrand::u64(1..)
    }
}

/// The operating system's file system.
pub struct SystemDisk;

impl Disk for SystemDisk {
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

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
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

    fn room(&self, directory: &Path) -> io::Result<Room> {
        fs::room(directory)
    }
}
