//! A log that went on alone: where its records end, and the cut back to where it is still that of its leader.

use super::error::LogError;
use super::index::{Head, SideFile, SideWriter};
use super::name::side_path;
use super::record::{self, Step};
use super::repair::{copy_range, free_name};
use super::scan::Mark;
use super::{file, lock::lock_log};
use crate::env::{Disk, LogFile, Open};
use proto::Limits;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest part of a log in which record ends are found: blocks are much shorter.
const MAX_RANGE_BYTES: u64 = 1 << 30;

/// Returns where each record ends that begins at or after `from`, up to `to`, both of which are ends of records.
///
/// # Errors
/// The log cannot be read, or has another record at one of these positions.
pub fn record_ends(disk: &dyn Disk, path: &Path, from: Mark, to: Mark, limits: &Limits) -> Result<Vec<Mark>, LogError> {
    let log = disk.open(path, Open::Read).map_err(LogError::io(path, "open"))?;
    let length = to.offset_bytes.saturating_sub(from.offset_bytes);
    if length > MAX_RANGE_BYTES {
        let reason = format!("its side file lacks the blocks of {length} bytes: make it with elastick log index");
        return Err(LogError::io(path, "find the records of")(std::io::Error::other(reason)));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let read = file::read_full(&*log, &mut bytes, from.offset_bytes).map_err(LogError::io(path, "read"))?;
    let lengths = whole_records(bytes.get(..read).unwrap_or_default(), limits);
    let mut at = from;
    let ends: Vec<Mark> = lengths
        .into_iter()
        .map(|length| {
            at =
                Mark { offset_bytes: at.offset_bytes.saturating_add(length as u64), index: at.index.saturating_add(1) };
            at
        })
        .collect();
    match ends.last().is_none_or(|last| last.offset_bytes == to.offset_bytes) {
        true => Ok(ends),
        false => {
            Err(LogError::io(path, "read")(std::io::Error::other("a record ends elsewhere than the side file says")))
        }
    }
}

/// Returns the lengths of the records at the start of these bytes, up to the first that is not whole.
pub fn whole_records(mut bytes: &[u8], limits: &Limits) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Step::Whole(length) = record::step(bytes, limits) {
        lengths.push(length);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    lengths
}

/// Cuts a closed log back to `at`, where a record ends, and keeps the bytes from there on in a file beside it, whose path it returns. The side file loses
/// its entries first: a log that is longer than its side file says is walked by the next start, the reverse would be taken for a loss.
///
/// # Errors
/// The file system's; the log is then as it was, or cut.
pub fn cut_back(disk: &dyn Disk, path: &Path, at: Mark) -> Result<PathBuf, LogError> {
    let log = disk.open(path, Open::Write).map_err(LogError::io(path, "open"))?;
    lock_log(&*log, path)?;
    let size = log.size_bytes().map_err(LogError::io(path, "read"))?;
    let kept = free_name(path, &format!(".cut-{}", at.offset_bytes));
    copy_range(disk, &*log, path, at.offset_bytes..size, &kept)?;
    let side_at = side_path(path);
    if let Some(side) = SideFile::open_if_there(disk, &side_at).map_err(LogError::io(&side_at, "read"))? {
        let is_kept = |entry: &u64| side.entry(*entry).is_some_and(|entry| entry.end().offset_bytes <= at.offset_bytes);
        let keep = (0..side.entries()).take_while(is_kept).count() as u64;
        let Head { identity, epoch } = side.head();
        SideWriter::open(disk, &side_at, keep, Head { identity, epoch })?.finish()?;
    }
    log.truncate(at.offset_bytes).and_then(|()| log.sync_all()).map_err(LogError::io(path, "cut back"))?;
    Ok(kept)
}

/// Renames a closed log, its side file and the files `beside` it, so that they are no logs any more. Returns the path of the log. The log goes last: if the
/// process ends before, the next one finds a log without some of its files.
///
/// # Errors
/// The file system's; some of the files may be renamed then.
pub fn set_aside(disk: &dyn Disk, path: &Path, beside: &[PathBuf]) -> Result<PathBuf, LogError> {
    let log = disk.open(path, Open::Write).map_err(LogError::io(path, "open"))?;
    lock_log(&*log, path)?;
    let mut kept = path.to_path_buf();
    for file in beside.iter().chain([&side_path(path), &path.to_path_buf()]) {
        let to = free_name(file, ".aside");
        match disk.rename(file, &to) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && file != path => {}
            done => done.map_err(LogError::io(file, "rename"))?,
        }
        kept = to;
    }
    disk.sync_directory_of(path).map_err(LogError::io(path, "rename"))?;
    Ok(kept)
}

/// Returns the bytes of a log, and those up to which its side file knows it to have been synced, if the log has fewer.
///
/// # Errors
/// The system's.
pub fn synced_and_gone(disk: &dyn Disk, path: &Path) -> Result<Option<(u64, u64)>, LogError> {
    let side = side_path(path);
    let known = SideFile::open_if_there(disk, &side).map_err(LogError::io(&side, "read"))?;
    let Some(synced) = known.and_then(|known| known.synced_end()) else { return Ok(None) };
    let size = |file: Arc<dyn LogFile>| file.size_bytes();
    let bytes = disk.open(path, Open::Read).and_then(size).map_err(LogError::io(path, "look at"))?;
    Ok((bytes < synced.offset_bytes).then_some((bytes, synced.offset_bytes)))
}
