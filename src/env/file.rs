//! The file under a log, as a trait. Positioned reads and writes, so that readers and the writer share no file position, and so that tests
//! can substitute a failing disk.

use crate::sys::fs::{self, Place};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// An open file descriptor and the file it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub number: i32,
    pub place: Place,
}

/// The operations that the log needs of a file. Writes take effect in call order; `sync` makes every write that returned before it durable.
pub trait LogFile: Send + Sync {
    /// Reads at an offset and returns the number of bytes read; 0 at the end of the file. On a network file system that may be an old end.
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize>;
    /// Writes some of the bytes and returns how many.
    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<usize>;
    fn truncate(&self, size_bytes: u64) -> io::Result<()>;
    /// Makes data and size durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
    fn size_bytes(&self) -> io::Result<u64>;

    /// Makes data and all metadata durable (fsync).
    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    /// Takes the file's exclusive lock, held until the file is dropped; fails at once if it is held.
    fn try_lock(&self) -> Result<(), TryLockError> {
        Ok(())
    }

    /// Whether the file is on a network file system, where other hosts write it and this host may see an old size or old bytes.
    fn is_shared(&self) -> bool {
        false
    }

    /// Distinguishes the file from another one with its name. The inode number alone does not: a volume mounted over the directory may
    /// contain the same number, as copied volumes do.
    fn identity(&self) -> io::Result<Place> {
        Ok(Place::default())
    }

    /// `None` for a file of the simulator or a test.
    fn descriptor(&self) -> Option<Descriptor> {
        None
    }
}

impl LogFile for File {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset_bytes)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset_bytes)
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.set_len(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        File::try_lock(self)
    }

    fn is_shared(&self) -> bool {
        fs::is_nfs(self)
    }

    fn identity(&self) -> io::Result<Place> {
        fs::place_of(self)
    }

    fn descriptor(&self) -> Option<Descriptor> {
        Some(Descriptor { number: self.as_raw_fd(), place: fs::place_of(self).ok()? })
    }
}
