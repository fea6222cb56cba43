//! The event loop's part of the handshake: reads it and decides on admission.

use super::checks::{Attempt, Checked};
use super::{Login, Reactor, Service};
use crate::access::Grants;
use crate::config::Limit;
use crate::metrics::{self, Id};
use crate::net::connection::{Connection, Diversion, PendingLogin};
use crate::net::peer::z_a;
use crate::net::{CloseReason, ConnId, Control, Peer};
use proto::handshake::{self, Credentials};
use std::sync::Arc;

impl Control {
    /// `.z.a` of a connection, also before its login.
    pub fn address(&self, conn: ConnId) -> i32 {
        self.get(conn).map_or(0, |connection| z_a(connection.ip))
    }
}

impl<S: Service> Reactor<S> {
    /// Reads available bytes of a handshake. Returns the bytes read.
    pub(super) fn read_login(&mut self, conn: ConnId) -> usize {
        if self.control.get(conn).is_some_and(Connection::is_securing) {
            return self.read_handshake(conn);
        }
        let is_asked = |of: &Connection| of.pending_login.is_some() || of.diversion == Diversion::Asked;
        if self.control.get(conn).is_none_or(is_asked) {
            // Read again after the decision.
            return 0;
        }
        let mut buffer = [0u8; 4096];
        let Some(read) = self.read_once(conn, &mut buffer) else { return 0 };
        if let Some(bytes) = self.unmarked(conn, buffer.get(..read).unwrap_or_default()) {
            self.login_received(conn, &bytes);
        }
        read
    }

    /// Handles bytes of a handshake.
    pub(super) fn login_received(&mut self, conn: ConnId, bytes: &[u8]) {
        let limit = self.control.limits.handshake_bytes;
        if !self.takes(conn, bytes) {
            return;
        }
        let Some(connection) = self.control.get_mut(conn) else { return };
        let mut login = std::mem::take(&mut connection.login);
        login.extend_from_slice(bytes);
        let parsed = handshake::parse(&login);
        if matches!(&parsed, Ok(Some((_, used))) if *used <= limit) && self.diverts(conn, &login) {
            return;
        }
        let Some(connection) = self.control.get_mut(conn) else { return };
        connection.login = login;
        match parsed {
            Ok(None) if connection.login.len() > limit => {
                self.refuse_long_login(conn);
            }
            Ok(None) => {}
            Ok(Some((_, used))) if used > limit => {
                self.refuse_long_login(conn);
            }
            Ok(Some((mut credentials, used))) => {
                let login = std::mem::take(&mut connection.login);
                let rest = login.get(used..).unwrap_or_default().to_vec();
                let secured = connection.secured().filter(|_| credentials.password.is_empty());
                let certificate = secured.as_ref().and_then(|secured| secured.certificate.as_ref());
                let certified = certificate.and_then(|of| self.checks.certified(of, &credentials.user));
                if let Some((user, grants)) = certified {
                    credentials.user = user;
                    return self.ask_service(conn, credentials, rest, grants);
                }
                let attempt = Attempt { conn, ip: connection.ip, user: credentials.user.clone() };
                match self.checks.check(&attempt, &credentials.password, self.control.now) {
                    Checked::Admitted(grants) => self.ask_service(conn, credentials, rest, grants),
                    Checked::Refused(reason) => self.refuse_login(conn, &credentials, reason),
                    Checked::Later => self.keep_login(conn, PendingLogin { credentials, rest, grants: None }),
                }
            }
            Err(handshake::HandshakeError::Http) => self.begin_http(conn),
            Err(error) => {
                tracing::info!(ip = %connection.ip, %error, "connection rejected");
                self.control.close_with(conn, CloseReason::Handshake("no handshake received"));
            }
        }
    }

    fn refuse_login(&mut self, conn: ConnId, credentials: &Credentials, reason: &'static str) {
        let ip = self.control.get(conn).map(|connection| connection.ip.to_string()).unwrap_or_default();
        tracing::warn!(%ip, user = %credentials.user.escape_ascii(), "login rejected: {reason}");
        metrics::count(Id::LoginsRefused);
        self.audit_refused(conn, &credentials.user, reason);
        self.control.close_with(conn, CloseReason::Handshake(reason));
    }

    fn keep_login(&mut self, conn: ConnId, login: PendingLogin) {
        if let Some(connection) = self.control.get_mut(conn) {
            connection.pending_login = Some(Box::new(login));
        }
    }

    /// Lets the service decide on a user whose password is right.
    fn ask_service(&mut self, conn: ConnId, mut credentials: Credentials, rest: Vec<u8>, grants: Arc<Grants>) {
        if let Some(identity) = &grants.identity {
            credentials.user.clone_from(&identity.user);
        }
        if let Some(why) = self.refusal_of_user(&credentials.user, &grants) {
            self.audit_refused(conn, &credentials.user, &why);
            return self.control.close_with(conn, CloseReason::Limit(why));
        }
        match self.service.login(conn, &credentials.user, &credentials.password, &mut self.control) {
            Login::Admitted => self.admit(conn, credentials, grants, &rest),
            Login::Later => self.keep_login(conn, PendingLogin { credentials, rest, grants: Some(grants) }),
        }
    }

    /// After a change of the users file: closes the connections of users who were removed or have other roles now. They log in again, so that
    /// no subscription outlives the role that allowed it.
    pub(super) fn adopt_users(&mut self) {
        if !self.checks.reload() {
            return;
        }
        let has_changed = |peer: &Peer| {
            let now = self.checks.current(peer).map(|now| {
                let mut now = Grants::clone(&now);
                if peer.grants.proved {
                    now.prove();
                }
                now
            });
            now.as_ref() != Some(&*peer.grants)
        };
        self.audit_reload();
        let changed: Vec<ConnId> =
            self.control.connections().filter(|(_, peer)| has_changed(peer)).map(|(conn, _)| conn).collect();
        for conn in changed {
            self.control.close_with(conn, CloseReason::Handshake("the users file has changed"));
        }
    }

    /// Continues the logins whose passwords another thread has checked.
    pub(super) fn finish_checks(&mut self) {
        while let Some((conn, checked)) = self.checks.next(self.control.now) {
            let Some(connection) = self.control.get_mut(conn) else { continue };
            match (connection.pending_login.take(), checked) {
                (None, checked) => self.page_checked(conn, checked),
                (Some(login), Checked::Admitted(grants)) => {
                    self.ask_service(conn, login.credentials, login.rest, grants);
                }
                (Some(login), Checked::Refused(reason)) => self.refuse_login(conn, &login.credentials, reason),
                (Some(login), Checked::Later) => connection.pending_login = Some(login),
            }
        }
    }

    fn refuse_long_login(&mut self, conn: ConnId) {
        metrics::refused(Limit::handshake_bytes);
        let most = self.control.limits.handshake_bytes;
        let why = format!("a handshake of more than {most} bytes (--limit-handshake)");
        self.control.close_with(conn, CloseReason::Limit(why));
    }

    /// Completes the handshake, if it can be recorded.
    fn admit(&mut self, conn: ConnId, credentials: Credentials, grants: Arc<Grants>, rest: &[u8]) {
        if let Err(error) = self.control.audit.admits() {
            tracing::warn!(user = %credentials.user.escape_ascii(), "login rejected: {error}");
            metrics::count(Id::LoginsRefused);
            self.audit_refused(conn, &credentials.user, &error.to_string());
            return self.control.close_with(conn, CloseReason::Handshake("the audit log cannot be written"));
        }
        let capability = handshake::answer(credentials.capability);
        let Some(connection) = self.control.get_mut(conn) else { return };
        let tls = connection.secured();
        let (ip, local, gone) = (connection.ip, connection.local, connection.gone.clone());
        let (user, explains) = (credentials.user.clone(), credentials.explains);
        let mut peer = Peer { user, ip, capability, explains, local, tls, grants, gone };
        // The users file may have changed since the password was checked.
        let Some(grants) = self.checks.current(&peer) else {
            return self.refuse_login(conn, &credentials, "the users file has changed");
        };
        peer.grants = grants;
        let Some(connection) = self.control.get_mut(conn) else { return };
        connection.admitted(conn.handle(), peer.clone());
        connection.frames.extend(rest);
        self.share_outbox(conn);
        self.control.send(conn, bytes::Bytes::copy_from_slice(&[capability]));
        self.audit_login(conn, &peer);
        self.note_expiry(conn, &peer);
        self.service.opened(conn, &peer, &mut self.control);
        // Messages may have arrived with the handshake.
        self.control.queue_read(conn);
    }

    /// Continues the logins that another thread has decided.
    pub(super) fn finish_logins(&mut self) {
        for (conn, admitted) in std::mem::take(&mut self.control.admitted) {
            let Some(connection) = self.control.get_mut(conn) else { continue };
            let ip = connection.ip;
            match connection.pending_login.take().map(|login| *login) {
                None => self.page_admitted(conn, admitted),
                Some(PendingLogin { credentials, rest, grants: Some(grants) }) if admitted => {
                    self.admit(conn, credentials, grants, &rest);
                }
                Some(login) => {
                    tracing::warn!(%ip, user = %login.credentials.user.escape_ascii(), "login rejected by .z.pw");
                    metrics::count(Id::LoginsRefused);
                    self.audit_refused(conn, &login.credentials.user, "wrong user or password (.z.pw)");
                    self.control.close_with(conn, CloseReason::Handshake("wrong user or password"));
                }
            }
        }
    }
}
