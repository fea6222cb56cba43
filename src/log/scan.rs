//! Walks a log from a record on, distinguishes a torn tail from damage in the middle, and continues after damage.
//!
//! A tail is torn if the bytes end inside a record, or are zeros to the end, and no record follows: a crash leaves that. It is damage if
//! records follow; the range is reported and the scan continues after it. Records are found again by the bytes that began earlier ones
//! (list head and function name), and then validated.
//!
//! A *hole* is a range that a power cut left unwritten though later bytes reached the disk: zeros from a record's end to at least the end
//! of a sector, or to the next record. Updates before it may be synced and acknowledged and are no part of the damage. But a hole begins at
//! a sector or page boundary, so it can also begin inside a record, which then parses as one with zeros in it. A record with only zeros in
//! its last sector is therefore damage, unless its block's checksum agrees.

use super::buffer::Buffer;
use super::error::LogError;
use super::index::SideFile;
use super::reader::walked_parts;
use super::record::{self, Fault, FaultKind, Step};
use crate::env::LogFile;
use proto::{Limits, View, types};
use std::fmt;
use std::path::Path;

/// A position between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mark {
    pub offset_bytes: u64,
    /// Index of the update that begins here.
    pub index: u64,
}

/// An unreadable range of a log, with the updates lost in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    pub first_byte: u64,
    /// First byte after the damage.
    pub last_byte: u64,
    pub first_index: u64,
    /// Index of the first update after the damage; `None` if no side-file entry shows it.
    pub last_index: Option<u64>,
    pub fault: Fault,
}

impl fmt::Display for DamagedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {} to {} ", self.first_byte, self.last_byte)?;
        match self.last_index {
            Some(last) => write!(f, "(updates {} to {last})", self.first_index)?,
            None => write!(f, "(updates from {}, an unknown number)", self.first_index)?,
        }
        write!(f, ": {} at byte {}", self.fault.kind, self.first_byte.saturating_add(self.fault.offset_bytes))
    }
}

/// Result of one scan step.
#[derive(Debug)]
pub(crate) enum Found<'b> {
    Record {
        at: Mark,
        bytes: &'b [u8],
    },
    Damage(DamagedRange),
    /// The file ends inside a record, or in zeros, starting at the mark.
    Torn {
        at: Mark,
        bytes: u64,
    },
    End {
        at: Mark,
    },
}

/// Limit of the distinct record prefixes remembered for finding records after damage.
const MAX_PREFIXES: usize = 16;

/// Prefix of an `upd` call, known from the start for damage before the first record.
const UPD_PREFIX: &[u8] = b"\x00\x00\x03\x00\x00\x00\xf5upd\0";

/// The smallest unit that a disk writes.
const SECTOR_BYTES: u64 = 512;

/// A record that runs past the end of the file.
const CUT_OFF: Fault = Fault { kind: FaultKind::Malformed(proto::DecodeErrorKind::Incomplete), offset_bytes: 0 };

/// Sequential scanner of a log's records.
pub(crate) struct Scanner<'a> {
    file: &'a dyn LogFile,
    path: &'a Path,
    side: Option<&'a SideFile>,
    limits: Limits,
    buffer: Buffer,
    index: u64,
    /// Length of the last record returned.
    handed_bytes: usize,
    /// Length of the record after it if already parsed, otherwise 0.
    ahead_bytes: usize,
    prefixes: Vec<Vec<u8>>,
}

impl<'a> Scanner<'a> {
    /// Starts at a mark. The side file, if any, determines which updates were lost in damage.
    pub fn new(
        file: &'a dyn LogFile,
        path: &'a Path,
        from: Mark,
        side: Option<&'a SideFile>,
        limits: Limits,
        chunk_bytes: usize,
    ) -> Scanner<'a> {
        let mut buffer = Buffer::new(chunk_bytes);
        buffer.go_to(from.offset_bytes);
        let prefixes = vec![UPD_PREFIX.to_vec()];
        Scanner { file, path, side, limits, buffer, index: from.index, handed_bytes: 0, ahead_bytes: 0, prefixes }
    }

    fn mark(&self) -> Mark {
        Mark { offset_bytes: self.buffer.offset_bytes(), index: self.index }
    }

    /// Position after the last record returned.
    pub fn end_mark(&self) -> Mark {
        let offset_bytes = self.buffer.offset_bytes().saturating_add(self.handed_bytes as u64);
        Mark { offset_bytes, index: self.index }
    }

    /// Returns the next record, damage, or the end; after `Torn` or `End` it does not advance.
    pub fn next(&mut self) -> Result<Found<'_>, LogError> {
        self.buffer.consume(std::mem::take(&mut self.handed_bytes));
        let at = self.mark();
        let known = std::mem::take(&mut self.ahead_bytes);
        let step = if known > 0 { Step::Whole(known) } else { self.look(0)? };
        match step {
            Step::Whole(length) => {
                let end = at.offset_bytes.saturating_add(length as u64);
                if let Some(fault) = self.fault_behind(length)?
                    && !self.is_as_written(at.offset_bytes, end)?
                {
                    let is_even = is_even_update(self.record(length));
                    let is_uneven = is_even == Some(false);
                    let small_bytes = zeros_of_small_numbers(self.record(length));
                    let behind = Some(at.index.saturating_add(1));
                    let zeros = self.hole_around_end(at.offset_bytes, end, small_bytes)?;
                    let (is_cut, fault) = (zeros.is_some(), zeros.unwrap_or(fault));
                    if let Some(next_byte) = self.find_record(at.offset_bytes)? {
                        let is_whole = is_even == Some(true) && !is_cut && self.is_hole(end, next_byte)?;
                        // Unless the side file shows that the whole range was one record.
                        if !is_whole || self.index_at(next_byte)? == behind {
                            return self.damage(at, next_byte, fault);
                        }
                    } else if is_uneven || is_cut || self.index_at_end()? == behind {
                        return self.damage_to_the_end(at, fault);
                    }
                    // A hole or no record follows: return this record and examine the rest at the next step.
                    self.buffer.go_to(at.offset_bytes);
                    self.look(0)?;
                }
                self.learn(length);
                self.handed_bytes = length;
                self.index = self.index.saturating_add(1);
                Ok(Found::Record { at, bytes: self.record(length) })
            }
            Step::Incomplete if self.buffer.available().is_empty() => Ok(Found::End { at }),
            Step::Incomplete => {
                // A record that runs over the start of another one has wrong counts.
                match self.find_record(at.offset_bytes)? {
                    Some(next_byte) => self.damage(at, next_byte, CUT_OFF),
                    None => self.torn(at),
                }
            }
            Step::Bad(fault) => match self.find_record(at.offset_bytes)? {
                Some(next_byte) => self.damage(at, next_byte, fault),
                None if self.is_zero_from(at.offset_bytes)? => self.torn(at),
                None => self.damage_to_the_end(at, fault),
            },
        }
    }

    /// Parses the record `behind_bytes` after the buffer's start, reading as needed.
    fn look(&mut self, behind_bytes: usize) -> Result<Step, LogError> {
        loop {
            match record::step(self.buffer.available().get(behind_bytes..).unwrap_or_default(), &self.limits) {
                Step::Incomplete if self.refill()? > 0 => {}
                step => return Ok(step),
            }
        }
    }

    /// Returns the fault in what follows the record. A wrong count can turn a longer message into a shorter valid one; what follows is then
    /// neither a record nor one damaged only in its prefix.
    fn fault_behind(&mut self, length: usize) -> Result<Option<Fault>, LogError> {
        let fault = match self.look(length)? {
            Step::Whole(next) => {
                self.ahead_bytes = next;
                return Ok(None);
            }
            Step::Incomplete if self.buffer.available().len() == length => return Ok(None),
            Step::Incomplete => CUT_OFF,
            Step::Bad(fault) => fault,
        };
        if self.is_spoiled(length) {
            return Ok(None);
        }
        Ok(Some(Fault { offset_bytes: fault.offset_bytes.saturating_add(length as u64), ..fault }))
    }

    /// Whether the bytes match a known prefix except for a few.
    fn is_spoiled(&self, behind_bytes: usize) -> bool {
        let bytes = self.buffer.available().get(behind_bytes..).unwrap_or_default();
        self.prefixes.iter().any(|prefix| {
            let differ = prefix.iter().zip(bytes).filter(|(known, found)| known != found).count();
            bytes.len() >= prefix.len() && differ <= prefix.len() / 4
        })
    }

    /// Whether a partly written record may begin at `from`: an optional known prefix, then zeros.
    fn is_hole(&mut self, from: u64, next_byte: u64) -> Result<bool, LogError> {
        self.fill_from(from)?;
        let bytes = self.buffer.available();
        let begun = |prefix: &Vec<u8>| prefix.iter().zip(bytes).take_while(|(known, found)| known == found).count();
        let begun = self.prefixes.iter().map(begun).max().unwrap_or_default();
        let behind = from.saturating_add(begun as u64).saturating_add(1);
        let sector_end = behind.checked_next_multiple_of(SECTOR_BYTES).unwrap_or(next_byte);
        let Some(length) = sector_end.min(next_byte).checked_sub(from) else { return Ok(false) };
        let zeros = bytes.get(begun..usize::try_from(length).unwrap_or(usize::MAX)).unwrap_or_default();
        Ok(!zeros.is_empty() && zeros.iter().all(|byte| *byte == 0))
    }

    /// Returns the fault of a record whose last sector shows no sign of having been written: more than `small_bytes` zeros that continue
    /// after the record.
    fn hole_around_end(&mut self, at: u64, end: u64, small_bytes: usize) -> Result<Option<Fault>, LogError> {
        let last = end.saturating_sub(1);
        let first = last.saturating_sub(last % SECTOR_BYTES).max(at);
        if end.saturating_sub(first) <= small_bytes as u64 {
            return Ok(None);
        }
        self.fill_from(first)?;
        let bytes = self.buffer.available();
        let split = |place: u64| usize::try_from(place.saturating_sub(first)).unwrap_or(usize::MAX).min(bytes.len());
        let behind = bytes.get(split(end)..).unwrap_or_default();
        // A record's first bytes are zeros too, and it may be cut off after them.
        let is_begun = self.prefixes.iter().any(|prefix| behind.starts_with(prefix) || prefix.starts_with(behind));
        let sector_end = end.saturating_add(1).checked_next_multiple_of(SECTOR_BYTES).unwrap_or(u64::MAX);
        let zeros = bytes.get(..split(sector_end)).unwrap_or_default();
        let is_hole = !is_begun && zeros.iter().all(|byte| *byte == 0);
        let offset_bytes = first.saturating_sub(at);
        Ok(is_hole.then_some(Fault { kind: FaultKind::EndsInZeros, offset_bytes }))
    }

    /// Whether the side file's checksum covers the record and agrees: then it is whole, whatever follows.
    fn is_as_written(&self, at: u64, end: u64) -> Result<bool, LogError> {
        match self.side.and_then(|side| side.block_around(at, end)) {
            Some(block) => block.agrees_with(self.file, self.path),
            None => Ok(false),
        }
    }

    /// Moves to an offset and reads three sectors, or to the end.
    fn fill_from(&mut self, offset_bytes: u64) -> Result<(), LogError> {
        self.buffer.go_to(offset_bytes);
        let most = usize::try_from(SECTOR_BYTES).unwrap_or(usize::MAX).saturating_mul(3);
        while self.buffer.available().len() < most && self.refill()? > 0 {}
        Ok(())
    }

    fn record(&self, length: usize) -> &[u8] {
        self.buffer.available().get(..length).unwrap_or_default()
    }

    /// Remembers the record's prefix.
    fn learn(&mut self, length: usize) {
        if self.prefixes.len() < MAX_PREFIXES
            && let Some(prefix) = record::call_prefix(self.record(length))
            && !self.prefixes.iter().any(|known| known == prefix)
        {
            let prefix = prefix.to_vec();
            self.prefixes.push(prefix);
        }
    }

    fn refill(&mut self) -> Result<usize, LogError> {
        self.buffer.refill(self.file).map_err(LogError::io(self.path, "read"))
    }

    /// Reports damage up to a record, where the scan continues.
    fn damage(&mut self, at: Mark, next_byte: u64, fault: Fault) -> Result<Found<'_>, LogError> {
        let next = self.index_at(next_byte)?;
        self.buffer.go_to(next_byte);
        self.index = next.unwrap_or(at.index).max(at.index);
        let (first_byte, first_index) = (at.offset_bytes, at.index);
        Ok(Found::Damage(DamagedRange { first_byte, last_byte: next_byte, first_index, last_index: next, fault }))
    }

    /// Reports damage to the end of the file and ends the scan.
    fn damage_to_the_end(&mut self, at: Mark, fault: Fault) -> Result<Found<'_>, LogError> {
        let (size, last_index) = (self.size()?, self.index_at_end()?);
        self.buffer.go_to(size);
        let (first_byte, first_index) = (at.offset_bytes, at.index);
        Ok(Found::Damage(DamagedRange { first_byte, last_byte: size, first_index, last_index, fault }))
    }

    /// Index after the last update, if the side file covers the whole log.
    fn index_at_end(&self) -> Result<Option<u64>, LogError> {
        let (size, end) = (self.size()?, self.side.and_then(SideFile::end));
        Ok(end.filter(|end| end.offset_bytes == size).map(|end| end.index))
    }

    fn torn(&mut self, at: Mark) -> Result<Found<'_>, LogError> {
        self.buffer.go_to(at.offset_bytes);
        Ok(Found::Torn { at, bytes: self.size()?.saturating_sub(at.offset_bytes) })
    }

    fn size(&self) -> Result<u64, LogError> {
        self.file.size_bytes().map_err(LogError::io(self.path, "read"))
    }

    fn is_zero_from(&mut self, offset_bytes: u64) -> Result<bool, LogError> {
        self.buffer.go_to(offset_bytes);
        loop {
            if self.buffer.available().iter().any(|byte| *byte != 0) {
                self.buffer.go_to(offset_bytes);
                return Ok(false);
            }
            let length = self.buffer.available().len();
            self.buffer.consume(length);
            if self.refill()? == 0 {
                self.buffer.go_to(offset_bytes);
                return Ok(true);
            }
        }
    }

    /// Offset of the first whole record after `from` that begins with a known prefix.
    fn find_record(&mut self, from: u64) -> Result<Option<u64>, LogError> {
        let longest = self.prefixes.iter().map(Vec::len).max().unwrap_or_default();
        self.buffer.go_to(from.saturating_add(1));
        loop {
            let window = self.buffer.available();
            let found = first_match(window, &self.prefixes);
            let skip = match found {
                Some(place) => place,
                None => window.len().saturating_sub(longest.saturating_sub(1)),
            };
            self.buffer.consume(skip);
            if found.is_none() {
                if self.refill()? == 0 {
                    return Ok(None);
                }
                continue;
            }
            loop {
                match record::step(self.buffer.available(), &self.limits) {
                    Step::Whole(_) => return Ok(Some(self.buffer.offset_bytes())),
                    Step::Incomplete if self.refill()? > 0 => {}
                    Step::Incomplete | Step::Bad(_) => break,
                }
            }
            self.buffer.consume(1);
        }
    }

    /// Index of the update at an offset after damage, found by counting records up to the next position that the side file has.
    fn index_at(&self, offset_bytes: u64) -> Result<Option<u64>, LogError> {
        let Some(known) = self.side.and_then(|side| side.mark_at_or_after(offset_bytes)) else { return Ok(None) };
        let from = Mark { offset_bytes, index: 0 };
        let mut counter = Scanner::new(self.file, self.path, from, None, self.limits, 1 << 20);
        while counter.end_mark().offset_bytes < known.offset_bytes {
            let Found::Record { .. } = counter.next()? else { return Ok(None) };
        }
        let end = counter.end_mark();
        if end.offset_bytes == known.offset_bytes { Ok(known.index.checked_sub(end.index)) } else { Ok(None) }
    }
}

/// Whether an update's columns have equal lengths; atoms fit any length. False for most records shortened by a wrong count (except the
/// count of columns, or the rows of a single column) and for records completed by zeros, which parse as empty lists. `None` if it is not an
/// update.
fn is_even_update(record: &[u8]) -> Option<bool> {
    let mut columns = columns(record)?.peekable();
    let has_any = columns.peek().is_some();
    let mut counts = columns.filter(|column| column.type_code() >= 0).map(|column| column.count());
    Some(has_any && counts.next().is_none_or(|first| counts.all(|count| count == first)))
}

/// The columns of an update.
fn columns(record: &[u8]) -> Option<impl Iterator<Item = View<'_>>> {
    let data = walked_parts(record)?.columns;
    Some(data.table().map(|table| table.columns).or_else(|| data.list())?.iter())
}

/// Number of trailing zero bytes of an update that a small number explains: the upper bytes of its last item, as far as they are zero in
/// all other items of the column. A single item counts only if it is an integer. Whether these bytes were written makes no difference.
fn zeros_of_small_numbers(record: &[u8]) -> usize {
    let column = columns(record).and_then(Iterator::last);
    let Some(column) = column.as_ref().and_then(View::vector) else { return 0 };
    let Some(width) = types::width(column.ty) else { return 0 };
    let others = column.count.saturating_sub(1);
    if others == 0 && !matches!(column.ty, types::SHORT | types::INT | types::LONG) {
        return 0;
    }
    let zeros = |item: &[u8]| item.iter().rev().take_while(|byte| **byte == 0).count();
    column.items.chunks_exact(width).take(others).map(zeros).min().unwrap_or(width).min(width.saturating_sub(1))
}

/// First position in `window` of any prefix.
fn first_match(window: &[u8], prefixes: &[Vec<u8>]) -> Option<usize> {
    // All prefixes begin with the type and attribute of a general list.
    (0..window.len()).find(|at| {
        window
            .get(*at..)
            .is_some_and(|rest| rest.first() == Some(&0) && prefixes.iter().any(|prefix| rest.starts_with(prefix)))
    })
}
