//! Blocks of a log that are not as they were written, by the checksums in its side file: found when a log is looked over, and carried
//! over when it is repaired, so that a new side file does not vouch for bytes that nobody published.

use super::error::LogError;
use super::file::LogFile;
use super::index::{Entry, SideFile};
use super::record::{Fault, FaultKind};
use super::scan::DamagedRange;
use std::ops::Range;
use std::path::Path;

/// Blocks whose bytes differ from those written, or did when a repair kept them; without `compare` only the latter. `progress` gets the
/// offset of every block.
///
/// # Errors
/// Of reading the log.
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
    for at in 0..side.entries() {
        let Some(entry) = side.entry(at).filter(|entry| entry.end().offset_bytes <= size) else { continue };
        if compare {
            found.extend(damage_of(file, path, &entry)?);
        } else if entry.is_damaged {
            found.push(block_range(&entry, FaultKind::Unconfirmed));
        }
        progress(entry.offset_bytes);
    }
    Ok(found)
}

/// As [`damaged`], for what is made from this log: a side file that agrees with none of its blocks is another log's, and says nothing.
pub(super) fn known_damage(
    file: &dyn LogFile,
    path: &Path,
    side: Option<&SideFile>,
) -> Result<Vec<DamagedRange>, LogError> {
    let found = damaged(file, path, side, true, &mut |_| {})?;
    let differing = found.iter().filter(|range| range.fault.kind == FaultKind::Checksum).count() as u64;
    let entries = side.map_or(0, SideFile::entries);
    Ok(if entries > 1 && differing == entries { Vec::new() } else { found })
}

/// Damaged blocks that hold any update of a window, for tools that read only that.
///
/// # Errors
/// Of reading the log.
pub fn damaged_in(path: &Path, window: Range<u64>) -> Result<Vec<DamagedRange>, LogError> {
    let Some(side) = SideFile::open(&super::name::side_path(path)) else { return Ok(Vec::new()) };
    let file = std::fs::File::open(path).map_err(LogError::io(path, "open"))?;
    let size = file.size_bytes().map_err(LogError::io(path, "read"))?;
    let begin = side.block_of(window.start).map_or(0, |(at, _)| at);
    let mut found = Vec::new();
    for entry in (begin..side.entries()).map_while(|at| side.entry(at)) {
        if entry.first_index >= window.end {
            break;
        }
        if entry.end().index > window.start && entry.end().offset_bytes <= size {
            found.extend(damage_of(&file, path, &entry)?);
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

/// All of a block, with what is wrong with it.
pub(super) fn block_range(entry: &Entry, kind: FaultKind) -> DamagedRange {
    DamagedRange {
        first_byte: entry.offset_bytes,
        last_byte: entry.end().offset_bytes,
        first_index: entry.first_index,
        last_index: Some(entry.end().index),
        fault: Fault { kind, offset_bytes: 0 },
    }
}

/// Whether any of these ranges, in order of their bytes, has a byte of this record.
pub(super) fn covers(ranges: &[DamagedRange], first_byte: u64, length: usize) -> bool {
    let last_byte = first_byte.saturating_add(length as u64);
    let at = ranges.partition_point(|range| range.last_byte <= first_byte);
    ranges.get(at).is_some_and(|range| range.first_byte < last_byte)
}
