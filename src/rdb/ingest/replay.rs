//! Replaying a window in place from the log, a chunk at a time, so that messages and memory are looked at in between.

use super::{Dialect, Fault, Ingest};
use crate::log::{LogError, LogReader, Next};
use crate::rdb::messages;
use crate::rdb::update;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time for a log that was announced to show itself here.
const OPEN_WITHIN: Duration = Duration::from_secs(2);
/// Time for a log to show the updates that it was announced to have.
const REACH_WITHIN: Duration = Duration::from_secs(60);
/// Longest look for more of a log before messages are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Chunks of the log in parts of the node's budget, and at least these bytes.
const CHUNK_PARTS: u64 = 64;
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
    reader: LogReader,
    until: u64,
    chunk_bytes: usize,
    by: Instant,
    pub after: After,
}

impl Ingest {
    /// Replays from `next` until `until`, or asks to be fed where the log cannot be read here.
    pub(super) fn begin_replay(&mut self, log: Option<PathBuf>, next: u64, until: u64) {
        let is_rebuild = self.intake.open_window().is_some_and(|open| open.last.is_some());
        let after = if is_rebuild { After::Rebuilt } else { After::Feed };
        if next >= until {
            return self.replayed(after);
        }
        // Only the tickerplant can cut an update down to some symbols.
        let log = log.filter(|_| self.options.subscription.symbols.is_empty());
        match log.map(|path| self.open_log(&path, next)) {
            Some(Ok(reader)) => {
                let now = Instant::now();
                let by = now.checked_add(REACH_WITHIN).unwrap_or(now);
                self.replay = Some(Replay { reader, until, chunk_bytes: self.chunk_bytes(), by, after });
            }
            Some(Err(error)) => self.be_fed(after, &error.to_string()),
            None => self.be_fed(after, "there is no log to be read here"),
        }
    }

    pub(super) fn chunk_bytes(&self) -> usize {
        let most = self.options.limits.log_read_chunk_bytes.max(CHUNK_LEAST_BYTES);
        let bytes = (self.budget_bytes / CHUNK_PARTS).clamp(CHUNK_LEAST_BYTES, most);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn open_log(&self, path: &Path, next: u64) -> Result<LogReader, LogError> {
        let now = Instant::now();
        let by = now.checked_add(OPEN_WITHIN).unwrap_or(now);
        let mut reader = LogReader::open_until(path, self.limits, self.chunk_bytes(), by)?;
        reader.seek(next)?;
        Ok(reader)
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
            _ => self.fault = Some(Fault::Connection(format!("cannot replay from {next}: {reason}"))),
        }
    }

    fn replayed(&mut self, after: After) {
        match (after, self.dialect, self.intake.next()) {
            (After::Rebuilt, ..) => self.rebuilt(),
            (After::Feed, Some(Dialect::Elastick), Some(next)) => self.write(|out| messages::from(out, next)),
            (After::Feed, ..) => {}
        }
    }

    /// The next chunk of a replay under way. Updates that a roll leaves behind are the successor's.
    pub(super) fn replay_on(&mut self) -> Result<(), Fault> {
        let Some(mut replay) = self.replay.take() else { return Ok(()) };
        let chunk = match replay.reader.next_chunk(replay.chunk_bytes, replay.until) {
            Ok(Next::Chunk(chunk)) => chunk,
            Ok(Next::NotYet) => return self.look_again(replay),
            Err(error) => return self.unreadable(&replay, &error),
        };
        for (index, record) in chunk.iter() {
            match update::update(record) {
                Some(update) => self.take(&update, Some(index))?,
                None => {
                    log::warn!("record {index} of the log is no update");
                    self.intake.skip();
                }
            }
            // A roll ends the window in the middle of the chunk, as exactly as in the feed.
            if self.unwatched_bytes >= self.watch_bytes {
                self.watch_as(true);
            }
            if !self.policy.takes_updates() {
                return Ok(());
            }
        }
        if replay.reader.position() >= replay.until {
            self.replayed(replay.after);
        } else {
            let now = Instant::now();
            replay.by = now.checked_add(REACH_WITHIN).unwrap_or(now);
            self.replay = Some(replay);
        }
        Ok(())
    }

    /// The file does not show yet what it was announced to have.
    fn look_again(&mut self, mut replay: Replay) -> Result<(), Fault> {
        let now = Instant::now();
        match replay.reader.reopen_until(replay.until, now.checked_add(LOOK).unwrap_or(now).min(replay.by)) {
            Ok(()) => {}
            Err(LogError::NotReached { .. }) if now < replay.by => {}
            Err(error) => return self.unreadable(&replay, &error),
        }
        self.replay = Some(replay);
        Ok(())
    }

    fn unreadable(&mut self, replay: &Replay, error: &LogError) -> Result<(), Fault> {
        log::warn!("cannot go on replaying: {error}");
        self.be_fed(replay.after, &error.to_string());
        Ok(())
    }
}
