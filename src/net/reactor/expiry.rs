//! Closes connections whose token has expired.

use super::{Reactor, Service};
use crate::metrics::{self, Id};
use crate::net::{CloseReason, ConnId, Peer};

impl<S: Service> Reactor<S> {
    /// Notes when a connection that has just logged in is to be closed.
    pub(super) fn note_expiry(&mut self, conn: ConnId, peer: &Peer) {
        let Some(until) = peer.grants.identity.as_ref().and_then(|identity| identity.until) else { return };
        self.expiring.insert((until, conn));
        // Entries of closed connections stay until their time has come: short connections must not pile them up.
        if self.expiring.len() > self.control.limits.connections.saturating_mul(2) {
            let control = &self.control;
            self.expiring.retain(|(_, conn)| control.get(*conn).is_some());
        }
    }

    pub(super) fn drop_expired(&mut self) {
        while let Some((until, conn)) = self.expiring.first().copied() {
            if until > self.control.now {
                return;
            }
            self.expiring.pop_first();
            if self.control.get(conn).is_some() {
                metrics::count(Id::SessionsExpired);
                self.control.close_with(conn, CloseReason::Service("the token of the login has expired".into()));
            }
        }
    }
}
