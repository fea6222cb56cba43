//! One connection: its socket, what has been read and not handled, what waits to be written.

use super::http::Session;
use super::outbox::{CROWDED_BYTES, Outbox};
use super::peer::{CloseReason, Peer};
use super::reactor::NetLimits;
use super::replies::Replies;
use super::stream::Stream;
use super::websocket;
use proto::{FrameReader, handshake};
use std::net::IpAddr;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) generation: u32,
    pub(super) ip: IpAddr,
    pub(super) local: bool,
    /// Set when the handshake is done.
    pub(super) peer: Option<Peer>,
    /// When the handshake must be done.
    pub(super) handshake_by: Instant,
    /// What has been read of the handshake, or of an HTTP request.
    pub(super) login: Vec<u8>,
    /// It speaks HTTP.
    pub(super) http: Option<Session>,
    /// It speaks WebSocket.
    pub(super) web: Option<websocket::Reader>,
    /// A login that another thread decides on: what was given, and bytes that came behind it.
    pub(super) login_asked: Option<Box<(handshake::Credentials, Vec<u8>)>>,
    /// Read and not handled yet: the start of a message, or messages that wait until the connection may go on.
    pub(super) frames: FrameReader,
    /// Its share in the account of all inboxes, in bytes.
    pub(super) inbox_bytes: usize,
    pub(super) outbox: Outbox,
    pub(super) replies: Replies,
    /// Stands in the list of connections to read.
    pub(super) queued: bool,
    /// Stands in the list of connections to write.
    pub(super) dirty: bool,
    /// The socket took less than offered; it will say when there is room.
    pub(super) blocked: bool,
    /// The system reported the end of the stream: read on until it is reached.
    pub(super) ending: bool,
    /// The service wants no messages for now.
    pub(super) paused: bool,
    /// Stopped before its input was used up; goes on when it may.
    pub(super) stalled: bool,
    /// Why it is to be closed at the end of the turn.
    pub(super) closing: Option<CloseReason>,
    /// Tell the service when no more than so many bytes wait.
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
            handshake_by,
            login: Vec::new(),
            http: None,
            web: None,
            login_asked: None,
            frames: FrameReader::new(limits.codec()),
            inbox_bytes: 0,
            outbox: Outbox::default(),
            replies: Replies::default(),
            queued: false,
            dirty: false,
            blocked: false,
            ending: false,
            paused: false,
            stalled: false,
            closing: None,
            notify_below: None,
        }
    }

    /// Whether its next message may be handled. A peer that asks without reading the answers has to wait, the sooner where
    /// outboxes are crowded.
    pub(super) fn may_go_on(&self, limits: &NetLimits, crowded: bool) -> bool {
        let most = limits.outbox_bytes.saturating_mul(2);
        let most = if crowded { most.min(CROWDED_BYTES) } else { most };
        self.closing.is_none()
            && !self.paused
            && self.replies.open() < limits.open_requests
            && self.outbox.bytes() < most
    }
}
