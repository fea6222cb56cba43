//! The event loop.
//!
//! One iteration: wait for readiness, read each ready connection once and deliver its messages, notify the service (`iteration_ended`), write the
//! queued data. The limit of one read per connection and iteration is for fairness: a publisher that never pauses cannot starve the others.

mod audited;
mod checks;
mod crowd;
mod diverting;
mod expanding;
mod expiry;
mod idle;
mod limits;
mod login;
mod pages;
mod parts;
mod reading;
mod secure;
mod web;

pub use limits::NetLimits;
pub use parts::Parts;

use super::account::HeldBytes;
use super::connection::Connection;
use super::control::{Control, FIRST_CONNECTION, SyncRequest};
use super::forward::Diverted;
use super::http::{self, Page};
use super::listener::Listeners;
use super::notify::Watchdog;
use super::peer::{CloseReason, ConnId, Peer};
use super::sites::Sites;
use super::stream::Stream;
use super::tls::Handshakes;
use crate::access::Access;
use crate::config::Limit;
use crate::less;
use crate::metrics::{self, Id};
use crate::points::{self, Point};
use checks::Checks;
use expanding::Expander;
use mio::{Events, Poll, Token};
use proto::{Compression, FrameReader, HEADER_BYTES, Header, MessageKind};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
pub(super) const FIRST_LISTENER: usize = 1;

/// Bytes read per event-loop iteration, over all connections, before the service finishes its batch.
const ITERATION_BYTES: usize = 4 << 20;

/// Time limit for emptying send buffers when the loop ends.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Handler of the connections' messages. All methods are called from the event-loop thread.
pub trait Service {
    /// A peer has completed its handshake.
    fn opened(&mut self, conn: ConnId, peer: &Peer, ctl: &mut Control);
    /// A message: its header as sent, and the body, decompressed but not validated. For a sync message [`Control::request`] returns the
    /// request to respond to; for a body that is not an object call [`Control::no_object`].
    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control);
    /// As [`Service::message`], for a body that a thread has decompressed; `held` counts it until it is dropped.
    fn owned_message(&mut self, conn: ConnId, header: &Header, body: Vec<u8>, held: HeldBytes, ctl: &mut Control) {
        self.message(conn, header, &body, ctl);
        drop((body, held));
    }
    /// All messages of the event-loop iteration have been delivered; what is sent now leaves in one write.
    fn iteration_ended(&mut self, ctl: &mut Control);
    /// The send buffer has shrunk to the threshold of [`Control::notify_below`].
    fn writable(&mut self, conn: ConnId, ctl: &mut Control);
    /// The peer has ended its stream, although a message of the connection is in evaluation: nobody reads its response. [`Peer::gone`] is set. The
    /// connection closes once its messages are handled.
    fn left(&mut self, _conn: ConnId, _ctl: &mut Control) {}
    /// An opened connection has closed.
    fn closed(&mut self, conn: ConnId, reason: &CloseReason, ctl: &mut Control);
    /// Whether a silent client waits for data that will come: it has a subscription, or is a node.
    fn is_served(&self, _conn: ConnId) -> bool {
        false
    }
    /// Another thread woke the loop.
    fn woken(&mut self, ctl: &mut Control);
    /// Deadline of the next [`Service::timer`] call.
    fn deadline(&self) -> Option<Instant>;
    fn timer(&mut self, ctl: &mut Control);
    /// Status line for the service manager. `None` if a critical thread has shown no progress since the last call: the watchdog is then not
    /// notified, and the manager replaces the process in the end.
    fn liveness(&mut self) -> Option<String> {
        Some(String::new())
    }
    /// Whether the process goes on, as a new one, after the service has stopped the loop.
    fn starts_again(&self) -> bool {
        false
    }
    /// Decides on a user whose password, if passwords are in use, is correct.
    fn login(&mut self, _conn: ConnId, _user: &[u8], _password: &[u8], _ctl: &mut Control) -> Login {
        Login::Admitted
    }
    /// Whether a connection whose login or TLS has begun goes to another process; then [`Control::divert`] says whether that one was reached.
    fn diverts(&mut self, _conn: ConnId) -> bool {
        false
    }
    /// Takes a connection that goes to another process; `None` if it has closed meanwhile.
    fn take(&mut self, _conn: ConnId, _diverted: Option<Diverted>) {}
    /// Number of connections that went to another process and are open, and of those from one address.
    fn forwarded(&self, _ip: IpAddr) -> (usize, usize) {
        (0, 0)
    }
    /// Handles an HTTP request without a [`Service::page`]; returns true if [`Control::answer_page`] will send the response.
    fn request(&mut self, _conn: ConnId, _request: &http::HttpRequest, _peer: &Peer, _ctl: &mut Control) -> bool {
        false
    }
    /// Returns true if [`Control::judge`] will authorise the HTTP request; otherwise user and password decide.
    fn authorise(&mut self, _conn: ConnId, _request: &http::HttpRequest, _peer: &Peer, _ctl: &mut Control) -> bool {
        false
    }
    /// Whether WebSocket upgrades are accepted. Such connections are opened and closed like others.
    fn takes_web(&self) -> bool {
        false
    }
    /// A message of a WebSocket client.
    fn web_message(&mut self, _conn: ConnId, _is_text: bool, _payload: Vec<u8>, _ctl: &mut Control) {}
    /// Returns the page at a path (from `/` on) for a query (without the question mark), or `None`.
    fn page(&mut self, _path: &str, _query: &str, _ctl: &mut Control) -> Option<Page> {
        None
    }
}

/// Decision on a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    Admitted,
    /// [`Control::admit`] will decide.
    Later,
}

/// The event loop with its listeners, connections and service.
pub struct Reactor<S> {
    poll: Poll,
    events: Events,
    control: Control,
    listeners: Listeners,
    checks: Checks,
    /// Pending connections: accepted, handshake not complete, by deadline.
    pending: VecDeque<(Instant, ConnId)>,
    /// Connections whose token expires, by the time at which they are closed.
    expiring: BTreeSet<(Instant, ConnId)>,
    watchdog: Option<Watchdog>,
    expander: Option<Expander>,
    /// Pages without authentication.
    open_pages: &'static [&'static str],
    /// Web pages that may send requests.
    sites: Sites,
    /// Threads for TLS handshakes, if the port takes TLS.
    handshakes: Option<Handshakes>,
    /// When connections are looked at that may be idle.
    idle_at: Option<Instant>,
    pub service: S,
}

impl<S: Service> Reactor<S> {
    /// Creates the event loop and registers the listeners.
    ///
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
        let checks = Checks::new(access, Arc::clone(&parts.waker), &limits)?;
        let control = Control::new(parts.poll.registry().try_clone()?, parts.waker, limits);
        let events = Events::with_capacity(1024);
        let pending = VecDeque::new();
        Ok(Reactor {
            poll: parts.poll,
            events,
            control,
            listeners,
            checks,
            pending,
            expiring: BTreeSet::new(),
            watchdog: None,
            expander: None,
            open_pages: &[],
            sites: Sites::default(),
            handshakes: None,
            idle_at: None,
            service,
        })
    }

    /// Enables liveness notifications to the service manager.
    pub fn set_watchdog(&mut self, watchdog: Watchdog) {
        self.watchdog = Some(watchdog);
    }

    /// Runs until the service calls [`Control::stop`].
    ///
    /// # Errors
    /// The readiness queue's; an error of a connection only closes that connection.
    pub fn run(&mut self) -> io::Result<()> {
        self.turn_until_stopped()?;
        // A service manager kills a process that goes on after it has reported its end.
        if let Some(watchdog) = self.watchdog.as_ref().filter(|_| !self.service.starts_again()) {
            watchdog.stopping();
        }
        self.last_writes()
    }

    /// As [`Reactor::run`], for a service that another one of this process follows on the same listeners: its connections are closed, and new
    /// ones wait, as do those that were about to be forwarded.
    ///
    /// # Errors
    /// The readiness queue's.
    pub fn run_before_another(mut self) -> io::Result<(S, Listeners)> {
        self.turn_until_stopped()?;
        self.keep_diversions();
        self.last_writes()?;
        self.listeners.deregister(self.poll.registry())?;
        Ok((self.service, self.listeners))
    }

    fn turn_until_stopped(&mut self) -> io::Result<()> {
        self.adopt_kept();
        while !self.control.stopping {
            self.turn()?;
        }
        Ok(())
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
            self.adopt_users();
            self.service.woken(&mut self.control);
        }
        if std::mem::take(&mut self.control.stops_listening) {
            self.listeners.close(self.poll.registry())?;
        }
        self.finish_checks();
        self.finish_diversions();
        self.finish_handshakes();
        self.finish_logins();
        self.finish_expanding();
        self.finish_verdicts();
        self.finish_pages();
        // A stopped service has closed its resources: a tickerplant could acknowledge an update without logging it.
        if !self.control.stopping {
            // The deadline may be later than the start of this iteration.
            if self.service.deadline().is_some_and(|at| at <= Instant::now()) {
                self.service.timer(&mut self.control);
            }
            self.read_ready();
        }
        self.drop_late_handshakes();
        self.drop_slow_sessions();
        self.drop_idle();
        self.drop_expired();
        self.service.iteration_ended(&mut self.control);
        self.write_dirty();
        self.close_closing();
        self.control.give_back();
        self.beat();
        Ok(())
    }

    fn beat(&mut self) {
        if let Some(watchdog) = &mut self.watchdog {
            let now = Instant::now();
            if watchdog.due().is_some_and(|at| at <= now) {
                watchdog.beat(now, self.service.liveness());
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let control = &self.control;
        let is_due =
            [control.ready.is_empty(), control.dirty.is_empty(), control.closing.is_empty(), control.pages.is_empty()];
        if is_due.contains(&false) {
            return Some(Duration::ZERO);
        }
        let pending_by = self.pending.front().map(|(by, _)| *by);
        let watchdog = self.watchdog.as_ref().and_then(Watchdog::due);
        let session = self.control.sessions.first().map(|(by, _)| *by);
        let memory = self.control.trim.again_at();
        let expiry = self.expiring.first().map(|(by, _)| *by);
        let service = self.service.deadline();
        let all = [service, pending_by, watchdog, session, memory, self.idle_deadline(), expiry];
        let next = all.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn accept(&mut self) {
        while let Some(accepted) = self.listeners.accept() {
            let (stream, ip, local) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, or the peer is gone: existing connections must not suffer.
                    tracing::warn!(%error, "cannot accept a connection");
                    return;
                }
            };
            self.admit_socket(stream, ip, local);
        }
    }

    /// Adds a new connection, if there is room for it.
    fn admit_socket(&mut self, stream: Stream, ip: IpAddr, local: bool) -> Option<ConnId> {
        if let Err((limit, most)) = self.has_room_for(ip) {
            metrics::refused(limit);
            tracing::warn!(%ip, "connection rejected: {most} are open (--{})", limit.spec().name);
            return None;
        }
        match self.control.insert(stream, ip, local) {
            Ok(conn) => {
                metrics::count(Id::ConnectionsAccepted);
                let by = self.control.get(conn).map_or(self.control.now, |connection| connection.handshake_by);
                self.pending.push_back((by, conn));
                self.bound_half_open();
                self.control.queue_read(conn);
                Some(conn)
            }
            Err(error) => {
                tracing::warn!(%ip, %error, "cannot set up a connection");
                None
            }
        }
    }

    /// Reads every ready connection once, up to the byte limit of the iteration.
    fn read_ready(&mut self) {
        let mut budget = ITERATION_BYTES;
        for _ in 0..self.control.ready.len() {
            if budget == 0 {
                break;
            }
            let Some(conn) = self.control.ready.pop_front() else { break };
            budget = budget.saturating_sub(self.read(conn));
        }
    }

    /// Reads once and delivers the messages completed by it. Returns the bytes read.
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
        let _span = connection.span.clone().entered();
        // Moved out of the connection during delivery, because the service may modify any connection.
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
        if let Some(connection) = self.control.get_mut(conn) {
            let held = frames.held_bytes().saturating_add(connection.stream.held_bytes());
            connection.frames = frames;
            let before = std::mem::replace(&mut connection.inbox_bytes, held);
            self.control.inboxes_bytes = less!(self.control.inboxes_bytes, before).saturating_add(held);
        }
        match outcome {
            Ok(true) => {}
            Ok(false) => {
                self.leaves(conn);
            }
            Err(reason) => self.control.close_with(conn, reason),
        }
        self.control.relieve_inboxes();
        bytes
    }

    /// Delivers the complete messages. Returns false if the connection has to wait before its next one.
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
                // By reference: a copy of the header that was just written waits for the store, a tenth of a small update's time.
                Ok(Some((ref header, message))) => self.deliver(conn, header, message),
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

    /// Registers a request if the message is sync.
    fn request(&mut self, conn: ConnId, kind: Option<MessageKind>) -> Option<SyncRequest> {
        if kind == Some(MessageKind::Sync) { self.control.ask(conn) } else { None }
    }

    fn deliver(&mut self, conn: ConnId, header: &Header, message: &[u8]) {
        self.control.request = self.request(conn, Some(header.kind));
        if header.compression == Compression::None {
            self.service.message(conn, header, message.get(HEADER_BYTES..).unwrap_or_default(), &mut self.control);
        } else {
            self.deliver_compressed(conn, header, message);
        }
        self.control.request = None;
    }

    fn drop_late_handshakes(&mut self) {
        while let Some((by, conn)) = self.pending.front().copied() {
            let waits = self.control.get(conn).is_some_and(Connection::is_half_open);
            if waits && by > self.control.now {
                return;
            }
            self.pending.pop_front();
            if waits {
                metrics::refused(Limit::handshake_ns);
                let time = self.control.limits.handshake_time;
                let why = format!("no handshake within {time:?} (--limit-handshake-time)");
                self.control.close_with(conn, CloseReason::Limit(why));
            }
        }
    }

    fn write_dirty(&mut self) {
        let dirty = std::mem::take(&mut self.control.dirty);
        if dirty.is_empty() {
            return;
        }
        points::reach(Point::SocketsBeforeWrite);
        for conn in dirty {
            if let Some(connection) = self.control.get_mut(conn) {
                connection.dirty = false;
            }
            points::reach(Point::SocketsBetween);
            if self.control.write(conn) {
                self.service.writable(conn, &mut self.control);
            }
            self.http_written(conn);
        }
        points::reach(Point::SocketsWritten);
    }

    fn close_closing(&mut self) {
        for conn in std::mem::take(&mut self.control.closing) {
            self.control.write(conn);
            let Some(mut connection) = self.control.remove(conn) else { continue };
            connection.stream.say_goodbye();
            connection.gone.set();
            let reason = connection.closing.take().unwrap_or(CloseReason::Peer);
            let who = connection.peer.as_ref().map_or_else(|| connection.ip.to_string(), Peer::to_string);
            match reason {
                CloseReason::Malformed(_) | CloseReason::Limit(_) | CloseReason::Tls(_) => {
                    tracing::warn!(handle = conn.handle(), peer = %who, %reason, "connection closed");
                }
                _ => tracing::debug!(handle = conn.handle(), peer = %who, %reason, "connection closed"),
            }
            if let Some(peer) = &connection.peer {
                self.audit_logout(conn, peer, &reason);
                drop(connection);
                self.service.closed(conn, &reason, &mut self.control);
            }
            self.control.close_reported(conn);
        }
    }

    /// Gives send buffers a short time to empty, then closes all connections.
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
            // Full sockets report room; the cap keeps the loop going if one does not.
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
