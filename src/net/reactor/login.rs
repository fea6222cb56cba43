//! The loop's part of the handshake: what is read of it, and who is let in.

use super::{Login, Reactor, Service};
use crate::config::Limit;
use crate::metrics::{self, Id};
use crate::net::{CloseReason, ConnId, Peer};
use proto::handshake::{self, Credentials};

impl<S: Service> Reactor<S> {
    /// Reads what there is of a handshake. Answers the bytes read.
    pub(super) fn read_login(&mut self, conn: ConnId) -> usize {
        let limit = self.control.limits.handshake_bytes;
        if self.control.get(conn).is_none_or(|connection| connection.login_asked.is_some()) {
            // Read again when the answer is there.
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
                if !self.access.allows(&credentials.user, &credentials.password) {
                    log::warn!("{:?} from {} refused: wrong user or password", credentials, connection.ip);
                    metrics::count(Id::LoginsRefused);
                    self.control.close_with(conn, CloseReason::Handshake("wrong user or password"));
                    return read;
                }
                let rest = login.get(used..).unwrap_or_default().to_vec();
                match self.service.login(conn, &credentials.user, &credentials.password, &mut self.control) {
                    Login::Admitted => self.admit(conn, credentials, &rest),
                    Login::Later => {
                        if let Some(connection) = self.control.get_mut(conn) {
                            connection.login_asked = Some(Box::new((credentials, rest)));
                        }
                    }
                }
            }
            Err(handshake::HandshakeError::Http) => self.begin_http(conn),
            Err(error) => {
                log::info!("connection from {}: {error}", connection.ip);
                self.control.close_with(conn, CloseReason::Handshake("no handshake"));
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

    /// The handshake is done.
    fn admit(&mut self, conn: ConnId, credentials: Credentials, rest: &[u8]) {
        let capability = handshake::answer(credentials.capability);
        let Some(connection) = self.control.get_mut(conn) else { return };
        let peer = Peer { user: credentials.user, ip: connection.ip, capability, local: connection.local };
        connection.peer = Some(peer.clone());
        connection.frames.extend(rest);
        self.control.send(conn, bytes::Bytes::copy_from_slice(&[capability]));
        self.service.opened(conn, &peer, &mut self.control);
        // Messages may have come with the handshake.
        self.control.queue_read(conn);
    }

    /// Goes on with logins that have been decided on.
    pub(super) fn finish_logins(&mut self) {
        for (conn, admitted) in std::mem::take(&mut self.control.admitted) {
            let Some(connection) = self.control.get_mut(conn) else { continue };
            let ip = connection.ip;
            match connection.login_asked.take() {
                None => self.page_admitted(conn, admitted),
                Some(asked) if admitted => self.admit(conn, asked.0, &asked.1),
                Some(asked) => {
                    log::warn!("{:?} from {ip} refused by .z.pw", asked.0);
                    metrics::count(Id::LoginsRefused);
                    self.control.close_with(conn, CloseReason::Handshake("wrong user or password"));
                }
            }
        }
    }
}
