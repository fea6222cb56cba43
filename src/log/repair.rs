//! Repairs a damaged log: copies the readable records to a new log and reports the rest. Works on the operating system's files, except what
//! every start of a tickerplant does.

use super::blocks::{covers, damaged};
use super::error::LogError;
use super::index::{BlockBuilder, SideFile, SideWriter};
use super::lock::lock_log;
use super::name::{beside, queue_path, side_path};
use super::open::FIRST;
use super::scan::{DamagedRange, Found, Scanner};
use crate::config::ChangedBlocks;
use crate::env::{Disk, LogFile, Open, SystemDisk};
use crate::sys::fs::directory_of;
use proto::Limits;
use proto::log::FILE_HEAD;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHUNK_BYTES: usize = 1 << 20;
/// Suffix of the damaged log's new name.
const DAMAGED: &str = ".damaged";
/// Suffix of the repaired log until it takes the log's name.
const REPAIRED: &str = ".repaired";

/// What a repair kept and what it lost.
#[derive(Debug)]
pub struct Repaired {
    /// Updates in the new log.
    pub updates: u64,
    /// Size of the new log.
    pub bytes: u64,
    /// Unreadable ranges of the damaged log.
    pub damage: Vec<DamagedRange>,
    /// Blocks of the damaged log with wrong or unreadable checksums: kept and marked in the new side file, or left out.
    pub blocks: Vec<DamagedRange>,
    pub changed_blocks: ChangedBlocks,
    /// Whether a side file was available to compare checksums.
    pub has_checksums: bool,
    /// Length of the unfinished record at the end, left out.
    pub torn_bytes: u64,
    /// Path of the damaged log.
    pub original: PathBuf,
}

/// Copies the readable records of the log at `path` to a new file `out` with its own side file, which marks records kept from blocks with
/// wrong checksums.
pub fn rewrite(path: &Path, out: &Path, limits: Limits, changed_blocks: ChangedBlocks) -> Result<Repaired, LogError> {
    let file = File::open(path).map_err(LogError::io(path, "open"))?;
    let side = SideFile::open(&SystemDisk, &side_path(path));
    let new = File::create_new(out).map_err(LogError::io(out, "create"))?;
    let mut writer = BufWriter::with_capacity(CHUNK_BYTES, new);
    let mut repaired = Repaired {
        updates: 0,
        bytes: FILE_HEAD.len() as u64,
        damage: Vec::new(),
        blocks: damaged(&file, path, side.as_ref(), true, &mut |_| {})?,
        has_checksums: side.is_some(),
        changed_blocks,
        torn_bytes: 0,
        original: path.to_path_buf(),
    };
    let head = side.as_ref().map(SideFile::head).unwrap_or_default();
    let mut new_side = SideWriter::open(&SystemDisk, &side_path(out), 0, head)?;
    let mut builder = BlockBuilder::new(FIRST, head.epoch);
    writer.write_all(&FILE_HEAD).map_err(LogError::io(out, "write"))?;
    let mut scanner = Scanner::new(&file, path, FIRST, side.as_ref(), limits, CHUNK_BYTES);
    loop {
        match scanner.next()? {
            Found::Record { at, bytes } => {
                let is_damaged = covers(&repaired.blocks, at.offset_bytes, bytes.len());
                if is_damaged && changed_blocks == ChangedBlocks::Cut {
                    continue;
                }
                writer.write_all(bytes).map_err(LogError::io(out, "write"))?;
                builder.add_marked(bytes, is_damaged).iter().flatten().for_each(|entry| new_side.push(entry));
                repaired.updates = repaired.updates.saturating_add(1);
                repaired.bytes = repaired.bytes.saturating_add(bytes.len() as u64);
            }
            Found::Damage(damage) => repaired.damage.push(damage),
            Found::Torn { bytes, .. } => {
                repaired.torn_bytes = bytes;
                break;
            }
            Found::End { .. } => break,
        }
    }
    let new = writer.into_inner().map_err(|error| LogError::io(out, "write")(error.into_error()))?;
    new.sync_all().map_err(LogError::io(out, "sync"))?;
    builder.close().iter().for_each(|entry| new_side.push(entry));
    // Without the side file nothing would mark the blocks that were kept.
    new_side.finish()?;
    Ok(repaired)
}

/// Replaces a damaged log by a repaired one and keeps the original under another name. If this is interrupted before the rename, the
/// damaged log keeps its name, and the next start or repair restores its side file.
///
/// # Errors
/// `Held` if a tickerplant has the log open.
pub fn replace(path: &Path, limits: Limits, changed_blocks: ChangedBlocks) -> Result<Repaired, LogError> {
    let held = OpenOptions::new().read(true).write(true).open(path).map_err(LogError::io(path, "open"))?;
    lock_log(&held, path)?;
    undo_cut_short(&SystemDisk, &held, path)?;
    let new = beside(path, REPAIRED);
    // Left over from an interrupted repair.
    for left in [&new, &side_path(&new)] {
        match std::fs::remove_file(left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(LogError::io(left, "remove")(error)),
            _ => {}
        }
    }
    let mut repaired = rewrite(path, &new, limits, changed_blocks)?;
    let original = free_name(path, DAMAGED);
    // Add the second name first, so that a log exists at every moment.
    std::fs::hard_link(path, &original).map_err(LogError::io(path, "replace"))?;
    // The side file describes the damaged log and must not be found beside the repaired one, not even after a power cut.
    let side = side_path(path);
    let kept = std::fs::rename(&side, side_path(&original));
    if let Err(error) = kept
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(LogError::io(&side, "rename")(error));
    }
    // The queue's journal refers to the damaged log's update indices. Nodes report and prove their windows again.
    let journal = queue_path(path);
    let kept = std::fs::rename(&journal, queue_path(&original));
    if let Err(error) = kept
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(LogError::io(&journal, "rename")(error));
    }
    std::fs::rename(&new, path)
        .and_then(|()| crate::sys::fs::sync_directory_of(path))
        .map_err(LogError::io(path, "replace"))?;
    finish_cut_short(&SystemDisk, path)?;
    repaired.original = original;
    Ok(repaired)
}

/// Moves the repaired log's side file into place if [`replace`] was interrupted after renaming the log: nothing else marks the log's
/// damaged blocks.
///
/// # Errors
/// If the side file exists but cannot be moved.
pub(super) fn finish_cut_short(disk: &dyn Disk, path: &Path) -> Result<(), LogError> {
    let (new, side) = (beside(path, REPAIRED), side_path(path));
    // While the repaired log has a name of its own, the damaged one is still in place.
    if !matches!(disk.open(&new, Open::Read), Err(error) if error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    match disk.rename(&side_path(&new), &side).and_then(|()| disk.sync_directory_of(&side)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LogError::io(&side, "move into place")(error)),
        _ => Ok(()),
    }
}

/// Moves a log's side file back if [`replace`] was interrupted after moving it away: nothing else shows which bytes changed, or that the
/// log was longer.
///
/// # Errors
/// If the side file exists but cannot be moved back.
pub(super) fn undo_cut_short(disk: &dyn Disk, file: &dyn LogFile, path: &Path) -> Result<(), LogError> {
    let side = side_path(path);
    let directory = directory_of(path);
    let beside_it = disk.list(directory).map_err(LogError::io(directory, "list"))?;
    if beside_it.iter().any(|other| other.file_name() == side.file_name()) {
        return Ok(());
    }
    let identity = file.identity().map_err(LogError::io(path, "examine"))?;
    let damaged = beside(path, DAMAGED);
    let begin = damaged.file_name().unwrap_or_default().as_encoded_bytes();
    for other in beside_it {
        // Until the repaired log takes its name, the damaged one has two names.
        let is_named_so = other.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(begin));
        let is_same = |file: Arc<dyn LogFile>| file.identity().is_ok_and(|other| other == identity);
        if !is_named_so || !disk.open(&other, Open::Read).is_ok_and(is_same) {
            continue;
        }
        match disk.rename(&side_path(&other), &side).and_then(|()| disk.sync_directory_of(&side)) {
            Ok(()) => {
                tracing::warn!(path = %path.display(), "a repair was interrupted; its side file is restored");
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(LogError::io(&side, "move back")(error)),
        }
    }
    Ok(())
}

/// Truncates a log without a writer at the end of its last whole record.
///
/// # Errors
/// `Held` if a tickerplant has the log open: the record is then still being written.
pub fn cut_tail(path: &Path, offset_bytes: u64) -> Result<(), LogError> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(LogError::io(path, "open"))?;
    lock_log(&file, path)?;
    file.truncate(offset_bytes).and_then(|()| file.sync()).map_err(LogError::io(path, "cut off the torn tail"))
}

/// Rewrites a range of the log in place, so that the next sync writes it to disk.
pub fn write_again(file: &dyn LogFile, path: &Path, range: Range<u64>) -> Result<(), LogError> {
    each_chunk(file, path, range, |chunk, at| {
        super::file::write_all(file, chunk, at).map_err(LogError::io(path, "write again"))
    })
}

/// Passes a range of the log, up to the end of the file, to `take` in chunks with their offsets.
fn each_chunk(
    file: &dyn LogFile,
    path: &Path,
    range: Range<u64>,
    mut take: impl FnMut(&[u8], u64) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut at = range.start;
    while at < range.end {
        let most = usize::try_from(range.end.saturating_sub(at)).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let chunk = buffer.get_mut(..most).unwrap_or_default();
        let read = super::file::read_full(file, chunk, at).map_err(LogError::io(path, "read"))?;
        if read == 0 {
            break;
        }
        take(chunk.get(..read).unwrap_or_default(), at)?;
        at = at.saturating_add(read as u64);
    }
    Ok(())
}

/// Copies a range of the log to a new file.
pub fn copy_range(
    disk: &dyn Disk,
    file: &dyn LogFile,
    path: &Path,
    range: Range<u64>,
    out: &Path,
) -> Result<(), LogError> {
    let new = disk.open(out, Open::Create).map_err(LogError::io(out, "create"))?;
    new.truncate(0).map_err(LogError::io(out, "create"))?;
    each_chunk(file, path, range.clone(), |chunk, at| {
        let written = super::file::write_all(&*new, chunk, at.saturating_sub(range.start));
        written.map_err(LogError::io(out, "write"))
    })?;
    new.sync_all().and_then(|()| disk.sync_directory_of(out)).map_err(LogError::io(out, "sync"))
}

/// The log's path with a suffix, numbered if that name is taken.
pub(super) fn free_name(path: &Path, ending: &str) -> PathBuf {
    let plain = beside(path, ending);
    if !plain.exists() {
        return plain;
    }
    (2..u32::MAX).map(|number| beside(path, &format!("{ending}-{number}"))).find(|name| !name.exists()).unwrap_or(plain)
}
