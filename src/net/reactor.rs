//! The readiness loop.
//!
//! A turn: wait for readiness, read each ready connection once and hand its messages over, let the service end its turn,
//! write what it has queued. One read a turn and connection is the budget: a publisher that never pauses gets no more of the
//! loop than any other.

mod login;
mod pages;
mod reading;
mod web;

use super::access::Access;
use super::connection::Connection;
use super::control::{Control, FIRST_CONNECTION, Request};
use super::http::{self, Page};
use super::listener::Listeners;
use super::notify::Heart;
use super::peer::{CloseReason, ConnId, Peer};
use crate::config::{Limit, Limits};
use crate::metrics::{self, Id};
use crate::points::{self, Point};
use mio::{Events, Poll, Token, Waker};
use proto::{Compression, FrameReader, HEADER_BYTES, Header, MessageKind, compress};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
pub(super) const FIRST_LISTENER: usize = 1;

/// Bytes handled in a turn, over all connections, before the service may end it.
const TURN_BYTES: usize = 4 << 20;

/// How long outboxes may take to empty when the loop ends.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// What drives connections' messages. All is called from the loop's one thread.
pub trait Service {
    /// A peer has finished its handshake.
    fn opened(&mut self, conn: ConnId, peer: &Peer, ctl: &mut Control);
    /// A message: its header as it was sent, and the bytes of one object, never compressed, not checked yet. For a sync
    /// message [`Control::request`] says what to answer; for bytes that are no object there is [`Control::malformed`].
    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control);
    /// All messages of a turn have been handed over; what is sent now leaves together.
    fn turn_ended(&mut self, ctl: &mut Control);
    /// No more waits for this connection than [`Control::notify_below`] asked for.
    fn writable(&mut self, conn: ConnId, ctl: &mut Control);
    /// A connection that was opened is closed.
    fn closed(&mut self, conn: ConnId, reason: &CloseReason, ctl: &mut Control);
    /// Another thread woke the loop.
    fn woken(&mut self, ctl: &mut Control);
    /// When [`Service::timer`] is to be called.
    fn deadline(&self) -> Option<Instant>;
    fn timer(&mut self, ctl: &mut Control);
    /// A line on how it goes, for the service manager. None if a thread that it cannot do without has not been heard of since
    /// this was last asked: the manager then hears nothing, and in the end replaces the process.
    fn vital_signs(&mut self) -> Option<String> {
        Some(String::new())
    }
    /// Whether a user may come in whose password is right, if there are passwords.
    fn login(&mut self, _conn: ConnId, _user: &[u8], _password: &[u8], _ctl: &mut Control) -> Login {
        Login::Admitted
    }
    /// An HTTP request for which there is no [`Service::page`]; true if [`Control::answer_page`] will answer it.
    fn request(&mut self, _conn: ConnId, _request: &http::Request, _peer: &Peer, _ctl: &mut Control) -> bool {
        false
    }
    /// Whether [`Control::judge`] will say who an HTTP request comes from; else user and password do.
    fn authorise(&mut self, _conn: ConnId, _request: &http::Request, _peer: &Peer, _ctl: &mut Control) -> bool {
        false
    }
    /// Whether clients may speak WebSocket. Those that do are opened and closed as others are.
    fn takes_web(&self) -> bool {
        false
    }
    /// A WebSocket client's message.
    fn web_message(&mut self, _conn: ConnId, _is_text: bool, _payload: Vec<u8>, _ctl: &mut Control) {}
    /// The page that an HTTP client asks for: a path from `/` on, without its query. None if there is no such page.
    fn page(&mut self, _path: &str, _ctl: &mut Control) -> Option<Page> {
        None
    }
}

/// Whether a user may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    Admitted,
    /// [`Control::admit`] will tell.
    Later,
}

/// Bounds of the loop; see `config::limits` for what each means.
#[derive(Clone, Debug)]
pub struct NetLimits {
    pub message_bytes: u64,
    /// Which limit that is.
    pub message_limit: Limit,
    pub decompressed_bytes: u64,
    pub depth: usize,
    pub connections: usize,
    pub handshake_bytes: usize,
    pub handshake_time: Duration,
    pub inboxes_bytes: usize,
    pub outbox_bytes: usize,
    pub outboxes_bytes: usize,
    /// Sync messages of one connection without an answer; it is not read on before one is answered.
    pub open_requests: usize,
    pub http_connections: usize,
    pub http_request_bytes: usize,
    pub http_body_bytes: usize,
    pub web_message_bytes: usize,
    pub http_time: Duration,
    pub http_idle: Duration,
}

impl NetLimits {
    pub fn of(limits: &Limits) -> NetLimits {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        NetLimits {
            message_bytes: limits.message_bytes.min(limits.inbox_bytes),
            message_limit: if limits.inbox_bytes < limits.message_bytes {
                Limit::inbox_bytes
            } else {
                Limit::message_bytes
            },
            decompressed_bytes: limits.decompressed_bytes,
            depth: size(limits.depth),
            connections: size(limits.connections),
            handshake_bytes: size(limits.handshake_bytes),
            handshake_time: Duration::from_nanos(limits.handshake_ns),
            inboxes_bytes: size(limits.inboxes_bytes),
            outbox_bytes: size(limits.outbox_bytes),
            outboxes_bytes: size(limits.outboxes_bytes),
            open_requests: 1 << 16,
            http_connections: size(limits.http_connections),
            http_request_bytes: size(limits.http_request_bytes),
            http_body_bytes: size(limits.http_body_bytes),
            web_message_bytes: size(limits.web_message_bytes),
            http_time: Duration::from_nanos(limits.http_time_ns),
            http_idle: Duration::from_nanos(limits.http_idle_ns),
        }
    }

    /// The codec's part of them.
    pub fn codec(&self) -> proto::Limits {
        proto::Limits {
            max_message_bytes: self.message_bytes,
            max_decompressed_bytes: self.decompressed_bytes,
            max_depth: self.depth,
        }
    }
}

/// Listeners, connections and the service that they belong to.
pub struct Reactor<S> {
    poll: Poll,
    events: Events,
    control: Control,
    listeners: Listeners,
    access: Box<dyn Access>,
    /// Accepted and not through their handshake, in order of time.
    strangers: VecDeque<(Instant, ConnId)>,
    heart: Option<Heart>,
    /// Pages that need no password.
    open_pages: &'static [&'static str],
    pub service: S,
}

/// What a service needs before the loop runs: its waker.
pub struct Parts {
    poll: Poll,
    waker: Arc<Waker>,
}

impl Parts {
    /// # Errors
    /// The system's, if it has no readiness queue left.
    pub fn new() -> io::Result<Parts> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Parts { poll, waker })
    }

    /// Wakes the loop from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }
}

impl<S: Service> Reactor<S> {
    /// # Errors
    /// The system's.
    pub fn new(
        parts: Parts,
        mut listeners: Listeners,
        access: Box<dyn Access>,
        limits: NetLimits,
        service: S,
    ) -> io::Result<Reactor<S>> {
        listeners.register(parts.poll.registry())?;
        let control = Control::new(parts.poll.registry().try_clone()?, parts.waker, limits);
        let events = Events::with_capacity(1024);
        let strangers = VecDeque::new();
        Ok(Reactor {
            poll: parts.poll,
            events,
            control,
            listeners,
            access,
            strangers,
            heart: None,
            open_pages: &[],
            service,
        })
    }

    /// From now on each turn may tell the service manager that the loop lives.
    pub fn set_heart(&mut self, heart: Heart) {
        self.heart = Some(heart);
    }

    /// Runs until the service calls [`Control::stop`].
    ///
    /// # Errors
    /// The readiness queue's own; errors of connections close those.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.control.stopping {
            self.turn()?;
        }
        if let Some(heart) = &self.heart {
            heart.stopping();
        }
        self.last_writes()
    }

    fn turn(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        if let Err(error) = self.poll.poll(&mut self.events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        self.control.now = Instant::now();
        let mut woken = false;
        let mut accept = false;
        for event in &self.events {
            match event.token() {
                WAKER => woken = true,
                Token(token) if token < FIRST_CONNECTION => accept = true,
                token => {
                    let Some(conn) = self.control.by_token(token) else { continue };
                    if event.is_readable() || event.is_read_closed() || event.is_error() {
                        if let Some(connection) = self.control.get_mut(conn) {
                            connection.ending |= event.is_read_closed() || event.is_error();
                        }
                        self.control.queue_read(conn);
                    }
                    if event.is_writable()
                        && let Some(connection) = self.control.get_mut(conn)
                        && connection.blocked
                        && !std::mem::replace(&mut connection.dirty, true)
                    {
                        self.control.dirty.push(conn);
                    }
                }
            }
        }
        if accept {
            self.accept();
        }
        if woken {
            self.service.woken(&mut self.control);
        }
        self.finish_logins();
        self.finish_verdicts();
        self.finish_pages();
        // A service that has stopped has closed what it would handle messages with: a tickerplant could answer for an update, and
        // would not log it any more.
        if !self.control.stopping {
            // A deadline that is due may be told as a time after this turn's begin.
            if self.service.deadline().is_some_and(|at| at <= Instant::now()) {
                self.service.timer(&mut self.control);
            }
            self.read_ready();
        }
        self.drop_silent_strangers();
        self.drop_slow_sessions();
        self.service.turn_ended(&mut self.control);
        self.write_dirty();
        self.close_closing();
        self.control.give_back();
        self.beat();
        Ok(())
    }

    fn beat(&mut self) {
        if let Some(heart) = &mut self.heart {
            let now = Instant::now();
            if heart.due().is_some_and(|at| at <= now) {
                heart.beat(now, self.service.vital_signs());
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.control.ready.is_empty() || !self.control.dirty.is_empty() || !self.control.closing.is_empty() {
            return Some(Duration::ZERO);
        }
        let stranger = self.strangers.front().map(|(by, _)| *by);
        let heart = self.heart.as_ref().and_then(Heart::due);
        let session = self.control.sessions.first().map(|(by, _)| *by);
        let memory = self.control.ebb.again_at();
        let next = [self.service.deadline(), stranger, heart, session, memory].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn accept(&mut self) {
        while let Some(accepted) = self.listeners.accept() {
            let (stream, ip, local) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, or the peer has gone: those already here must not suffer.
                    log::warn!("cannot accept a connection: {error}");
                    return;
                }
            };
            if self.control.open() >= self.control.limits.connections {
                metrics::refused(Limit::connections);
                let most = self.control.limits.connections;
                log::warn!("connection from {ip} refused: there are {most} (--limit-connections)");
                continue;
            }
            match self.control.insert(stream, ip, local) {
                Ok(conn) => {
                    metrics::count(Id::ConnectionsAccepted);
                    let by = self.control.get(conn).map_or(self.control.now, |connection| connection.handshake_by);
                    self.strangers.push_back((by, conn));
                    self.control.queue_read(conn);
                }
                Err(error) => log::warn!("cannot take a connection from {ip}: {error}"),
            }
        }
    }

    /// Reads every ready connection once, as long as the turn's bytes last.
    fn read_ready(&mut self) {
        let mut budget = TURN_BYTES;
        for _ in 0..self.control.ready.len() {
            if budget == 0 {
                break;
            }
            let Some(conn) = self.control.ready.pop_front() else { break };
            budget = budget.saturating_sub(self.read(conn));
        }
    }

    /// One read, and the messages that it completed. Answers the bytes read.
    fn read(&mut self, conn: ConnId) -> usize {
        let limits = self.control.limits.codec();
        let Some(connection) = self.control.get_mut(conn) else { return 0 };
        connection.queued = false;
        if connection.closing.is_some() {
            return 0;
        }
        if connection.http.is_some() {
            return self.read_http(conn);
        }
        if connection.web.is_some() {
            return self.read_web(conn);
        }
        if connection.peer.is_none() {
            return self.read_login(conn);
        }
        // Out of the connection while its messages are handed over: the service may do anything to connections meanwhile.
        let mut frames = std::mem::replace(&mut connection.frames, FrameReader::new(limits));
        let mut bytes = 0;
        let mut outcome = self.hand_over(conn, &mut frames);
        if let Ok(true) = outcome
            && let Some(read) = self.read_once(conn, frames.spare())
        {
            frames.filled(read);
            bytes = read;
            outcome = self.hand_over(conn, &mut frames);
        }
        let held = frames.held_bytes();
        if let Some(connection) = self.control.get_mut(conn) {
            connection.frames = frames;
            let before = std::mem::replace(&mut connection.inbox_bytes, held);
            self.control.inboxes_bytes = self.control.inboxes_bytes.saturating_sub(before).saturating_add(held);
        }
        if let Err(reason) = outcome {
            self.control.close_with(conn, reason);
        }
        self.control.relieve_inboxes();
        bytes
    }

    /// Hands over the whole messages held. False if the connection has to wait before its next one.
    fn hand_over(&mut self, conn: ConnId, frames: &mut FrameReader) -> Result<bool, CloseReason> {
        loop {
            let Some(connection) = self.control.get_mut(conn) else { return Ok(false) };
            if connection.closing.is_some() {
                return Ok(false);
            }
            if !self.control.may_go_on(conn) {
                if let Some(connection) = self.control.get_mut(conn) {
                    connection.stalled = true;
                }
                return Ok(false);
            }
            match frames.next() {
                Ok(Some((header, message))) => self.deliver(conn, &header, message),
                Ok(None) => return Ok(true),
                Err(error) => {
                    let kind = frames.pending_header().map(|header| header.kind);
                    self.control.request = self.request(conn, kind);
                    self.control.malformed(conn, error);
                    return Ok(false);
                }
            }
        }
    }

    /// The request that a message of this kind is.
    fn request(&mut self, conn: ConnId, kind: Option<MessageKind>) -> Option<Request> {
        if kind == Some(MessageKind::Sync) { self.control.ask(conn) } else { None }
    }

    fn deliver(&mut self, conn: ConnId, header: &Header, message: &[u8]) {
        self.control.request = self.request(conn, Some(header.kind));
        if header.compression == Compression::None {
            self.service.message(conn, header, message.get(HEADER_BYTES..).unwrap_or_default(), &mut self.control);
        } else {
            match compress::decompress(message, &self.control.limits.codec()) {
                Ok(plain) => {
                    let body = plain.get(HEADER_BYTES..).unwrap_or_default();
                    self.service.message(conn, header, body, &mut self.control);
                }
                Err(error) => self.control.malformed(conn, error),
            }
        }
        self.control.request = None;
    }

    fn drop_silent_strangers(&mut self) {
        while let Some((by, conn)) = self.strangers.front().copied() {
            let is_silent = |of: &Connection| of.peer.is_none() && of.http.is_none();
            let waits = self.control.get(conn).is_some_and(is_silent);
            if waits && by > self.control.now {
                return;
            }
            self.strangers.pop_front();
            if waits {
                metrics::refused(Limit::handshake_ns);
                let time = self.control.limits.handshake_time;
                let why = format!("no handshake within {time:?} (--limit-handshake-time)");
                self.control.close_with(conn, CloseReason::Limit(why));
            }
        }
    }

    fn write_dirty(&mut self) {
        for conn in std::mem::take(&mut self.control.dirty) {
            if let Some(connection) = self.control.get_mut(conn) {
                connection.dirty = false;
            }
            points::reach(Point::SocketsBetween);
            if self.control.write(conn) {
                self.service.writable(conn, &mut self.control);
            }
            self.http_written(conn);
        }
    }

    fn close_closing(&mut self) {
        for conn in std::mem::take(&mut self.control.closing) {
            self.control.write(conn);
            let Some(mut connection) = self.control.remove(conn) else { continue };
            let reason = connection.closing.take().unwrap_or(CloseReason::Peer);
            let who = connection.peer.as_ref().map_or_else(|| connection.ip.to_string(), Peer::to_string);
            match reason {
                CloseReason::Malformed(_) | CloseReason::Limit(_) => {
                    log::warn!("connection {} of {who} closed: {reason}", conn.handle());
                }
                _ => log::debug!("connection {} of {who} closed: {reason}", conn.handle()),
            }
            if connection.peer.is_some() {
                drop(connection);
                self.service.closed(conn, &reason, &mut self.control);
            }
            self.control.told_closed(conn);
        }
    }

    /// Gives outboxes a moment to empty, then closes everything.
    fn last_writes(&mut self) -> io::Result<()> {
        let by = Instant::now().checked_add(LAST_WRITES).unwrap_or_else(Instant::now);
        loop {
            let open: Vec<ConnId> = self.control.connections().map(|(conn, _)| conn).collect();
            for conn in &open {
                self.control.write(*conn);
            }
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() || open.iter().all(|conn| self.control.outbox_bytes(*conn) == 0) {
                break;
            }
            // Sockets that were full report room; the cap keeps this going where one does not.
            self.poll
                .poll(&mut self.events, Some(left.min(Duration::from_millis(50))))
                .or_else(|error| if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) })?;
        }
        for conn in self.control.connections().map(|(conn, _)| conn).collect::<Vec<_>>() {
            self.control.close_with(conn, CloseReason::Shutdown);
        }
        self.close_closing();
        Ok(())
    }
}
