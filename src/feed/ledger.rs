//! Audit of a feed (`FeedAudit`): what it sent, what was accepted, and what to send again. Contains no I/O on the connection.
//!
//! Async updates are confirmed together, by the response to a query sent after them. When the connection breaks, those since the last
//! confirmation are in doubt: [`FeedAudit::settle`] finds in the tickerplant's log which of them were accepted.

use super::doubt::Doubt;
use super::update::Update;
use crate::env::Env;
use crate::log::{Chunk, LogReader, Next, Proof, Reads, columns_of, logs_between, parts, update_hash};
use crate::points::{self, Point};
use proto::{Limits, Value};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Query for a [`Place`].
pub const WHERE: &str = ".u `i`j`L";
/// How long a log may take to show its content.
const SHOWS_WITHIN: Duration = Duration::from_secs(30);

/// Totals of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedTotals {
    /// Accepted updates by table.
    pub accepted: Proof,
    /// Updates rejected with an error response; known only with `sync`.
    pub refused: u64,
    /// Bytes of messages sent.
    pub sent_bytes: u64,
    pub reconnects: u64,
    /// Updates sent again after a broken connection, because they had not been accepted.
    pub resent: u64,
}

/// A position in the tickerplant's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub tip: u64,
    /// Empty if the tickerplant has no log.
    pub log: PathBuf,
}

impl Place {
    /// Parses the response to [`WHERE`]; `None` if it is invalid.
    pub fn of(answer: &Value) -> Option<Place> {
        let index = |at: usize| answer.item(at).and_then(|i| i.as_long()).and_then(|i| u64::try_from(i).ok());
        // In batch mode `i` counts published and `j` logged updates; otherwise `j` may be null.
        let tip = index(0).max(index(1));
        let log = answer.item(2).and_then(|log| log.as_symbol().map(<[u8]>::to_vec)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).trim_start_matches(':').to_string();
        match tip {
            Some(tip) => Some(Place { tip, log: log.into() }),
            None if answer.item(0).is_some_and(|i| i.is_null()) => Some(Place::default()),
            None => None,
        }
    }
}

/// Audit state of one feed.
#[derive(Debug, Default)]
pub struct FeedAudit {
    account: FeedTotals,
    unconfirmed: Vec<Update>,
    unconfirmed_bytes: usize,
    /// Position of the log when everything before was confirmed.
    confirmed_at: Place,
}

impl FeedAudit {
    /// Starts with nothing sent, at this position of the log.
    pub fn new(at: Place) -> FeedAudit {
        FeedAudit { confirmed_at: at, ..FeedAudit::default() }
    }

    pub fn account(&self) -> &FeedTotals {
        &self.account
    }

    /// Returns the updates sent but not confirmed, in order.
    pub fn unconfirmed(&self) -> &[Update] {
        &self.unconfirmed
    }

    /// Size in bytes of their messages.
    pub fn unconfirmed_bytes(&self) -> usize {
        self.unconfirmed_bytes
    }

    /// Returns the position of the log at the last confirmation.
    pub fn confirmed_at(&self) -> &Place {
        &self.confirmed_at
    }

    /// Records an update as sent.
    pub fn sends(&mut self, update: Update) {
        self.account.sent_bytes = self.account.sent_bytes.saturating_add(update.message.len() as u64);
        self.unconfirmed_bytes = self.unconfirmed_bytes.saturating_add(update.message.len());
        self.unconfirmed.push(update);
    }

    /// Records that every sent update was handled, with the log now at this position.
    pub fn confirmed(&mut self, at: Place) {
        self.confirmed_at = at;
        self.accepted();
    }

    /// Records every sent update as accepted.
    pub fn accepted(&mut self) {
        let accepted = std::mem::take(&mut self.unconfirmed);
        self.accept(&accepted);
    }

    /// Records the sent update as rejected.
    pub fn refused(&mut self) {
        self.account.refused = self.account.refused.saturating_add(1);
        self.unconfirmed.clear();
        self.count();
    }

    /// Counts a reconnect.
    pub fn reconnected(&mut self) {
        self.account.reconnects = self.account.reconnects.saturating_add(1);
    }

    /// Resolves the updates in doubt after a reconnect. `now` is the log's position from two queries on the new connection; by the
    /// second, the tickerplant has read all it will read from the old one. Accepted updates are found in the log, read `chunk_bytes` at
    /// once; the updates still unconfirmed afterwards must be sent again.
    ///
    /// # Errors
    /// Why the log cannot be read; everything stays in doubt.
    pub fn settle(&mut self, env: &Env, now: Place, limits: Limits, chunk_bytes: usize) -> Result<(), String> {
        let in_doubt = self.unconfirmed.len();
        if in_doubt > 0 {
            let mut found = Doubt::new(&self.unconfirmed);
            look_up(env, &self.confirmed_at, &now, (limits, chunk_bytes), &mut found)?;
            points::reach(Point::FeedLogRead);
            let (accepted, missing) = found.settle(std::mem::take(&mut self.unconfirmed));
            tracing::info!(
                "{in_doubt} updates were in doubt: {} are in the log, {} are sent again",
                accepted.len(),
                missing.len()
            );
            self.accept(&accepted);
            self.account.resent = self.account.resent.saturating_add(missing.len() as u64);
            self.unconfirmed = missing;
            self.count();
        }
        self.confirmed_at = now;
        Ok(())
    }

    fn accept(&mut self, updates: &[Update]) {
        for update in updates {
            self.account.accepted.add(&update.table, update.rows, update.hash);
        }
        self.count();
    }

    fn count(&mut self) {
        self.unconfirmed_bytes = self.unconfirmed.iter().map(|update| update.message.len()).sum();
    }
}

/// Looks up every update logged between two positions.
fn look_up(env: &Env, from: &Place, to: &Place, limits: (Limits, usize), doubt: &mut Doubt) -> Result<(), String> {
    if from.log.as_os_str().is_empty() || to.log.as_os_str().is_empty() {
        return Err("the tickerplant keeps no log".to_string());
    }
    if from.log == to.log {
        return read_log(env, &to.log, from.tip, to.tip, limits, doubt);
    }
    // The day has rolled in between, perhaps more than once: read the rest of the first log and all later ones.
    read_log(env, &from.log, from.tip, u64::MAX, limits, doubt)?;
    for log in logs_between(&*env.disk, &from.log, &to.log).map_err(|error| error.to_string())? {
        read_log(env, &log, 0, u64::MAX, limits, doubt)?;
    }
    read_log(env, &to.log, 0, to.tip, limits, doubt)
}

/// Passes the updates `[first, last)` of a log to `doubt`; a `last` beyond the log's end means its end.
fn read_log(
    env: &Env,
    path: &Path,
    first: u64,
    last: u64,
    limits: (Limits, usize),
    doubt: &mut Doubt,
) -> Result<(), String> {
    let (limits, chunk_bytes) = limits;
    let now = env.clock.now();
    // For a replaced log only the server knows where it ends: this host's page cache may have less of it.
    let reads = if last < u64::MAX { Reads::Cached } else { Reads::Fresh };
    let reader = LogReader::open_until(env, path, limits, chunk_bytes, reads, now);
    let mut reader = reader.map_err(|error| error.to_string())?;
    let mut take = |chunk: Chunk<'_>| {
        for (_, bytes) in chunk.iter() {
            if let Some(record) = parts(bytes, &limits) {
                doubt.logged(record.table, update_hash(columns_of(&record.columns).0));
            }
        }
    };
    if last < u64::MAX {
        let deadline = now.checked_add(SHOWS_WITHIN).unwrap_or(now);
        let taken = reader.replay(first..last, chunk_bytes, deadline, |chunk| {
            take(chunk);
            ControlFlow::Continue(())
        });
        return taken.map(drop).map_err(|error| error.to_string());
    }
    reader.seek(first).map_err(|error| error.to_string())?;
    while let Next::Chunk(chunk) = reader.next_chunk(chunk_bytes, last).map_err(|error| error.to_string())? {
        take(chunk);
    }
    Ok(())
}
