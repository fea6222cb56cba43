//! Reading the log on a thread of its own: a network file system that hangs must not hang the node with it.
//!
//! The thread is one piece of the log ahead. It ends when the window has been read, when it cannot be read, or when nobody
//! wants it any more; one that hangs in the file system is left behind and counted.

use crate::log::{Chunk, LogError, LogReader, Next, Reads, Sample, disk};
use crate::sys::clock;
use proto::Limits;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Time for a log that was announced to show itself here.
const OPEN_WITHIN: Duration = Duration::from_secs(2);
/// Time for a log to show more of the updates that it was announced to have. Whoever announces them has synced them.
const REACH_WITHIN: Duration = Duration::from_secs(5);
/// Pieces that are in memory at once: one that is read, one that waits, one that is taken in.
pub(super) const PIECES: u64 = 3;

/// What is to be read.
pub(super) struct Order {
    pub path: PathBuf,
    /// What the log holds: another file at its path is not read.
    pub samples: Vec<Sample>,
    pub limits: Limits,
    pub chunk_bytes: usize,
    pub reads: Reads,
    pub next: u64,
    pub until: u64,
}

/// Whole records in a row.
pub(super) struct Piece {
    first_index: u64,
    bytes: Vec<u8>,
    /// Where in `bytes` each record ends.
    ends: Vec<usize>,
}

impl Piece {
    fn of(chunk: &Chunk<'_>) -> Piece {
        Piece { first_index: chunk.first_index, bytes: chunk.bytes.to_vec(), ends: chunk.ends.to_vec() }
    }

    /// Index behind the last update.
    pub fn last_index(&self) -> u64 {
        self.first_index.saturating_add(self.ends.len() as u64)
    }

    /// Each record's index and bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let slices = starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end));
        (self.first_index..).zip(slices)
    }
}

/// A reading under way; dropping it ends it.
pub(super) enum Reading {
    Thread(Receiver<Result<Piece, LogError>>),
    /// Where a world runs this node: one piece is read whenever one is asked for.
    Stepped(Box<Steps>),
}

/// Counts a thread that runs.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Reading {
    /// Starts the thread; `running` counts it until it has ended.
    ///
    /// # Errors
    /// The system has no thread left.
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
                // Nobody waits for the reason of a reading that was given up.
                let _ = out.send(Err(error));
            }
        })?;
        Ok(Reading::Thread(pieces))
    }

    /// The next piece, `None` if there is none within `wait`.
    ///
    /// # Errors
    /// Why the log cannot be read on; after the last piece, that there is nothing more.
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
    /// The update that is read next, where that is known; the log is open then.
    pub fn position(&self) -> Option<u64> {
        match self {
            Reading::Thread(_) => None,
            Reading::Stepped(steps) => steps.reader.as_ref().map(LogReader::position),
        }
    }
}

/// The thread's work without the thread: it never waits.
pub(super) struct Steps {
    order: Order,
    reader: Option<LogReader>,
    /// How long the log may take to show itself, or more of itself.
    by: Instant,
    /// And to be the one that is to be read.
    is_log_by: Instant,
}

impl Steps {
    fn step(&mut self) -> Result<Option<Piece>, LogError> {
        match self.read() {
            // The world's file system hangs: a thread would wait in it.
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
