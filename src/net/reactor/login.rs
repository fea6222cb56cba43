//! The event loop's part of the handshake: reads it and decides on admission.

use super::{Login, Reactor, Service};
use crate::access::Grants;
use crate::config::Limit;
use crate::metrics::{self, Id};
use crate::net::connection::PendingLogin;
use crate::net::{CloseReason, ConnId, Peer};
use proto::handshake::{self, Credentials};
use std::sync::Arc;

impl<S: Service> Reactor<S> {
    /// Reads available bytes of a handshake. Returns the bytes read.
    pub(super) fn read_login(&mut self, conn: ConnId) -> usize {
        let limit = self.control.limits.handshake_bytes;
        if self.control.get(conn).is_none_or(|connection| connection.pending_login.is_some()) {
            // Read again after the decision.
            return 0;
        }
        let mut buffer = [0u8; 4096];
        let Some(read) = self.read_once(conn, &mut buffer) else { return 0 };
        let Some(connection) = self.control.get_mut(conn) else { return read };
        connection.login.extend_from_slice(buffer.get(..read).unwrap_or_default());
        match handshake::parse(&connection.login) {
            Ok(None) if connection.login.len() > limit => {
                self.refuse_long_login(conn);
            }
            Ok(None) => {}
            Ok(Some((_, used))) if used > limit => {
                self.refuse_long_login(conn);
            }
            Ok(Some((credentials, used))) => {
                let login = std::mem::take(&mut connection.login);
                let Some(grants) = self.access.admits(&credentials.user, &credentials.password) else {
                    tracing::warn!(ip = %connection.ip, login = ?credentials, "login rejected: wrong user or password");
                    metrics::count(Id::LoginsRefused);
                    self.control.close_with(conn, CloseReason::Handshake("wrong user or password"));
                    return read;
                };
                let rest = login.get(used..).unwrap_or_default().to_vec();
                match self.service.login(conn, &credentials.user, &credentials.password, &mut self.control) {
                    Login::Admitted => self.admit(conn, credentials, grants, &rest),
                    Login::Later => {
                        if let Some(connection) = self.control.get_mut(conn) {
                            connection.pending_login = Some(Box::new(PendingLogin { credentials, rest, grants }));
                        }
                    }
                }
            }
            Err(handshake::HandshakeError::Http) => self.begin_http(conn),
            Err(error) => {
                tracing::info!(ip = %connection.ip, %error, "connection rejected");
                self.control.close_with(conn, CloseReason::Handshake("no handshake received"));
            }
        }
        read
    }

    fn refuse_long_login(&mut self, conn: ConnId) {
        metrics::refused(Limit::handshake_bytes);
        let most = self.control.limits.handshake_bytes;
        let why = format!("a handshake of more than {most} bytes (--limit-handshake)");
        self.control.close_with(conn, CloseReason::Limit(why));
    }

    /// Completes the handshake.
    fn admit(&mut self, conn: ConnId, credentials: Credentials, grants: Arc<Grants>, rest: &[u8]) {
        let capability = handshake::answer(credentials.capability);
        let Some(connection) = self.control.get_mut(conn) else { return };
        let peer = Peer { user: credentials.user, ip: connection.ip, capability, local: connection.local, grants };
        connection.admitted(conn.handle(), peer.clone());
        connection.frames.extend(rest);
        self.control.send(conn, bytes::Bytes::copy_from_slice(&[capability]));
        self.service.opened(conn, &peer, &mut self.control);
        // Messages may have arrived with the handshake.
        self.control.queue_read(conn);
    }

    /// Continues the logins that another thread has decided.
    pub(super) fn finish_logins(&mut self) {
        for (conn, admitted) in std::mem::take(&mut self.control.admitted) {
            let Some(connection) = self.control.get_mut(conn) else { continue };
            let ip = connection.ip;
            match connection.pending_login.take() {
                None => self.page_admitted(conn, admitted),
                Some(login) if admitted => self.admit(conn, login.credentials, login.grants, &login.rest),
                Some(login) => {
                    tracing::warn!(%ip, login = ?login.credentials, "login rejected by .z.pw");
                    metrics::count(Id::LoginsRefused);
                    self.control.close_with(conn, CloseReason::Handshake("wrong user or password"));
                }
            }
        }
    }
}
