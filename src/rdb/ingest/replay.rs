//! Replaying a window in place from the log, a piece at a time, so that messages and memory are looked at in between.

use super::reading::{Order, PIECES, Reading};
use super::{Dialect, Fault, Ingest};
use crate::defect::{Defect, is_planted};
use crate::log::{Reads, Sample, parts};
use crate::points::{self, Point};
use crate::rdb::messages;
use crate::rdb::update;
use crate::sys::clock;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest time without a piece of the log: what hangs longer is streamed by the tickerplant.
const HANG_MOST: Duration = Duration::from_secs(15);
/// Readings that may hang in the file system before the log is not tried any more.
const HANGING_MOST: usize = 2;
/// Longest wait for more of a log before messages are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Pieces of the log in parts of the node's budget, and at least these bytes.
const CHUNK_PARTS: u64 = 64 * PIECES;
const CHUNK_LEAST_BYTES: u64 = 64 << 10;

/// What comes when a window is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The feed.
    Feed,
    /// Nothing: the window was to be rebuilt.
    Rebuilt,
}

/// A window that is being replayed.
pub(super) struct Replay {
    reading: Reading,
    until: u64,
    /// When it counts as hanging.
    by: Instant,
    pub after: After,
}

impl Replay {
    /// What is left to be read, as text.
    pub fn shape(&self) -> String {
        format!("{:?} until {} then {:?}", self.reading.position(), self.until, self.after)
    }
}

impl Ingest {
    /// Replays from `next` until `until`, or asks to be fed where the log cannot be read here, or another log is in its place.
    pub(super) fn begin_replay(&mut self, log: Option<PathBuf>, samples: Vec<Sample>, next: u64, until: u64) {
        let is_rebuild = self.intake.open_window().is_some_and(|open| open.last.is_some());
        let after = if is_rebuild { After::Rebuilt } else { After::Feed };
        if next >= until {
            return self.replayed(after);
        }
        // Only the tickerplant can cut an update down to some symbols.
        let log = log.filter(|_| self.options.subscription.symbols.is_empty());
        match log.map(|path| self.start_reading(path, samples, next, until)) {
            Some(Ok(reading)) => self.replay = Some(Replay { reading, until, by: hangs_at(), after }),
            Some(Err(reason)) => self.be_fed(after, &reason),
            None => self.be_fed(after, "there is no log to be read here"),
        }
    }

    /// Bytes of one piece of the log.
    fn chunk_bytes(&self) -> usize {
        let most = self.options.limits.log_read_chunk_bytes.max(CHUNK_LEAST_BYTES);
        let bytes = (self.budget_bytes / CHUNK_PARTS).clamp(CHUNK_LEAST_BYTES, most);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Bytes that a replay takes.
    pub(super) fn replay_bytes(&self) -> u64 {
        (self.chunk_bytes() as u64).saturating_mul(PIECES)
    }

    fn start_reading(&self, path: PathBuf, samples: Vec<Sample>, next: u64, until: u64) -> Result<Reading, String> {
        if self.readings.load(Ordering::SeqCst) >= HANGING_MOST {
            return Err(format!("{} hangs where it is read here", path.display()));
        }
        // On the writer's own host the page cache is the writer's, and going past it would make its appends wait.
        let reads = if self.beside_tickerplant { Reads::Cached } else { Reads::Fresh };
        let (limits, chunk_bytes) = (self.limits, self.chunk_bytes());
        let order = Order { path, samples, limits, chunk_bytes, reads, next, until };
        Reading::start(order, &self.readings).map_err(|error| format!("no thread to read the log: {error}"))
    }

    /// The log cannot be read here: have the tickerplant send what is missing.
    fn be_fed(&mut self, after: After, reason: &str) {
        let Some(open) = self.intake.open_window() else { return };
        let (next, last) = (open.window.next, open.last);
        match (self.dialect, last) {
            (Some(Dialect::Elastick), Some(last)) => {
                log::info!("[{next},{last}) is streamed: {reason}");
                self.write(|out| messages::stream(out, next, last));
            }
            (Some(Dialect::Elastick), None) => {
                log::info!("fed from {next} on: {reason}");
                self.write(|out| messages::from(out, next));
            }
            // A stock tickerplant without a log has nothing before the feed.
            (Some(Dialect::Stock), _) if self.tip == Some(0) => self.replayed(after),
            _ => self.fault = Some(Fault::NoLog(format!("cannot replay from {next}: {reason}"))),
        }
    }

    fn replayed(&mut self, after: After) {
        self.session.without_log = 0;
        match (after, self.dialect, self.intake.next()) {
            (After::Rebuilt, ..) => self.rebuilt(),
            (After::Feed, Some(Dialect::Elastick), Some(next)) => self.write(|out| messages::from(out, next)),
            (After::Feed, ..) => {}
        }
    }

    /// The next piece of a replay under way. Updates that a roll leaves behind are the successor's.
    pub(super) fn replay_on(&mut self) -> Result<(), Fault> {
        let Some(mut replay) = self.replay.take() else { return Ok(()) };
        let piece = match replay.reading.next(LOOK) {
            Ok(Some(piece)) => piece,
            Ok(None) if clock::now() < replay.by => {
                self.replay = Some(replay);
                return Ok(());
            }
            Ok(None) => return self.unreadable(replay, &format!("the log has hung for {HANG_MOST:?}")),
            Err(reason) => return self.unreadable(replay, &reason),
        };
        points::reach(Point::NodeReplays);
        for (index, record) in piece.iter() {
            if is_planted(Defect::SkipsOneAtReplay)
                && self.intake.open_window().is_some_and(|open| open.window.first.saturating_add(1) == index)
            {
                self.intake.skip();
                continue;
            }
            match update::update(record) {
                Some(update) => self.take(&update, Some(index))?,
                None => self.no_update(index, record)?,
            }
            // A roll ends the window in the middle of the piece, as exactly as in the feed.
            if self.unwatched_bytes >= self.watch_bytes {
                self.watch_as(true);
            }
            if !self.policy.takes_updates() && !is_planted(Defect::RollInReplayUndone) {
                return Ok(());
            }
        }
        if piece.last_index() >= replay.until {
            points::reach(Point::NodeReplayed);
            self.replayed(replay.after);
        } else {
            replay.by = hangs_at();
            self.replay = Some(replay);
        }
        Ok(())
    }

    /// A record of the log that does not call `upd`.
    fn no_update(&mut self, index: u64, record: &[u8]) -> Result<(), Fault> {
        if let Some(schema) = messages::logged_schema(record, &self.limits) {
            return self.schema_told(schema, Some(index));
        }
        match parts(record, &self.limits) {
            // Its rows are in no table, and the log's side of the proof counts them.
            Some(other) => {
                self.intake.skip_refused();
                let (function, table) = (other.function.escape_ascii(), other.table.escape_ascii());
                self.refuse(&format!("record {index} of the log calls {function} for table {table}, not upd"));
            }
            None => {
                log::warn!("record {index} of the log is no update");
                self.intake.skip();
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, replay: Replay, reason: &str) -> Result<(), Fault> {
        if self.session.without_log == 0 {
            log::warn!("cannot go on replaying: {reason}");
        }
        self.be_fed(replay.after, reason);
        Ok(())
    }
}

fn hangs_at() -> Instant {
    let now = clock::now();
    now.checked_add(HANG_MOST).unwrap_or(now)
}
