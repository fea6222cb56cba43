//! The event loop's part of forwarding: connections that go to another process once their login or TLS has begun.

use super::{Reactor, Service};
use crate::net::connection::{Connection, Diversion};
use crate::net::forward::{Diverted, MARKS, OF_REMOTE};
use crate::net::listener::Kept;
use crate::net::{CloseReason, ConnId};

impl<S: Service> Reactor<S> {
    /// Removes the mark of a forwarded connection from its first bytes. Returns `None` if there is nothing behind it yet, or the client may not
    /// connect.
    pub(super) fn unmarked(&mut self, conn: ConnId, bytes: &[u8]) -> Option<Vec<u8>> {
        let connection = self.control.get_mut(conn)?;
        let begins_mark = |bytes: &[u8]| MARKS.iter().any(|mark| mark.starts_with(bytes));
        let is_first = connection.login.is_empty() || begins_mark(&connection.login);
        if connection.diversion != Diversion::Open || connection.stream.tls.is_some() || !is_first {
            return Some(bytes.to_vec());
        }
        let mut all = std::mem::take(&mut connection.login);
        all.extend_from_slice(bytes);
        if let Some((mark, rest)) = MARKS.iter().find_map(|mark| Some((*mark, all.strip_prefix(*mark)?))) {
            connection.diversion = Diversion::Stays;
            connection.local &= mark != OF_REMOTE;
            if !connection.local && self.listeners.are_for_this_machine() {
                let why = "forwarded from another machine, but this port is for this machine only";
                self.control.close_with(conn, CloseReason::Handshake(why));
                return None;
            }
            return Some(rest.to_vec()).filter(|rest| !rest.is_empty());
        }
        if begins_mark(&all) {
            connection.login = all;
            return None;
        }
        Some(all)
    }

    /// Lets the service forward a connection, of which `bytes` have arrived. Returns whether it tries.
    pub(super) fn diverts(&mut self, conn: ConnId, bytes: &[u8]) -> bool {
        if self.control.get(conn).is_none_or(|connection| connection.diversion != Diversion::Open) {
            return false;
        }
        if !self.service.diverts(conn) {
            return false;
        }
        let Some(connection) = self.control.get_mut(conn) else { return false };
        connection.diversion = Diversion::Asked;
        connection.login = bytes.to_vec();
        true
    }

    /// Hands over the connections for which the other process was reached, and serves the others.
    pub(super) fn finish_diversions(&mut self) {
        for (conn, is_reached) in std::mem::take(&mut self.control.diverted) {
            if is_reached {
                let is_open = self.control.get(conn).is_some_and(|connection| connection.closing.is_none());
                let connection = if is_open { self.control.remove(conn) } else { None };
                let diverted = connection.map(|connection| Diverted {
                    stream: connection.stream,
                    bytes: connection.login,
                    ip: connection.ip,
                    local: connection.local,
                });
                self.service.take(conn, diverted);
                continue;
            }
            let Some(connection) = self.control.get_mut(conn).filter(|connection| connection.closing.is_none()) else {
                continue;
            };
            connection.diversion = Diversion::Stays;
            let bytes = std::mem::take(&mut connection.login);
            self.login_received(conn, &bytes);
            // More may have arrived while it was not read.
            self.control.queue_read(conn);
        }
    }

    /// Keeps the connections that wait to be forwarded for the service that follows this one.
    pub(super) fn keep_diversions(&mut self) {
        for (_, conn) in std::mem::take(&mut self.pending) {
            if self.control.get(conn).is_none_or(|connection| connection.diversion != Diversion::Asked) {
                continue;
            }
            if let Some(connection) = self.control.remove(conn).filter(|connection| connection.closing.is_none()) {
                let Connection { stream, login, ip, local, .. } = *connection;
                self.listeners.keep(Kept { stream, bytes: login, ip, local });
            }
        }
    }

    /// Takes over the connections that the service before this one has kept.
    pub(super) fn adopt_kept(&mut self) {
        for Kept { stream, bytes, ip, local } in self.listeners.kept() {
            if let Some(conn) = self.admit_socket(stream, ip, local) {
                self.login_received(conn, &bytes);
            }
        }
    }
}
