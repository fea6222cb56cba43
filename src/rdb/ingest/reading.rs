//! Reads the log on a separate thread, so that a hanging network file system cannot block the node.
//!
//! The thread reads one piece ahead. It ends when the window has been read, on an error, or when its receiver is
//! dropped. One that hangs in the file system is abandoned and counted.

use crate::log::{Chunk, LogError, LogReader, Next, Reads, Sample, disk};
use crate::sys::clock;
use proto::Limits;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Time for an announced log file to appear on this host.
const OPEN_WITHIN: Duration = Duration::from_secs(2);
/// Time for further announced updates to appear in the file. To another host the tickerplant announces only synced updates, except under
/// `group` on a network file system, where its thread is about to sync them.
const REACH_WITHIN: Duration = Duration::from_secs(5);
/// Pieces in memory at once: one being read, one queued, one being taken.
pub(super) const PIECES: u64 = 3;

/// A reading job.
pub(super) struct Order {
    pub path: PathBuf,
    /// Samples of the log's content: another file at this path is not read.
    pub samples: Vec<Sample>,
    pub limits: Limits,
    pub chunk_bytes: usize,
    pub reads: Reads,
    pub next: u64,
    pub until: u64,
}

/// A run of whole records.
pub(super) struct Piece {
    first_index: u64,
    bytes: Vec<u8>,
    /// End offset of each record in `bytes`.
    ends: Vec<usize>,
}

impl Piece {
    fn of(chunk: &Chunk<'_>) -> Piece {
        Piece { first_index: chunk.first_index, bytes: chunk.bytes.to_vec(), ends: chunk.ends.to_vec() }
    }

    /// Index after the last record.
    pub fn last_index(&self) -> u64 {
        self.first_index.saturating_add(self.ends.len() as u64)
    }

    /// Iterates over each record's index and bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let slices = starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end));
        (self.first_index..).zip(slices)
    }
}

/// A reading in progress; dropping it ends it.
pub(super) enum Reading {
    Thread(Receiver<Result<Piece, LogError>>),
    /// In a simulated environment: each call reads one piece, without a thread.
    Stepped(Box<Steps>),
}

/// Guard that counts a running thread.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Reading {
    /// Starts the thread; `running` counts it until it ends.
    ///
    /// # Errors
    /// The thread cannot start.
    pub fn start(order: Order, running: &Arc<AtomicUsize>) -> io::Result<Reading> {
        if disk::is_virtual() {
            let (by, is_log_by) = (after(OPEN_WITHIN), after(REACH_WITHIN));
            return Ok(Reading::Stepped(Box::new(Steps { order, reader: None, by, is_log_by })));
        }
        let (out, pieces) = sync_channel(1);
        running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(running));
        crate::sys::stack::thread("log-read".into()).spawn(move || {
            let _running = running;
            if let Err(error) = read(&order, &out) {
                // The receiver may have given up.
                let _ = out.send(Err(error));
            }
        })?;
        Ok(Reading::Thread(pieces))
    }

    /// Returns the next piece; `None` if none arrives within `wait`.
    ///
    /// # Errors
    /// Why the log cannot be read further; after the last piece, that there is no more.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Piece>, String> {
        let pieces = match self {
            Reading::Thread(pieces) => pieces,
            Reading::Stepped(steps) => return steps.step().map_err(|error| error.to_string()),
        };
        match pieces.recv_timeout(wait) {
            Ok(piece) => piece.map(Some).map_err(|error| error.to_string()),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("the thread that read the log has ended".to_string()),
        }
    }
}

impl Reading {
    /// Returns the samples that the log still has to match; empty once it does, or if a thread reads it.
    pub fn samples(&self) -> &[Sample] {
        match self {
            Reading::Stepped(steps) if steps.reader.is_none() => &steps.order.samples,
            Reading::Thread(_) | Reading::Stepped(_) => &[],
        }
    }

    /// Returns the index of the next update to be read, if the log is open and no thread owns it.
    pub fn position(&self) -> Option<u64> {
        match self {
            Reading::Thread(_) => None,
            Reading::Stepped(steps) => steps.reader.as_ref().map(LogReader::position),
        }
    }
}

/// The thread's work in steps that never block.
pub(super) struct Steps {
    order: Order,
    reader: Option<LogReader>,
    /// Deadline for the file, or more of it, to appear.
    by: Instant,
    /// Deadline for the file to match the samples.
    is_log_by: Instant,
}

impl Steps {
    fn step(&mut self) -> Result<Option<Piece>, LogError> {
        match self.read() {
            // The simulated file system hangs; a thread would block here.
            Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => Ok(None),
            read => read,
        }
    }

    fn read(&mut self) -> Result<Option<Piece>, LogError> {
        let Order { path, samples, limits, chunk_bytes, reads, next, until } = &self.order;
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => match LogReader::open_until(path, *limits, *chunk_bytes, *reads, clock::now()) {
                Ok(mut reader) => {
                    if !reader.is_of(samples)? {
                        return if clock::now() < self.is_log_by { Ok(None) } else { Err(reader.missing(samples)) };
                    }
                    reader.seek(*next)?;
                    self.by = after(REACH_WITHIN);
                    self.reader.insert(reader)
                }
                Err(LogError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && clock::now() < self.by =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            },
        };
        if let Next::Chunk(chunk) = reader.next_chunk(*chunk_bytes, *until)? {
            self.by = after(REACH_WITHIN);
            return Ok(Some(Piece::of(&chunk)));
        }
        match reader.reopen_until(*until, clock::now()) {
            Ok(()) => Ok(None),
            Err(LogError::NotReached { .. }) if clock::now() < self.by => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn after(time: Duration) -> Instant {
    let now = clock::now();
    now.checked_add(time).unwrap_or(now)
}

fn read(order: &Order, out: &SyncSender<Result<Piece, LogError>>) -> Result<(), LogError> {
    let Order { path, samples, limits, chunk_bytes, reads, next, until } = order;
    let mut reader = LogReader::open_until(path, *limits, *chunk_bytes, *reads, after(OPEN_WITHIN))?;
    reader.wait_for(samples, after(REACH_WITHIN))?;
    reader.seek(*next)?;
    let mut by = after(REACH_WITHIN);
    while reader.position() < *until {
        match reader.next_chunk(*chunk_bytes, *until)? {
            Next::Chunk(chunk) => {
                if out.send(Ok(Piece::of(&chunk))).is_err() {
                    break;
                }
                by = after(REACH_WITHIN);
            }
            Next::NotYet => reader.reopen_until(*until, by)?,
        }
    }
    Ok(())
}
