//! Opens a log for appending: counts its updates and repairs its end or, if the operator chose so, damage.

use super::blocks::{block_range, covers, damaged};
use super::error::LogError;
use super::file;
use super::identity::LogId;
use super::index::{BlockBuilder, Entry, Head, SideFile, SideWriter};
use super::lock::lock_log;
use super::name::{beside, log_before, side_path};
use super::record::FaultKind;
use super::repair;
use super::scan::{DamagedRange, Found, Mark, Scanner};
use crate::config::{ChangedBlocks, Damage};
use crate::env::{Disk, LogFile, Open};
use proto::Limits;
use proto::log::{FILE_HEAD, is_log_head};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Position of the first record.
pub(super) const FIRST: Mark = Mark { offset_bytes: FILE_HEAD.len() as u64, index: 0 };
/// Blocks at the end that every start compares, and the fewest that it rewrites where a sync may have failed.
const CHECKED_BLOCKS: usize = 16;

/// Bytes that were cut off at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub offset_bytes: u64,
    pub bytes: u64,
    /// File with a copy of them, if they may contain whole records.
    pub kept_in: Option<PathBuf>,
}

/// What opening a log found and did.
#[derive(Clone, Debug)]
pub struct OpenReport {
    pub path: PathBuf,
    pub created: bool,
    /// Updates in the log, which is the index of the next one.
    pub updates: u64,
    pub bytes: u64,
    pub epoch: u64,
    /// Bytes walked because the side file did not cover them.
    pub walked_bytes: u64,
    pub cut: Option<Cut>,
    /// Damage that was cut off or skipped, by the operator's choice.
    pub damage: Vec<DamagedRange>,
    /// Blocks kept by the operator's choice though their checksums are wrong; the side file marks them.
    pub kept: Vec<DamagedRange>,
    /// Updates past the end of the log that the side file knows of: lost in a power cut, or another program cut or replaced the log.
    pub missing: u64,
    /// Path of the damaged log, if it was replaced by a repaired one. Updates after the damage have new indices.
    pub replaced: Option<PathBuf>,
}

impl fmt::Display for OpenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.created { "new" } else { "continued" };
        write!(
            f,
            "{}: {state}, {} records, {} bytes, epoch {}",
            self.path.display(),
            self.updates,
            self.bytes,
            self.epoch
        )?;
        for damage in &self.damage {
            write!(f, "; dropped: {damage}")?;
        }
        for damage in &self.kept {
            write!(f, "; kept and marked as damaged: {damage}")?;
        }
        if let Some(cut) = &self.cut {
            write!(f, "; cut off {} bytes at byte {}", cut.bytes, cut.offset_bytes)?;
            match &cut.kept_in {
                Some(path) => write!(f, ", kept in {}", path.display())?,
                None => write!(f, " of an unfinished record")?,
            }
        }
        if self.missing > 0 {
            write!(
                f,
                "; {} records logged after that are missing: lost in a power cut, or another program truncated, \
                 removed or replaced the log. If you have a copy with them, stop the tickerplant and restore it",
                self.missing
            )?;
        }
        if let Some(path) = &self.replaced {
            write!(f, "; the damaged log is kept as {}", path.display())?;
        }
        Ok(())
    }
}

/// Returns where the part of a log begins that may not be on disk: the first of the last [`CHECKED_BLOCKS`] blocks, or an earlier one if the side
/// file, of which `entries` are trusted, or the writer (`unsynced_from`) knows of one.
pub(super) fn first_unsynced(side: Option<&SideFile>, entries: u64, unsynced_from: Option<u64>) -> Mark {
    let mut recent = (0..entries).rev().filter_map(|at| side?.entry(at)).peekable();
    let synced_index = recent.peek().map_or(0, |last| last.synced_index);
    let from = unsynced_from.unwrap_or(u64::MAX).min(synced_index);
    let recent = recent.skip(CHECKED_BLOCKS - 1);
    { recent }.find(|entry| entry.first_index <= from).map_or(FIRST, |entry| entry.begin())
}

/// Makes the log before this one durable. A tickerplant that was killed between two days has left updates there that are in the file
/// but not synced, and readers on other hosts, which a publisher asks what it has to send again, do not see them. If its last sync failed, the
/// kernel may consider unwritten pages clean, and sequence numbers in them would be taken for durable: they are rewritten.
pub(super) fn sync_log_before(how: &How, log: &Path) {
    let disk = &*how.disk;
    let synced = log_before(disk, log).map_err(LogError::io(log, "look for the log before")).and_then(|before| {
        let Some(path) = before else { return Ok(()) };
        let access = if how.unclean { Open::Write } else { Open::Read };
        let file = disk.open(&path, access).map_err(LogError::io(&path, "open"))?;
        if how.unclean {
            let size_bytes = file.size_bytes().map_err(LogError::io(&path, "read the size"))?;
            let side = SideFile::open(disk, &side_path(&path));
            let entries = side.as_ref().map_or(0, SideFile::entries);
            let begin = first_unsynced(side.as_ref(), entries, how.unsynced_from);
            repair::write_again(&*file, &path, begin.offset_bytes..size_bytes)?;
        }
        file.sync_all().map_err(LogError::io(&path, "sync"))
    });
    if let Err(error) = synced {
        tracing::warn!(log = %log.display(), %error, "cannot make the log before this one durable");
    }
}

/// A log ready for appending.
pub(super) struct Opened {
    pub file: Arc<dyn LogFile>,
    pub end: Mark,
    pub side: SideWriter,
    pub report: OpenReport,
}

/// Parameters of opening a log.
pub(super) struct How {
    pub disk: Arc<dyn Disk>,
    pub damage: Damage,
    pub limits: Limits,
    pub chunk_bytes: usize,
    /// Identity of the directory's logs.
    pub identity: LogId,
    pub epoch: u64,
    /// Epoch of the previous writer.
    pub last_epoch: u64,
    /// The kernel may have lost writes of the previous writer.
    pub suspicious: bool,
    /// The previous writer did not close the log, and the machine has not rebooted since.
    pub unclean: bool,
    /// The previous writer recorded that updates from this index on may not be on disk.
    pub unsynced_from: Option<u64>,
}

impl How {
    fn head(&self) -> Head {
        Head { identity: Some(self.identity), epoch: self.epoch }
    }
}

/// Opens the log `path`, whose file is at `at` until [`super::next`] gives it its name.
pub(super) fn open(at: &Path, path: &Path, how: &How) -> Result<Opened, LogError> {
    let access = if at == path { Open::Create } else { Open::New };
    let mut report = OpenReport {
        path: path.to_path_buf(),
        created: false,
        updates: 0,
        bytes: 0,
        epoch: how.epoch,
        walked_bytes: 0,
        cut: None,
        damage: Vec::new(),
        kept: Vec::new(),
        missing: 0,
        replaced: None,
    };
    loop {
        let file = how.disk.open(at, access).map_err(LogError::io(at, "open"))?;
        lock_log(&*file, at)?;
        report.created |= make_head(&*how.disk, &*file, at)?;
        let side_at = side_path(path);
        let side_file = || SideFile::open_if_there(&*how.disk, &side_at).map_err(LogError::io(&side_at, "read"));
        let mut side = side_file()?;
        if side.is_none() && !report.created {
            repair::finish_cut_short(&*how.disk, path)?;
            repair::undo_cut_short(&*how.disk, &*file, path)?;
            side = side_file()?;
        }
        let trust = trusted(&*file, path, side.as_ref(), how)?;
        match walk(file, path, side.as_ref(), &trust, how, &mut report)? {
            Some(opened) => return Ok(opened),
            None => {
                let done = repair::replace(path, how.limits, ChangedBlocks::Keep)?;
                report.damage.extend(done.damage);
                report.kept.extend(done.blocks);
                report.replaced = Some(done.original);
            }
        }
    }
}

/// Writes and syncs the file head if it may be missing on disk; returns whether the log is new.
fn make_head(disk: &dyn Disk, file: &dyn LogFile, path: &Path) -> Result<bool, LogError> {
    let mut head = [0; FILE_HEAD.len()];
    let read = file::read_full(file, &mut head, 0).map_err(LogError::io(path, "read"))?;
    let is_there = read == FILE_HEAD.len();
    let begins_as_one =
        if is_there { is_log_head(&head) } else { FILE_HEAD.starts_with(head.get(..read).unwrap_or_default()) };
    if !begins_as_one {
        return Err(LogError::NotALog { path: path.to_path_buf() });
    }
    if is_there && file.size_bytes().map_err(LogError::io(path, "read"))? > FILE_HEAD.len() as u64 {
        return Ok(false);
    }
    // A header-only file may be unsynced (data or directory entry) after a crash: rewrite and fsync it.
    let head = if is_there { head } else { FILE_HEAD };
    file::write_all(file, &head, 0)
        .and_then(|()| file.sync_all())
        .and_then(|()| disk.sync_directory_of(path))
        .map_err(LogError::io(path, "create"))?;
    Ok(!is_there)
}

/// How much of the side file is valid.
struct Trust {
    /// Leading entries accepted as agreeing with the log.
    entries: u64,
    /// Where they end.
    end: Mark,
    /// The first block after them that the log has with other bytes.
    suspect: Option<(Entry, FaultKind)>,
    /// The side file belongs to another log and is ignored.
    is_foreign: bool,
}

/// Compares the last blocks (all if `suspicious`) with the log.
fn trusted(file: &dyn LogFile, path: &Path, side: Option<&SideFile>, how: &How) -> Result<Trust, LogError> {
    let Some(side) = side else {
        return Ok(Trust { entries: 0, end: FIRST, suspect: None, is_foreign: false });
    };
    let size = file.size_bytes().map_err(LogError::io(path, "read"))?;
    let present = |at: u64| side.entry(at).filter(|entry| entry.end().offset_bytes <= size);
    // Position of the first block from `at` on that is missing or has other bytes.
    let first_bad = |mut at: u64| loop {
        match present(at) {
            Some(entry) if entry.agrees_with(file, path)? => at = at.saturating_add(1),
            _ => return Ok::<u64, LogError>(at),
        }
    };
    let begin = if how.suspicious { 0 } else { side.entries().saturating_sub(CHECKED_BLOCKS as u64) };
    let mut entries = first_bad(begin)?;
    if entries == begin && begin > 0 {
        entries = first_bad(0)?;
    }
    // The side file's writer belonged to another directory.
    let is_of_others = side.head().identity.is_some_and(|identity| identity != how.identity);
    let any_agrees = || {
        let mut present = (0..side.entries()).filter_map(present);
        present.try_fold(false, |found, entry| Ok::<bool, LogError>(found || entry.agrees_with(file, path)?))
    };
    let mut suspect = None;
    // Also searches after an unreadable entry.
    for entry in (entries..side.entries()).filter_map(present) {
        if !entry.agrees_with(file, path)? {
            suspect = match entries > 0 || side.entries() == 1 || any_agrees()? {
                true => Some((entry, FaultKind::Checksum)),
                false if is_of_others => return Ok(Trust { entries: 0, end: FIRST, suspect: None, is_foreign: true }),
                false => Some((entry, FaultKind::NoBlockAgrees)),
            };
            break;
        }
    }
    let end = entries.checked_sub(1).and_then(present).map_or(FIRST, |entry| entry.end());
    Ok(Trust { entries, end, suspect, is_foreign: false })
}

/// Walks the part that the side file does not cover and repairs the end. Returns `None` if the log has to be replaced first.
fn walk(
    file: Arc<dyn LogFile>,
    path: &Path,
    side: Option<&SideFile>,
    trust: &Trust,
    how: &How,
    report: &mut OpenReport,
) -> Result<Option<Opened>, LogError> {
    // Written only once the log is accepted: a rejected start must keep the entries that locate the damage.
    let mut entries = Vec::new();
    let mut builder = BlockBuilder::new(trust.end, how.last_epoch);
    let size = file.size_bytes().map_err(LogError::io(path, "read"))?;
    let mut scanner = Scanner::new(&*file, path, trust.end, side, how.limits, how.chunk_bytes);
    let mut suspect = trust.suspect;
    let compare = how.damage == Damage::Skip && suspect.is_some();
    let is_all_trusted = trust.is_foreign || side.is_none_or(|side| side.entries() == trust.entries);
    let mut kept = if is_all_trusted { Vec::new() } else { damaged(&*file, path, side, compare, &mut |_| {})? };
    // Carries over the marks of blocks that are walked again. Unwritten entries after a power cut are expected and no sign of damage.
    kept.retain(|range| {
        (compare || range.last_byte > trust.end.offset_bytes)
            && !(how.suspicious && range.fault.kind == FaultKind::Unchecked)
    });
    let end = loop {
        let mut found = scanner.next()?;
        if let (Found::Record { at, bytes }, Some((entry, kind))) = (&found, suspect)
            && at.offset_bytes.saturating_add(bytes.len() as u64) >= entry.end().offset_bytes
        {
            // Every record of the block can be read; only its checksum is wrong.
            suspect = None;
            // The wrong byte is unknown, so `skip` keeps the records and marks the block.
            if how.damage != Damage::Skip {
                (entries, builder) = (Vec::new(), BlockBuilder::new(trust.end, how.last_epoch));
                let (first_byte, first_index) = (trust.end.offset_bytes, trust.end.index);
                found = Found::Damage(DamagedRange { first_byte, first_index, ..block_range(&entry, kind) });
            }
        }
        if let (Found::Torn { at, .. }, Some((entry, _)), false) = (&found, suspect, how.suspicious) {
            // The block was whole when written and no power cut followed, so this is no torn tail.
            let first = DamagedRange {
                first_byte: at.offset_bytes,
                first_index: at.index,
                ..block_range(&entry, FaultKind::Checksum)
            };
            found = Found::Damage(first);
        }
        match found {
            Found::Record { at, bytes } => {
                let is_damaged = covers(&kept, at.offset_bytes, bytes.len());
                entries.extend(builder.add_marked(bytes, is_damaged).into_iter().flatten());
            }
            Found::End { at } => break at,
            Found::Torn { at, bytes } => {
                report.cut = Some(Cut { offset_bytes: at.offset_bytes, bytes, kept_in: None });
                break at;
            }
            Found::Damage(damage) => match how.damage {
                Damage::Stop => return Err(LogError::Refused { path: path.to_path_buf(), damage: Box::new(damage) }),
                Damage::Skip => return Ok(None),
                Damage::KeepBefore => {
                    let at = Mark { offset_bytes: damage.first_byte, index: damage.first_index };
                    let kept = beside(path, &format!(".cut-{}", at.offset_bytes));
                    repair::copy_range(&*how.disk, &*file, path, at.offset_bytes..size, &kept)?;
                    report.cut = Some(Cut {
                        offset_bytes: at.offset_bytes,
                        bytes: size.saturating_sub(at.offset_bytes),
                        kept_in: Some(kept),
                    });
                    report.damage.push(damage);
                    break at;
                }
            },
        }
    };
    kept.retain(|range| range.first_byte < end.offset_bytes);
    report.kept.append(&mut kept);
    if report.cut.is_some() {
        file.truncate(end.offset_bytes).map_err(LogError::io(path, "cut off the torn tail"))?;
    }
    if how.unclean {
        // If a sync of the previous writer failed, the kernel may consider unwritten pages clean: rewrite them.
        let begin = first_unsynced(side, trust.entries, how.unsynced_from);
        repair::write_again(&*file, path, begin.offset_bytes..end.offset_bytes)?;
    }
    // From here on the previous writer's page-cache contents count as durable.
    file.sync().map_err(LogError::io(path, "sync"))?;
    let own = side.filter(|side| side.head().identity == Some(how.identity) && report.damage.is_empty());
    let known_index = own.and_then(SideFile::end).map_or(0, |known| known.index);
    report.missing = known_index.saturating_sub(end.index);
    entries.extend(builder.close());
    entries.iter_mut().for_each(|entry| entry.synced_index = end.index);
    // Before the first append: stale entries must not come back once the log has grown over their range.
    let mut writer = SideWriter::open(&*how.disk, &side_path(path), trust.entries, how.head())?;
    entries.iter().for_each(|entry| writer.push(entry));
    writer.flush();
    report.walked_bytes = end.offset_bytes.saturating_sub(trust.end.offset_bytes);
    (report.updates, report.bytes) = (end.index, end.offset_bytes);
    Ok(Some(Opened { file, end, side: writer, report: report.clone() }))
}
