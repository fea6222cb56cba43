//! Audit of a feed (`FeedAudit`): what it sent, what was accepted, and what to send again. Contains no I/O on the connection.
//!
//! Async updates are confirmed together, by the response to a query sent after them. When the connection breaks, those since the last
//! confirmation are in doubt: [`FeedAudit::settle`] finds in the tickerplant's log which of them were accepted.

use super::doubt::Doubt;
use super::update::Update;
use crate::env::Env;
use crate::log::{Chunk, LogId, LogReader, Next, Proof, Reads, Sample, columns_of, logs_between, parts, update_hash};
use crate::points::{self, Point};
use crate::protocol::LogState;
use proto::{Limits, Value};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Query for a [`Place`].
pub const WHERE: &str = ".u `i`j`L";
/// Reasons of rejections kept for the report.
const MAX_REASONS: usize = 5;
/// How long a log may take to show its content.
const SHOWS_WITHIN: Duration = Duration::from_secs(30);

/// Totals of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedTotals {
    /// Updates sent, each counted once even if it was sent again.
    pub sent: u64,
    /// Accepted updates by table: they are in the log, as durable as the tickerplant promises.
    pub accepted: Proof,
    /// Updates that the tickerplant rejected, and the first different reasons.
    pub refused: u64,
    pub reasons: Vec<String>,
    /// Updates of which nothing tells whether they are in the log.
    pub unknown: u64,
    /// Bytes of messages sent.
    pub sent_bytes: u64,
    pub reconnects: u64,
    /// Updates sent again after a broken connection, because they had not been accepted.
    pub resent: u64,
    /// Most updates that can be missing although they were confirmed: the tickerplant that took over has a log that ends before them. Those of
    /// other publishers count as well.
    pub lost_most: u64,
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

/// Where a tickerplant's log stands, and which log it is if the tickerplant says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub place: Place,
    pub epoch: Option<u64>,
    pub log: LogState,
}

impl From<Place> for Found {
    /// Of a tickerplant that does not say which log it is.
    fn from(place: Place) -> Found {
        Found { place, ..Found::default() }
    }
}

/// Response to `.u.confirm[]`: what a tickerplant did with the updates of this connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmation {
    /// Updates before its tip are as durable as promised.
    pub place: Place,
    /// Updates rejected since the connection was opened, and the first reasons.
    pub rejected: u64,
    pub reasons: Vec<String>,
    /// Why the log cannot be written; empty if it can.
    pub failure: String,
}

impl Confirmation {
    /// Parses the response; `None` if it is invalid.
    pub fn of(answer: &Value) -> Option<Confirmation> {
        let text = |value: Value| value.as_text().map(|text| String::from_utf8_lossy(text).into_owned());
        let long = |name: &str| answer.lookup(name)?.as_long().and_then(|n| u64::try_from(n).ok());
        let reasons = answer.lookup("reasons")?;
        let log = answer.lookup("L").and_then(text)?;
        let log = log.trim_start_matches(':').to_string();
        Some(Confirmation {
            place: Place { tip: long("i")?, log: log.into() },
            rejected: long("rejected")?,
            reasons: (0..reasons.len()).filter_map(|at| reasons.item(at).and_then(text)).collect(),
            failure: answer.lookup("failure").and_then(text)?,
        })
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
    /// Writer of that log.
    confirmed_by: Writer,
    /// Updates rejected on this connection as of the last confirmation.
    rejected: u64,
}

/// Writer of a log; empty if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Writer {
    log: Option<LogId>,
    epoch: Option<u64>,
}

impl Found {
    fn writer(&self) -> Writer {
        Writer { log: self.log.id, epoch: self.epoch }
    }

    /// Updates before `confirmed` in this log of the same day that an earlier writer has confirmed and this one does not have.
    fn lacks(&self, confirmed: &Place, by: Writer) -> u64 {
        let is_same_day = confirmed.log.file_name() == self.place.log.file_name();
        match (by.epoch, self.epoch, self.log.began) {
            (Some(earlier), Some(epoch), Some(began)) if is_same_day && earlier != epoch => {
                confirmed.tip.saturating_sub(began)
            }
            _ => 0,
        }
    }
}

impl FeedAudit {
    /// Starts with nothing sent, at this position of the log.
    pub fn new(at: impl Into<Found>) -> FeedAudit {
        let at = at.into();
        FeedAudit { confirmed_by: at.writer(), confirmed_at: at.place, ..FeedAudit::default() }
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
        self.account.sent = self.account.sent.saturating_add(1);
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

    /// Records every sent update as rejected for this reason.
    pub fn refused(&mut self, reason: String) {
        self.account.refused = self.account.refused.saturating_add(self.unconfirmed.len() as u64);
        self.note_reasons([reason]);
        self.unconfirmed.clear();
        self.count();
    }

    /// Counts a reconnect: rejections count from 0 on the new connection.
    pub fn reconnected(&mut self) {
        self.account.reconnects = self.account.reconnects.saturating_add(1);
        self.rejected = 0;
    }

    /// Records every sent update as accepted, rejected or unknown, as the tickerplant reports. If it has rejected some of them, its log tells
    /// which.
    pub fn answered(&mut self, env: &Env, answer: Confirmation, limits: Limits, chunk_bytes: usize) {
        let rejected = answer.rejected.saturating_sub(self.rejected).min(self.unconfirmed.len() as u64);
        self.rejected = answer.rejected;
        if rejected > 0 {
            self.note_reasons(answer.reasons);
        }
        match rejected == 0 && answer.failure.is_empty() {
            true => self.confirmed(answer.place),
            false => self.divide(env, answer.place, (rejected, rejected), (limits, chunk_bytes)),
        }
    }

    /// Records that every sent update was handled by a tickerplant that cannot report rejections. If its log has grown by fewer updates than
    /// were sent, it has rejected some.
    pub fn handled(&mut self, env: &Env, at: Place, limits: Limits, chunk_bytes: usize) {
        let sent = self.unconfirmed.len() as u64;
        let is_same = at.log == self.confirmed_at.log;
        let missing = sent.saturating_sub(at.tip.saturating_sub(self.confirmed_at.tip));
        if at.log.as_os_str().is_empty() || !is_same || missing == 0 {
            return self.confirmed(at);
        }
        self.note_reasons(["not in the tickerplant's log".to_string()]);
        self.divide(env, at, (missing, sent), (limits, chunk_bytes));
    }

    /// Looks the sent updates up in the log: those in it are accepted. Of the others at least `least` and at most `most` were rejected, and the
    /// rest is unknown.
    fn divide(&mut self, env: &Env, at: Place, (least, most): (u64, u64), limits: (Limits, usize)) {
        let sent = std::mem::take(&mut self.unconfirmed);
        let mut found = Doubt::new(&sent);
        let looked = match least >= sent.len() as u64 {
            true => Ok(()),
            false => look_up(env, &self.confirmed_at, &at, &[], limits, &mut found),
        };
        let (missing, rejected) = match looked {
            Ok(()) => {
                let (accepted, missing) = found.settle(sent);
                self.accept(&accepted);
                (missing.len() as u64, most)
            }
            Err(reason) => {
                tracing::error!(%reason, "cannot look up in the log which updates were accepted");
                (sent.len() as u64, least)
            }
        };
        let rejected = rejected.min(missing);
        self.account.refused = self.account.refused.saturating_add(rejected);
        self.account.unknown = self.account.unknown.saturating_add(missing.saturating_sub(rejected));
        self.confirmed_at = at;
        self.count();
    }

    fn note_reasons(&mut self, reasons: impl IntoIterator<Item = String>) {
        let kept = &mut self.account.reasons;
        for reason in reasons {
            if kept.len() < MAX_REASONS && !kept.contains(&reason) {
                kept.push(reason);
            }
        }
    }

    /// Returns in words that a tickerplant writes another log than the one that has confirmed updates, if both logs have an identity.
    pub fn is_elsewhere(&self, now: &Found) -> Option<String> {
        let (before, id) = (self.confirmed_by.log?, now.log.id?);
        (before != id).then(|| format!("this tickerplant writes another log ({id}) than the one before ({before})"))
    }

    /// Resolves the updates in doubt after a reconnect. `now` is the log's position from two queries on the new connection; by the
    /// second, the tickerplant has read all it will read from the old one. Accepted updates are found in the log, read `chunk_bytes` at
    /// once; the updates still unconfirmed afterwards must be sent again.
    ///
    /// # Errors
    /// Why the log cannot be read; everything stays in doubt.
    pub fn settle(
        &mut self,
        env: &Env,
        now: impl Into<Found>,
        limits: Limits,
        chunk_bytes: usize,
    ) -> Result<(), String> {
        let now = now.into();
        let in_doubt = self.unconfirmed.len();
        let writer = now.writer();
        let lost = now.lacks(&self.confirmed_at, self.confirmed_by);
        if lost > 0 {
            tracing::error!(
                "the log of the tickerplant that took over lacks up to {lost} updates that the former one had confirmed"
            );
            self.account.lost_most = self.account.lost_most.saturating_add(lost);
        }
        if in_doubt > 0 {
            let mut found = Doubt::new(&self.unconfirmed);
            look_up(env, &self.confirmed_at, &now.place, &now.log.samples, (limits, chunk_bytes), &mut found)?;
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
        (self.confirmed_at, self.confirmed_by) = (now.place, writer);
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

/// Looks up every update logged between two positions. The log of the second one must contain `samples`.
fn look_up(
    env: &Env,
    from: &Place,
    to: &Place,
    samples: &[Sample],
    limits: (Limits, usize),
    doubt: &mut Doubt,
) -> Result<(), String> {
    let (Some(first), Some(_)) = (from.log.file_name(), to.log.file_name()) else {
        return Err("the tickerplant keeps no log".to_string());
    };
    // A tickerplant that has taken over with a copy keeps it elsewhere: what counts is its own directory.
    let first = to.log.with_file_name(first);
    if first == to.log {
        return read_log(env, &to.log, (from.tip, to.tip), samples, limits, doubt);
    }
    // The day has rolled in between, perhaps more than once: read the rest of the first log and all later ones.
    read_log(env, &first, (from.tip, u64::MAX), &[], limits, doubt)?;
    for log in logs_between(&*env.disk, &first, &to.log).map_err(|error| error.to_string())? {
        read_log(env, &log, (0, u64::MAX), &[], limits, doubt)?;
    }
    read_log(env, &to.log, (0, to.tip), samples, limits, doubt)
}

/// Passes the updates `[first, last)` of a log to `doubt`; a `last` beyond the log's end means its end.
fn read_log(
    env: &Env,
    path: &Path,
    (first, last): (u64, u64),
    samples: &[Sample],
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
        reader.wait_for(samples, deadline).map_err(|error| error.to_string())?;
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
