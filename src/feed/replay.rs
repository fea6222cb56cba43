//! Reads a tickerplant's log as a source of updates, with the times at which they were logged.

use super::update::Columns;
use crate::env::Env;
use crate::log::moment::{Moment, moment_of};
use crate::log::{LogError, LogReader, Next, parts};
use proto::Limits;
use std::collections::VecDeque;
use std::path::Path;

/// A logged update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub table: Vec<u8>,
    pub columns: Columns,
    /// Time of its first row, in nanoseconds from some fixed point; `None` if its first column is not a time.
    pub time_ns: Option<i64>,
}

/// Reader of a whole log.
pub struct Replay {
    reader: LogReader,
    limits: Limits,
    chunk_bytes: usize,
    ready: VecDeque<Logged>,
    /// Number of records that are not updates.
    pub passed_over: u64,
}

impl Replay {
    /// Opens a log.
    ///
    /// # Errors
    /// The file cannot be read or is not a log.
    pub fn open(env: &Env, path: &Path, limits: Limits, chunk_bytes: usize) -> Result<Replay, LogError> {
        let reader = LogReader::open(env, path, limits, chunk_bytes)?;
        Ok(Replay { reader, limits, chunk_bytes, ready: VecDeque::new(), passed_over: 0 })
    }

    /// Returns the next update; `None` at the end of the log.
    ///
    /// # Errors
    /// The log cannot be read further.
    pub fn next_update(&mut self) -> Result<Option<Logged>, LogError> {
        while self.ready.is_empty() {
            let Next::Chunk(chunk) = self.reader.next_chunk(self.chunk_bytes, u64::MAX)? else { return Ok(None) };
            for (_, bytes) in chunk.iter() {
                let record = parts(bytes, &self.limits);
                let update = record.and_then(|record| {
                    let columns = Columns::of_logged(&record.columns)?;
                    Some(Logged {
                        table: record.table.to_vec(),
                        columns,
                        time_ns: moment_of(&record.columns).map(Moment::nanoseconds),
                    })
                });
                match update {
                    Some(update) => self.ready.push_back(update),
                    None => self.passed_over = self.passed_over.saturating_add(1),
                }
            }
        }
        Ok(self.ready.pop_front())
    }
}

/// Schedule of a replay: an update is due at its distance from the first one divided by `speed`, in nanoseconds after the start.
#[derive(Clone, Debug)]
pub struct ReplayClock {
    /// 0 means as fast as possible.
    pub speed: f64,
    first_ns: Option<i64>,
    due_ns: u64,
}

impl ReplayClock {
    pub fn new(speed: f64) -> ReplayClock {
        ReplayClock { speed, first_ns: None, due_ns: 0 }
    }

    /// Returns the due time, never earlier than that of the update before: times in a log may go back.
    pub fn due(&mut self, time_ns: Option<i64>) -> u64 {
        if self.speed > 0.0
            && let Some(time_ns) = time_ns
        {
            let first_ns = *self.first_ns.get_or_insert(time_ns);
            let after = (time_ns.saturating_sub(first_ns)).max(0) as f64 / self.speed;
            self.due_ns = self.due_ns.max(after as u64);
        }
        self.due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_due_by_their_distance_from_the_first() {
        let mut clock = ReplayClock::new(10.0);
        let times = [Some(1_000), Some(2_000), None, Some(1_500), Some(11_000)];
        assert_eq!(times.map(|time| clock.due(time)), [0, 100, 100, 100, 1000]);
    }

    #[test]
    fn speed_zero_waits_for_nothing() {
        let mut clock = ReplayClock::new(0.0);
        assert_eq!([Some(0), Some(i64::MAX)].map(|time| clock.due(time)), [0, 0]);
    }
}
