//! Sends updates so that the feed knows which were accepted.
//!
//! Updates are sent in batches of async messages; a sync query now and then confirms all before it, because a tickerplant handles the
//! messages of one connection in order. With `sync` each update is a sync message of its own.
//!
//! After a broken connection the publisher reconnects. It looks up unconfirmed updates by their hash in the tickerplant's log
//! ([`super::doubt`]), and sends only the missing ones again. If the log cannot be read, the feed stops with the number of updates in
//! doubt; it never sends one that may have been accepted. This relies on one property: when the tickerplant responds to a second query on
//! the new connection, it has read everything it will read from the broken one.

use super::ledger::{FeedAudit, FeedTotals, Place, WHERE};
use super::trouble::Trouble;
use super::update::{Columns, Update};
use crate::config::Address;
use crate::env::Env;
use crate::net::client::{Client, ClientError};
use proto::{DecodeError, DecodeErrorKind, EncodeError, Limits, MessageKind, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Limit in bytes of unconfirmed updates.
const UNCONFIRMED_BYTES: usize = 8 << 20;
/// Timeout of a response.
const ANSWER: Duration = Duration::from_secs(30);
/// Retries of a query that exceeded the tickerplant's time limit, and the pause between them.
const MAX_STOPS: usize = 20;
const STOP_PAUSE: Duration = Duration::from_millis(100);
/// How long a stopping feed tries to reconnect to resolve updates in doubt.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Why a feed stopped.
#[derive(Debug, Error)]
pub enum FeedError {
    #[error("{0}")]
    Client(ClientError),
    /// A response beyond the feed's limits: another connection would give the same.
    #[error("the tickerplant's reply is longer than this feed accepts: {error}{}", option_of(.error))]
    Limit { error: DecodeError },
    #[error("{0}")]
    Encode(#[from] EncodeError),
    /// Some updates may or may not have been accepted, and the feed cannot find out.
    #[error("{count} updates are in doubt after the connection broke: {reason}")]
    InDoubt { count: usize, reason: String },
    #[error("unexpected reply of the tickerplant to {question}: {answer}")]
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

/// Returns the option that would have allowed the message, if there is one.
fn option_of(error: &DecodeError) -> &'static str {
    match error.kind {
        DecodeErrorKind::MessageTooLong { .. } => " (--limit-message)",
        _ => "",
    }
}

/// Options of a connection to a tickerplant.
#[derive(Clone, Debug)]
pub struct PublisherOptions {
    pub env: Env,
    pub address: Address,
    /// Send each update as a sync message.
    pub sync: bool,
    /// Number of updates between two confirmations.
    pub confirm_every: usize,
    /// How long to try to connect, at the start and after a broken connection.
    pub patience: Duration,
    /// Set once the feed is to stop: it then tries to reconnect only briefly.
    pub stop: Arc<AtomicBool>,
    pub limits: Limits,
    /// Bytes of the log read at once.
    pub chunk_bytes: usize,
}

/// Connection to a tickerplant that reconnects and knows which updates were accepted.
pub struct Publisher {
    options: PublisherOptions,
    client: Client,
    ledger: FeedAudit,
    last_refusal: Option<String>,
}

impl Publisher {
    /// Connects to the tickerplant.
    ///
    /// # Errors
    /// No connection in time, or the peer is not a tickerplant.
    pub fn connect(options: PublisherOptions) -> Result<Publisher, FeedError> {
        let (client, at) = connect(&options, false)?;
        Ok(Publisher { options, client, ledger: FeedAudit::new(at), last_refusal: None })
    }

    /// Queries the tickerplant with an expression. After a broken connection it repeats the query, within the time allowed for
    /// connecting.
    ///
    /// # Errors
    /// The tickerplant's own, by kdb+ name, or those of the connection.
    pub fn query(&mut self, expression: &str) -> Result<Value, FeedError> {
        let by = Instant::now().checked_add(self.options.patience);
        loop {
            match queried(&mut self.client, expression) {
                Ok(answer) => return Ok(answer),
                Err(error) if !may_pass(&error, true) || by.is_none_or(|by| Instant::now() >= by) => {
                    return Err(error.into());
                }
                Err(error) => self.recover(&error)?,
            }
            std::thread::sleep(STOP_PAUSE);
        }
    }

    /// Returns the totals known to be accepted. After [`Publisher::confirm`] they include everything published.
    pub fn account(&self) -> &FeedTotals {
        self.ledger.account()
    }

    /// Returns the number of updates sent but not confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.ledger.unconfirmed().len()
    }

    /// Returns the reason of the last rejection.
    pub fn last_refusal(&self) -> Option<&str> {
        self.last_refusal.as_deref()
    }

    /// Returns the tickerplant's next update index at the last confirmation.
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

    /// Writes the queued messages.
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
        loop {
            match place(&mut self.client) {
                Ok(place) => {
                    self.ledger.confirmed(place);
                    return Ok(());
                }
                Err(FeedError::Client(error)) if !error.is_answer() => self.recover(&error)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the single unconfirmed update and waits for its response.
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

    /// Reconnects, finds out which updates were accepted, and sends the rest.
    fn recover(&mut self, why: &ClientError) -> Result<(), FeedError> {
        tracing::warn!(tickerplant = %self.options.address, reason = %why, "connection lost; reconnecting");
        let in_doubt = self.ledger.unconfirmed().len();
        let doubt = |reason: String| FeedError::InDoubt { count: in_doubt, reason };
        let (client, mut now) = connect(&self.options, true).map_err(|error| match in_doubt {
            0 => error,
            _ => doubt(error.to_string()),
        })?;
        self.client = client;
        self.ledger.reconnected();
        if in_doubt > 0 {
            now = match place(&mut self.client) {
                Ok(now) => now,
                Err(FeedError::Client(error)) if !error.is_answer() => return self.recover(&error),
                Err(error) => return Err(doubt(error.to_string())),
            };
        }
        self.ledger.settle(&self.options.env, now, self.options.limits, self.options.chunk_bytes).map_err(doubt)?;
        if !self.options.sync {
            // The next confirmation detects another break.
            for update in self.ledger.unconfirmed() {
                if self.client.send_raw(&update.message).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Number of consecutive rejected logins before they are believed: a tickerplant that dies during the handshake looks the same as one
/// that rejects the user.
const MAX_REFUSALS: u32 = 3;

/// Whether another attempt may succeed. A server that shuts down closes connections just like one that rejects the user. If it has
/// accepted the user before (`known`), that is no reason to give up, and neither are invalid bytes.
fn may_pass(error: &ClientError, known: bool) -> bool {
    match error {
        ClientError::Connect { .. } | ClientError::Closed | ClientError::Timeout | ClientError::Io(_) => true,
        ClientError::Refused(_) | ClientError::Tls { .. } => known,
        ClientError::Decode(error) => known && !is_limit(error),
        ClientError::Encode(_) | ClientError::Server(_) => false,
    }
}

/// Connects with retries until the time is up; `known` as in [`may_pass`].
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
                tracing::warn!(tickerplant = %options.address, after_s = time.as_secs(), "connected to the tickerplant");
            }
            return placed;
        }
        if let Err(error) = &placed
            && trouble.failed(now).is_some()
        {
            let left = by.map_or(0, |by| by.saturating_duration_since(now).as_secs());
            let reason = match error {
                FeedError::Client(ClientError::Connect { .. }) => error.to_string(),
                error => format!("no tickerplant replies at {}: {error}", options.address),
            };
            tracing::warn!("{reason}; retrying for {left} s more");
        }
        if options.stop.load(Ordering::Relaxed) {
            // With updates in doubt, wait for a tickerplant that is just restarting.
            if !known {
                return placed;
            }
            by = by.min(now.checked_add(STOP_PATIENCE));
        }
        std::thread::sleep(pause);
        pause = pause.saturating_mul(2).min(Duration::from_secs(1));
    }
}

/// Queries the tickerplant. Repeats a query that exceeded its time limit: such an error still confirms all messages before it.
fn queried(client: &mut Client, question: &str) -> Result<Value, ClientError> {
    let mut answer = client.query(question);
    for _ in 0..MAX_STOPS {
        match &answer {
            Err(ClientError::Server(name)) if name.starts_with(b"stop") => std::thread::sleep(STOP_PAUSE),
            _ => break,
        }
        answer = client.query(question);
    }
    answer
}

/// Queries the log's position. The response also confirms that every earlier message on this connection was handled.
fn place(client: &mut Client) -> Result<Place, FeedError> {
    let answer = queried(client, WHERE)?;
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
    fn a_too_long_update_stays_so_over_another_connection() {
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
    fn a_rejection_is_believed_once_it_is_repeated() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("{}:ann:secret", server.local_addr().expect("an address")).parse().expect("parsed");
        // Closes each connection without a byte, like a server that rejects the user and like one that dies.
        let closing = std::thread::spawn(move || (0..MAX_REFUSALS).for_each(|_| drop(server.accept())));
        let options = PublisherOptions {
            env: Env::system(),
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
    fn a_feed_stops_retrying_on_sigterm() {
        let nobody = TcpListener::bind("127.0.0.1:0").and_then(|server| server.local_addr()).expect("a port");
        let stop = Arc::new(AtomicBool::new(true));
        let options = PublisherOptions {
            env: Env::system(),
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
