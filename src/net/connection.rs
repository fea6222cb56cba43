//! One connection: its socket, its unprocessed input, and its send buffer.

use super::control::SyncRequest;
use super::http::Session;
use super::peer::{CloseReason, Peer};
use super::reactor::NetLimits;
use super::replies::Replies;
use super::send_buffer::{CROWDED_BYTES, SendBuffer};
use super::stream::Stream;
use super::tls::Secured;
use super::user_outbox::UserOutbox;
use super::websocket;
use crate::access::Grants;
use crate::access::member::CLUSTER_USER;
use crate::sys::interrupt::Cancel;
use proto::{FrameReader, handshake};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tracing::Span;

/// A login on which another thread decides: first on its password, if its hash is slow, then the owner's `.z.pw`.
#[derive(Debug)]
pub(super) struct PendingLogin {
    pub(super) credentials: handshake::Credentials,
    /// Bytes received after the handshake.
    pub(super) rest: Vec<u8>,
    /// What the user may do, once the password is known to be right.
    pub(super) grants: Option<Arc<Grants>>,
}

/// Whether a connection may go to another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Diversion {
    /// Its first bytes decide.
    #[default]
    Open,
    /// The service tries to reach the other process; the connection is not read meanwhile.
    Asked,
    /// It stays: the other process cannot be reached, or the connection was forwarded already.
    Stays,
}

/// State of an open connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) generation: u32,
    pub(super) ip: IpAddr,
    pub(super) local: bool,
    /// Set once the handshake is complete.
    pub(super) peer: Option<Peer>,
    /// Span of the connection's log events, set with `peer`; disabled if such spans are not logged.
    pub(super) span: Span,
    /// Deadline of the handshake.
    pub(super) handshake_by: Instant,
    /// Bytes received of the handshake, or of an HTTP request.
    pub(super) login: Vec<u8>,
    /// Present on an HTTP connection.
    pub(super) http: Option<Session>,
    /// Present on a WebSocket connection.
    pub(super) web: Option<websocket::Reader>,
    pub(super) diversion: Diversion,
    /// A login that another thread decides on.
    pub(super) pending_login: Option<Box<PendingLogin>>,
    /// Received and not yet handled: an incomplete message, or messages held back while the connection may not continue.
    pub(super) frames: FrameReader,
    /// Share of this connection in the total of all receive buffers.
    pub(super) inbox_bytes: usize,
    pub(super) send_buffer: SendBuffer,
    /// Messages that leave after the response of a query in evaluation; `None` while nothing is held back.
    pub(super) held: Option<SendBuffer>,
    /// Share of this connection in the total of all send buffers.
    pub(super) counted_bytes: usize,
    /// The sum of its user, once it has logged in.
    pub(super) user_outbox: Option<Arc<UserOutbox>>,
    /// When bytes were last received or sent.
    pub(super) active_at: Instant,
    pub(super) replies: Replies,
    /// The connection is in the list of connections to read.
    pub(super) queued: bool,
    /// The connection is in the list of connections to write.
    pub(super) dirty: bool,
    /// The last write was short; the socket reports when it has room.
    pub(super) blocked: bool,
    /// The system reported the end of the stream: read until it is reached.
    pub(super) ending: bool,
    /// Set when it closes, or earlier if its peer has ended the stream while a message is in evaluation.
    pub(super) gone: Cancel,
    /// The service has paused this connection's messages.
    pub(super) paused: bool,
    /// A thread decompresses its message, whose request, if it is sync, is held here.
    pub(super) expanding: Option<Option<SyncRequest>>,
    /// Stopped with unprocessed input; continues when it may.
    pub(super) stalled: bool,
    /// Reason for closing it at the end of the event-loop iteration.
    pub(super) closing: Option<CloseReason>,
    /// Notify the service once the send buffer holds no more than this.
    pub(super) notify_below: Option<usize>,
}

impl Connection {
    pub(super) fn new(
        stream: Stream,
        generation: u32,
        ip: IpAddr,
        local: bool,
        now: Instant,
        limits: &NetLimits,
    ) -> Connection {
        let handshake_by = now.checked_add(limits.handshake_time).unwrap_or(now);
        Connection {
            stream,
            generation,
            ip,
            local,
            peer: None,
            span: Span::none(),
            handshake_by,
            login: Vec::new(),
            http: None,
            web: None,
            diversion: Diversion::Open,
            pending_login: None,
            frames: FrameReader::new(limits.codec()),
            inbox_bytes: 0,
            send_buffer: SendBuffer::default(),
            held: None,
            counted_bytes: 0,
            user_outbox: None,
            active_at: now,
            replies: Replies::default(),
            queued: false,
            dirty: false,
            blocked: false,
            ending: false,
            gone: Cancel::default(),
            paused: false,
            expanding: None,
            stalled: false,
            closing: None,
            notify_below: None,
        }
    }

    /// Whether it has neither logged in nor begun HTTP. A node that has not proved itself yet has logged in as nobody.
    pub(super) fn is_half_open(&self) -> bool {
        let is_nobody = |peer: &Peer| peer.user == CLUSTER_USER.as_bytes() && *peer.grants == Grants::default();
        self.peer.as_ref().is_none_or(is_nobody) && self.http.is_none() && self.closing.is_none()
    }

    /// Records the peer after the handshake.
    pub(super) fn admitted(&mut self, handle: i32, peer: Peer) {
        self.span = tracing::debug_span!("connection", handle, %peer);
        self.peer = Some(peer);
    }

    /// Sets its share in the totals of send buffers. Returns the former one.
    pub(super) fn recount(&mut self, bytes: usize) -> usize {
        let before = std::mem::replace(&mut self.counted_bytes, bytes);
        if let Some(user) = &self.user_outbox {
            user.recount(before, bytes);
        }
        before
    }

    /// Whether it waits for a response, an evaluation or a page, or has something to read.
    pub(super) fn is_in_use(&self) -> bool {
        self.paused
            || self.expanding.is_some()
            || self.replies.open() > 0
            || self.outbox_bytes() > 0
            || self.http.is_some()
    }

    /// Bytes to send, including those held back.
    pub(super) fn outbox_bytes(&self) -> usize {
        self.unsent_bytes().saturating_add(self.held.as_ref().map_or(0, SendBuffer::bytes))
    }

    /// Protocol, cipher and certificate of an established TLS connection.
    pub(super) fn secured(&self) -> Option<Arc<Secured>> {
        self.stream.tls.as_ref()?.secured().cloned()
    }

    /// Whether it is in a TLS handshake.
    pub(super) fn is_securing(&self) -> bool {
        self.stream.tls.as_ref().is_some_and(|tls| tls.secured().is_none())
    }

    /// Bytes not yet taken by the socket.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.send_buffer.bytes().saturating_add(self.stream.unsent_bytes())
    }

    /// Whether its next message may be handled. A peer that sends requests without reading the responses has to wait, earlier if the send
    /// buffers together are over their limit.
    pub(super) fn may_go_on(&self, limits: &NetLimits, crowded: bool) -> bool {
        let most = limits.outbox_bytes.saturating_mul(2);
        let most = if crowded { most.min(CROWDED_BYTES) } else { most };
        self.closing.is_none()
            && !self.paused
            && self.expanding.is_none()
            && self.replies.open() < limits.open_requests
            && self.unsent_bytes() < most
    }
}
