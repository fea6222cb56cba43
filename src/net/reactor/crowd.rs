//! Shares of the connections: what one address, one user or clients that never log in may hold, and what is kept for nodes and operators.

use super::{Reactor, Service};
use crate::access::member::CLUSTER_USER;
use crate::access::{Grants, Role};
use crate::config::Limit;
use crate::metrics;
use crate::net::{CloseReason, ConnId};
use std::collections::HashMap;
use std::net::IpAddr;

impl<S: Service> Reactor<S> {
    /// Whether a further connection from this address fits. Unix domain sockets count as one address.
    pub(super) fn has_room_for(&self, ip: IpAddr) -> Result<(), (Limit, usize)> {
        let limits = &self.control.limits;
        let (forwarded, from_there) = self.service.forwarded(ip);
        if self.control.open().saturating_add(forwarded) >= limits.connections {
            return Err((Limit::connections, limits.connections));
        }
        if self.control.open_from(ip).saturating_add(from_there) >= limits.address_connections {
            return Err((Limit::address_connections, limits.address_connections));
        }
        Ok(())
    }

    /// Keeps the connections that have not logged in within their limit. Of the address with the most of them the oldest goes: honest
    /// clients log in at once, and are not there any more.
    pub(super) fn bound_half_open(&mut self) {
        if self.pending.len() <= self.control.limits.half_open {
            return;
        }
        let control = &self.control;
        self.pending.retain(|(_, conn)| control.get(*conn).is_some_and(|connection| connection.is_half_open()));
        while self.pending.len() > self.control.limits.half_open {
            let address = |conn: ConnId| self.control.get(conn).map(|connection| connection.ip);
            let mut counts: HashMap<IpAddr, usize> = HashMap::new();
            for ip in self.pending.iter().filter_map(|(_, conn)| address(*conn)) {
                let count = counts.entry(ip).or_default();
                *count = count.saturating_add(1);
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(ip, _)| ip);
            let Some(at) = self.pending.iter().position(|(_, conn)| address(*conn) == most) else { return };
            let Some((_, conn)) = self.pending.remove(at) else { return };
            metrics::refused(Limit::half_open);
            self.control.close_with(conn, CloseReason::Handshake("too many connections have not logged in"));
        }
    }

    /// Counts what a connection that has logged in sends for its user as well. Nodes, and clients whose names nobody checks, are no one user.
    pub(super) fn share_outbox(&mut self, conn: ConnId) {
        let is_cluster = self.control.peer(conn).is_some_and(|peer| peer.user == CLUSTER_USER.as_bytes());
        if self.checks.is_checked() && !is_cluster {
            self.control.share_outbox(conn);
        }
    }

    /// Returns why a user whose password is right gets no further connection, and counts it.
    pub(super) fn refusal_of_user(&self, user: &[u8], grants: &Grants) -> Option<String> {
        let (limit, most) = self.admits_user(user, grants).err()?;
        metrics::refused(limit);
        Some(format!("no connection is left for this user: {most} (--{})", limit.spec().name))
    }

    /// Whether a user whose password is right may have a further connection: within the user's own share, and outside what is kept for
    /// nodes and operators.
    fn admits_user(&self, user: &[u8], grants: &Grants) -> Result<(), (Limit, usize)> {
        let limits = &self.control.limits;
        let is_needed = grants.has(Role::Node) || grants.has(Role::Operator) || user == CLUSTER_USER.as_bytes();
        // At least three quarters are for all.
        let reserved = limits.reserved_connections.min(limits.connections / 4);
        let for_all = limits.connections.saturating_sub(reserved);
        if !is_needed && self.control.open() > for_all {
            return Err((Limit::reserved_connections, limits.reserved_connections));
        }
        let most =
            grants.quota.connections.map_or(limits.user_connections, |own| usize::try_from(own).unwrap_or(usize::MAX));
        let own = || self.control.connections().filter(|(_, peer)| peer.user == user).count();
        // All nodes without a user of their own are this one; those that have not proved themselves count as half open.
        let is_one_user = self.checks.is_checked() && user != CLUSTER_USER.as_bytes();
        if is_one_user && own() >= most {
            return Err((Limit::user_connections, most));
        }
        Ok(())
    }
}
