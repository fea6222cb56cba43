//! The file under a log, as a trait: positioned reads and writes, so that no two parties share a file position, and so
//! that a disk that fails can be put in its place.

use crate::points::{self, Point};
use crate::sys::fs::{self, Place};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// An open file as the system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub number: i32,
    pub place: Place,
}

/// What the log needs of a file. Writes are in order of calls; `sync` makes all that returned before it durable.
pub trait LogFile: Send + Sync {
    /// Reads at a position; 0 bytes means that the file ends there, as far as this handle knows.
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize>;
    /// Writes some of the bytes and answers how many.
    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<usize>;
    fn truncate(&self, size_bytes: u64) -> io::Result<()>;
    /// Data and size on disk (fdatasync).
    fn sync(&self) -> io::Result<()>;
    fn size_bytes(&self) -> io::Result<u64>;

    /// Data, size and all else on disk (fsync).
    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    /// Takes the file's exclusive lock, held until the file is dropped, or fails at once.
    fn try_lock(&self) -> Result<(), TryLockError> {
        Ok(())
    }

    /// Whether it is on a network file system, where other hosts write it and this one may see its size and its bytes late.
    fn is_shared(&self) -> bool {
        false
    }

    /// Tells a file from one that has taken its name. The inode number alone does not: a volume mounted over the directory may have one
    /// with the same number, as copied volumes do.
    fn identity(&self) -> io::Result<Place> {
        Ok(Place::default())
    }

    /// None where the file is not the system's.
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

/// Writes all of the bytes; a write may take fewer than it is given, and may be interrupted.
///
/// # Errors
/// The file system's.
pub fn write_all(file: &dyn LogFile, mut bytes: &[u8], mut offset_bytes: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset_bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset_bytes = offset_bytes.saturating_add(written as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As [`write_all`]; a test may have the process end when half of it is written.
///
/// # Errors
/// The file system's.
pub fn write_at_point(file: &dyn LogFile, bytes: &[u8], offset_bytes: u64, point: Point) -> io::Result<()> {
    let (first, rest) = bytes.split_at_checked(points::half(point, bytes.len())).unwrap_or((&[], bytes));
    write_all(file, first, offset_bytes)?;
    points::reach(point);
    write_all(file, rest, offset_bytes.saturating_add(first.len() as u64))
}

/// All bytes of a small file.
///
/// # Errors
/// The file system's.
pub fn whole(file: &dyn LogFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.size_bytes()?).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64)? {
            0 => break,
            read => filled = filled.saturating_add(read),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Fills the buffer as far as the file goes and answers how many bytes it got.
pub(crate) fn read_full(file: &dyn LogFile, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset_bytes.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
