//! Sending updates so that the feed knows which were accepted.
//!
//! Updates go out in batches of asynchronous messages; a synchronous question now and then confirms all before it, since a
//! tickerplant takes one connection's messages in order. With `sync` each update is a synchronous message of its own.
//!
//! A broken connection is made again. What was not confirmed is looked up by its hash in the tickerplant's log
//! ([`super::doubt`]): what stands there is not sent again, the rest is. Where the log cannot be read the feed stops and says
//! how many updates are in doubt; it never sends one that may have been accepted. It relies on the tickerplant having read
//! what it will read of the broken connection by the time it answers a second question on the new one.

use super::doubt::Doubt;
use super::update::{Columns, Update};
use crate::config::Address;
use crate::log::{Chunk, LogReader, Next, Proof, columns_of, parts, update_hash};
use crate::net::client::{Client, ClientError};
use crate::points::{self, Point};
use proto::{EncodeError, Limits, MessageKind, Value};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Bytes of updates that may be unconfirmed, whatever their number.
const UNCONFIRMED_BYTES: usize = 8 << 20;
/// Time for one answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How often a question is asked again that the tickerplant had no time for, and the pause before.
const STOPS_MOST: usize = 20;
const STOP_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Error)]
pub enum FeedError {
    #[error("{0}")]
    Client(#[from] ClientError),
    #[error("{0}")]
    Encode(#[from] EncodeError),
    /// Some updates may or may not have been accepted, and there is no way to find out.
    #[error("{count} updates are in doubt after the connection broke: {reason}")]
    InDoubt { count: usize, reason: String },
    #[error("the tickerplant's answer to {question} makes no sense: {answer}")]
    Answer { question: &'static str, answer: String },
    #[error("{0}")]
    Other(String),
}

#[derive(Clone, Debug)]
pub struct PublisherOptions {
    pub address: Address,
    /// Each update by a synchronous message.
    pub sync: bool,
    /// Updates between two confirmations.
    pub confirm_every: usize,
    /// How long to try to connect, at the start and after a break.
    pub patience: Duration,
    pub limits: Limits,
    /// Bytes of the log read at once.
    pub chunk_bytes: usize,
}

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
struct Place {
    tip: u64,
    /// Empty where the tickerplant has no log.
    log: PathBuf,
}

pub struct Publisher {
    options: PublisherOptions,
    client: Client,
    account: Account,
    unconfirmed: Vec<Update>,
    unconfirmed_bytes: usize,
    /// The log when all before was confirmed.
    confirmed_at: Place,
    last_refusal: Option<String>,
}

impl Publisher {
    /// # Errors
    /// That no connection can be had in time, or that what answers is no tickerplant.
    pub fn connect(options: PublisherOptions) -> Result<Publisher, FeedError> {
        let (client, confirmed_at) = connect(&options, false)?;
        Ok(Publisher {
            options,
            client,
            account: Account::default(),
            unconfirmed: Vec::new(),
            unconfirmed_bytes: 0,
            confirmed_at,
            last_refusal: None,
        })
    }

    /// Asks the tickerplant something by an expression; again, where the connection breaks, for as long as it may take to connect.
    ///
    /// # Errors
    /// The tickerplant's own, by its kdb+ name, or the connection's.
    pub fn query(&mut self, expression: &str) -> Result<Value, FeedError> {
        let by = Instant::now().checked_add(self.options.patience);
        loop {
            match asked(&mut self.client, expression) {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_answer() || by.is_none_or(|by| Instant::now() >= by) => return Err(error.into()),
                Err(error) => self.recover(&error)?,
            }
            std::thread::sleep(STOP_PAUSE);
        }
    }

    /// What is known to be accepted. After [`Publisher::confirm`] that is all that was published.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Updates sent and not confirmed yet.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// Why the last refused update was refused.
    pub fn last_refusal(&self) -> Option<&str> {
        self.last_refusal.as_deref()
    }

    /// The tickerplant's next update index at the last confirmation.
    pub fn tip(&self) -> u64 {
        self.confirmed_at.tip
    }

    /// Sends an update, or queues it until [`Publisher::flush`].
    ///
    /// # Errors
    /// Updates in doubt, or no connection in time.
    pub fn publish(&mut self, table: &[u8], columns: &Columns) -> Result<(), FeedError> {
        let kind = if self.options.sync { MessageKind::Sync } else { MessageKind::Async };
        let update = Update::new(table, columns, kind)?;
        self.account.sent_bytes = self.account.sent_bytes.saturating_add(update.message.len() as u64);
        self.unconfirmed_bytes = self.unconfirmed_bytes.saturating_add(update.message.len());
        self.unconfirmed.push(update);
        if self.options.sync {
            return self.settle_sync();
        }
        let sent = match self.unconfirmed.last() {
            Some(update) => self.client.send_raw(&update.message),
            None => Ok(()),
        };
        if let Err(error) = sent {
            self.recover(&error)?;
        }
        if self.unconfirmed.len() >= self.options.confirm_every || self.unconfirmed_bytes >= UNCONFIRMED_BYTES {
            self.confirm()?;
        }
        Ok(())
    }

    /// Writes what is queued.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn flush(&mut self) -> Result<(), FeedError> {
        match self.client.flush() {
            Ok(()) => Ok(()),
            Err(error) => self.recover(&error),
        }
    }

    /// Waits until everything published so far is known to be accepted.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn confirm(&mut self) -> Result<(), FeedError> {
        points::reach(Point::FeedBeforeConfirm);
        loop {
            match place(&mut self.client) {
                Ok(place) => {
                    points::reach(Point::FeedConfirmed);
                    self.confirmed_at = place;
                    let accepted = std::mem::take(&mut self.unconfirmed);
                    self.accept(&accepted);
                    return Ok(());
                }
                Err(FeedError::Client(error)) if !error.is_answer() => self.recover(&error)?,
                Err(error) => return Err(error),
            }
        }
    }

    fn accept(&mut self, updates: &[Update]) {
        for update in updates {
            self.account.accepted.add(&update.table, update.rows, update.hash);
        }
        self.unconfirmed_bytes = self.unconfirmed.iter().map(|update| update.message.len()).sum();
    }

    /// Sends the one update that is not confirmed and waits for its answer.
    fn settle_sync(&mut self) -> Result<(), FeedError> {
        while let Some(update) = self.unconfirmed.first() {
            let limits = self.options.limits;
            let answer = self.client.request_raw(&update.message, drop);
            match answer.and_then(|answer| answer.view(&limits).map(drop)) {
                Ok(()) => {
                    let accepted = std::mem::take(&mut self.unconfirmed);
                    self.accept(&accepted);
                }
                Err(ClientError::Server(reason)) => {
                    self.account.refused = self.account.refused.saturating_add(1);
                    self.last_refusal = Some(String::from_utf8_lossy(&reason).into_owned());
                    self.unconfirmed.clear();
                    self.unconfirmed_bytes = 0;
                }
                Err(error) => self.recover(&error)?,
            }
        }
        Ok(())
    }

    /// Connects again, finds out what was accepted, and sends the rest.
    fn recover(&mut self, why: &ClientError) -> Result<(), FeedError> {
        log::warn!("{}: {why}; connecting again", self.options.address);
        let in_doubt = self.unconfirmed.len();
        let doubt = |reason: String| FeedError::InDoubt { count: in_doubt, reason };
        let (client, mut now) = connect(&self.options, true).map_err(|error| match in_doubt {
            0 => error,
            _ => doubt(error.to_string()),
        })?;
        self.client = client;
        self.account.reconnects = self.account.reconnects.saturating_add(1);
        points::reach(Point::FeedReconnected);
        if in_doubt > 0 {
            now = match place(&mut self.client) {
                Ok(now) => now,
                Err(FeedError::Client(error)) if !error.is_answer() => return self.recover(&error),
                Err(error) => return Err(doubt(error.to_string())),
            };
            let updates = std::mem::take(&mut self.unconfirmed);
            let mut found = Doubt::new(&updates);
            let looked = look_up(&self.confirmed_at, &now, &self.options, &mut found);
            if let Err(reason) = looked {
                self.unconfirmed = updates;
                return Err(doubt(reason));
            }
            let (accepted, missing) = found.settle(updates);
            points::reach(Point::FeedLookedUp);
            log::info!(
                "of {in_doubt} updates in doubt {} are in the log; {} are sent again",
                accepted.len(),
                missing.len()
            );
            self.accept(&accepted);
            self.account.resent = self.account.resent.saturating_add(missing.len() as u64);
            self.unconfirmed = missing;
        }
        self.unconfirmed_bytes = self.unconfirmed.iter().map(|update| update.message.len()).sum();
        self.confirmed_at = now;
        if !self.options.sync {
            // A break in the middle of this is found by the next confirmation.
            for update in &self.unconfirmed {
                if self.client.send_raw(&update.message).is_err() {
                    break;
                }
            }
        }
        points::reach(Point::FeedResent);
        Ok(())
    }
}

/// Tries until it is time to give up. A server that goes down closes connections as one does that refuses the user: where it
/// has let the user in before (`known`), that is no reason to give up.
fn connect(options: &PublisherOptions, known: bool) -> Result<(Client, Place), FeedError> {
    let by = Instant::now().checked_add(options.patience);
    let mut pause = Duration::from_millis(10);
    loop {
        let placed = Client::connect(&options.address, ANSWER, options.limits).map_err(FeedError::from);
        let placed = placed.and_then(|mut client| place(&mut client).map(|place| (client, place)));
        let may_pass = match &placed {
            Ok(_) => false,
            Err(FeedError::Client(ClientError::Refused(_))) => known,
            Err(FeedError::Client(error)) => !error.is_answer(),
            Err(_) => false,
        };
        if !may_pass || by.is_none_or(|by| Instant::now() >= by) {
            return placed;
        }
        std::thread::sleep(pause);
        pause = pause.saturating_mul(2).min(Duration::from_secs(1));
    }
}

/// The answer to a question. A tickerplant that has no time for it says so, and has read what came before: it is asked again.
fn asked(client: &mut Client, question: &str) -> Result<Value, ClientError> {
    let mut answer = client.query(question);
    for _ in 0..STOPS_MOST {
        match &answer {
            Err(ClientError::Server(name)) if name.starts_with(b"stop") => std::thread::sleep(STOP_PAUSE),
            _ => break,
        }
        answer = client.query(question);
    }
    answer
}

/// Where the tickerplant's log is now. All that was sent on this connection before has been handled when it answers.
fn place(client: &mut Client) -> Result<Place, FeedError> {
    const QUESTION: &str = ".u `i`j`L";
    let answer = asked(client, QUESTION)?;
    let index = |at: usize| answer.item(at).and_then(|i| i.as_long()).and_then(|i| u64::try_from(i).ok());
    // In batch mode `i` is what was published and `j` what was logged; without it `j` may be null.
    let tip = index(0).max(index(1));
    let log = answer.item(2).and_then(|log| log.as_symbol().map(<[u8]>::to_vec)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).trim_start_matches(':').to_string();
    match tip {
        Some(tip) => Ok(Place { tip, log: log.into() }),
        None if answer.item(0).is_some_and(|i| i.is_null()) => Ok(Place::default()),
        None => Err(FeedError::Answer { question: QUESTION, answer: format!("{answer:?}") }),
    }
}

/// Looks at all that was logged between two places.
fn look_up(from: &Place, to: &Place, options: &PublisherOptions, doubt: &mut Doubt) -> Result<(), String> {
    if from.log.as_os_str().is_empty() || to.log.as_os_str().is_empty() {
        return Err("the tickerplant keeps no log".to_string());
    }
    if from.log == to.log {
        return read_log(&to.log, from.tip, to.tip, options, doubt);
    }
    // The day has rolled meanwhile: the rest of one log, and all of the next.
    read_log(&from.log, from.tip, u64::MAX, options, doubt)?;
    read_log(&to.log, 0, to.tip, options, doubt)
}

/// Hands the updates `[first, last)` of a log to the doubt; a `last` beyond the log's end means its end.
fn read_log(path: &Path, first: u64, last: u64, options: &PublisherOptions, doubt: &mut Doubt) -> Result<(), String> {
    let (limits, chunk_bytes) = (options.limits, options.chunk_bytes);
    let mut reader = LogReader::open(path, limits, chunk_bytes).map_err(|error| error.to_string())?;
    let mut take = |chunk: Chunk<'_>| {
        for (_, bytes) in chunk.iter() {
            if let Some(record) = parts(bytes, &limits) {
                doubt.logged(record.table, update_hash(columns_of(&record.columns).0));
            }
        }
    };
    if last < u64::MAX {
        let deadline = Instant::now().checked_add(ANSWER).unwrap_or_else(Instant::now);
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
