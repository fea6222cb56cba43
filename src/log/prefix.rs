//! Checksums of the beginning of a log, by which two processes find out how far their logs are the same, and blocks by which a copy is proved.
//!
//! The checksum of a beginning is combined from those of its blocks in the side file, which are the checksums of the bytes that were written. So it is
//! cheap for a long log, depends on bytes alone and not on where a writer ended its blocks, and a block that has other bytes by now is found.

use super::error::LogError;
use super::file;
use super::identity::Sample;
use super::index::{Entry, SideFile};
use super::reader::side_of;
use super::scan::Mark;
use super::source::LogSource;
use crate::env::{Disk, LogFile, Open};
use std::path::Path;
use std::sync::Arc;

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

fn opened(disk: &dyn Disk, source: &LogSource) -> Result<(Arc<dyn LogFile>, Option<SideFile>), LogError> {
    let file = match &source.own {
        Some(file) => Arc::clone(file),
        None => disk.open(source.path(), Open::Read).map_err(LogError::io(source.path(), "open"))?,
    };
    Ok((file, side_of(disk, source)))
}

/// Returns the CRC-32C of the log's bytes before each of these offsets, which must not decrease; `None` past the end of the log.
///
/// # Errors
/// The log cannot be read.
pub fn prefix_sums(disk: &dyn Disk, source: &LogSource, offsets: &[u64]) -> Result<Vec<Option<u32>>, LogError> {
    let (file, side) = opened(disk, source)?;
    let size = file.size_bytes().map_err(LogError::io(source.path(), "read"))?;
    let mut cursor = Cursor { file: &*file, path: source.path(), side: side.as_ref(), next: 0, at: 0, crc: 0 };
    let sum = |offset: &u64| if *offset > size { Ok(None) } else { cursor.go_to(*offset) };
    offsets.iter().map(sum).collect()
}

/// A position in a log, and the checksum of the bytes before it.
struct Cursor<'a> {
    file: &'a dyn LogFile,
    path: &'a Path,
    side: Option<&'a SideFile>,
    /// Position of the first entry that does not end before.
    next: u64,
    at: u64,
    crc: u32,
}

impl Cursor<'_> {
    /// `None` if the log ends before, or the position is behind.
    fn go_to(&mut self, offset: u64) -> Result<Option<u32>, LogError> {
        while let Some(entry) = self.side.and_then(|side| side.entry(self.next)) {
            let end = entry.end().offset_bytes;
            if end > offset {
                break;
            }
            self.next = self.next.saturating_add(1);
            if end <= self.at {
                continue;
            }
            if entry.offset_bytes > self.at && !self.read_to(entry.offset_bytes)? {
                return Ok(None);
            }
            match entry.offset_bytes == self.at {
                true => self.skip(&entry),
                false if !self.read_to(end)? => return Ok(None),
                false => {}
            }
        }
        Ok(self.read_to(offset)?.then_some(self.crc))
    }

    fn skip(&mut self, entry: &Entry) {
        let length = usize::try_from(entry.length_bytes).unwrap_or(usize::MAX);
        self.crc = crc32c::crc32c_combine(self.crc, entry.crc, length);
        self.at = entry.end().offset_bytes;
    }

    /// Returns whether the log reaches that far.
    fn read_to(&mut self, offset: u64) -> Result<bool, LogError> {
        let mut buffer =
            vec![0; usize::try_from(offset.saturating_sub(self.at)).unwrap_or(usize::MAX).min(CHUNK_BYTES)];
        while self.at < offset {
            let most = usize::try_from(offset.saturating_sub(self.at)).unwrap_or(usize::MAX).min(buffer.len());
            let bytes = buffer.get_mut(..most).unwrap_or_default();
            let read = file::read_full(self.file, bytes, self.at).map_err(LogError::io(self.path, "read"))?;
            if read == 0 {
                return Ok(false);
            }
            self.crc = crc32c::crc32c_append(self.crc, bytes.get(..read).unwrap_or_default());
            self.at = self.at.saturating_add(read as u64);
        }
        Ok(self.at == offset)
    }
}

/// Returns where the blocks of a log end, in order, and of which the last one may be anywhere before the end of the log.
pub fn block_ends(disk: &dyn Disk, source: &LogSource) -> Vec<Mark> {
    let Some(side) = side_of(disk, source) else { return Vec::new() };
    (0..side.entries()).map_while(|at| side.entry(at)).map(|entry| entry.end()).collect()
}

/// Returns up to `most` blocks of a log from an offset on that end at `until` or before.
pub fn blocks_from(disk: &dyn Disk, source: &LogSource, offset_bytes: u64, until: u64, most: usize) -> Vec<Sample> {
    let Some(side) = side_of(disk, source) else { return Vec::new() };
    let first = side.first_from(offset_bytes).unwrap_or(side.entries());
    let entries = (first..side.entries()).map_while(|at| side.entry(at));
    let wanted =
        entries.take_while(|entry| entry.end().offset_bytes <= until).filter(|entry| !entry.is_damaged).take(most);
    wanted.map(|Entry { offset_bytes, length_bytes, crc, .. }| Sample { offset_bytes, length_bytes, crc }).collect()
}
