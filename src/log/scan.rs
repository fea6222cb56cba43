//! Walking a log from some record on, telling a torn tail from damage in the middle, and going on behind damage.
//!
//! A tail is torn when the bytes end inside a record, or are zeros to the end, and nothing behind can be read: a crash
//! leaves that. It is damage when records follow: then the range is named and the scan can go on behind it. Records are
//! found again by the bytes with which earlier records began (list head and function name) and a walk that checks them.
//!
//! A *hole* is what a power cut leaves of bytes that were written and not synced, where later ones have reached the disk: zeros from
//! a record's end to the end of a sector at least, or to where a record begins. What stands before it may be synced, and
//! acknowledged, and is no part of the damage. But a hole begins where a sector or a page does, so also inside a record, which reads as
//! one with zeros in it then: one of which nothing but zeros stands in the last of its sectors is damage, unless its block's checksum
//! agrees.

use super::buffer::Buffer;
use super::error::LogError;
use super::file::LogFile;
use super::index::SideFile;
use super::reader::walked_parts;
use super::record::{self, Fault, FaultKind, Step};
use proto::{Limits, View, types};
use std::fmt;
use std::path::Path;

/// A place between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mark {
    pub offset_bytes: u64,
    /// Index of the update that begins here.
    pub index: u64,
}

/// Bytes of a log that cannot be read, with the updates lost in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    pub first_byte: u64,
    /// First byte behind the damage.
    pub last_byte: u64,
    pub first_index: u64,
    /// Index of the first update behind the damage; none if only the side file could tell and there is none.
    pub last_index: Option<u64>,
    pub fault: Fault,
}

impl fmt::Display for DamagedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {} to {} ", self.first_byte, self.last_byte)?;
        match self.last_index {
            Some(last) => write!(f, "(updates {} to {last})", self.first_index)?,
            None => write!(f, "(updates from {} on, how many is not known)", self.first_index)?,
        }
        write!(f, ": {} at byte {}", self.fault.kind, self.first_byte.saturating_add(self.fault.offset_bytes))
    }
}

/// What a scan comes across.
#[derive(Debug)]
pub(crate) enum Found<'b> {
    Record {
        at: Mark,
        bytes: &'b [u8],
    },
    Damage(DamagedRange),
    /// The file ends inside a record (or in zeros) that begins at the mark.
    Torn {
        at: Mark,
        bytes: u64,
    },
    End {
        at: Mark,
    },
}

/// At most so many distinct beginnings of records are remembered for finding records behind damage.
const PREFIXES_MOST: usize = 16;

/// The record that every tickerplant writes, for damage at the very start.
const UPD_PREFIX: &[u8] = b"\x00\x00\x03\x00\x00\x00\xf5upd\0";

/// A disk writes no less than this.
const SECTOR_BYTES: u64 = 512;

/// A record that does not end before the file does.
const CUT_OFF: Fault = Fault { kind: FaultKind::Malformed(proto::DecodeErrorKind::Incomplete), offset_bytes: 0 };

pub(crate) struct Scanner<'a> {
    file: &'a dyn LogFile,
    path: &'a Path,
    side: Option<&'a SideFile>,
    limits: Limits,
    buffer: Buffer,
    index: u64,
    /// Bytes of the record handed out last.
    handed_bytes: usize,
    /// Bytes of the record behind it, if that has been looked at; or 0.
    ahead_bytes: usize,
    prefixes: Vec<Vec<u8>>,
}

impl<'a> Scanner<'a> {
    /// Begins at a mark. A side file helps to say which updates were lost in damage.
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

    /// Behind the record handed out last.
    pub fn end_mark(&self) -> Mark {
        let offset_bytes = self.buffer.offset_bytes().saturating_add(self.handed_bytes as u64);
        Mark { offset_bytes, index: self.index }
    }

    /// The next record, damage, or the end; after `Torn` or `End` it stays there.
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
                        // Unless the side file knows that all that is there was one record.
                        if !is_whole || self.index_at(next_byte)? == behind {
                            return self.damage(at, next_byte, fault);
                        }
                    } else if is_uneven || is_cut || self.index_at_end()? == behind {
                        return self.damage_to_the_end(at, fault);
                    }
                    // A hole follows, or no record: this one is kept, and what is behind it looked at next.
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
                // A record that ends only behind where another one begins is one whose counts are wrong.
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

    /// What stands so many bytes behind the buffer's start, reading on as far as needed.
    fn look(&mut self, behind_bytes: usize) -> Result<Step, LogError> {
        loop {
            match record::step(self.buffer.available().get(behind_bytes..).unwrap_or_default(), &self.limits) {
                Step::Incomplete if self.refill()? > 0 => {}
                step => return Ok(step),
            }
        }
    }

    /// A wrong count can make a shorter message of a longer one; then what follows is no record, nor one that is only
    /// damaged at its beginning. Answers what is wrong there.
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

    /// Whether the bytes there are those of a known beginning but for a few.
    fn is_spoiled(&self, behind_bytes: usize) -> bool {
        let bytes = self.buffer.available().get(behind_bytes..).unwrap_or_default();
        self.prefixes.iter().any(|prefix| {
            let differ = prefix.iter().zip(bytes).filter(|(known, found)| known != found).count();
            bytes.len() >= prefix.len() && differ <= prefix.len() / 4
        })
    }

    /// Whether a record that was not written whole may begin at `from`: as earlier ones did, or not at all, and then zeros.
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

    /// What is wrong with a record of which no byte shows that the sector was written in which it ends: there are only zeros, more than
    /// `small_bytes`, and they go on behind it.
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
        // The first bytes of a record are zeros as well, and it may have been cut off behind them.
        let is_begun = self.prefixes.iter().any(|prefix| behind.starts_with(prefix) || prefix.starts_with(behind));
        let sector_end = end.saturating_add(1).checked_next_multiple_of(SECTOR_BYTES).unwrap_or(u64::MAX);
        let zeros = bytes.get(..split(sector_end)).unwrap_or_default();
        let is_hole = !is_begun && zeros.iter().all(|byte| *byte == 0);
        let offset_bytes = first.saturating_sub(at);
        Ok(is_hole.then_some(Fault { kind: FaultKind::EndsInZeros, offset_bytes }))
    }

    /// Whether the side file knows the bytes of a record: then it is whole, whatever follows.
    fn is_as_written(&self, at: u64, end: u64) -> Result<bool, LogError> {
        match self.side.and_then(|side| side.block_around(at, end)) {
            Some(block) => block.agrees_with(self.file, self.path),
            None => Ok(false),
        }
    }

    /// Goes to a place and reads the sector that begins there and two more, or to the end.
    fn fill_from(&mut self, offset_bytes: u64) -> Result<(), LogError> {
        self.buffer.go_to(offset_bytes);
        let most = usize::try_from(SECTOR_BYTES).unwrap_or(usize::MAX).saturating_mul(3);
        while self.buffer.available().len() < most && self.refill()? > 0 {}
        Ok(())
    }

    fn record(&self, length: usize) -> &[u8] {
        self.buffer.available().get(..length).unwrap_or_default()
    }

    /// Remembers how the record begins.
    fn learn(&mut self, length: usize) {
        if self.prefixes.len() < PREFIXES_MOST
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

    /// Damage up to a place where a record begins, at which the scan goes on.
    fn damage(&mut self, at: Mark, next_byte: u64, fault: Fault) -> Result<Found<'_>, LogError> {
        let next = self.index_at(next_byte)?;
        self.buffer.go_to(next_byte);
        self.index = next.unwrap_or(at.index).max(at.index);
        let (first_byte, first_index) = (at.offset_bytes, at.index);
        Ok(Found::Damage(DamagedRange { first_byte, last_byte: next_byte, first_index, last_index: next, fault }))
    }

    /// Damage behind which there is no record; the scan is at its end.
    fn damage_to_the_end(&mut self, at: Mark, fault: Fault) -> Result<Found<'_>, LogError> {
        let (size, last_index) = (self.size()?, self.index_at_end()?);
        self.buffer.go_to(size);
        let (first_byte, first_index) = (at.offset_bytes, at.index);
        Ok(Found::Damage(DamagedRange { first_byte, last_byte: size, first_index, last_index, fault }))
    }

    /// The index behind the last update, if the side file covers the whole log.
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

    /// The first place behind `from` where a record begins as earlier ones did and is whole, or is cut off only by the
    /// end of the file right behind a place that the side file names.
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

    /// The index of the update at a place behind damage, by counting from there to the next place that the side file
    /// knows.
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

/// Whether an update has columns of one length; an atom stands for any. One that was made shorter by a wrong count has not, but for a
/// count of columns, or of the rows of its only one. Nor has one that zeros have made whole: they read as empty lists. None of what is
/// no update.
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

/// How many bytes at the end of an update are zeros because a number is small: the upper ones of its last item, as far as those of
/// all other items of that column are zeros too; of a single one, where it is an integer. That they have been written, then, makes
/// no difference.
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

/// The first place in `window` where any of the prefixes stands.
fn first_match(window: &[u8], prefixes: &[Vec<u8>]) -> Option<usize> {
    // All prefixes begin with the type and attribute of a general list.
    (0..window.len()).find(|at| {
        window
            .get(*at..)
            .is_some_and(|rest| rest.first() == Some(&0) && prefixes.iter().any(|prefix| rest.starts_with(prefix)))
    })
}
