//! Whole reads and writes of a file: short and interrupted ones are repeated.

use crate::env::{Disk, LogFile, Open};
use crate::points::{self, Point};
use std::io;
use std::path::Path;

/// Writes all of the bytes, repeating short and interrupted writes.
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

/// As [`write_all`], with a failpoint after the first half.
///
/// # Errors
/// The file system's.
pub fn write_at_point(file: &dyn LogFile, bytes: &[u8], offset_bytes: u64, point: Point) -> io::Result<()> {
    let (first, rest) = bytes.split_at_checked(points::half(point, bytes.len())).unwrap_or((&[], bytes));
    write_all(file, first, offset_bytes)?;
    points::reach(point);
    write_all(file, rest, offset_bytes.saturating_add(first.len() as u64))
}

/// Replaces a small file, atomically and durably.
///
/// # Errors
/// The file system's; the file is as before or as wanted.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = super::name::beside(path, ".new");
    let file = disk.open(&new, Open::Create)?;
    file.truncate(0)?;
    write_all(&*file, bytes, 0)?;
    file.sync_all()?;
    disk.rename(&new, path)?;
    disk.sync_directory_of(path)
}

/// Returns the contents of a small file.
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

/// Fills the buffer, or reads to the end of the file; returns the number of bytes read.
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
