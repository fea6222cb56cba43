//! Blocks whose bytes differ from their checksum in the side file. A survey reports them; a repair copies the marks, so that a new side
//! file does not vouch for bytes that nobody published.

use super::error::LogError;
use super::index::{Entry, SideFile};
use super::open::FIRST;
use super::record::{Fault, FaultKind};
use super::scan::DamagedRange;
use crate::env::{LogFile, SystemDisk};
use std::ops::Range;
use std::path::Path;

/// A stretch of the log as the side file describes it.
enum Block {
    Known(Entry),
    /// The side file's entry cannot be read.
    Unknown(DamagedRange),
}

/// Returns the blocks that the log contains, in order, and the gaps between them.
fn blocks(side: &SideFile, size_bytes: u64) -> impl Iterator<Item = Block> + '_ {
    let last = side.entries().checked_sub(1);
    // Updates after the last entry have no block yet, unless that entry cannot be read.
    let is_end_unknown = last.is_some_and(|last| side.entry(last).is_none());
    let entries = (0..side.entries()).filter_map(|at| side.entry(at)).map(Some);
    let mut end = FIRST;
    entries.chain(is_end_unknown.then_some(None)).flat_map(move |entry| {
        let last_byte = entry.map_or(size_bytes, |entry| entry.offset_bytes.min(size_bytes));
        let unknown = DamagedRange {
            first_byte: end.offset_bytes,
            last_byte,
            first_index: end.index,
            last_index: entry.map(|entry| entry.first_index),
            fault: Fault { kind: FaultKind::Unchecked, offset_bytes: 0 },
        };
        let is_gap = last_byte > end.offset_bytes;
        end = entry.map_or(end, |entry| entry.end());
        let known = entry.filter(|entry| entry.end().offset_bytes <= size_bytes).map(Block::Known);
        [is_gap.then_some(Block::Unknown(unknown)), known].into_iter().flatten()
    })
}

/// Returns blocks with a wrong checksum, blocks that a repair kept in spite of one, and ranges whose entry cannot be read. Without
/// `compare` no checksum is computed, so only the latter two. `progress` receives the offset of every block.
///
/// # Errors
/// If the log cannot be read.
pub(super) fn damaged(
    file: &dyn LogFile,
    path: &Path,
    side: Option<&SideFile>,
    compare: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<DamagedRange>, LogError> {
    let Some(side) = side else { return Ok(Vec::new()) };
    let size = file.size_bytes().map_err(LogError::io(path, "read"))?;
    let mut found = Vec::new();
    for block in blocks(side, size) {
        match block {
            Block::Unknown(range) => found.push(range),
            Block::Known(entry) => {
                if compare {
                    found.extend(damage_of(file, path, &entry)?);
                } else if entry.is_damaged {
                    found.push(block_range(&entry, FaultKind::Unconfirmed));
                }
                progress(entry.offset_bytes);
            }
        }
    }
    Ok(found)
}

/// Returns the damaged blocks that overlap a window, for tools that read only that window.
///
/// # Errors
/// If the log cannot be read.
pub fn damaged_in(path: &Path, window: Range<u64>) -> Result<Vec<DamagedRange>, LogError> {
    let Some(side) = SideFile::open(&SystemDisk, &super::name::side_path(path)) else { return Ok(Vec::new()) };
    let file = std::fs::File::open(path).map_err(LogError::io(path, "open"))?;
    let size = file.size_bytes().map_err(LogError::io(path, "read"))?;
    let meets = |first: u64, last: Option<u64>| first < window.end && last.is_none_or(|last| last > window.start);
    let mut found = Vec::new();
    for block in blocks(&side, size) {
        match block {
            Block::Unknown(range) if meets(range.first_index, range.last_index) => found.push(range),
            Block::Known(entry) if meets(entry.first_index, Some(entry.end().index)) => {
                found.extend(damage_of(&file, path, &entry)?);
            }
            Block::Unknown(_) | Block::Known(_) => {}
        }
    }
    Ok(found)
}

fn damage_of(file: &dyn LogFile, path: &Path, entry: &Entry) -> Result<Option<DamagedRange>, LogError> {
    if !entry.agrees_with(file, path)? {
        return Ok(Some(block_range(entry, FaultKind::Checksum)));
    }
    Ok(entry.is_damaged.then(|| block_range(entry, FaultKind::Unconfirmed)))
}

/// The whole block as a damaged range.
pub(super) fn block_range(entry: &Entry, kind: FaultKind) -> DamagedRange {
    DamagedRange {
        first_byte: entry.offset_bytes,
        last_byte: entry.end().offset_bytes,
        first_index: entry.first_index,
        last_index: Some(entry.end().index),
        fault: Fault { kind, offset_bytes: 0 },
    }
}

/// Whether any of these ranges, sorted by offset, overlaps the record.
pub(super) fn covers(ranges: &[DamagedRange], first_byte: u64, length: usize) -> bool {
    let last_byte = first_byte.saturating_add(length as u64);
    let at = ranges.partition_point(|range| range.last_byte <= first_byte);
    ranges.get(at).is_some_and(|range| range.first_byte < last_byte)
}
