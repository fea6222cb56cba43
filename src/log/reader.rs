//! Reads a log from any update on, also while it grows and from another host.
//!
//! Positioned reads, never a mapping: truncation during a read gives an error, not a SIGBUS. The end of the file is not the end of the log:
//! on a network file system an open handle may show an old size for a minute, so a reader that knows a later tip reopens the file until it
//! sees that tip. A reader on another host than the writer also bypasses the page cache ([`Reads::Fresh`]).

use super::buffer::Buffer;
use super::error::LogError;
use super::file;
use super::identity::{Holds, MAX_SAMPLES, Sample};
use super::index::SideFile;
use super::name::side_path;
use super::open::FIRST;
use super::record::{self, Step};
use super::scan::{DamagedRange, Mark};
use super::source::LogSource;
use crate::env::{Disk, Env, LogFile, Open};
use crate::sys::clock::Clock;
use crate::sys::fs::Place;
use proto::log::{FILE_HEAD, Record, is_log_head};
use proto::{Endian, Limits, View};
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First pause between attempts to see more of a file; later pauses double up to the maximum.
const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Whether reads go through the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Through the page cache, for a log that this host wrote or that has no writer any more.
    Cached,
    /// On NFS bypassing the page cache (`O_DIRECT`), so that neither an old size nor an old page is taken for the log. For a log that
    /// another host writes; on the writer's own host such reads delay its appends.
    Fresh,
}

impl Reads {
    fn open(self, disk: &dyn Disk, path: &Path) -> Result<Arc<dyn LogFile>, LogError> {
        let how = match self {
            Reads::Cached => Open::Read,
            Reads::Fresh => Open::Fresh,
        };
        disk.open(path, how).map_err(LogError::io(path, "open"))
    }
}

/// Consecutive whole records.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Index of the first update.
    pub first_index: u64,
    /// The records' bytes, back to back.
    pub bytes: &'a [u8],
    /// End offset in `bytes` of each record.
    pub ends: &'a [usize],
}

impl<'a> Chunk<'a> {
    /// Index after the last update.
    pub fn last_index(&self) -> u64 {
        self.first_index.saturating_add(self.ends.len() as u64)
    }

    /// Returns each record's index and bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let (bytes, ends) = (self.bytes, self.ends);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let slices = starts.zip(ends).filter_map(move |(start, end)| bytes.get(start..*end));
        (self.first_index..).zip(slices)
    }

    /// Returns each update's index and parts; `None` for a record that is not a function call with a table.
    pub fn records(&self) -> impl Iterator<Item = (u64, Option<Record<'a>>)> + use<'a> {
        self.iter().map(|(index, bytes)| (index, walked_parts(bytes)))
    }
}

/// Parses a record into function, table and columns; `None` if it is not an update.
pub fn parts<'a>(bytes: &'a [u8], limits: &Limits) -> Option<Record<'a>> {
    let (view, _) = View::parse(bytes, Endian::Little, limits).ok()?;
    proto::log::record(view)
}

/// As [`parts`], for bytes that a reader or scanner has validated.
pub(super) fn walked_parts(bytes: &[u8]) -> Option<Record<'_>> {
    proto::log::record(View::walked(bytes, Endian::Little))
}

/// Checks that the file begins as a log does; a log that is being created may be shorter than its head.
pub(super) fn check_head(file: &dyn LogFile, path: &Path) -> Result<(), LogError> {
    let mut head = [0; FILE_HEAD.len()];
    let read = file::read_full(file, &mut head, 0).map_err(LogError::io(path, "read"))?;
    let begun = head.get(..read).unwrap_or_default();
    if is_log_head(begun) || (read < FILE_HEAD.len() && FILE_HEAD.starts_with(begun)) {
        return Ok(());
    }
    Err(LogError::NotALog { path: path.to_path_buf() })
}

/// Result of a read.
#[derive(Debug)]
pub enum Next<'a> {
    Chunk(Chunk<'a>),
    /// No further whole record is visible now, or the given tip is reached.
    NotYet,
}

/// Reader of one log.
pub struct LogReader {
    env: Env,
    /// The log's location. A descriptor shared with the writer is never reopened.
    source: LogSource,
    reads: Reads,
    file: Arc<dyn LogFile>,
    place: Place,
    limits: Limits,
    side: Option<SideFile>,
    buffer: Buffer,
    /// Index of the record at the buffer's start.
    next_index: u64,
    /// Records before this index are skipped.
    wanted_index: u64,
    /// Length of the last chunk returned.
    handed_bytes: usize,
    handed_updates: u64,
    ends: Vec<usize>,
    /// Largest file size seen.
    seen_bytes: u64,
}

impl LogReader {
    /// Opens a log at its first update. `chunk_bytes` is the read size.
    pub fn open(env: &Env, path: &Path, limits: Limits, chunk_bytes: usize) -> Result<LogReader, LogError> {
        LogReader::open_as(env, path, limits, chunk_bytes, Reads::Cached)
    }

    /// As [`LogReader::open`], from a [`LogSource`].
    ///
    /// # Errors
    /// As [`LogReader::open`].
    pub fn of(env: &Env, source: &LogSource, limits: Limits, chunk_bytes: usize) -> Result<LogReader, LogError> {
        LogReader::open_from(env, source.clone(), limits, chunk_bytes, Reads::Cached)
    }

    fn open_as(
        env: &Env,
        path: &Path,
        limits: Limits,
        chunk_bytes: usize,
        reads: Reads,
    ) -> Result<LogReader, LogError> {
        LogReader::open_from(env, LogSource::at(path.to_path_buf()), limits, chunk_bytes, reads)
    }

    fn open_from(
        env: &Env,
        source: LogSource,
        limits: Limits,
        chunk_bytes: usize,
        reads: Reads,
    ) -> Result<LogReader, LogError> {
        let path = source.path();
        let file = open_file(&*env.disk, &source, reads)?;
        let place = file.identity().map_err(LogError::io(path, "read"))?;
        let seen_bytes = file.size_bytes().map_err(LogError::io(path, "read"))?;
        check_head(&*file, path)?;
        let mut buffer = Buffer::new(chunk_bytes);
        buffer.go_to(FIRST.offset_bytes);
        Ok(LogReader {
            env: env.clone(),
            reads,
            file,
            place,
            limits,
            side: side_of(&*env.disk, &source),
            source,
            buffer,
            next_index: FIRST.index,
            wanted_index: FIRST.index,
            handed_bytes: 0,
            handed_updates: 0,
            ends: Vec::new(),
            seen_bytes,
        })
    }

    /// As [`LogReader::open`], retrying until `deadline` while an announced log is not visible on this host.
    pub fn open_until(
        env: &Env,
        path: &Path,
        limits: Limits,
        chunk_bytes: usize,
        reads: Reads,
        deadline: Instant,
    ) -> Result<LogReader, LogError> {
        let mut pause = MIN_PAUSE;
        loop {
            match LogReader::open_as(env, path, limits, chunk_bytes, reads) {
                Err(LogError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && env.clock.now() < deadline => {}
                other => return other,
            }
            pause = wait(&*env.clock, pause, deadline);
        }
    }

    /// Whether the file contains these samples. False if it ends before one of them as far as is visible now, or if differing bytes may be
    /// stale.
    ///
    /// # Errors
    /// `Other` if it is certainly another log.
    pub fn is_of(&self, samples: &[Sample]) -> Result<bool, LogError> {
        for sample in samples.iter().take(MAX_SAMPLES) {
            match sample.look(&*self.file, self.source.path())? {
                Holds::Yes => {}
                Holds::No if self.reads == Reads::Cached => return Err(self.is_other(sample)),
                Holds::NotYet | Holds::No => return Ok(false),
            }
        }
        Ok(true)
    }

    fn is_other(&self, sample: &Sample) -> LogError {
        let last_byte = sample.offset_bytes.saturating_add(sample.length_bytes);
        LogError::Other { path: self.source.path().to_path_buf(), first_byte: sample.offset_bytes, last_byte }
    }

    /// Reopens the file until it contains these samples.
    ///
    /// # Errors
    /// `Other` if it does not by the deadline.
    pub fn wait_for(&mut self, samples: &[Sample], deadline: Instant) -> Result<(), LogError> {
        let mut pause = MIN_PAUSE;
        while !self.is_of(samples)? {
            if self.env.clock.now() >= deadline {
                return Err(self.missing(samples));
            }
            pause = wait(&*self.env.clock, pause, deadline);
            // By path: it may lead to another file by now.
            let (source, chunk_bytes) = (self.source.clone(), self.buffer.chunk_bytes());
            *self = LogReader::open_from(&self.env, source, self.limits, chunk_bytes, self.reads)?;
        }
        Ok(())
    }

    /// The error for a file that does not contain these samples.
    pub fn missing(&self, samples: &[Sample]) -> LogError {
        let differs = |sample: &&Sample| !matches!(sample.look(&*self.file, self.source.path()), Ok(Holds::Yes));
        match samples.iter().find(differs) {
            Some(sample) => self.is_other(sample),
            None => LogError::Replaced { path: self.source.path().to_path_buf() },
        }
    }

    /// Returns the time by the clock of its environment.
    pub fn now(&self) -> Instant {
        self.env.clock.now()
    }

    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// Range of bytes that follow the last whole record, if this reader has come to the end of the log: an unfinished record.
    pub fn unfinished(&self) -> Option<Range<u64>> {
        let end = self.buffer.offset_bytes().saturating_add(self.handed_bytes as u64);
        Some(end..self.seen_bytes).filter(|range| !range.is_empty())
    }

    /// Whether both read one file, or the file of one begins with all bytes of the other's, and has an update.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn repeats(&self, other: &LogReader) -> Result<bool, LogError> {
        if self.place == other.place {
            return Ok(true);
        }
        let end = self.seen_bytes.min(other.seen_bytes);
        let [mut own, mut others] = [(); 2].map(|()| vec![0; self.buffer.chunk_bytes()]);
        let mut offset = FIRST.offset_bytes;
        let is_begun = offset < end;
        while offset < end {
            let length = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(own.len());
            for (reader, bytes) in [(self, &mut own), (other, &mut others)] {
                let bytes = bytes.get_mut(..length).unwrap_or_default();
                file::read_full(&*reader.file, bytes, offset).map_err(LogError::io(reader.path(), "read"))?;
            }
            if own.get(..length) != others.get(..length) {
                return Ok(false);
            }
            offset = offset.saturating_add(length as u64);
        }
        Ok(is_begun)
    }

    /// Index of the first update that the next chunk can contain.
    pub fn position(&self) -> u64 {
        self.next_index.saturating_add(self.handed_updates).max(self.wanted_index)
    }

    /// Moves to an update: directly where the side file covers it, otherwise by walking at the next read. The update need not be in the log
    /// yet.
    pub fn seek(&mut self, index: u64) -> Result<(), LogError> {
        self.settle();
        self.wanted_index = index;
        let block = self.block_before(index)?;
        // Walk on from here if no block begins between here and the target.
        if index >= self.next_index && block.is_none_or(|block| block.index <= self.next_index) {
            return Ok(());
        }
        let begin = block.unwrap_or(FIRST);
        self.buffer.go_to(begin.offset_bytes);
        self.next_index = begin.index;
        Ok(())
    }

    /// Returns the start of the block that contains an update, if the side file has it and agrees with the log.
    fn block_before(&mut self, index: u64) -> Result<Option<Mark>, LogError> {
        if self.side.is_none() {
            self.side = side_of(&*self.env.disk, &self.source);
        }
        let Some(side) = self.side.as_mut() else { return Ok(None) };
        side.refresh();
        let Some((_, entry)) = side.block_of(index) else { return Ok(None) };
        // For an update after the last block, that block's end is the closest start.
        let mark = if entry.end().index <= index { entry.end() } else { entry.begin() };
        if entry.agrees_with(&*self.file, self.source.path())? {
            return Ok(Some(mark));
        }
        if self.file.size_bytes().map_err(LogError::io(self.source.path(), "read"))? >= entry.end().offset_bytes {
            tracing::warn!(path = %self.source.path().display(), "the side file does not match the log and is ignored");
        }
        Ok(None)
    }

    /// Discards the last chunk returned.
    fn settle(&mut self) {
        self.buffer.consume(std::mem::take(&mut self.handed_bytes));
        self.next_index = self.next_index.saturating_add(std::mem::take(&mut self.handed_updates));
    }

    /// Returns the next whole records before `tip`: at least one, and at most about `most_bytes`.
    ///
    /// # Errors
    /// `Damaged` if a record cannot be read, `Shrunk` if the file is shorter than what was read of it.
    pub fn next_chunk(&mut self, most_bytes: usize, tip: u64) -> Result<Next<'_>, LogError> {
        self.settle();
        self.ends.clear();
        let mut end = 0;
        loop {
            let index = self.next_index.saturating_add(self.ends.len() as u64);
            if index >= tip {
                break;
            }
            let bytes = self.buffer.available().get(end..).unwrap_or_default();
            match record::step(bytes, &self.limits) {
                Step::Whole(length) if index < self.wanted_index => {
                    self.buffer.consume(length);
                    self.next_index = index.saturating_add(1);
                }
                Step::Whole(length) if end + length > most_bytes && end > 0 => break,
                Step::Whole(length) => {
                    end += length;
                    self.ends.push(end);
                }
                Step::Incomplete if end > 0 => break,
                Step::Incomplete => {
                    if self.buffer.refill(&*self.file).map_err(LogError::io(self.source.path(), "read"))? == 0 {
                        self.check_size()?;
                        break;
                    }
                }
                Step::Bad(_) if end > 0 => break,
                Step::Bad(fault) => {
                    let first_byte = self.buffer.offset_bytes();
                    return Err(LogError::Damaged {
                        path: self.source.path().to_path_buf(),
                        damage: Box::new(DamagedRange {
                            first_byte,
                            last_byte: self.seen_bytes.max(first_byte),
                            first_index: index,
                            last_index: None,
                            fault,
                        }),
                    });
                }
            }
        }
        if self.ends.is_empty() {
            return Ok(Next::NotYet);
        }
        (self.handed_bytes, self.handed_updates) = (end, self.ends.len() as u64);
        let bytes = self.buffer.available().get(..end).unwrap_or_default();
        Ok(Next::Chunk(Chunk { first_index: self.next_index, bytes, ends: &self.ends }))
    }

    /// A file shorter than what was read of it was truncated or overwritten.
    fn check_size(&mut self) -> Result<(), LogError> {
        let mut now_bytes = self.file.size_bytes().map_err(LogError::io(self.source.path(), "read"))?;
        let read_bytes = self.buffer.offset_bytes().saturating_add(self.buffer.available().len() as u64);
        self.seen_bytes = self.seen_bytes.max(read_bytes);
        if now_bytes < read_bytes {
            // The cached size may be older than the bytes read; reopening asks the server.
            let (_, size_bytes) = self.open_again()?;
            now_bytes = size_bytes;
        }
        if now_bytes < read_bytes && read_bytes > FIRST.offset_bytes {
            return Err(LogError::Shrunk {
                path: self.source.path().to_path_buf(),
                was_bytes: self.seen_bytes,
                now_bytes,
            });
        }
        self.seen_bytes = self.seen_bytes.max(now_bytes);
        Ok(())
    }

    /// Reopens the file; returns it with its size.
    fn open_again(&self) -> Result<(Arc<dyn LogFile>, u64), LogError> {
        let file = open_file(&*self.env.disk, &self.source, self.reads)?;
        if file.identity().map_err(LogError::io(self.source.path(), "read"))? != self.place {
            return Err(LogError::Replaced { path: self.source.path().to_path_buf() });
        }
        let size_bytes = file.size_bytes().map_err(LogError::io(self.source.path(), "read"))?;
        Ok((file, size_bytes))
    }

    /// Reopens the file until it shows more than this reader has read. `tip` is the announced tip, for the error.
    ///
    /// # Errors
    /// `NotReached` at the deadline, `Shrunk` and `Replaced` if the file was truncated or replaced.
    pub fn reopen_until(&mut self, tip: u64, deadline: Instant) -> Result<(), LogError> {
        let begin = self.env.clock.now();
        let mut pause = MIN_PAUSE;
        self.settle();
        loop {
            let (file, size_bytes) = self.open_again()?;
            self.file = file;
            self.check_size()?;
            let read_bytes = self.buffer.offset_bytes().saturating_add(self.buffer.available().len() as u64);
            if size_bytes > read_bytes {
                return Ok(());
            }
            if self.env.clock.now() >= deadline {
                return Err(LogError::NotReached {
                    path: self.source.path().to_path_buf(),
                    wanted_index: tip,
                    have_index: self.next_index,
                    waited: self.env.clock.since(begin),
                });
            }
            pause = wait(&*self.env.clock, pause, deadline);
        }
    }

    /// Passes all updates of a window to `take` in chunks, waiting for updates that are not visible yet.
    ///
    /// Returns the index after the last update passed on: the window's end, or less if `take` broke off.
    pub fn replay(
        &mut self,
        window: Range<u64>,
        most_bytes: usize,
        deadline: Instant,
        mut take: impl FnMut(Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<u64, LogError> {
        self.seek(window.start)?;
        while self.position() < window.end {
            match self.next_chunk(most_bytes, window.end)? {
                Next::Chunk(chunk) => {
                    if take(chunk).is_break() {
                        break;
                    }
                }
                Next::NotYet => self.reopen_until(window.end, deadline)?,
            }
        }
        Ok(self.position())
    }
}

fn open_file(disk: &dyn Disk, source: &LogSource, reads: Reads) -> Result<Arc<dyn LogFile>, LogError> {
    source.own.clone().map_or_else(|| reads.open(disk, source.path()), Ok)
}

pub(super) fn side_of(disk: &dyn Disk, source: &LogSource) -> Option<SideFile> {
    match (&source.own, &source.side) {
        (Some(_), Some(side)) => SideFile::of(Arc::clone(side)).ok().flatten(),
        // The side file at the path belongs to whatever log is at the path now.
        (Some(_), None) => None,
        (None, _) => SideFile::open(disk, &side_path(source.path())),
    }
}

/// Sleeps, at most until the deadline; returns the next pause.
fn wait(clock: &dyn Clock, pause: Duration, deadline: Instant) -> Duration {
    clock.sleep(pause.min(deadline.saturating_duration_since(clock.now())));
    pause.saturating_mul(2).min(MAX_PAUSE)
}
