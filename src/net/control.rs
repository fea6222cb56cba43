//! What a service can do with connections.

use super::connection::Connection;
use super::ebb::Ebb;
use super::message;
use super::outbox::CROWDED_BYTES;
use super::peer::{CloseReason, ConnId, Peer};
use super::reactor::NetLimits;
use super::silence;
use super::stream::Stream;
use crate::config::Limit;
use crate::metrics::{self, Id, Snapshot};
use crate::q::handlers::Verdict;
use crate::sys::allocated;
use bytes::Bytes;
use mio::{Interest, Registry, Token, Waker};
use proto::{DecodeError, MessageKind};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tokens below this one are the waker's and the listeners'.
pub(super) const FIRST_CONNECTION: usize = 64;

/// A sync message that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub conn: ConnId,
    number: u64,
}

impl Request {
    /// The question of this number on its connection.
    pub const fn new(conn: ConnId, number: u64) -> Request {
        Request { conn, number }
    }

    pub const fn number(self) -> u64 {
        self.number
    }
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

/// The connections, as a service sees them.
pub struct Control {
    pub(super) registry: Registry,
    pub(super) limits: NetLimits,
    pub(super) now: Instant,
    /// Connections with input to look at.
    pub(super) ready: VecDeque<ConnId>,
    /// Connections with something to write.
    pub(super) dirty: Vec<ConnId>,
    pub(super) closing: Vec<ConnId>,
    pub(super) inboxes_bytes: usize,
    pub(super) stopping: bool,
    pub(super) request: Option<Request>,
    /// HTTP connections, by the moment at which each is closed unless it goes on.
    pub(super) sessions: BTreeSet<(Instant, ConnId)>,
    /// Logins that have been decided on.
    pub(super) admitted: Vec<(ConnId, bool)>,
    /// HTTP requests that have been answered.
    pub(super) pages: Vec<(ConnId, Option<Bytes>)>,
    /// HTTP requests that have been judged.
    pub(super) judged: Vec<(ConnId, Verdict)>,
    slots: Vec<Slot>,
    free: BinaryHeap<Reverse<u32>>,
    /// Numbers of closed connections that no other gets yet.
    kept: HashSet<ConnId>,
    open: usize,
    outboxes_bytes: usize,
    pub(super) ebb: Ebb,
    waker: Arc<Waker>,
}

impl Control {
    pub(super) fn new(registry: Registry, waker: Arc<Waker>, limits: NetLimits) -> Control {
        Control {
            registry,
            limits,
            now: Instant::now(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            closing: Vec::new(),
            inboxes_bytes: 0,
            stopping: false,
            request: None,
            sessions: BTreeSet::new(),
            admitted: Vec::new(),
            pages: Vec::new(),
            judged: Vec::new(),
            slots: Vec::new(),
            free: BinaryHeap::new(),
            kept: HashSet::new(),
            open: 0,
            outboxes_bytes: 0,
            ebb: Ebb::default(),
            waker,
        }
    }

    /// Queues whole messages for a connection; they are written at the end of the turn. Nothing happens if it is gone.
    pub fn send(&mut self, conn: ConnId, messages: Bytes) {
        if let Some(connection) = self.get_mut(conn) {
            let bytes = messages.len();
            connection.outbox.push(messages);
            let queue = !std::mem::replace(&mut connection.dirty, true);
            self.outboxes_bytes = self.outboxes_bytes.saturating_add(bytes);
            if queue {
                self.dirty.push(conn);
            }
        }
    }

    /// The sync message that is being handled: keep it to answer later. `None` while an async one is handled.
    pub fn request(&self) -> Option<Request> {
        self.request
    }

    /// Answers a sync message with a whole response message. Answers leave in the order of the questions. Where outboxes are
    /// crowded, a large one gives way to an error.
    pub fn reply(&mut self, request: Request, mut message: Bytes) {
        if message.len() > CROWDED_BYTES && self.is_crowded() {
            metrics::refused(Limit::outboxes_bytes);
            let most = self.limits.outboxes_bytes;
            let text = format!("limit: more than {most} bytes wait for all connections (--limit-outboxes)");
            message = message::error(text.as_bytes());
        }
        let Some(connection) = self.get_mut(request.conn) else { return };
        let mut sent = Vec::new();
        connection.replies.answer(request.number, message, |answer| sent.push(answer));
        for answer in sent {
            self.send(request.conn, answer);
        }
        self.go_on(request.conn);
    }

    /// Bytes that wait to be written to a connection.
    pub fn outbox_bytes(&self, conn: ConnId) -> usize {
        self.get(conn).map_or(0, |connection| connection.outbox.bytes())
    }

    /// Bytes that wait to be written, over all connections; a chunk shared by several counts for each.
    pub fn outboxes_bytes(&self) -> usize {
        self.outboxes_bytes
    }

    /// Gives free memory back to the system when much less waits to be written than did.
    pub(super) fn give_back(&mut self) {
        self.ebb.look(self.outboxes_bytes, self.now, allocated::give_back);
    }

    /// Whether more waits for all connections together than may.
    fn is_crowded(&self) -> bool {
        self.outboxes_bytes > self.limits.outboxes_bytes
    }

    /// Whether the next message of a connection may be handled.
    pub(super) fn may_go_on(&self, conn: ConnId) -> bool {
        self.get(conn).is_some_and(|connection| connection.may_go_on(&self.limits, self.is_crowded()))
    }

    /// Asks for one call of [`super::Service::writable`] when no more than `bytes` wait for this connection.
    pub fn notify_below(&mut self, conn: ConnId, bytes: usize) {
        if let Some(connection) = self.get_mut(conn) {
            connection.notify_below = Some(bytes);
            if !std::mem::replace(&mut connection.dirty, true) {
                self.dirty.push(conn);
            }
        }
    }

    /// Has a connection fail when its peer's host has been silent for about `most`.
    pub fn end_after_silence(&mut self, conn: ConnId, most: Duration) {
        if let Some(Stream::Tcp(stream)) = self.get(conn).map(|connection| &connection.stream) {
            silence::end_after(stream, most);
        }
    }

    /// Hands over no more messages of this connection until [`Control::resume`].
    pub fn pause(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn) {
            connection.paused = true;
        }
    }

    pub fn resume(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn) {
            connection.paused = false;
        }
        self.go_on(conn);
    }

    /// Closes a connection at the end of the turn, after what waits for it has been offered to its socket once.
    pub fn close(&mut self, conn: ConnId, reason: impl Into<String>) {
        self.close_with(conn, CloseReason::Service(reason.into()));
    }

    /// The message being handled is not one, and what follows it cannot be trusted: a question is answered with what is
    /// wrong, then the connection is closed (kdb+'s `badmsg`).
    pub fn malformed(&mut self, conn: ConnId, error: DecodeError) {
        metrics::refused_by(&error, self.limits.message_limit);
        if let Some(request) = self.request.take() {
            // On the wire an error's text has no quote.
            self.reply(request, message::error(error.to_string().trim_start_matches('\'').as_bytes()));
        }
        self.close_with(conn, CloseReason::Malformed(error));
    }

    /// Decides on a login that the service took time for.
    pub fn admit(&mut self, conn: ConnId, admitted: bool) {
        self.admitted.push((conn, admitted));
    }

    /// Answers an HTTP request that the service took time for, with a whole answer; without one it is the server's fault.
    pub fn answer_page(&mut self, conn: ConnId, answer: Option<Bytes>) {
        self.pages.push((conn, answer));
    }

    /// Says who an HTTP request comes from that the service took time for.
    pub fn judge(&mut self, conn: ConnId, verdict: Verdict) {
        self.judged.push((conn, verdict));
    }

    /// Gives the number of a connection that has just closed to no other before [`Control::free_number`].
    pub fn keep_number(&mut self, conn: ConnId) {
        self.kept.insert(conn);
    }

    pub fn free_number(&mut self, conn: ConnId) {
        if self.kept.remove(&conn) {
            self.free.push(Reverse(conn.slot));
        }
    }

    /// The service has been told that a connection is closed.
    pub(super) fn told_closed(&mut self, conn: ConnId) {
        if !self.kept.contains(&conn) {
            self.free.push(Reverse(conn.slot));
        }
    }

    /// Whether a connection speaks WebSocket.
    pub fn is_web(&self, conn: ConnId) -> bool {
        self.get(conn).is_some_and(|connection| connection.web.is_some())
    }

    /// When this turn began.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Wakes the loop from another thread: [`super::Service::woken`] is called.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Ends the loop after this turn; outboxes get a moment to empty.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// The peer of an open connection.
    pub fn peer(&self, conn: ConnId) -> Option<&Peer> {
        self.get(conn)?.peer.as_ref()
    }

    /// The open connection that q users know by this handle.
    pub fn by_handle(&self, handle: i32) -> Option<ConnId> {
        let slot = ConnId::slot_of(handle)?;
        let connection = self.slots.get(slot as usize)?.connection.as_ref()?;
        connection.peer.as_ref()?;
        Some(ConnId { slot, generation: connection.generation })
    }

    /// Connections that have finished their handshake.
    pub fn connections(&self) -> impl Iterator<Item = (ConnId, &Peer)> {
        self.slots.iter().zip(0u32..).filter_map(|(slot, number)| {
            let connection = slot.connection.as_ref()?;
            Some((ConnId { slot: number, generation: connection.generation }, connection.peer.as_ref()?))
        })
    }

    /// Tells what connections hold; what is used of limits goes to `used`.
    pub fn put_metrics(&self, snapshot: &mut Snapshot, used: &mut Vec<(Limit, u64)>) {
        let open = || self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        let fullest = |bytes: fn(&Connection) -> usize| open().map(bytes).max().unwrap_or(0) as u64;
        snapshot.set(Id::Connections, open().filter(|connection| connection.peer.is_some()).count());
        snapshot.set(Id::InboxBytes, self.inboxes_bytes);
        snapshot.set(Id::OutboxBytes, self.outboxes_bytes);
        used.extend([
            (Limit::connections, self.open as u64),
            (Limit::http_connections, self.sessions.len() as u64),
            (Limit::inbox_bytes, fullest(|connection| connection.inbox_bytes)),
            (Limit::inboxes_bytes, self.inboxes_bytes as u64),
            (Limit::outbox_bytes, fullest(|connection| connection.outbox.bytes())),
            (Limit::outboxes_bytes, self.outboxes_bytes as u64),
        ]);
    }

    pub(super) fn get(&self, conn: ConnId) -> Option<&Connection> {
        let connection = self.slots.get(conn.slot as usize)?.connection.as_deref()?;
        (connection.generation == conn.generation).then_some(connection)
    }

    pub(super) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Connection> {
        let connection = self.slots.get_mut(conn.slot as usize)?.connection.as_deref_mut()?;
        (connection.generation == conn.generation).then_some(connection)
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Takes a new socket in.
    pub(super) fn insert(&mut self, mut stream: Stream, ip: IpAddr, local: bool) -> io::Result<ConnId> {
        let number = match self.free.pop() {
            Some(Reverse(number)) => number,
            None => {
                let number = u32::try_from(self.slots.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
                self.slots.push(Slot::default());
                number
            }
        };
        let token = Token((number as usize).saturating_add(FIRST_CONNECTION));
        // Both at once: the system reports room only after a write that found none, so this costs no wake-ups.
        if let Err(error) = self.registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE) {
            self.free.push(Reverse(number));
            return Err(error);
        }
        let Some(slot) = self.slots.get_mut(number as usize) else { return Err(io::ErrorKind::NotFound.into()) };
        slot.generation = slot.generation.wrapping_add(1);
        slot.connection = Some(Box::new(Connection::new(stream, slot.generation, ip, local, self.now, &self.limits)));
        self.open = self.open.saturating_add(1);
        Ok(ConnId { slot: number, generation: slot.generation })
    }

    pub(super) fn by_token(&self, token: Token) -> Option<ConnId> {
        let slot = u32::try_from(token.0.checked_sub(FIRST_CONNECTION)?).ok()?;
        let generation = self.slots.get(slot as usize)?.connection.as_ref()?.generation;
        Some(ConnId { slot, generation })
    }

    /// Puts a connection on the list of those to read.
    pub(super) fn queue_read(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn)
            && !std::mem::replace(&mut connection.queued, true)
        {
            self.ready.push_back(conn);
        }
    }

    /// A connection that had to stop may be able to go on.
    pub(super) fn go_on(&mut self, conn: ConnId) {
        if self.may_go_on(conn)
            && let Some(connection) = self.get_mut(conn)
            && std::mem::take(&mut connection.stalled)
        {
            self.queue_read(conn);
        }
    }

    /// Closes those that hold the most of unfinished messages until all together are within their limit: not whoever happens
    /// to be the last. Who has asked something is told why.
    pub(super) fn relieve_inboxes(&mut self) {
        let most = self.limits.inboxes_bytes;
        while self.inboxes_bytes > most {
            let held = self.slots.iter().zip(0u32..).filter_map(|(slot, number)| {
                let connection = slot.connection.as_deref()?;
                Some((connection.inbox_bytes, ConnId { slot: number, generation: connection.generation }))
            });
            let Some((bytes @ 1.., conn)) = held.max_by_key(|(bytes, _)| *bytes) else { return };
            metrics::refused(Limit::inboxes_bytes);
            let why = format!("more than {most} bytes of unfinished messages in all (--limit-inboxes)");
            let Some(connection) = self.get_mut(conn) else { return };
            connection.inbox_bytes = 0;
            let asks = connection.frames.pending_header().is_some_and(|header| header.kind == MessageKind::Sync);
            self.inboxes_bytes = self.inboxes_bytes.saturating_sub(bytes);
            if asks && let Some(request) = self.ask(conn) {
                self.reply(request, message::error(format!("limit: {why}").as_bytes()));
            }
            self.close_with(conn, CloseReason::Limit(why));
        }
    }

    pub(super) fn close_with(&mut self, conn: ConnId, reason: CloseReason) {
        if let Some(connection) = self.get_mut(conn)
            && connection.closing.is_none()
        {
            connection.closing = Some(reason);
            self.closing.push(conn);
        }
    }

    /// Writes what waits, as far as the socket takes it. True if the service wanted to know that little is left.
    pub(super) fn write(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.get_mut(conn) else { return false };
        let before = connection.outbox.bytes();
        let result = connection.outbox.write_to(&mut connection.stream);
        connection.blocked = !connection.outbox.is_empty();
        let left = connection.outbox.bytes();
        let notify = connection.notify_below.is_some_and(|below| left <= below);
        if notify {
            connection.notify_below = None;
        }
        // Also where the socket took some and then failed.
        self.outboxes_bytes = self.outboxes_bytes.saturating_sub(before.saturating_sub(left));
        if let Err(error) = result {
            self.close_with(conn, CloseReason::Socket(error));
        }
        self.go_on(conn);
        notify
    }

    /// Takes a connection out; its socket is closed when dropped. Its number is free after [`Control::told_closed`].
    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Box<Connection>> {
        self.get(conn)?;
        let mut connection = self.slots.get_mut(conn.slot as usize)?.connection.take()?;
        if let Some(session) = &connection.http {
            self.sessions.remove(&(session.by, conn));
        }
        self.open = self.open.saturating_sub(1);
        self.outboxes_bytes = self.outboxes_bytes.saturating_sub(connection.outbox.bytes());
        self.inboxes_bytes = self.inboxes_bytes.saturating_sub(connection.inbox_bytes);
        // The socket is closed in any case; failing to deregister it first changes nothing.
        let _ = self.registry.deregister(&mut connection.stream);
        Some(connection)
    }

    pub(super) fn ask(&mut self, conn: ConnId) -> Option<Request> {
        let number = self.get_mut(conn)?.replies.ask();
        Some(Request { conn, number })
    }
}
