//! What a feed has sent, what became of it, and what to send again: a publisher without its connection.
//!
//! Asynchronous updates are confirmed together, by an answer to a question that was sent behind them. When the connection breaks,
//! those since the last confirmation are in doubt: [`Ledger::settle`] finds in the tickerplant's log which of them it accepted.

use super::doubt::Doubt;
use super::update::Update;
use crate::log::{Chunk, LogReader, Next, Proof, Reads, columns_of, logs_between, parts, update_hash};
use crate::sys::clock;
use proto::{Limits, Value};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is asked for a [`Place`].
pub const WHERE: &str = ".u `i`j`L";
/// Time for a log to show what it has.
const SHOWS_WITHIN: Duration = Duration::from_secs(30);

/// What was sent and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Accepted, for each table.
    pub accepted: Proof,
    /// Refused with an answer; only known with `sync`.
    pub refused: u64,
    /// Bytes of messages sent.
    pub sent_bytes: u64,
    pub reconnects: u64,
    /// Sent again after a break, because they had not been accepted.
    pub resent: u64,
}

/// A place in the tickerplant's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub tip: u64,
    /// Empty where the tickerplant has no log.
    pub log: PathBuf,
}

impl Place {
    /// The answer to [`WHERE`]; `None` if it makes no sense.
    pub fn of(answer: &Value) -> Option<Place> {
        let index = |at: usize| answer.item(at).and_then(|i| i.as_long()).and_then(|i| u64::try_from(i).ok());
        // In batch mode `i` is what was published and `j` what was logged; without it `j` may be null.
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

/// The books of one feed.
#[derive(Debug, Default)]
pub struct Ledger {
    account: Account,
    unconfirmed: Vec<Update>,
    unconfirmed_bytes: usize,
    /// The log when all before was confirmed.
    confirmed_at: Place,
}

impl Ledger {
    /// Nothing was sent yet, and the log is there.
    pub fn new(at: Place) -> Ledger {
        Ledger { confirmed_at: at, ..Ledger::default() }
    }

    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Sent and not confirmed yet, in order.
    pub fn unconfirmed(&self) -> &[Update] {
        &self.unconfirmed
    }

    /// Bytes of their messages.
    pub fn unconfirmed_bytes(&self) -> usize {
        self.unconfirmed_bytes
    }

    /// The log at the last confirmation.
    pub fn confirmed_at(&self) -> &Place {
        &self.confirmed_at
    }

    /// An update is sent.
    pub fn sends(&mut self, update: Update) {
        self.account.sent_bytes = self.account.sent_bytes.saturating_add(update.message.len() as u64);
        self.unconfirmed_bytes = self.unconfirmed_bytes.saturating_add(update.message.len());
        self.unconfirmed.push(update);
    }

    /// All that was sent was handled, and the log is here now.
    pub fn confirmed(&mut self, at: Place) {
        self.confirmed_at = at;
        self.accepted();
    }

    /// All that was sent was accepted.
    pub fn accepted(&mut self) {
        let accepted = std::mem::take(&mut self.unconfirmed);
        self.accept(&accepted);
    }

    /// What was sent was refused.
    pub fn refused(&mut self) {
        self.account.refused = self.account.refused.saturating_add(1);
        self.unconfirmed.clear();
        self.count();
    }

    pub fn reconnected(&mut self) {
        self.account.reconnects = self.account.reconnects.saturating_add(1);
    }

    /// The connection had broken, and over a new one the log was `now` here, told twice, so that all that will be read of the old
    /// one has been read. What was accepted is found there, `chunk_bytes` of the log at once; what is unconfirmed after this has to be sent
    /// again.
    ///
    /// # Errors
    /// Why the log cannot tell; everything stays in doubt.
    pub fn settle(&mut self, now: Place, limits: Limits, chunk_bytes: usize) -> Result<(), String> {
        let in_doubt = self.unconfirmed.len();
        if in_doubt > 0 {
            let mut found = Doubt::new(&self.unconfirmed);
            look_up(&self.confirmed_at, &now, (limits, chunk_bytes), &mut found)?;
            let (accepted, missing) = found.settle(std::mem::take(&mut self.unconfirmed));
            log::info!(
                "of {in_doubt} updates in doubt {} are in the log; {} are sent again",
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

/// Looks at all that was logged between two places.
fn look_up(from: &Place, to: &Place, limits: (Limits, usize), doubt: &mut Doubt) -> Result<(), String> {
    if from.log.as_os_str().is_empty() || to.log.as_os_str().is_empty() {
        return Err("the tickerplant keeps no log".to_string());
    }
    if from.log == to.log {
        return read_log(&to.log, from.tip, to.tip, limits, doubt);
    }
    // The day has rolled meanwhile, or more than one: the rest of one log, and all of those behind it.
    read_log(&from.log, from.tip, u64::MAX, limits, doubt)?;
    for log in logs_between(&from.log, &to.log).map_err(|error| error.to_string())? {
        read_log(&log, 0, u64::MAX, limits, doubt)?;
    }
    read_log(&to.log, 0, to.tip, limits, doubt)
}

/// Hands the updates `[first, last)` of a log to the doubt; a `last` beyond the log's end means its end.
fn read_log(path: &Path, first: u64, last: u64, limits: (Limits, usize), doubt: &mut Doubt) -> Result<(), String> {
    let (limits, chunk_bytes) = limits;
    let now = clock::now();
    // Where a log ends that the next one has replaced, nothing tells but its server: this host may remember less of it.
    let reads = if last < u64::MAX { Reads::Cached } else { Reads::Fresh };
    let reader = LogReader::open_until(path, limits, chunk_bytes, reads, now);
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
