//! Replays a window from the log in pieces, so that messages and memory are handled in between.

use super::reading::{Order, PIECES, Piece, Read, Reading};
use super::{Dialect, Fault, Ingest};
use crate::env::Env;
use crate::log::{self, Reads, Sample, parts};
use crate::protocol::FromNode;
use crate::protocol::tables::recorded_schema;
use crate::rdb::update;
use crate::sys::clock::Clock;
use proto::Limits;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for a piece of the log; after it, the tickerplant streams the window.
const MAX_HANG: Duration = Duration::from_secs(15);
/// Number of reader threads hanging in the file system after which the log is not read any more.
const MAX_HANGING: usize = 2;
/// Longest wait for a piece per event-loop iteration.
const POLL: Duration = Duration::from_millis(20);
/// Size of a piece: this fraction of the node's budget, within bounds.
const CHUNK_PARTS: u64 = 64 * PIECES;
const MIN_CHUNK_BYTES: u64 = 64 << 10;

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
    reading: Box<dyn Reading>,
    until: u64,
    /// When the log counts as hanging.
    by: Instant,
    after: After,
}

/// Next step of a replay.
pub(super) enum Step {
    /// No replay is in progress, or its next piece has not been read yet.
    Nothing,
    /// Take these records, then call [`Replays::took`].
    Piece(Replay, Piece),
    /// The log cannot be read further.
    Unreadable(After, String),
}

/// What to read of a log, and how.
pub(super) struct ReplayRequest {
    pub path: PathBuf,
    pub samples: Vec<Sample>,
    pub next: u64,
    pub until: u64,
    pub limits: Limits,
    /// The tickerplant runs on this host.
    pub is_beside: bool,
    pub after: After,
}

/// The replay in progress, and the threads that read logs.
pub(super) struct Replays {
    env: Env,
    current: Option<Replay>,
    /// Number of threads that read the log, including those that hang in the file system.
    readings: Arc<AtomicUsize>,
    read: Read,
    piece_bytes: usize,
}

impl Replays {
    /// `budget_bytes`: the node's memory; `max_piece_bytes`: the configured size of a piece.
    pub fn new(env: Env, read: Read, budget_bytes: u64, max_piece_bytes: u64) -> Replays {
        let most = max_piece_bytes.max(MIN_CHUNK_BYTES);
        let bytes = (budget_bytes / CHUNK_PARTS).clamp(MIN_CHUNK_BYTES, most);
        let piece_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Replays { env, current: None, readings: Arc::default(), read, piece_bytes }
    }

    pub fn is_on(&self) -> bool {
        self.current.is_some()
    }

    /// Ends the replay in progress. Returns what was to follow it.
    pub fn stop(&mut self) -> Option<After> {
        self.current.take().map(|replay| replay.after)
    }

    /// Memory taken by a replay, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.piece_bytes as u64).saturating_mul(PIECES)
    }

    /// Starts a replay.
    ///
    /// # Errors
    /// Why the log cannot be read on this host.
    pub fn start(&mut self, request: ReplayRequest) -> Result<(), String> {
        let ReplayRequest { path, samples, next, until, limits, is_beside, after } = request;
        if self.readings.load(Ordering::SeqCst) >= MAX_HANGING {
            return Err(format!("reads of {} hang on this host", path.display()));
        }
        // On the tickerplant's own host the page cache holds the writer's data, and reads that bypass it (`O_DIRECT`)
        // would delay appends.
        let reads = if is_beside { Reads::Cached } else { Reads::Fresh };
        let (env, chunk_bytes) = (self.env.clone(), self.piece_bytes);
        let order = Order { env, path, samples, limits, chunk_bytes, reads, next, until };
        let reading = (self.read)(order, &self.readings);
        let reading = reading.map_err(|error| format!("cannot start a thread to read the log: {error}"))?;
        self.current = Some(Replay { reading, until, by: hangs_at(&*self.env.clock), after });
        Ok(())
    }

    /// Waits shortly for the next piece. No replay is in progress until [`Replays::took`] continues it.
    pub fn step(&mut self) -> Step {
        let Some(mut replay) = self.current.take() else { return Step::Nothing };
        match replay.reading.next(POLL) {
            Ok(Some(piece)) => Step::Piece(replay, piece),
            Ok(None) if self.env.clock.now() < replay.by => {
                self.current = Some(replay);
                Step::Nothing
            }
            Ok(None) => Step::Unreadable(replay.after, format!("reads of the log have hung for {MAX_HANG:?}")),
            Err(reason) => Step::Unreadable(replay.after, reason),
        }
    }

    /// Continues a replay whose piece up to `last` was taken. Returns what follows if it is complete.
    pub fn took(&mut self, mut replay: Replay, last: u64) -> Option<After> {
        if last >= replay.until {
            return Some(replay.after);
        }
        replay.by = hangs_at(&*self.env.clock);
        self.current = Some(replay);
        None
    }

    /// Returns what is left to read, as text, for the state fingerprint.
    pub fn shape(&self) -> String {
        let shape =
            |replay: &Replay| format!("{} until {} then {:?}", replay.reading.shape(), replay.until, replay.after);
        format!("{:?}", self.current.as_ref().map(shape))
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
        let Some(path) = log else { return self.be_fed(after, "the log cannot be read on this host") };
        let (limits, is_beside) = (*self.link.limits(), self.link.is_beside());
        if let Err(reason) = self.replays.start(ReplayRequest { path, samples, next, until, limits, is_beside, after })
        {
            self.be_fed(after, &reason);
        }
    }

    /// Requests the remaining updates from the tickerplant, as the log cannot be read here.
    fn be_fed(&mut self, after: After, reason: &str) {
        let Some(open) = self.intake.open_window() else { return };
        let (next, last) = (open.window.next, open.last);
        match (self.link.dialect(), last) {
            (Some(Dialect::Elastick), Some(last)) => {
                tracing::info!(window = %format_args!("[{next},{last})"), %reason, "the tickerplant will stream the window");
                self.link.post(FromNode::Stream { first: next, last });
            }
            (Some(Dialect::Elastick), None) => {
                tracing::info!(%reason, "receiving the feed from update {next} on");
                self.link.post(FromNode::From { next });
            }
            // A stock tickerplant without a log has no updates before the feed.
            (Some(Dialect::Stock), _) if self.day.tip() == Some(0) => self.replayed(after),
            _ => {
                self.link.fail(Fault::NoLog(format!("cannot replay from update {next}: {reason}")));
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
        let (replay, piece) = match self.replays.step() {
            Step::Nothing => return Ok(()),
            Step::Piece(replay, piece) => (replay, piece),
            Step::Unreadable(after, reason) => {
                self.unreadable(after, &reason);
                return Ok(());
            }
        };
        for (index, record) in piece.iter() {
            match update::update(record) {
                Some(update) => self.take(&update, Some(index))?,
                None => self.no_update(index, record)?,
            }
            // A roll ends the window in the middle of a piece, as exactly as in the feed.
            if self.memory.is_due() {
                self.watch_as(true);
            }
            if !self.policy.takes_updates() {
                return Ok(());
            }
        }
        if let Some(after) = self.replays.took(replay, piece.last_index()) {
            self.replayed(after);
        }
        Ok(())
    }

    /// Handles a log record that is no call of `upd`.
    fn no_update(&mut self, index: u64, record: &[u8]) -> Result<(), Fault> {
        if let Some(schema) = recorded_schema(record, self.link.limits()) {
            return self.apply_schema(schema, Some(index));
        }
        match parts(record, self.link.limits()) {
            // Its rows are in no table, but the log's side of the proof counts them.
            Some(other) => {
                self.intake.skip_refused();
                let (function, table) = (other.function.escape_ascii(), other.table.escape_ascii());
                self.refuse(&format!("record {index} of the log calls {function} for table {table}, not upd"));
            }
            None if log::is_sequence(record) => self.intake.skip(),
            None => {
                tracing::warn!(%index, "the log's record is not an update");
                self.intake.skip();
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, after: After, reason: &str) {
        if self.link.had_log() {
            tracing::warn!(%reason, "cannot continue the replay");
        }
        self.be_fed(after, reason);
    }
}

fn hangs_at(clock: &dyn Clock) -> Instant {
    let now = clock.now();
    now.checked_add(MAX_HANG).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::super::reading::on_a_thread;
    use super::*;

    fn request(after: After) -> ReplayRequest {
        let path = PathBuf::from("/there/is/no/such/log2030.01.01");
        ReplayRequest {
            path,
            samples: Vec::new(),
            next: 3,
            until: 9,
            limits: Limits::default(),
            is_beside: true,
            after,
        }
    }

    #[test]
    fn a_log_is_not_read_any_more_while_threads_hang_in_it() {
        let mut replays = Replays::new(Env::system(), on_a_thread, 1 << 20, 1 << 20);
        replays.readings.store(MAX_HANGING, Ordering::SeqCst);
        let refused = replays.start(request(After::Feed));
        assert!(refused.is_err_and(|reason| reason.contains("hang on this host")) && !replays.is_on());
    }

    #[test]
    fn a_stopped_replay_tells_what_was_to_follow_once() {
        let mut replays = Replays::new(Env::system(), on_a_thread, 1 << 20, 1 << 20);
        replays.start(request(After::Rebuilt)).expect("a thread starts");
        assert_eq!((replays.stop(), replays.stop(), replays.is_on()), (Some(After::Rebuilt), None, false));
    }

    #[test]
    fn pieces_are_a_part_of_the_budget_within_bounds() {
        let bytes =
            |budget_bytes, most| Replays::new(Env::system(), on_a_thread, budget_bytes, most).piece_bytes as u64;
        assert_eq!(bytes(0, 1 << 20), MIN_CHUNK_BYTES);
        assert_eq!(bytes(u64::MAX, 1 << 20), 1 << 20);
        assert_eq!(bytes(CHUNK_PARTS << 18, 1 << 20), 1 << 18);
    }
}
