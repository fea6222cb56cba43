//! A service's interface to connections, as a trait: implemented by the event loop's [`Control`] and by the simulated network.

use super::control::{Control, SyncRequest};
use super::peer::{ConnId, Peer};
use crate::access::Grants;
use crate::config::Limit;
use crate::metrics::Snapshot;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The connections as a service sees them. [`Control`] documents each call.
pub trait Links {
    fn peer(&self, conn: ConnId) -> Option<&Peer>;
    fn by_handle(&self, handle: i32) -> Option<ConnId>;
    fn request(&self) -> Option<SyncRequest>;
    fn send(&mut self, conn: ConnId, messages: Bytes);
    fn reply(&mut self, request: SyncRequest, message: Bytes);
    fn close(&mut self, conn: ConnId, reason: &str);
    fn pause(&mut self, conn: ConnId);
    fn resume(&mut self, conn: ConnId);
    fn send_first(&mut self, conn: ConnId, messages: Bytes);
    fn hold(&mut self, conn: ConnId);
    fn release(&mut self, conn: ConnId);
    fn outbox_bytes(&self, conn: ConnId) -> usize;
    fn outboxes_bytes(&self) -> usize;
    /// Whether the send buffers of a connection's user together exceed their limit.
    fn is_user_full(&self, _conn: ConnId) -> bool {
        false
    }
    fn notify_below(&mut self, conn: ConnId, bytes: usize);
    /// Replaces what a connection may do.
    fn grant(&mut self, conn: ConnId, grants: Arc<Grants>);
    fn set_keepalive(&mut self, conn: ConnId, most: Duration);
    /// Start of the current event-loop iteration.
    fn now(&self) -> Instant;
    /// Ends the process after this iteration.
    fn stop(&mut self);
    fn put_metrics(&self, snapshot: &mut Snapshot, used: &mut Vec<(Limit, u64)>);
    /// Connections with a completed handshake.
    fn connections(&self) -> Vec<ConnId> {
        Vec::new()
    }
    /// Utilisation of the limits of connections.
    fn used(&self) -> Vec<(Limit, u64)> {
        Vec::new()
    }
}

impl Links for Control {
    fn peer(&self, conn: ConnId) -> Option<&Peer> {
        Control::peer(self, conn)
    }

    fn by_handle(&self, handle: i32) -> Option<ConnId> {
        Control::by_handle(self, handle)
    }

    fn request(&self) -> Option<SyncRequest> {
        Control::request(self)
    }

    fn send(&mut self, conn: ConnId, messages: Bytes) {
        Control::send(self, conn, messages);
    }

    fn reply(&mut self, request: SyncRequest, message: Bytes) {
        Control::reply(self, request, message);
    }

    fn close(&mut self, conn: ConnId, reason: &str) {
        Control::close(self, conn, reason);
    }

    fn pause(&mut self, conn: ConnId) {
        Control::pause(self, conn);
    }

    fn resume(&mut self, conn: ConnId) {
        Control::resume(self, conn);
    }

    fn send_first(&mut self, conn: ConnId, messages: Bytes) {
        Control::send_first(self, conn, messages);
    }

    fn hold(&mut self, conn: ConnId) {
        Control::hold(self, conn);
    }

    fn release(&mut self, conn: ConnId) {
        Control::release(self, conn);
    }

    fn outbox_bytes(&self, conn: ConnId) -> usize {
        Control::outbox_bytes(self, conn)
    }

    fn is_user_full(&self, conn: ConnId) -> bool {
        Control::is_user_full(self, conn)
    }

    fn outboxes_bytes(&self) -> usize {
        Control::outboxes_bytes(self)
    }

    fn notify_below(&mut self, conn: ConnId, bytes: usize) {
        Control::notify_below(self, conn, bytes);
    }

    fn grant(&mut self, conn: ConnId, grants: Arc<Grants>) {
        Control::grant(self, conn, grants);
    }

    fn set_keepalive(&mut self, conn: ConnId, most: Duration) {
        Control::set_keepalive(self, conn, most);
    }

    fn now(&self) -> Instant {
        Control::now(self)
    }

    fn stop(&mut self) {
        Control::stop(self);
    }

    fn put_metrics(&self, snapshot: &mut Snapshot, used: &mut Vec<(Limit, u64)>) {
        Control::put_metrics(self, snapshot, used);
    }

    fn used(&self) -> Vec<(Limit, u64)> {
        Control::used(self)
    }

    fn connections(&self) -> Vec<ConnId> {
        Control::connections(self).map(|(conn, _)| conn).collect()
    }
}
