//! State of the connection to the tickerplant: its stage, the request under way, queued messages, the send buffer and the pauses between
//! attempts. No sockets; the caller passes the time.

use super::dialect::Dialect;
use super::{ANSWER_WITHIN, Fault};
use crate::net::message;
use crate::points::{self, Boundary};
use crate::protocol::{FromNode, Join, names};
use proto::{EncodeError, Header, Limits, MessageKind, Writer};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// First and longest pause between connection attempts; it doubles in between.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause while the tickerplant answers but its log is unreadable; the log may have been moved for good.
pub(super) const PAUSE_WITHOUT_LOG: Duration = Duration::from_secs(60);
/// Longest pause after a connection that had joined, below the grace period. After a connection that lasted longer than this, pauses start
/// from the first again.
const PAUSE_JOINED: Duration = Duration::from_millis(500);

/// Stage of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// There is no connection.
    #[default]
    Closed,
    /// Connected; the request to join or subscribe is under way.
    Greeting,
    /// Joined or subscribed.
    Joined,
    /// Joined, but must join again: the fleet keeps a node that had asked to be terminated.
    Outdated,
    /// Joined, and joining again.
    Rejoining,
}

/// Subject of a sync request. Nothing else is done until its response has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// elastick's join.
    Join,
    /// Whether the tickerplant is the paper's.
    HasQueue,
    /// The tables of the paper's tickerplant.
    Schemas,
    /// The start-up call of a stock tickerplant.
    Subscribe,
    /// The current date.
    Date,
}

impl RequestKind {
    /// Returns whether messages before the response stay valid. A join does not keep them, as its response starts the
    /// feed again.
    fn keeps_earlier(self) -> bool {
        matches!(self, RequestKind::Date | RequestKind::HasQueue)
    }
}

/// A request without a response yet.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    kind: RequestKind,
    by: Instant,
}

/// What to do with a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// It responds to the request under way.
    Response(RequestKind),
    /// Handle it now.
    Object,
    /// It was queued behind messages that come first.
    Behind,
    /// It was queued or dropped until the response arrives.
    Passed,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub had_joined: bool,
    lasted: Duration,
}

/// Connection to the tickerplant.
#[derive(Debug, Default)]
pub(super) struct Link {
    limits: Limits,
    stage: Stage,
    /// Protocol of the tickerplant, once known; kept between connections.
    dialect: Option<Dialect>,
    /// The tickerplant of this connection runs on this host.
    is_beside: bool,
    began: Option<Instant>,
    pending: Option<PendingRequest>,
    /// Messages received before a response.
    earlier: VecDeque<(Header, Vec<u8>)>,
    /// Send buffer.
    out: Vec<u8>,
    /// Why the connection is to be given up.
    fault: Option<Fault>,
    /// Pause before the next connection attempt.
    pause: Option<Duration>,
    /// Consecutive connections that ended because the log is unreadable.
    without_log: u32,
}

impl Link {
    pub fn new(limits: Limits) -> Link {
        Link { limits, ..Link::default() }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn opened(&mut self, is_beside: bool, now: Instant) {
        self.stage = Stage::Greeting;
        self.is_beside = is_beside;
        self.began = Some(now);
        self.pending = None;
        self.earlier.clear();
    }

    /// Ends the connection.
    pub fn close(&mut self, now: Instant) -> Closed {
        let had_joined = self.has_joined();
        self.stage = Stage::Closed;
        self.pending = None;
        self.earlier.clear();
        let lasted = self.began.map(|began| now.saturating_duration_since(began)).unwrap_or_default();
        Closed { had_joined, lasted }
    }

    pub fn is_open(&self) -> bool {
        self.stage != Stage::Closed
    }

    pub fn is_beside(&self) -> bool {
        self.is_beside
    }

    fn has_joined(&self) -> bool {
        matches!(self.stage, Stage::Joined | Stage::Outdated | Stage::Rejoining)
    }

    /// This connection has joined or subscribed.
    pub fn joined(&mut self) {
        self.stage = Stage::Joined;
    }

    /// The node must join again; a new connection does so anyway.
    pub fn outdate(&mut self) {
        if self.has_joined() {
            self.stage = Stage::Outdated;
        }
    }

    /// Returns whether the node must join again, and notes that it does.
    pub fn rejoins(&mut self) -> bool {
        let is_outdated = self.stage == Stage::Outdated;
        if is_outdated {
            self.stage = Stage::Rejoining;
        }
        is_outdated
    }

    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Returns whether the tickerplant is elastick's.
    pub fn is_native(&self) -> bool {
        self.dialect == Some(Dialect::Elastick)
    }

    /// Returns whether elastick's tickerplant can be sent messages.
    pub fn reaches_native(&self) -> bool {
        self.is_open() && self.is_native()
    }

    /// Sets the tickerplant's protocol. Returns whether it was another or unknown.
    pub fn set_dialect(&mut self, dialect: Dialect) -> bool {
        self.dialect.replace(dialect) != Some(dialect)
    }

    /// Takes a message. The caller handles objects and responses; others are kept here or dropped.
    pub fn receive(&mut self, header: &Header, body: &[u8]) -> Received {
        if header.kind == MessageKind::Response {
            return self.pending.take().map_or(Received::Passed, |request| Received::Response(request.kind));
        }
        match &self.pending {
            Some(request) if request.kind.keeps_earlier() => {
                self.earlier.push_back((*header, body.to_vec()));
                Received::Passed
            }
            Some(_) => Received::Passed,
            None if self.earlier.is_empty() => Received::Object,
            None => {
                self.earlier.push_back((*header, body.to_vec()));
                Received::Behind
            }
        }
    }

    /// Returns the messages queued before the response being handled.
    pub fn earlier(&self) -> impl Iterator<Item = (&Header, &[u8])> {
        self.earlier.iter().map(|(header, body)| (header, body.as_slice()))
    }

    pub fn has_earlier(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// Returns the next queued message, unless a response or a fault comes first.
    pub fn next_earlier(&mut self) -> Option<(Header, Vec<u8>)> {
        if self.awaits_response() || self.has_fault() {
            return None;
        }
        self.earlier.pop_front()
    }

    /// Returns whether a response is awaited.
    pub fn awaits_response(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns whether the awaited response is overdue.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.pending.is_some_and(|request| now >= request.by)
    }

    /// Sends a sync request to the tickerplant.
    pub fn request(
        &mut self,
        kind: RequestKind,
        now: Instant,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), Fault> {
        let request = message::message(MessageKind::Sync, write);
        let request = request.map_err(|error| Fault::Fatal(format!("cannot query the tickerplant: {error}")))?;
        self.out.extend_from_slice(&request);
        self.expect_response(kind, now);
        Ok(())
    }

    /// Sends the request to join elastick's queue.
    pub fn send_join(&mut self, join: &Join, now: Instant) -> Result<(), Fault> {
        points::message(Boundary::NodeSends, names::JOIN);
        join.append(&mut self.out).map_err(|error| Fault::Fatal(format!("cannot join: {error}")))?;
        self.expect_response(RequestKind::Join, now);
        Ok(())
    }

    /// Starts waiting for the response to a request in the send buffer.
    fn expect_response(&mut self, kind: RequestKind, now: Instant) {
        self.pending = Some(PendingRequest { kind, by: now.checked_add(ANSWER_WITHIN).unwrap_or(now) });
    }

    /// Appends a message to the send buffer. Encoding fails only for names that cannot be represented, which were rejected on arrival.
    pub fn post(&mut self, message: FromNode) {
        points::message(Boundary::NodeSends, message.name());
        self.write(|out| message.append(out));
    }

    /// Appends the message that `put` encodes, of any protocol, to the send buffer; logs an error if that fails.
    pub fn write(&mut self, put: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) {
        if let Err(error) = put(&mut self.out) {
            tracing::error!(%error, "cannot encode a message to the tickerplant");
        }
    }

    /// Returns the bytes to send, and clears the send buffer.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    pub fn drop_output(&mut self) {
        self.out.clear();
    }

    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Memory held by the send buffer, in bytes.
    pub fn buffer_bytes(&self) -> u64 {
        self.out.capacity() as u64
    }

    /// Records why the connection is to be given up. Returns false, as the reply of a message handler.
    pub fn fail(&mut self, fault: Fault) -> bool {
        self.fault = Some(fault);
        false
    }

    pub fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    pub fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// Counts a connection that ended because the log is unreadable. Returns whether it is the first in a row.
    pub fn lacks_log(&mut self) -> bool {
        self.without_log = self.without_log.saturating_add(1);
        self.without_log == 1
    }

    /// The log was read, or was not needed.
    pub fn has_log(&mut self) {
        self.without_log = 0;
    }

    /// Returns whether the log was readable over the last connection.
    pub fn had_log(&self) -> bool {
        self.without_log == 0
    }

    /// Limits the next pause after a connection that had joined: reconnecting at once to a connection that keeps failing is pointless, but
    /// pauses must stay below the grace period.
    pub fn ease(&mut self, closed: Closed) {
        if closed.had_joined {
            let pause = self.pause.unwrap_or(PAUSE_FIRST);
            self.pause = Some(if closed.lasted >= PAUSE_JOINED { PAUSE_FIRST } else { pause.min(PAUSE_JOINED) });
        }
    }

    /// Returns the pause before the next connection attempt; it doubles each time. `share`: jitter, from 0.5 to 1.
    pub fn next_pause(&mut self, share: f64) -> Duration {
        let pause = self.pause.unwrap_or(PAUSE_FIRST);
        self.pause = Some(pause.saturating_mul(2).min(MAX_PAUSE));
        pause.mul_f64(share)
    }

    /// Returns the pause before the next attempt to read a log that was unreadable.
    pub fn pause_without_log(&self) -> Duration {
        PAUSE_FIRST.saturating_mul(2u32.saturating_pow(self.without_log)).min(PAUSE_WITHOUT_LOG)
    }

    /// Returns the state as text, for the state fingerprint.
    pub fn shape(&self) -> String {
        let kind = self.pending.map(|request| request.kind);
        format!(
            "{:?} dialect {:?} asks {kind:?} earlier {:?} fault {:?} unsent {}",
            self.stage,
            self.dialect,
            self.earlier,
            self.fault,
            self.out.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::HEADER_BYTES;

    fn header(kind: MessageKind) -> Header {
        let bytes = message::message(kind, |writer| writer.null()).expect("it is small");
        Header::parse(&bytes[..HEADER_BYTES]).expect("it is whole")
    }

    fn open() -> Link {
        let mut link = Link::new(Limits::default());
        link.opened(false, Instant::now());
        link
    }

    #[test]
    fn messages_before_the_date_are_handled_before_those_behind_it() {
        let mut link = open();
        link.request(RequestKind::Date, Instant::now(), |writer| writer.chars(".u.d")).expect("it is small");
        let update = header(MessageKind::Async);
        assert_eq!(link.receive(&update, b"a"), Received::Passed);
        assert_eq!(link.next_earlier(), None, "the response comes first");
        assert_eq!(link.receive(&header(MessageKind::Response), b""), Received::Response(RequestKind::Date));
        assert_eq!(link.receive(&update, b"b"), Received::Behind);
        let queued: Vec<_> = std::iter::from_fn(|| link.next_earlier()).map(|(_, body)| body).collect();
        assert_eq!(queued, [b"a", b"b"]);
        assert_eq!(link.receive(&update, b"c"), Received::Object);
    }

    #[test]
    fn messages_before_a_join_are_dropped_as_its_response_starts_the_feed_anew() {
        let mut link = open();
        link.expect_response(RequestKind::Join, Instant::now());
        assert_eq!(link.receive(&header(MessageKind::Async), b"a"), Received::Passed);
        assert!(!link.has_earlier());
    }

    #[test]
    fn a_node_joins_again_once_and_only_over_a_connection_that_has_joined() {
        let mut link = open();
        link.outdate();
        assert!(!link.rejoins(), "it joins already");
        link.joined();
        link.outdate();
        assert!(link.rejoins() && !link.rejoins());
        assert!(link.close(Instant::now()).had_joined);
        link.outdate();
        link.opened(false, Instant::now());
        assert!(!link.rejoins() && !link.close(Instant::now()).had_joined);
    }

    #[test]
    fn pauses_grow_and_stay_short_after_a_connection_that_had_joined() {
        let mut link = open();
        let pauses: Vec<_> = (0..10).map(|_| link.next_pause(1.0)).collect();
        assert!(pauses.is_sorted() && pauses.last() == Some(&MAX_PAUSE), "{pauses:?}");
        link.joined();
        let closed = link.close(Instant::now());
        link.ease(Closed { lasted: Duration::ZERO, ..closed });
        assert_eq!(link.next_pause(1.0), PAUSE_JOINED);
        link.ease(Closed { lasted: PAUSE_JOINED, ..closed });
        assert_eq!(link.next_pause(1.0), PAUSE_FIRST);
    }

    #[test]
    fn a_log_that_stays_away_is_requested_more_and_more_rarely() {
        let mut link = open();
        assert!(link.lacks_log() && !link.lacks_log());
        let first = link.pause_without_log();
        assert!((0..20).all(|_| !link.lacks_log()));
        assert_eq!(link.pause_without_log(), PAUSE_WITHOUT_LOG);
        link.has_log();
        assert!(link.pause_without_log() < first && link.had_log());
    }
}
