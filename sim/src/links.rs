//! Connections as the tickerplant sees them: [`Links`] over a simulated network. Output of an event-loop iteration is kept until the
//! simulated environment takes it.

use super::mutants::links as mutants;
use bytes::Bytes;
use elastick::access::Grants;
use elastick::config::Limit;
use elastick::metrics::Snapshot;
use elastick::net::{ConnId, Links, Peer, Replies, SyncRequest};
use elastick::sys::clock::Clock;
use proto::{FrameReader, Limits};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The server's end of one connection.
pub struct ServerEnd {
    /// The connection's number in the simulated environment.
    pub line: u64,
    peer: Peer,
    pub frames: FrameReader,
    replies: Replies,
    /// Messages held back until a query has its response.
    held: Option<Vec<Bytes>>,
    /// Size of the send buffer: sent, and not drained by the peer yet.
    pub outbox_bytes: usize,
    pub notify_below: Option<usize>,
    pub paused: bool,
}

/// An action that an event-loop iteration requests.
#[derive(Debug)]
pub enum LinkAction {
    Send(ConnId, Bytes),
    Close(ConnId, String),
}

/// The tickerplant's connections.
pub struct TickLinks {
    clock: Arc<dyn Clock>,
    limits: Limits,
    /// Most bytes of a send buffer, as a mutant counts them.
    outbox_most_bytes: usize,
    /// Whether the tickerplant handles what other threads have read.
    pub from_log: bool,
    ends: BTreeMap<ConnId, ServerEnd>,
    slots: Vec<(u32, Option<ConnId>)>,
    pub request: Option<SyncRequest>,
    pub actions: Vec<LinkAction>,
    pub stopping: bool,
    /// Connections that may be read again.
    pub resumed: Vec<ConnId>,
}

impl TickLinks {
    pub fn new(clock: Arc<dyn Clock>, limits: Limits, outbox_most_bytes: usize) -> TickLinks {
        TickLinks {
            clock,
            limits,
            outbox_most_bytes,
            from_log: false,
            ends: BTreeMap::new(),
            slots: Vec::new(),
            request: None,
            actions: Vec::new(),
            stopping: false,
            resumed: Vec::new(),
        }
    }

    /// Adds a connection under the lowest free handle.
    pub fn open(&mut self, line: u64, peer: Peer) -> ConnId {
        let free = self.slots.iter().position(|(_, conn)| conn.is_none());
        let slot = free.unwrap_or(self.slots.len());
        if free.is_none() {
            self.slots.push((0, None));
        }
        let number = u32::try_from(slot).unwrap_or(u32::MAX);
        let generation = self.slots.get(slot).map_or(1, |(generation, _)| generation.wrapping_add(1));
        let conn = ConnId::new(number, generation);
        if let Some(place) = self.slots.get_mut(slot) {
            *place = (generation, Some(conn));
        }
        self.ends.insert(
            conn,
            ServerEnd {
                line,
                peer,
                frames: FrameReader::new(self.limits),
                replies: Replies::default(),
                held: None,
                outbox_bytes: 0,
                notify_below: None,
                paused: false,
            },
        );
        conn
    }

    pub fn remove(&mut self, conn: ConnId) -> Option<ServerEnd> {
        let end = self.ends.remove(&conn)?;
        for (_, held) in &mut self.slots {
            if *held == Some(conn) {
                *held = None;
            }
        }
        Some(end)
    }

    pub fn end_mut(&mut self, conn: ConnId) -> Option<&mut ServerEnd> {
        self.ends.get_mut(&conn)
    }

    pub fn end(&self, conn: ConnId) -> Option<&ServerEnd> {
        self.ends.get(&conn)
    }

    /// Returns the number of a request that has arrived.
    pub fn ask(&mut self, conn: ConnId) -> Option<SyncRequest> {
        let number = self.ends.get_mut(&conn)?.replies.ask();
        Some(SyncRequest::new(conn, number))
    }

    /// Returns connections whose send buffer has drained below the level for which a notice was requested.
    pub fn take_notices(&mut self) -> Vec<ConnId> {
        let mut notices = Vec::new();
        for (conn, end) in &mut self.ends {
            if end.notify_below.is_some_and(|below| end.outbox_bytes <= below) {
                end.notify_below = None;
                notices.push(*conn);
            }
        }
        notices
    }

    fn queue(&mut self, conn: ConnId, messages: Bytes) {
        if let Some(end) = self.ends.get_mut(&conn) {
            let free_bytes = self.outbox_most_bytes.saturating_sub(end.outbox_bytes);
            let messages = mutants::sent(messages, free_bytes, self.from_log);
            end.outbox_bytes = end.outbox_bytes.saturating_add(messages.len());
            self.actions.push(LinkAction::Send(conn, messages));
        }
    }
}

impl Links for TickLinks {
    fn peer(&self, conn: ConnId) -> Option<&Peer> {
        self.ends.get(&conn).map(|end| &end.peer)
    }

    fn by_handle(&self, handle: i32) -> Option<ConnId> {
        self.ends.keys().find(|conn| conn.handle() == handle).copied()
    }

    fn request(&self) -> Option<SyncRequest> {
        self.request
    }

    fn send(&mut self, conn: ConnId, messages: Bytes) {
        match self.ends.get_mut(&conn).and_then(|end| end.held.as_mut()) {
            Some(held) => held.push(messages),
            None => self.queue(conn, messages),
        }
    }

    fn reply(&mut self, request: SyncRequest, message: Bytes) {
        let Some(end) = self.ends.get_mut(&request.conn) else { return };
        let mut sent = Vec::new();
        end.replies.answer(request.number(), message, |answer| sent.push(answer));
        for answer in sent {
            self.queue(request.conn, answer);
        }
    }

    fn close(&mut self, conn: ConnId, reason: &str) {
        self.actions.push(LinkAction::Close(conn, reason.to_string()));
    }

    fn pause(&mut self, conn: ConnId) {
        if let Some(end) = self.ends.get_mut(&conn) {
            end.paused = true;
        }
    }

    fn resume(&mut self, conn: ConnId) {
        if let Some(end) = self.ends.get_mut(&conn) {
            end.paused = false;
            self.resumed.push(conn);
        }
    }

    fn send_first(&mut self, conn: ConnId, messages: Bytes) {
        self.queue(conn, messages);
    }

    fn hold(&mut self, conn: ConnId) {
        if let Some(end) = self.ends.get_mut(&conn) {
            end.held.get_or_insert_default();
        }
    }

    fn release(&mut self, conn: ConnId) {
        for messages in self.ends.get_mut(&conn).and_then(|end| end.held.take()).unwrap_or_default() {
            self.queue(conn, messages);
        }
    }

    fn outbox_bytes(&self, conn: ConnId) -> usize {
        self.ends.get(&conn).map_or(0, |end| mutants::seen_bytes(end.outbox_bytes))
    }

    fn outboxes_bytes(&self) -> usize {
        mutants::seen_bytes(self.ends.values().map(|end| end.outbox_bytes).sum())
    }

    fn notify_below(&mut self, conn: ConnId, bytes: usize) {
        if let Some(end) = self.ends.get_mut(&conn) {
            end.notify_below = Some(bytes);
        }
    }

    fn grant(&mut self, conn: ConnId, grants: Arc<Grants>) {
        if let Some(end) = self.ends.get_mut(&conn) {
            end.peer.grants = grants;
        }
    }

    fn set_keepalive(&mut self, _: ConnId, _: Duration) {}

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn put_metrics(&self, _: &mut Snapshot, _: &mut Vec<(Limit, u64)>) {}
}
