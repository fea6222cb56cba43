//! Reads the log on a separate thread, so that a hanging network file system cannot block the node.
//!
//! The thread reads one piece ahead. It ends when the window has been read, on an error, or when its receiver is
//! dropped. One that hangs in the file system is abandoned and counted. Which [`Read`] a node uses is one of its options: a
//! simulated node reads without a thread.

use crate::env::Env;
use crate::log::{Chunk, LogError, LogReader, Next, Reads, Sample};
use crate::points::{self, Point};
use crate::sys::clock::Clock;
use proto::Limits;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Time for an announced log file to appear on this host.
pub const OPEN_WITHIN: Duration = Duration::from_secs(2);
/// Time for further announced updates to appear in the file. To another host the tickerplant announces only synced updates, except under
/// `group` on a network file system, where its thread is about to sync them.
pub const REACH_WITHIN: Duration = Duration::from_secs(5);
/// Pieces in memory at once: one being read, one queued, one being taken.
pub(super) const PIECES: u64 = 3;

/// A reading job.
pub struct Order {
    pub env: Env,
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
pub struct Piece {
    pub first_index: u64,
    pub bytes: Vec<u8>,
    /// End offset of each record in `bytes`.
    pub ends: Vec<usize>,
}

impl Piece {
    pub fn of(chunk: &Chunk<'_>) -> Piece {
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
pub trait Reading: Send {
    /// Returns the next piece; `None` if none arrives within `wait`.
    ///
    /// # Errors
    /// Why the log cannot be read further; after the last piece, that there is no more.
    fn next(&mut self, wait: Duration) -> Result<Option<Piece>, String>;

    /// Returns its position and the samples that the log still has to match, as text for a state fingerprint.
    fn shape(&self) -> String;
}

/// Starts a reading. The counter is of threads that read, until each ends.
pub type Read = fn(Order, &Arc<AtomicUsize>) -> io::Result<Box<dyn Reading>>;

/// Guard that counts a running thread.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Thread(Receiver<Result<Piece, LogError>>);

/// Reads the log on a thread of its own.
///
/// # Errors
/// The thread cannot start.
pub fn on_a_thread(order: Order, running: &Arc<AtomicUsize>) -> io::Result<Box<dyn Reading>> {
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
    Ok(Box::new(Thread(pieces)))
}

impl Reading for Thread {
    fn next(&mut self, wait: Duration) -> Result<Option<Piece>, String> {
        match self.0.recv_timeout(wait) {
            Ok(piece) => piece.map(Some).map_err(|error| error.to_string()),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("the thread that reads the log has ended".to_string()),
        }
    }

    fn shape(&self) -> String {
        "on a thread".to_string()
    }
}

fn after(clock: &dyn Clock, time: Duration) -> Instant {
    let now = clock.now();
    now.checked_add(time).unwrap_or(now)
}

fn read(order: &Order, out: &SyncSender<Result<Piece, LogError>>) -> Result<(), LogError> {
    let Order { env, path, samples, limits, chunk_bytes, reads, next, until } = order;
    let mut reader = LogReader::open_until(env, path, *limits, *chunk_bytes, *reads, after(&*env.clock, OPEN_WITHIN))?;
    reader.wait_for(samples, after(&*env.clock, REACH_WITHIN))?;
    reader.seek(*next)?;
    let mut by = after(&*env.clock, REACH_WITHIN);
    while reader.position() < *until {
        match reader.next_chunk(*chunk_bytes, *until)? {
            Next::Chunk(chunk) => {
                points::reach(Point::NodeLogRead);
                if out.send(Ok(Piece::of(&chunk))).is_err() {
                    break;
                }
                by = after(&*env.clock, REACH_WITHIN);
            }
            Next::NotYet => reader.reopen_until(*until, by)?,
        }
    }
    Ok(())
}
