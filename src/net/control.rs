//! A service's operations on connections.

mod connections;

use super::account::Account;
use super::connection::Connection;
use super::http::Page;
use super::peer::{CloseReason, ConnId, Peer};
use super::reactor::NetLimits;
use super::replies::ReplyOrder;
use super::send_buffer::CROWDED_BYTES;
use super::tls::Door;
use super::trim::Trim;
use super::user_outbox::UserOutboxes;
use super::{keepalive, message};
use crate::access::Grants;
use crate::audit::Audit;
use crate::config::Limit;
use crate::metrics::{self, Id, Snapshot};
use crate::q::handlers::Verdict;
use crate::sys::allocated;
use bytes::Bytes;
use mio::{Registry, Waker};
use proto::DecodeError;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lower tokens belong to the waker and the listeners.
pub(super) const FIRST_CONNECTION: usize = 64;

/// A sync request that awaits its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SyncRequest {
    pub conn: ConnId,
    number: u64,
}

impl SyncRequest {
    /// The request with this number on its connection.
    pub const fn new(conn: ConnId, number: u64) -> SyncRequest {
        SyncRequest { conn, number }
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

/// The open connections, as a service sees them.
pub struct Control {
    pub(super) registry: Registry,
    pub(super) limits: NetLimits,
    pub(super) now: Instant,
    /// Connections with input to process.
    pub(super) ready: VecDeque<ConnId>,
    /// Connections with something to write.
    pub(super) dirty: Vec<ConnId>,
    pub(super) closing: Vec<ConnId>,
    pub(super) inboxes_bytes: usize,
    pub(super) stopping: bool,
    /// Set by [`Control::stop_listening`].
    pub(super) stops_listening: bool,
    pub(super) request: Option<SyncRequest>,
    /// HTTP connections by the deadline at which each is closed unless it progresses.
    pub(super) sessions: BTreeSet<(Instant, ConnId)>,
    /// Logins decided by another thread.
    pub(super) admitted: Vec<(ConnId, bool)>,
    /// Connections to forward, and whether the other process was reached.
    pub(super) diverted: Vec<(ConnId, bool)>,
    /// HTTP requests answered by another thread.
    pub(super) pages: Vec<(ConnId, Result<Bytes, Page>)>,
    /// HTTP requests with the decision of another thread: who sends them, or that they are rejected.
    pub(super) judged: Vec<(ConnId, Verdict)>,
    slots: Vec<Slot>,
    free: BinaryHeap<Reverse<u32>>,
    /// Closed connections whose slots are not reused yet.
    kept: HashSet<ConnId>,
    open: usize,
    /// Open connections by address.
    addresses: HashMap<IpAddr, usize>,
    outboxes_bytes: usize,
    users: UserOutboxes,
    pub(super) trim: Trim,
    /// TLS of the port.
    pub(super) door: Option<Arc<Door>>,
    /// The process's audit log.
    pub(super) audit: Audit,
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
            stops_listening: false,
            request: None,
            sessions: BTreeSet::new(),
            admitted: Vec::new(),
            diverted: Vec::new(),
            pages: Vec::new(),
            judged: Vec::new(),
            slots: Vec::new(),
            free: BinaryHeap::new(),
            kept: HashSet::new(),
            open: 0,
            addresses: HashMap::new(),
            outboxes_bytes: 0,
            users: UserOutboxes::default(),
            trim: Trim::default(),
            door: None,
            audit: Audit::default(),
            waker,
        }
    }

    /// Queues whole messages for a connection; they are written at the end of the event-loop iteration. No effect on a closed connection.
    pub fn send(&mut self, conn: ConnId, messages: Bytes) {
        let Some(connection) = self.get_mut(conn).filter(|connection| connection.held.is_some()) else {
            return self.send_first(conn, messages);
        };
        let bytes = messages.len();
        connection.recount(connection.counted_bytes.saturating_add(bytes));
        connection.held.get_or_insert_default().push(messages);
        self.outboxes_bytes = self.outboxes_bytes.saturating_add(bytes);
        self.trim.grew(self.outboxes_bytes);
    }

    /// As [`Control::send`], ahead of what is held back.
    pub fn send_first(&mut self, conn: ConnId, messages: Bytes) {
        if let Some(connection) = self.get_mut(conn) {
            let bytes = messages.len();
            connection.send_buffer.push(messages);
            connection.recount(connection.counted_bytes.saturating_add(bytes));
            self.outboxes_bytes = self.outboxes_bytes.saturating_add(bytes);
            self.trim.grew(self.outboxes_bytes);
            self.queue_write(conn);
        }
    }

    /// Adds a connection to the list of those to write.
    fn queue_write(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn)
            && !std::mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(conn);
        }
    }

    /// Holds back what is sent to a connection, except responses, until [`Control::release`]: the response to a query that subscribes has
    /// to arrive before the updates.
    pub fn hold(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn) {
            connection.held.get_or_insert_default();
        }
    }

    /// Sends what was held back.
    pub fn release(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn)
            && let Some(held) = connection.held.take()
        {
            connection.send_buffer.append(held);
            self.queue_write(conn);
        }
    }

    /// The sync request being handled, to be kept for a later response; `None` while an async message is handled.
    pub fn request(&self) -> Option<SyncRequest> {
        self.request
    }

    /// Sends the response to a sync request, a whole message. Responses leave in the order of the requests. If the send buffers are over
    /// their common limit, a large response is replaced by an error.
    pub fn reply(&mut self, request: SyncRequest, message: Bytes) {
        self.reply_in(request, message, ReplyOrder::InOrder);
    }

    /// As [`Control::reply`], in its turn or before it.
    pub fn reply_in(&mut self, request: SyncRequest, mut message: Bytes, turn: ReplyOrder) {
        if message.len() > CROWDED_BYTES && self.is_user_full(request.conn) {
            metrics::refused(Limit::user_outbox_bytes);
            let user = self.peer(request.conn).map(|peer| peer.user.escape_ascii().to_string()).unwrap_or_default();
            let text =
                format!("limit: the send buffers of user {user} are full (--limit-user-outbox, or outbox of a role)");
            message = message::error(text.as_bytes());
        } else if message.len() > CROWDED_BYTES && self.is_crowded() {
            metrics::refused(Limit::outboxes_bytes);
            let most = self.limits.outboxes_bytes;
            let text = format!("limit: the send buffers of all connections exceed {most} bytes (--limit-outboxes)");
            message = message::error(text.as_bytes());
        }
        let Some(connection) = self.get_mut(request.conn) else { return };
        let mut sent = Vec::new();
        connection.replies.answer_in(turn, request.number, message, |answer| sent.push(answer));
        for answer in sent {
            self.send_first(request.conn, answer);
        }
        self.go_on(request.conn);
    }

    /// Bytes in a connection's send buffer.
    pub fn outbox_bytes(&self, conn: ConnId) -> usize {
        self.get(conn).map_or(0, Connection::outbox_bytes)
    }

    /// Bytes in all send buffers; a chunk shared by several connections counts for each.
    pub fn outboxes_bytes(&self) -> usize {
        self.outboxes_bytes
    }

    /// Trims the allocator after the send buffers have shrunk considerably.
    pub(super) fn give_back(&mut self) {
        self.trim.look(self.outboxes_bytes, self.now, allocated::give_back);
    }

    /// Whether the send buffers together exceed their limit.
    fn is_crowded(&self) -> bool {
        self.outboxes_bytes > self.limits.outboxes_bytes
    }

    /// Counts what a connection that has logged in sends for its user as well.
    pub(super) fn share_outbox(&mut self, conn: ConnId) {
        let most = self.limits.user_outbox_bytes;
        let Some(peer) = self.peer(conn).cloned() else { return };
        let own = self.users.of(&peer, most);
        if let Some(connection) = self.get_mut(conn) {
            own.recount(0, connection.counted_bytes);
            connection.user_outbox = Some(own);
        }
    }

    /// Whether the send buffers of a connection's user together exceed their limit.
    pub fn is_user_full(&self, conn: ConnId) -> bool {
        self.get(conn).and_then(|connection| connection.user_outbox.as_ref()).is_some_and(|own| own.is_full())
    }

    /// Whether a connection's next message may be handled.
    pub(super) fn may_go_on(&self, conn: ConnId) -> bool {
        self.get(conn)
            .is_some_and(|connection| connection.may_go_on(&self.limits, self.is_crowded() || self.is_user_full(conn)))
    }

    /// Requests one call of [`super::Service::writable`] once the send buffer holds no more than `bytes`.
    pub fn notify_below(&mut self, conn: ConnId, bytes: usize) {
        if let Some(connection) = self.get_mut(conn) {
            connection.notify_below = Some(bytes);
            self.queue_write(conn);
        }
    }

    /// Replaces what a connection may do.
    pub fn grant(&mut self, conn: ConnId, grants: Arc<Grants>) {
        if let Some(peer) = self.get_mut(conn).and_then(|connection| connection.peer.as_mut()) {
            peer.grants = grants;
        }
    }

    /// Makes a connection fail after its peer's host has been silent for about `most`.
    pub fn set_keepalive(&mut self, conn: ConnId, most: Duration) {
        if let Some(stream) = self.get(conn).and_then(|connection| connection.stream.as_tcp()) {
            keepalive::set(stream, most);
        }
    }

    /// Stops delivery of this connection's messages until [`Control::resume`].
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

    /// Closes a connection at the end of the event-loop iteration, after one attempt to write its send buffer.
    pub fn close(&mut self, conn: ConnId, reason: impl Into<String>) {
        self.close_with(conn, CloseReason::Service(reason.into()));
    }

    /// Rejects bytes that are not a message. What follows them cannot be trusted, so a sync request gets an error response and the
    /// connection is closed (kdb+'s `badmsg`).
    pub fn malformed(&mut self, conn: ConnId, error: DecodeError) {
        metrics::refused_by(&error, self.limits.message_limit);
        if let Some(request) = self.request.take() {
            // The wire format of an error has no leading quote.
            self.reply(request, message::error(error.to_string().trim_start_matches('\'').as_bytes()));
        }
        self.close_with(conn, CloseReason::Malformed(error));
    }

    /// Rejects a whole message whose body is not an object or exceeds a limit. The next message starts at a known offset, so a sync request
    /// gets an error response and the connection stays; an async sender cannot be notified, so its connection is closed.
    pub fn no_object(&mut self, conn: ConnId, error: DecodeError) {
        let Some(request) = self.request.take() else { return self.malformed(conn, error) };
        metrics::refused_by(&error, self.limits.message_limit);
        // The wire format of an error has no leading quote.
        self.reply(request, message::error(error.to_string().trim_start_matches('\'').as_bytes()));
    }

    /// Rejects the message being handled because of a limit: a sync message gets an error response, the connection of an async one is closed,
    /// because its sender cannot be notified otherwise.
    pub fn refuse(&mut self, conn: ConnId, limit: Limit, why: String) {
        metrics::refused(limit);
        match self.request.take() {
            Some(request) => self.reply(request, message::error(format!("limit: {why}").as_bytes())),
            None => self.close_with(conn, CloseReason::Limit(why)),
        }
    }

    /// Memory of received messages that are not handled yet.
    pub fn pending(&self) -> &Arc<Account> {
        &self.limits.pending
    }

    /// Completes a login that the service decided asynchronously.
    pub fn admit(&mut self, conn: ConnId, admitted: bool) {
        self.admitted.push((conn, admitted));
    }

    /// Continues a connection that the service forwards: it lets it go, or serves it.
    pub fn divert(&mut self, conn: ConnId, is_reached: bool) {
        self.diverted.push((conn, is_reached));
    }

    /// Completes an HTTP request asynchronously with a whole response; the name of an error is sent with status 500.
    pub fn answer_page(&mut self, conn: ConnId, answer: Result<Bytes, Vec<u8>>) {
        self.pages.push((conn, answer.map_err(|name| Page::failed(&name))));
    }

    /// Completes an HTTP request that a limit rejects.
    pub fn refuse_page(&mut self, conn: ConnId, why: &str) {
        self.pages.push((conn, Err(Page::text(503, why))));
    }

    /// Completes the authorisation of an HTTP request.
    pub fn judge(&mut self, conn: ConnId, verdict: Verdict) {
        self.judged.push((conn, verdict));
    }

    /// Reserves the slot of a connection that has just closed until [`Control::free_number`].
    pub fn keep_number(&mut self, conn: ConnId) {
        self.kept.insert(conn);
    }

    pub fn free_number(&mut self, conn: ConnId) {
        if self.kept.remove(&conn) {
            self.free.push(Reverse(conn.slot));
        }
    }

    /// Called after [`super::Service::closed`]: frees the slot unless it is reserved.
    pub(super) fn close_reported(&mut self, conn: ConnId) {
        if !self.kept.contains(&conn) {
            self.free.push(Reverse(conn.slot));
        }
    }

    /// Whether it is a WebSocket connection.
    pub fn is_web(&self, conn: ConnId) -> bool {
        self.get(conn).is_some_and(|connection| connection.web.is_some())
    }

    /// Start of the current event-loop iteration.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The waker, with which another thread triggers [`super::Service::woken`].
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Ends the loop after this iteration; send buffers get a short time to empty.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Closes the listeners after this iteration; connections stay.
    pub fn stop_listening(&mut self) {
        self.stops_listening = true;
    }

    /// The peer of an open connection.
    pub fn peer(&self, conn: ConnId) -> Option<&Peer> {
        self.get(conn)?.peer.as_ref()
    }

    /// The open connection with this q handle.
    pub fn by_handle(&self, handle: i32) -> Option<ConnId> {
        let slot = ConnId::slot_of(handle)?;
        let connection = self.slots.get(slot as usize)?.connection.as_ref()?;
        connection.peer.as_ref()?;
        Some(ConnId { slot, generation: connection.generation })
    }

    /// Connections with a completed handshake.
    pub fn connections(&self) -> impl Iterator<Item = (ConnId, &Peer)> {
        self.slots.iter().zip(0u32..).filter_map(|(slot, number)| {
            let connection = slot.connection.as_ref()?;
            Some((ConnId { slot: number, generation: connection.generation }, connection.peer.as_ref()?))
        })
    }

    /// Exports connection gauges; limit utilisation goes to `used`.
    pub fn put_metrics(&self, snapshot: &mut Snapshot, used: &mut Vec<(Limit, u64)>) {
        let open = || self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        snapshot.set(Id::Connections, open().filter(|connection| connection.peer.is_some()).count());
        let with_tls = |connection: &&Connection| connection.peer.as_ref().is_some_and(|peer| peer.tls.is_some());
        snapshot.set(Id::ConnectionsTls, open().filter(with_tls).count());
        snapshot.set(Id::TlsCertificateSeconds, self.door.as_ref().map(|door| door.seconds_left()));
        snapshot.set(Id::AuditFailing, self.audit.trouble().is_some());
        used.extend(self.audit.waiting().map(|waiting| (Limit::audit_queue, waiting)));
        snapshot.set(Id::InboxBytes, self.inboxes_bytes);
        snapshot.set(Id::OutboxBytes, self.outboxes_bytes);
        used.extend(self.used());
    }

    /// Utilisation of the limits of connections; for a limit per connection, that of the fullest one.
    pub fn used(&self) -> Vec<(Limit, u64)> {
        let open = || self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        let fullest = |bytes: fn(&Connection) -> usize| open().map(bytes).max().unwrap_or(0) as u64;
        vec![
            (Limit::connections, self.open as u64),
            (Limit::http_connections, self.sessions.len() as u64),
            (Limit::inbox_bytes, fullest(|connection| connection.inbox_bytes)),
            (Limit::inboxes_bytes, self.inboxes_bytes as u64),
            (Limit::outbox_bytes, fullest(Connection::outbox_bytes)),
            (Limit::outboxes_bytes, self.outboxes_bytes as u64),
            (Limit::pending_bytes, self.limits.pending.used()),
            (Limit::user_outbox_bytes, self.users.fullest() as u64),
        ]
    }

    pub(super) fn get(&self, conn: ConnId) -> Option<&Connection> {
        let connection = self.slots.get(conn.slot as usize)?.connection.as_deref()?;
        (connection.generation == conn.generation).then_some(connection)
    }

    pub(super) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Connection> {
        let connection = self.slots.get_mut(conn.slot as usize)?.connection.as_deref_mut()?;
        (connection.generation == conn.generation).then_some(connection)
    }
}
