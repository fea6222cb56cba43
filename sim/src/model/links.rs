//! The model tickerplant's connections. Output is kept until the step ends.

use crate::clock::VirtualClock;
use bytes::Bytes;
use elastick::access::Grants;
use elastick::config::Limit;
use elastick::metrics::Snapshot;
use elastick::net::{ConnId, Links, Peer, SyncRequest};
use elastick::sys::clock::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An action that the tickerplant requests.
#[derive(Debug)]
pub enum LinkAction {
    Send(ConnId, Bytes),
    Close(ConnId),
}

/// The tickerplant's connections.
pub struct ModelLinks {
    clock: Arc<VirtualClock>,
    open: BTreeMap<ConnId, Peer>,
    request: Option<SyncRequest>,
    pub actions: Vec<LinkAction>,
    pub notices: Vec<ConnId>,
}

/// Returns the id of a place in the tickerplant's connection table; each place has one connection at a time.
pub const fn conn(place: u8) -> ConnId {
    ConnId::new(place as u32, 1)
}

pub fn place(conn: ConnId) -> u8 {
    u8::try_from(conn.number() & 0xff).unwrap_or(u8::MAX)
}

impl ModelLinks {
    pub fn new(clock: &Arc<VirtualClock>) -> ModelLinks {
        ModelLinks {
            clock: Arc::clone(clock),
            open: BTreeMap::new(),
            request: None,
            actions: Vec::new(),
            notices: Vec::new(),
        }
    }

    pub fn open(&mut self, conn: ConnId) {
        let grants = Arc::new(Grants::everything());
        let peer = Peer {
            user: Vec::new(),
            ip: std::net::Ipv4Addr::LOCALHOST.into(),
            capability: 3,
            explains: false,
            local: true,
            tls: None,
            gone: elastick::sys::interrupt::Cancel::default(),
            grants,
        };
        self.open.insert(conn, peer);
    }

    /// Returns the places in use.
    pub fn places(&self) -> impl Iterator<Item = u8> {
        self.open.keys().copied().map(place)
    }

    /// Removes a connection. Returns false if it was closed already.
    pub fn remove(&mut self, conn: ConnId) -> bool {
        self.open.remove(&conn).is_some()
    }

    /// Sets whether the next message expects a response.
    pub fn asks(&mut self, conn: Option<ConnId>) {
        self.request = conn.map(|conn| SyncRequest::new(conn, 0));
    }
}

impl Links for ModelLinks {
    fn peer(&self, conn: ConnId) -> Option<&Peer> {
        self.open.get(&conn)
    }

    fn by_handle(&self, handle: i32) -> Option<ConnId> {
        self.open.keys().find(|conn| conn.handle() == handle).copied()
    }

    fn request(&self) -> Option<SyncRequest> {
        self.request
    }

    fn send(&mut self, conn: ConnId, messages: Bytes) {
        if self.open.contains_key(&conn) {
            self.actions.push(LinkAction::Send(conn, messages));
        }
    }

    fn reply(&mut self, request: SyncRequest, message: Bytes) {
        self.send(request.conn, message);
    }

    fn close(&mut self, conn: ConnId, _: &str) {
        self.actions.push(LinkAction::Close(conn));
    }

    fn pause(&mut self, _: ConnId) {}

    fn resume(&mut self, _: ConnId) {}

    fn send_first(&mut self, conn: ConnId, messages: Bytes) {
        self.send(conn, messages);
    }

    fn hold(&mut self, _: ConnId) {}

    fn release(&mut self, _: ConnId) {}

    fn outbox_bytes(&self, _: ConnId) -> usize {
        0
    }

    fn outboxes_bytes(&self) -> usize {
        0
    }

    fn notify_below(&mut self, conn: ConnId, _: usize) {
        self.notices.push(conn);
    }

    fn grant(&mut self, conn: ConnId, grants: Arc<Grants>) {
        if let Some(peer) = self.open.get_mut(&conn) {
            peer.grants = grants;
        }
    }

    fn set_keepalive(&mut self, _: ConnId, _: Duration) {}

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn stop(&mut self) {}

    fn put_metrics(&self, _: &mut Snapshot, _: &mut Vec<(Limit, u64)>) {}
}
