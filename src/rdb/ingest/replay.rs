//! Replays a window from the log in pieces, so that messages and memory are handled in between.

use super::reading::{Order, PIECES, Reading};
use super::{Dialect, Fault, Ingest};
use crate::defect::{Defect, is_planted};
use crate::log::{Reads, Sample, parts};
use crate::points::{self, Point};
use crate::protocol::FromNode;
use crate::protocol::tables::recorded_schema;
use crate::rdb::update;
use crate::sys::clock;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest wait for a piece of the log; after it, the tickerplant streams the window.
const HANG_MOST: Duration = Duration::from_secs(15);
/// Number of reader threads hanging in the file system after which the log is not read any more.
const HANGING_MOST: usize = 2;
/// Longest wait for a piece per event-loop iteration.
const LOOK: Duration = Duration::from_millis(20);
/// Size of a piece: this fraction of the node's budget, within bounds.
const CHUNK_PARTS: u64 = 64 * PIECES;
const CHUNK_LEAST_BYTES: u64 = 64 << 10;

/// What follows a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The feed: a live window.
    Feed,
    /// Nothing: a rebuilt window.
    Rebuilt,
}

/// A replay in progress.
pub(super) struct Replay {
    reading: Reading,
    until: u64,
    /// When the log counts as hanging.
    by: Instant,
    pub after: After,
}

impl Replay {
    /// Returns what is left to read, as text, for the state fingerprint.
    pub fn shape(&self) -> String {
        let (position, samples) = (self.reading.position(), self.reading.samples());
        format!("{position:?} {samples:?} until {} then {:?}", self.until, self.after)
    }
}

impl Ingest {
    /// Starts a replay of `[next, until)`. If the log is unreadable on this host or is another log, the tickerplant
    /// streams the updates instead.
    pub(super) fn begin_replay(&mut self, log: Option<PathBuf>, samples: Vec<Sample>, next: u64, until: u64) {
        let is_rebuild = self.intake.open_window().is_some_and(|open| open.last.is_some());
        let after = if is_rebuild { After::Rebuilt } else { After::Feed };
        if next >= until {
            return self.replayed(after);
        }
        // Only the tickerplant can filter an update by symbols.
        let log = log.filter(|_| self.options.subscription.symbols.is_empty());
        match log.map(|path| self.start_reading(path, samples, next, until)) {
            Some(Ok(reading)) => self.replay = Some(Replay { reading, until, by: hangs_at(), after }),
            Some(Err(reason)) => self.be_fed(after, &reason),
            None => self.be_fed(after, "there is no log to be read here"),
        }
    }

    /// Size of one piece of the log in bytes.
    fn chunk_bytes(&self) -> usize {
        let most = self.options.limits.log_read_chunk_bytes.max(CHUNK_LEAST_BYTES);
        let bytes = (self.memory.budget_bytes() / CHUNK_PARTS).clamp(CHUNK_LEAST_BYTES, most);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Memory taken by a replay, in bytes.
    pub(super) fn replay_bytes(&self) -> u64 {
        (self.chunk_bytes() as u64).saturating_mul(PIECES)
    }

    fn start_reading(&self, path: PathBuf, samples: Vec<Sample>, next: u64, until: u64) -> Result<Reading, String> {
        if self.readings.load(Ordering::SeqCst) >= HANGING_MOST {
            return Err(format!("{} hangs where it is read here", path.display()));
        }
        // On the tickerplant's own host the page cache holds the writer's data, and reads that bypass it (`O_DIRECT`)
        // would delay appends.
        let reads = if self.link.is_beside() { Reads::Cached } else { Reads::Fresh };
        let (limits, chunk_bytes) = (*self.link.limits(), self.chunk_bytes());
        let order = Order { path, samples, limits, chunk_bytes, reads, next, until };
        Reading::start(order, &self.readings).map_err(|error| format!("no thread to read the log: {error}"))
    }

    /// Requests the remaining updates from the tickerplant, as the log cannot be read here.
    fn be_fed(&mut self, after: After, reason: &str) {
        let Some(open) = self.intake.open_window() else { return };
        let (next, last) = (open.window.next, open.last);
        match (self.link.dialect(), last) {
            (Some(Dialect::Elastick), Some(last)) => {
                tracing::info!(window = %format_args!("[{next},{last})"), %reason, "the window is streamed by the tickerplant");
                self.link.post(FromNode::Stream { first: next, last });
            }
            (Some(Dialect::Elastick), None) => {
                tracing::info!(%reason, "fed from {next} on");
                self.link.post(FromNode::From { next });
            }
            // A stock tickerplant without a log has no updates before the feed.
            (Some(Dialect::Stock), _) if self.tip == Some(0) => self.replayed(after),
            _ => {
                self.link.fail(Fault::NoLog(format!("cannot replay from {next}: {reason}")));
            }
        }
    }

    fn replayed(&mut self, after: After) {
        self.link.has_log();
        match (after, self.link.dialect(), self.intake.next()) {
            (After::Rebuilt, ..) => self.rebuilt(),
            (After::Feed, Some(Dialect::Elastick), Some(next)) => self.link.post(FromNode::From { next }),
            (After::Feed, ..) => {}
        }
    }

    /// Takes the next piece of a replay in progress. The successor takes the updates after a roll.
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
            // A roll ends the window in the middle of a piece, as exactly as in the feed.
            if self.memory.is_due() {
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

    /// Handles a log record that is no call of `upd`.
    fn no_update(&mut self, index: u64, record: &[u8]) -> Result<(), Fault> {
        if let Some(schema) = recorded_schema(record, self.link.limits()) {
            return self.schema_told(schema, Some(index));
        }
        match parts(record, self.link.limits()) {
            // Its rows are in no table, but the log's side of the proof counts them.
            Some(other) => {
                self.intake.skip_refused();
                let (function, table) = (other.function.escape_ascii(), other.table.escape_ascii());
                self.refuse(&format!("record {index} of the log calls {function} for table {table}, not upd"));
            }
            None => {
                tracing::warn!(%index, "the log's record is no update");
                self.intake.skip();
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, replay: Replay, reason: &str) -> Result<(), Fault> {
        if self.link.had_log() {
            tracing::warn!(%reason, "cannot go on replaying");
        }
        self.be_fed(replay.after, reason);
        Ok(())
    }
}

fn hangs_at() -> Instant {
    let now = clock::now();
    now.checked_add(HANG_MOST).unwrap_or(now)
}
