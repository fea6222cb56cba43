//! Reading the log on a thread of its own: a network file system that hangs must not hang the node with it.
//!
//! The thread is one piece of the log ahead. It ends when the window has been read, when it cannot be read, or when nobody
//! wants it any more; one that hangs in the file system is left behind and counted.

use crate::log::{LogError, LogReader, Next, Reads};
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
pub(super) struct Reading {
    pieces: Receiver<Result<Piece, LogError>>,
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
        let (out, pieces) = sync_channel(1);
        running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(running));
        std::thread::Builder::new().name("log-read".into()).spawn(move || {
            let _running = running;
            if let Err(error) = read(&order, &out) {
                // Nobody waits for the reason of a reading that was given up.
                let _ = out.send(Err(error));
            }
        })?;
        Ok(Reading { pieces })
    }

    /// The next piece, `None` if there is none within `wait`.
    ///
    /// # Errors
    /// Why the log cannot be read on; after the last piece, that there is nothing more.
    pub fn next(&self, wait: Duration) -> Result<Option<Piece>, String> {
        match self.pieces.recv_timeout(wait) {
            Ok(piece) => piece.map(Some).map_err(|error| error.to_string()),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("the thread that read the log has ended".to_string()),
        }
    }
}

fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now)
}

fn read(order: &Order, out: &SyncSender<Result<Piece, LogError>>) -> Result<(), LogError> {
    let Order { path, limits, chunk_bytes, reads, next, until } = order;
    let mut reader = LogReader::open_until(path, *limits, *chunk_bytes, *reads, after(OPEN_WITHIN))?;
    reader.seek(*next)?;
    let mut by = after(REACH_WITHIN);
    while reader.position() < *until {
        match reader.next_chunk(*chunk_bytes, *until)? {
            Next::Chunk(chunk) => {
                let piece =
                    Piece { first_index: chunk.first_index, bytes: chunk.bytes.to_vec(), ends: chunk.ends.to_vec() };
                if out.send(Ok(piece)).is_err() {
                    break;
                }
                by = after(REACH_WITHIN);
            }
            Next::NotYet => reader.reopen_until(*until, by)?,
        }
    }
    Ok(())
}
