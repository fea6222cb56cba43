//! Side file of a log: one entry for each block of whole records, with the offset, index, epoch and checksum that a kdb+ log lacks.
//!
//! All integers are little-endian. The file is a head followed by entries of one size, in order, without gaps:
//!
//! | bytes | head | entry |
//! |---|---|---|
//! | 0..8 | magic `elkindex` | `offset_bytes`: where the block begins in the log |
//! | 8..16 | version 3 (4), entry size (4) | `length_bytes` of the block; the highest bit marks it as damaged |
//! | 16..24 | identity of the directory's logs | `first_index`: index of its first update |
//! | 24..32 | epoch of the last writer | `updates` in it |
//! | 32..40 | 0 | `epoch` of the writer |
//! | 40..48 | 0 | `synced_index`: updates before it were on the disk when the block was closed |
//! | 48..52 | 0 | CRC-32C of the block's bytes in the log |
//! | 52..56 | CRC-32C of the bytes before | CRC-32C of the bytes before |
//!
//! A block ends with the first batch that makes it [`BLOCK_BYTES`] or longer, so its length depends on its last batch. The side file is
//! written after the log: it may end too early or, after a power cut, be ahead of the log. It is trusted only where its checksums agree
//! with the log.
//!
//! A block marked as damaged had other bytes than those written, and the operator chose to keep its records. Its checksum is that of the
//! kept bytes; the mark stays, so that they are not mistaken for published data. Version 2, which can still be read, has no marks and no
//! head fields after the entry size.

use super::buffer::Buffer;
use super::error::LogError;
use super::file;
use super::identity::{LogId, Sample};
use super::scan::Mark;
use crate::env::{Disk, LogFile, Open};
use crate::points::{self, Point};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Minimum length of a block.
pub const BLOCK_BYTES: u64 = 64 << 10;
/// Size of the head, and of each entry.
pub const ENTRY_BYTES: usize = 56;
const MAGIC: &[u8; 8] = b"elkindex";
const VERSION: u32 = 3;
const VERSION_WITHOUT_IDENTITY: u32 = 2;
/// Bit of the length field: the block is marked as damaged.
const DAMAGED_BIT: u64 = 1 << 63;
/// Bytes covered by an entry's own CRC.
const CHECKED_BYTES: usize = ENTRY_BYTES - 4;
/// Entries buffered before they are written together.
const PENDING_ENTRIES: usize = 32;
/// Bytes of entries that wait for room on a full disk.
const MAX_PENDING_BYTES: usize = 1 << 20;

/// One block of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub offset_bytes: u64,
    pub length_bytes: u64,
    pub first_index: u64,
    pub updates: u64,
    pub epoch: u64,
    /// Updates from this index on may have been only in the page cache when the block was closed.
    pub synced_index: u64,
    pub crc: u32,
    /// Its bytes differed from those written, and the operator chose to keep them.
    pub is_damaged: bool,
}

impl Entry {
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let length = self.length_bytes | if self.is_damaged { DAMAGED_BIT } else { 0 };
        let words = [self.offset_bytes, length, self.first_index, self.updates, self.epoch, self.synced_index];
        let mut out = [0; ENTRY_BYTES];
        let (fields, _) = out.as_chunks_mut::<8>();
        for (field, word) in fields.iter_mut().zip(words) {
            *field = word.to_le_bytes();
        }
        seal(out, self.crc)
    }

    /// Returns `None` if the entry's own checksum is wrong.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Entry> {
        let crc = unseal(bytes)?;
        let (fields, _) = bytes.as_chunks::<8>();
        let word = |at: usize| fields.get(at).map(|field| u64::from_le_bytes(*field));
        Some(Entry {
            offset_bytes: word(0)?,
            length_bytes: word(1)? & !DAMAGED_BIT,
            first_index: word(2)?,
            updates: word(3)?,
            epoch: word(4)?,
            synced_index: word(5)?,
            crc,
            is_damaged: word(1)? & DAMAGED_BIT != 0,
        })
    }

    /// Where the next block begins.
    pub fn end(&self) -> Mark {
        Mark {
            offset_bytes: self.offset_bytes.saturating_add(self.length_bytes),
            index: self.first_index.saturating_add(self.updates),
        }
    }

    pub fn begin(&self) -> Mark {
        Mark { offset_bytes: self.offset_bytes, index: self.first_index }
    }

    /// Whether the log's bytes have this checksum.
    pub fn agrees_with(&self, log: &dyn LogFile, path: &Path) -> Result<bool, LogError> {
        let mut buffer = Buffer::new(usize::try_from(self.length_bytes.min(1 << 20)).unwrap_or(1 << 20));
        buffer.go_to(self.offset_bytes);
        let (mut crc, mut left) = (0, self.length_bytes);
        while left > 0 {
            if buffer.available().is_empty() && buffer.refill(log).map_err(LogError::io(path, "read"))? == 0 {
                return Ok(false);
            }
            let take = buffer.available().len().min(usize::try_from(left).unwrap_or(usize::MAX));
            crc = crc32c::crc32c_append(crc, buffer.available().get(..take).unwrap_or_default());
            buffer.consume(take);
            left = left.saturating_sub(take as u64);
        }
        Ok(crc == self.crc)
    }
}

/// Writes the block's CRC and, after it, the CRC of all bytes before that second CRC, to the end of the array.
fn seal(mut out: [u8; ENTRY_BYTES], crc: u32) -> [u8; ENTRY_BYTES] {
    let (words, _) = out.as_chunks_mut::<4>();
    if let Some(word) = words.get_mut(12) {
        *word = crc.to_le_bytes();
    }
    let own = crc32c::crc32c(out.get(..CHECKED_BYTES).unwrap_or_default());
    let (words, _) = out.as_chunks_mut::<4>();
    if let Some(word) = words.get_mut(13) {
        *word = own.to_le_bytes();
    }
    out
}

fn unseal(bytes: &[u8; ENTRY_BYTES]) -> Option<u32> {
    let (words, _) = bytes.as_chunks::<4>();
    let own = u32::from_le_bytes(*words.get(13)?);
    let crc = u32::from_le_bytes(*words.get(12)?);
    (own == crc32c::crc32c(bytes.get(..CHECKED_BYTES)?)).then_some(crc)
}

/// Head of a side file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Identity of the directory's logs; `None` in files of version 2.
    pub identity: Option<LogId>,
    /// Epoch of the last writer; 0 in files of version 2.
    pub epoch: u64,
}

impl Head {
    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let fields = [
            *MAGIC,
            (u64::from(VERSION) | (ENTRY_BYTES as u64) << 32).to_le_bytes(),
            self.identity.map_or(0, |id| id.0).to_le_bytes(),
            self.epoch.to_le_bytes(),
        ];
        let mut out = [0; ENTRY_BYTES];
        let (places, _) = out.as_chunks_mut::<8>();
        places.iter_mut().zip(fields).for_each(|(place, field)| *place = field);
        seal(out, 0)
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Head> {
        unseal(bytes)?;
        let (fields, _) = bytes.as_chunks::<8>();
        let word = |at: usize| fields.get(at).map(|field| u64::from_le_bytes(*field));
        let versions =
            [VERSION, VERSION_WITHOUT_IDENTITY].map(|version| u64::from(version) | (ENTRY_BYTES as u64) << 32);
        if fields.first() != Some(MAGIC) || !versions.contains(&word(1)?) {
            return None;
        }
        Some(Head { identity: Some(LogId(word(2)?)).filter(|id| id.0 != 0), epoch: word(3)? })
    }
}

fn entry_position(at: u64) -> u64 {
    at.saturating_add(1).saturating_mul(ENTRY_BYTES as u64)
}

/// A side file opened for reading.
pub struct SideFile {
    file: Arc<dyn LogFile>,
    head: Head,
    entries: u64,
}

impl SideFile {
    /// As [`SideFile::open_if_there`], but returns `None` also if the file cannot be read. For callers that can do without it.
    pub fn open(disk: &dyn Disk, path: &Path) -> Option<SideFile> {
        SideFile::open_if_there(disk, path).ok().flatten()
    }

    /// Returns `None` if the file is missing, is not a side file, or has an unknown version. A damaged head counts as an empty one if any of
    /// the first entries can be read.
    ///
    /// # Errors
    /// If the file may exist but cannot be read now: a start without it could not distinguish damage from a torn tail.
    pub fn open_if_there(disk: &dyn Disk, path: &Path) -> io::Result<Option<SideFile>> {
        let file = match disk.open(path, Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        SideFile::of(file)
    }

    /// As [`SideFile::open_if_there`], for an open file.
    ///
    /// # Errors
    /// The file system's.
    pub fn of(file: Arc<dyn LogFile>) -> io::Result<Option<SideFile>> {
        let mut first = [0; ENTRY_BYTES];
        if file::read_full(&*file, &mut first, 0)? != ENTRY_BYTES {
            return Ok(None);
        }
        let head = Head::decode(&first);
        let mut side = SideFile { file, head: head.unwrap_or_default(), entries: 0 };
        side.refresh();
        // Entries have their own checksums, so they are valid even if the head is damaged.
        let is_damaged = || unseal(&first).is_none() && (0..side.entries.min(16)).any(|at| side.entry(at).is_some());
        Ok((head.is_some() || is_damaged()).then_some(side))
    }

    /// Reads the file's current size.
    pub fn refresh(&mut self) {
        let size = self.file.size_bytes().unwrap_or_default();
        self.entries = (size / ENTRY_BYTES as u64).saturating_sub(1);
    }

    pub fn head(&self) -> Head {
        self.head
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the entry at a position; `None` past the end or if it is torn.
    pub fn entry(&self, at: u64) -> Option<Entry> {
        let mut bytes = [0; ENTRY_BYTES];
        let read = file::read_full(&*self.file, &mut bytes, entry_position(at)).ok()?;
        if read == ENTRY_BYTES { Entry::decode(&bytes) } else { None }
    }

    /// End of the last block that was on the disk when another one was closed: no power cut takes it from the log.
    pub fn synced_end(&self) -> Option<Mark> {
        let last = self.entries.checked_sub(1)?;
        let synced_index = self.entry(last)?.synced_index;
        (0..=last).rev().filter_map(|at| self.entry(at)).map(|entry| entry.end()).find(|end| end.index <= synced_index)
    }

    /// End of the last block.
    pub fn end(&self) -> Option<Mark> {
        self.entry(self.entries.checked_sub(1)?).map(|entry| entry.end())
    }

    /// First block boundary at or after an offset.
    pub fn mark_at_or_after(&self, offset_bytes: u64) -> Option<Mark> {
        let at = self.first_from(offset_bytes)?;
        match self.entry(at) {
            Some(entry) => Some(entry.begin()),
            None => self.end().filter(|end| end.offset_bytes >= offset_bytes),
        }
    }

    /// Returns the block that contains an update, or the last block if the update comes later; with its position.
    pub fn block_of(&self, index: u64) -> Option<(u64, Entry)> {
        let at = self.first_where(|entry| entry.first_index > index)?.checked_sub(1)?;
        Some((at, self.entry(at)?))
    }

    /// Returns the block that contains the whole record between two offsets.
    pub fn block_around(&self, at: u64, end: u64) -> Option<Entry> {
        let behind = self.first_where(|entry| entry.offset_bytes > at)?;
        self.entry(behind.checked_sub(1)?).filter(|entry| entry.end().offset_bytes >= end)
    }

    /// Position of the first block that begins at an offset or after it; `None` if an entry is torn.
    pub fn first_from(&self, offset_bytes: u64) -> Option<u64> {
        self.first_where(|entry| entry.offset_bytes >= offset_bytes)
    }

    /// Binary search for the first entry that satisfies a monotone predicate; `None` if an entry is torn.
    fn first_where(&self, holds: impl Fn(&Entry) -> bool) -> Option<u64> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(&self.entry(middle)?) { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }
}

/// Groups batches into blocks.
#[derive(Debug)]
pub struct BlockBuilder {
    begin: Mark,
    length_bytes: u64,
    updates: u64,
    crc: u32,
    epoch: u64,
    is_damaged: bool,
}

impl BlockBuilder {
    pub fn new(begin: Mark, epoch: u64) -> BlockBuilder {
        BlockBuilder { begin, length_bytes: 0, updates: 0, crc: 0, epoch, is_damaged: false }
    }

    /// As [`BlockBuilder::add`], for one record that is copied or read again. `is_damaged`: it comes from a block whose bytes differ from
    /// those written. The first item is the previous block if the change of mark ended it.
    pub fn add_marked(&mut self, record: &[u8], is_damaged: bool) -> [Option<Entry>; 2] {
        let before = if is_damaged == self.is_damaged { None } else { self.close() };
        self.is_damaged = is_damaged;
        [before, self.add(record, 1)]
    }

    /// Sets the epoch of later blocks.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Adds whole records; returns the block if they complete one.
    pub fn add(&mut self, bytes: &[u8], updates: u64) -> Option<Entry> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.length_bytes = self.length_bytes.saturating_add(bytes.len() as u64);
        self.updates = self.updates.saturating_add(updates);
        if self.length_bytes >= BLOCK_BYTES { self.close() } else { None }
    }

    /// Sample of the bytes since the last block.
    pub fn sample(&self) -> Option<Sample> {
        let (offset_bytes, length_bytes, crc) = (self.begin.offset_bytes, self.length_bytes, self.crc);
        (length_bytes > 0).then_some(Sample { offset_bytes, length_bytes, crc })
    }

    /// Returns the block so far, `None` if it is empty, and starts the next one. Its `synced_index` is 0.
    pub fn close(&mut self) -> Option<Entry> {
        if self.length_bytes == 0 {
            return None;
        }
        let entry = Entry {
            offset_bytes: self.begin.offset_bytes,
            length_bytes: self.length_bytes,
            first_index: self.begin.index,
            updates: self.updates,
            epoch: self.epoch,
            synced_index: 0,
            crc: self.crc,
            is_damaged: self.is_damaged,
        };
        *self = BlockBuilder { is_damaged: self.is_damaged, ..BlockBuilder::new(entry.end(), self.epoch) };
        Some(entry)
    }
}

/// Appends entries to the side file, in groups. A failure is logged once and ends the side file, not the log; the exception is a failure to
/// cut off stale entries, see [`SideWriter::open`].
pub struct SideWriter {
    path: PathBuf,
    file: Option<Arc<dyn LogFile>>,
    next: u64,
    pending: Vec<u8>,
}

impl SideWriter {
    /// Keeps the first `keep` entries and appends after them; creates the file if it is missing or foreign.
    ///
    /// # Errors
    /// If stale entries after those remain, or may come back after a power cut: once the log has grown over that range again, they would
    /// make a start report sound bytes as damage. Any other failure ends the side file, not the log.
    pub fn open(disk: &dyn Disk, path: &Path, keep: u64, head: Head) -> Result<SideWriter, LogError> {
        let mut writer = SideWriter { path: path.to_path_buf(), file: None, next: keep, pending: Vec::new() };
        // Locked while it is written, so that on a network file system a replaced writer cannot corrupt it.
        let opened = disk.open(path, Open::Create).and_then(|file| {
            file.try_lock()?;
            Ok(file)
        });
        let file = match opened {
            Ok(file) => file,
            Err(error) if SideFile::open(disk, path).is_some_and(|side| side.entries() > keep) => {
                return Err(LogError::io(path, "open")(error));
            }
            Err(error) => {
                writer.give_up(&error);
                return Ok(writer);
            }
        };
        // A file with only a head has no stale entries.
        let has_more = file.size_bytes().map_or(true, |size| size > entry_position(keep));
        let kept_bytes = if keep == 0 { 0 } else { entry_position(keep) };
        let begun = match file.truncate(kept_bytes).and_then(|()| file.sync_all()) {
            Err(error) if has_more => return Err(LogError::io(path, "cut off invalid entries")(error)),
            Ok(()) => file::write_all(&*file, &head.encode(), 0),
            other => other,
        };
        match begun {
            Ok(()) => writer.file = Some(file),
            Err(error) => writer.give_up(&error),
        }
        Ok(writer)
    }

    /// Rewrites the head. A failure ends the side file.
    pub fn set_head(&mut self, head: Head) {
        if let Some(file) = &self.file
            && let Err(error) = file::write_all(&**file, &head.encode(), 0)
        {
            self.give_up(&error);
        }
    }

    /// The open file; `None` after a failure.
    pub fn file(&self) -> Option<&Arc<dyn LogFile>> {
        self.file.as_ref()
    }

    pub fn push(&mut self, entry: &Entry) {
        if self.file.is_some() {
            self.pending.extend_from_slice(&entry.encode());
            if self.pending.len() >= PENDING_ENTRIES * ENTRY_BYTES {
                self.flush();
            }
        }
    }

    pub fn flush(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| !self.pending.is_empty()) else { return };
        let count = (self.pending.len() / ENTRY_BYTES) as u64;
        points::reach(Point::IndexBeforeWrite);
        match file::write_all(&**file, &self.pending, entry_position(self.next)) {
            Ok(()) => {
                self.next = self.next.saturating_add(count);
                self.pending.clear();
            }
            // Written again once there is room. The log grows no more meanwhile.
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.pending.len() < MAX_PENDING_BYTES => {}
            Err(error) => self.give_up(&error),
        }
    }

    /// Writes and syncs everything, for callers that need the side file.
    pub fn finish(mut self) -> Result<(), LogError> {
        self.flush();
        match self.file {
            Some(file) => file.sync_all().map_err(LogError::io(&self.path, "sync")),
            None => Err(LogError::io(&self.path, "write")(io::ErrorKind::Other.into())),
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        tracing::warn!(path = %self.path.display(), "cannot write: {error}; the log continues without its side file");
        self.file = None;
        self.pending.clear();
    }
}
