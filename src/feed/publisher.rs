//! Sending updates so that the feed knows which were accepted.
//!
//! Updates go out in batches of asynchronous messages; a synchronous question now and then confirms all before it, since a
//! tickerplant takes one connection's messages in order. With `sync` each update is a synchronous message of its own.
//!
//! A broken connection is made again. What was not confirmed is looked up by its hash in the tickerplant's log
//! ([`super::doubt`]): what stands there is not sent again, the rest is. Where the log cannot be read the feed stops and says
//! how many updates are in doubt; it never sends one that may have been accepted. It relies on the tickerplant having read
//! what it will read of the broken connection by the time it answers a second question on the new one.

use super::ledger::{Account, Ledger, Place, WHERE};
use super::trouble::Trouble;
use super::update::{Columns, Update};
use crate::config::Address;
use crate::net::client::{Client, ClientError};
use crate::points::{self, Point};
use proto::{DecodeError, DecodeErrorKind, EncodeError, Limits, MessageKind, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Bytes of updates that may be unconfirmed, whatever their number.
const UNCONFIRMED_BYTES: usize = 8 << 20;
/// Time for one answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How often a question is asked again that the tickerplant had no time for, and the pause before.
const STOPS_MOST: usize = 20;
const STOP_PAUSE: Duration = Duration::from_millis(100);
/// How long a feed that is told to end tries to connect again, to learn what became of updates in doubt.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
pub enum FeedError {
    #[error("{0}")]
    Client(ClientError),
    /// An answer beyond this end's limits: another connection would bring the same.
    #[error("the tickerplant answers with more than this feed takes: {error}{}", option_of(.error))]
    Limit { error: DecodeError },
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

impl From<ClientError> for FeedError {
    fn from(error: ClientError) -> FeedError {
        match error {
            ClientError::Decode(error) if is_limit(&error) => FeedError::Limit { error },
            error => FeedError::Client(error),
        }
    }
}

fn is_limit(error: &DecodeError) -> bool {
    error.term() == "limit"
}

/// The option that would have let it in, if there is one.
fn option_of(error: &DecodeError) -> &'static str {
    match error.kind {
        DecodeErrorKind::MessageTooLong { .. } => " (--limit-message)",
        _ => "",
    }
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
    /// Set once the feed is told to end: it then tries no longer than a moment.
    pub stop: Arc<AtomicBool>,
    pub limits: Limits,
    /// Bytes of the log read at once.
    pub chunk_bytes: usize,
}

pub struct Publisher {
    options: PublisherOptions,
    client: Client,
    ledger: Ledger,
    last_refusal: Option<String>,
}

impl Publisher {
    /// # Errors
    /// That no connection can be had in time, or that what answers is no tickerplant.
    pub fn connect(options: PublisherOptions) -> Result<Publisher, FeedError> {
        let (client, at) = connect(&options, false)?;
        Ok(Publisher { options, client, ledger: Ledger::new(at), last_refusal: None })
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
                Err(error) if !may_pass(&error, true) || by.is_none_or(|by| Instant::now() >= by) => {
                    return Err(error.into());
                }
                Err(error) => self.recover(&error)?,
            }
            std::thread::sleep(STOP_PAUSE);
        }
    }

    /// What is known to be accepted. After [`Publisher::confirm`] that is all that was published.
    pub fn account(&self) -> &Account {
        self.ledger.account()
    }

    /// Updates sent and not confirmed yet.
    pub fn unconfirmed(&self) -> usize {
        self.ledger.unconfirmed().len()
    }

    /// Why the last refused update was refused.
    pub fn last_refusal(&self) -> Option<&str> {
        self.last_refusal.as_deref()
    }

    /// The tickerplant's next update index at the last confirmation.
    pub fn tip(&self) -> u64 {
        self.ledger.confirmed_at().tip
    }

    /// Sends an update, or queues it until [`Publisher::flush`].
    ///
    /// # Errors
    /// Updates in doubt, or no connection in time.
    pub fn publish(&mut self, table: &[u8], columns: &Columns) -> Result<(), FeedError> {
        let kind = if self.options.sync { MessageKind::Sync } else { MessageKind::Async };
        let update = Update::new(table, columns, kind)?;
        self.ledger.sends(update);
        if self.options.sync {
            return self.settle_sync();
        }
        let sent = match self.ledger.unconfirmed().last() {
            Some(update) => self.client.send_raw(&update.message),
            None => Ok(()),
        };
        if let Err(error) = sent {
            self.recover(&error)?;
        }
        let many = self.ledger.unconfirmed().len() >= self.options.confirm_every;
        if many || self.ledger.unconfirmed_bytes() >= UNCONFIRMED_BYTES {
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
                    self.ledger.confirmed(place);
                    return Ok(());
                }
                Err(FeedError::Client(error)) if !error.is_answer() => self.recover(&error)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the one update that is not confirmed and waits for its answer.
    fn settle_sync(&mut self) -> Result<(), FeedError> {
        while let Some(update) = self.ledger.unconfirmed().first() {
            let limits = self.options.limits;
            let answer = self.client.request_raw(&update.message, drop);
            match answer.and_then(|answer| answer.view(&limits).map(drop)) {
                Ok(()) => self.ledger.accepted(),
                Err(ClientError::Server(reason)) => {
                    self.ledger.refused();
                    self.last_refusal = Some(String::from_utf8_lossy(&reason).into_owned());
                }
                Err(error) if may_pass(&error, true) => self.recover(&error)?,
                Err(error) => {
                    let reason = FeedError::from(error).to_string();
                    return Err(FeedError::InDoubt { count: self.unconfirmed(), reason });
                }
            }
        }
        Ok(())
    }

    /// Connects again, finds out what was accepted, and sends the rest.
    fn recover(&mut self, why: &ClientError) -> Result<(), FeedError> {
        log::warn!("{}: {why}; connecting again", self.options.address);
        let in_doubt = self.ledger.unconfirmed().len();
        let doubt = |reason: String| FeedError::InDoubt { count: in_doubt, reason };
        let (client, mut now) = connect(&self.options, true).map_err(|error| match in_doubt {
            0 => error,
            _ => doubt(error.to_string()),
        })?;
        self.client = client;
        self.ledger.reconnected();
        points::reach(Point::FeedReconnected);
        if in_doubt > 0 {
            now = match place(&mut self.client) {
                Ok(now) => now,
                Err(FeedError::Client(error)) if !error.is_answer() => return self.recover(&error),
                Err(error) => return Err(doubt(error.to_string())),
            };
        }
        self.ledger.settle(now, self.options.limits, self.options.chunk_bytes).map_err(doubt)?;
        if in_doubt > 0 {
            points::reach(Point::FeedLookedUp);
        }
        if !self.options.sync {
            // A break in the middle of this is found by the next confirmation.
            for update in self.ledger.unconfirmed() {
                if self.client.send_raw(&update.message).is_err() {
                    break;
                }
            }
        }
        points::reach(Point::FeedResent);
        Ok(())
    }
}

/// So many refusals in a row are believed: a tickerplant that dies while it is connected to looks like one that refuses.
const MAX_REFUSALS: u32 = 3;

/// Whether another connection may do better. A server that goes down closes connections as one does that refuses the user: where
/// it has let the user in before (`known`), that is no reason to give up, and nor are bytes that make no sense.
fn may_pass(error: &ClientError, known: bool) -> bool {
    match error {
        ClientError::Connect { .. } | ClientError::Closed | ClientError::Timeout | ClientError::Io(_) => true,
        ClientError::Refused(_) => known,
        ClientError::Decode(error) => known && !is_limit(error),
        ClientError::Encode(_) | ClientError::Server(_) => false,
    }
}

/// Tries until it is time to give up; `known` as in [`may_pass`].
fn connect(options: &PublisherOptions, known: bool) -> Result<(Client, Place), FeedError> {
    let mut by = Instant::now().checked_add(options.patience);
    let (mut pause, mut refusals) = (Duration::from_millis(10), 0);
    let mut trouble = Trouble::default();
    loop {
        let placed = Client::connect(&options.address, ANSWER, options.limits).map_err(FeedError::from);
        let placed = placed.and_then(|mut client| place(&mut client).map(|place| (client, place)));
        let may_pass = match &placed {
            Err(FeedError::Client(ClientError::Refused(_))) if !known => {
                refusals += 1;
                refusals < MAX_REFUSALS
            }
            Err(FeedError::Client(error)) => may_pass(error, known),
            _ => false,
        };
        let now = Instant::now();
        if !may_pass || by.is_none_or(|by| now >= by) {
            if let Some(time) = trouble.over(now).filter(|_| placed.is_ok()) {
                log::warn!("connected to the tickerplant at {} after {} s", options.address, time.as_secs());
            }
            return placed;
        }
        if let Err(error) = &placed
            && trouble.failed(now).is_some()
        {
            let left = by.map_or(0, |by| by.saturating_duration_since(now).as_secs());
            let reason = match error {
                FeedError::Client(ClientError::Connect { .. }) => error.to_string(),
                error => format!("no answer of a tickerplant at {}: {error}", options.address),
            };
            log::warn!("{reason}; trying for {left} s more");
        }
        if options.stop.load(Ordering::Relaxed) {
            // Where updates are in doubt a tickerplant that is just restarting is waited for.
            if !known {
                return placed;
            }
            by = by.min(now.checked_add(STOP_PATIENCE));
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
    let answer = asked(client, WHERE)?;
    Place::of(&answer).ok_or_else(|| FeedError::Answer { question: WHERE, answer: format!("{answer:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn decode(kind: DecodeErrorKind) -> ClientError {
        ClientError::Decode(DecodeError { offset: 0, kind })
    }

    #[test]
    fn what_is_too_long_stays_so_over_another_connection() {
        for known in [false, true] {
            assert!(may_pass(&ClientError::Closed, known));
            assert!(!may_pass(&decode(DecodeErrorKind::MessageTooLong { total_bytes: 2, max_bytes: 1 }), known));
        }
    }

    #[test]
    fn bytes_that_make_no_sense_are_tried_again_only_where_they_made_sense_before() {
        assert!(!may_pass(&decode(DecodeErrorKind::ByteOrder(b'H')), false));
        assert!(may_pass(&decode(DecodeErrorKind::ByteOrder(b'H')), true));
    }

    #[test]
    fn a_refusal_is_believed_once_it_is_repeated() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("{}:ann:secret", server.local_addr().expect("an address")).parse().expect("parsed");
        // Closes each connection without a byte, as a server does that refuses, and one that dies.
        let closing = std::thread::spawn(move || (0..MAX_REFUSALS).for_each(|_| drop(server.accept())));
        let options = PublisherOptions {
            address,
            sync: false,
            confirm_every: 1,
            patience: Duration::from_secs(60),
            stop: Arc::default(),
            limits: Limits::default(),
            chunk_bytes: 1024,
        };
        let refused = connect(&options, false).err();
        assert!(matches!(refused, Some(FeedError::Client(ClientError::Refused(_)))), "{refused:?}");
        closing.join().expect("as many connections as refusals that are believed");
    }

    #[test]
    fn a_feed_that_is_told_to_end_tries_no_longer() {
        let nobody = TcpListener::bind("127.0.0.1:0").and_then(|server| server.local_addr()).expect("a port");
        let stop = Arc::new(AtomicBool::new(true));
        let options = PublisherOptions {
            address: nobody.to_string().parse().expect("parsed"),
            sync: false,
            confirm_every: 1,
            patience: Duration::from_secs(86_400),
            stop,
            limits: Limits::default(),
            chunk_bytes: 1024,
        };
        assert!(matches!(connect(&options, false), Err(FeedError::Client(ClientError::Connect { .. }))));
    }
}
