//! Sends updates so that the feed knows which were accepted.
//!
//! Updates are sent in batches of async messages. A sync call of `.u.confirm` now and then returns once those before it are as durable as
//! promised, with the number of rejected ones. A tickerplant without that function (kdb+) confirms by the position of its log. With `sync`
//! each update is a sync message of its own.
//!
//! After a broken connection the publisher reconnects. It looks up unconfirmed updates by their hash in the tickerplant's log
//! ([`super::doubt`]), and sends only the missing ones again. If the log cannot be read, the feed stops with the number of updates in
//! doubt; it never sends one that may have been accepted. This relies on one property: when the tickerplant responds to a second query on
//! the new connection, it has read everything it will read from the broken one.

use super::ledger::{Confirmation, FeedAudit, FeedTotals, Found, Place, WHERE};
use super::trouble::Trouble;
use super::update::{Columns, Update};
use crate::config::Addresses;
use crate::env::Env;
use crate::net::candidates::{Candidates, Terms};
use crate::net::client::{Client, ClientError};
use crate::protocol::{TickState, check_active, names};
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
    /// The tickerplants of a list that do not share a log.
    #[error("{addresses} do not share one log: {reason}")]
    OtherLog { addresses: String, reason: String },
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
    pub addresses: Addresses,
    /// Send each update as a sync message.
    pub sync: bool,
    /// Number of updates between two confirmations.
    pub confirm_every: usize,
    /// How long to try to connect, at the start and after a broken connection.
    pub connect_within: Duration,
    /// Set once the feed is to stop: it then tries to reconnect only briefly.
    pub stop: Arc<AtomicBool>,
    pub limits: Limits,
    /// Bytes of the log read at once.
    pub chunk_bytes: usize,
}

/// Connection to a tickerplant that reconnects and knows which updates were accepted.
pub struct Publisher {
    options: PublisherOptions,
    candidates: Candidates,
    client: Client,
    ledger: FeedAudit,
    /// Cleared once the tickerplant turns out to have no `.u.confirm`.
    has_confirm: bool,
}

impl Publisher {
    /// Connects to the tickerplant.
    ///
    /// # Errors
    /// No connection in time, or the peer is not a tickerplant.
    pub fn connect(options: PublisherOptions) -> Result<Publisher, FeedError> {
        let mut candidates = Candidates::new(options.addresses.clone(), check_tickerplant);
        let (client, at) = connect(&options, &mut candidates, false)?;
        Ok(Publisher { options, candidates, client, ledger: FeedAudit::new(at), has_confirm: true })
    }

    /// Queries the tickerplant with an expression. After a broken connection it repeats the query, within the time allowed for
    /// connecting.
    ///
    /// # Errors
    /// The tickerplant's own, by kdb+ name, or those of the connection.
    pub fn query(&mut self, expression: &str) -> Result<Value, FeedError> {
        let by = Instant::now().checked_add(self.options.connect_within);
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

    /// Waits until everything published so far is known to be accepted or rejected.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn confirm(&mut self) -> Result<(), FeedError> {
        let (limits, chunk_bytes) = (self.options.limits, self.options.chunk_bytes);
        loop {
            let answer = if self.has_confirm { confirmation(&mut self.client) } else { Ok(None) };
            let answer = match answer {
                Ok(None) => place(&mut self.client).map(Err),
                Ok(Some(answer)) => Ok(Ok(answer)),
                Err(error) => Err(error),
            };
            match answer {
                // It cannot log, and another one may: the log of that one tells what was accepted.
                Ok(Ok(answer)) if !answer.failure.is_empty() && self.candidates.are_several() => {
                    self.recover(&ClientError::Server(answer.failure.into_bytes()))?;
                }
                Ok(Ok(answer)) => {
                    self.ledger.answered(&self.options.env, answer, limits, chunk_bytes);
                    return Ok(());
                }
                Ok(Err(place)) => {
                    self.has_confirm = false;
                    self.ledger.handled(&self.options.env, place, limits, chunk_bytes);
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
                Err(error @ ClientError::Server(_)) if is_of_log(&error) && self.candidates.are_several() => {
                    self.recover(&error)?;
                }
                Err(ClientError::Server(reason)) => self.ledger.refused(String::from_utf8_lossy(&reason).into_owned()),
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
        tracing::warn!(tickerplant = %self.candidates, reason = %why, "connection lost; reconnecting");
        let in_doubt = self.ledger.unconfirmed().len();
        let doubt = |reason: String| FeedError::InDoubt { count: in_doubt, reason };
        let (client, mut now) = connect(&self.options, &mut self.candidates, true).map_err(|error| match in_doubt {
            0 => error,
            _ => doubt(error.to_string()),
        })?;
        self.client = client;
        self.has_confirm = true;
        self.ledger.reconnected();
        if in_doubt > 0 {
            now = match found(&mut self.client) {
                Ok(now) => now,
                Err(FeedError::Client(error)) if !error.is_answer() => return self.recover(&error),
                Err(error) => return Err(doubt(error.to_string())),
            };
        }
        match self.ledger.is_elsewhere(&now) {
            Some(reason) if self.candidates.are_several() => {
                let addresses = self.candidates.to_string();
                let reason = FeedError::OtherLog { addresses, reason };
                return Err(if in_doubt > 0 { doubt(reason.to_string()) } else { reason });
            }
            Some(reason) if in_doubt > 0 => return Err(doubt(reason)),
            Some(reason) => tracing::warn!("{reason}: what was confirmed before is not in it"),
            None => {}
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
        ClientError::Connect { .. }
        | ClientError::NoneActive(_)
        | ClientError::Closed
        | ClientError::Timeout
        | ClientError::Io(_) => true,
        ClientError::Refused(_) | ClientError::Tls { .. } => known,
        ClientError::Decode(error) => known && !is_limit(error),
        ClientError::Encode(_) | ClientError::Server(_) => error.is_of_passive(),
    }
}

/// Whether the tickerplant's log has failed, which it may have because another one has taken over.
fn is_of_log(error: &ClientError) -> bool {
    matches!(error, ClientError::Server(text) if text.starts_with(b"io"))
}

/// Connects with retries until the time is up; `known` as in [`may_pass`].
fn connect(options: &PublisherOptions, candidates: &mut Candidates, known: bool) -> Result<(Client, Found), FeedError> {
    let terms = Terms { timeout: ANSWER, limits: options.limits, explains: false };
    let mut by = Instant::now().checked_add(options.connect_within);
    let (mut pause, mut refusals) = (Duration::from_millis(10), 0);
    let mut trouble = Trouble::default();
    loop {
        let placed = candidates.connect(terms).map_err(FeedError::from);
        let placed = placed.and_then(|mut client| found(&mut client).map(|found| (client, found)));
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
                tracing::warn!(tickerplant = %candidates, after_s = time.as_secs(), "connected to the tickerplant");
            }
            return placed;
        }
        if let Err(error) = &placed
            && trouble.failed(now).is_some()
        {
            let left = by.map_or(0, |by| by.saturating_duration_since(now).as_secs());
            let reason = match error {
                FeedError::Client(ClientError::Connect { .. } | ClientError::NoneActive(_)) => error.to_string(),
                error => format!("no tickerplant replies at {candidates}: {error}"),
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

/// Fails with `NoneActive` also if the process answers and is no tickerplant: its port may have been another process's before, and the next
/// address may be right.
fn check_tickerplant(client: &mut Client) -> Result<(), ClientError> {
    check_active(client)?;
    match place(client) {
        Ok(_) | Err(FeedError::Limit { .. }) => Ok(()),
        Err(FeedError::Client(error)) if !error.is_answer() || error.is_of_passive() => Err(error),
        Err(error) => Err(ClientError::NoneActive(format!("it is not a tickerplant: {error}"))),
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

/// As [`place`], with the log that it is in, if the tickerplant has `.u.state`.
fn found(client: &mut Client) -> Result<Found, FeedError> {
    let state = match client.request(&Value::list([Value::symbol(names::STATE), Value::NULL])) {
        Ok(state) => TickState::read(&state).unwrap_or_default(),
        Err(ClientError::Server(_)) => TickState::default(),
        Err(error) => return Err(error.into()),
    };
    Ok(Found { place: place(client)?, epoch: state.epoch, log: state.log.unwrap_or_default() })
}

/// Waits until everything sent before is as durable as promised, or rejected. `None` if the tickerplant has no such function.
fn confirmation(client: &mut Client) -> Result<Option<Confirmation>, FeedError> {
    let call = Value::list([Value::symbol(names::CONFIRM), Value::Unary(0)]);
    let mut answer = client.request(&call);
    // The log failed while the call waited: the next one returns at once, with what is in the log.
    if answer.as_ref().is_err_and(is_of_log) {
        answer = client.request(&call);
    }
    match answer {
        Ok(answer) => Confirmation::of(&answer)
            .map(Some)
            .ok_or_else(|| FeedError::Answer { question: names::CONFIRM, answer: format!("{answer:?}") }),
        Err(ClientError::Server(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn candidates(options: &PublisherOptions) -> Candidates {
        Candidates::new(options.addresses.clone(), check_tickerplant)
    }

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
            addresses: address,
            sync: false,
            confirm_every: 1,
            connect_within: Duration::from_secs(60),
            stop: Arc::default(),
            limits: Limits::default(),
            chunk_bytes: 1024,
        };
        let refused = connect(&options, &mut candidates(&options), false).err();
        assert!(matches!(refused, Some(FeedError::Client(ClientError::Refused(_)))), "{refused:?}");
        closing.join().expect("as many connections as refusals that are believed");
    }

    #[test]
    fn a_feed_stops_retrying_on_sigterm() {
        let nobody = TcpListener::bind("127.0.0.1:0").and_then(|server| server.local_addr()).expect("a port");
        let stop = Arc::new(AtomicBool::new(true));
        let options = PublisherOptions {
            env: Env::system(),
            addresses: nobody.to_string().parse().expect("parsed"),
            sync: false,
            confirm_every: 1,
            connect_within: Duration::from_secs(86_400),
            stop,
            limits: Limits::default(),
            chunk_bytes: 1024,
        };
        assert!(matches!(
            connect(&options, &mut candidates(&options), false),
            Err(FeedError::Client(ClientError::Connect { .. }))
        ));
    }
}
