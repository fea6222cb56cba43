//! Reads the log for a node without a thread: each call reads one piece.

use crate::mutants::{Defect, is_planted};
use elastick::log::{LogError, LogReader, Next};
use elastick::rdb::ingest::reading::{OPEN_WITHIN, Order, Piece, REACH_WITHIN, Reading};
use elastick::sys::clock::Clock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// Starts a reading in steps that never block.
///
/// # Errors
/// None; the type is that of the options of a node.
pub fn stepped(order: Order, _: &Arc<AtomicUsize>) -> io::Result<Box<dyn Reading>> {
    let clock = &*order.env.clock;
    let (by, is_log_by) = (after(clock, OPEN_WITHIN), after(clock, REACH_WITHIN));
    Ok(Box::new(Steps { order, reader: None, by, is_log_by }))
}

struct Steps {
    order: Order,
    reader: Option<LogReader>,
    /// Deadline for the file, or more of it, to appear.
    by: Instant,
    /// Deadline for the file to match the samples.
    is_log_by: Instant,
}

impl Reading for Steps {
    fn next(&mut self, _: Duration) -> Result<Option<Piece>, String> {
        let skipped = self.order.next.saturating_add(1);
        match self.read() {
            // The simulated file system hangs; a thread would block here.
            Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Ok(Some(piece)) if is_planted(Defect::SkipsOneAtReplay) => Ok(Some(without(&piece, skipped))),
            read => read.map_err(|error| error.to_string()),
        }
    }

    fn shape(&self) -> String {
        // Samples count until the log is open.
        let samples = if self.reader.is_none() { self.order.samples.as_slice() } else { &[] };
        format!("{:?} {samples:?}", self.reader.as_ref().map(LogReader::position))
    }
}

impl Steps {
    fn read(&mut self) -> Result<Option<Piece>, LogError> {
        let Order { env, path, samples, limits, chunk_bytes, reads, next, until } = &self.order;
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => match LogReader::open_until(env, path, *limits, *chunk_bytes, *reads, env.clock.now()) {
                Ok(mut reader) => {
                    if !reader.is_of(samples)? {
                        return if env.clock.now() < self.is_log_by { Ok(None) } else { Err(reader.missing(samples)) };
                    }
                    reader.seek(*next)?;
                    self.by = after(&*env.clock, REACH_WITHIN);
                    self.reader.insert(reader)
                }
                Err(LogError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && env.clock.now() < self.by =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            },
        };
        if let Next::Chunk(chunk) = reader.next_chunk(*chunk_bytes, *until)? {
            self.by = after(&*env.clock, REACH_WITHIN);
            return Ok(Some(Piece::of(&chunk)));
        }
        match reader.reopen_until(*until, env.clock.now()) {
            Ok(()) => Ok(None),
            Err(LogError::NotReached { .. }) if env.clock.now() < self.by => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns a piece in which the record of an update is empty.
fn without(piece: &Piece, skipped: u64) -> Piece {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for (index, record) in piece.iter() {
        if index != skipped {
            bytes.extend_from_slice(record);
        }
        ends.push(bytes.len());
    }
    Piece { first_index: piece.first_index, bytes, ends }
}

fn after(clock: &dyn Clock, time: Duration) -> Instant {
    let now = clock.now();
    now.checked_add(time).unwrap_or(now)
}
