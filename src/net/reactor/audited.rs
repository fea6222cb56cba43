//! What the event loop itself records in the audit log: logins, logouts, pages, and the users file.

use super::checks::LOCKED_OUT;
use super::{Reactor, Service};
use crate::audit::{Audit, Call, Entry, Shown, Who};
use crate::net::http::HttpRequest;
use crate::net::{CloseReason, ConnId, Peer};

impl<S: Service> Reactor<S> {
    /// Sets the audit log.
    pub fn set_audit(&mut self, audit: Audit) {
        self.control.audit = audit;
    }

    pub(super) fn audit_login(&self, conn: ConnId, peer: &Peer) {
        self.control.audit.record_admitted(|| Entry::new(peer.who(conn), Call::named("login")));
    }

    /// Records a rejected login. The password is not there to be recorded.
    pub(super) fn audit_refused(&self, conn: ConnId, user: &[u8], reason: &str) {
        let name = if reason == LOCKED_OUT { "lockout" } else { "login" };
        self.control.audit.record(|| Entry::new(self.somebody(conn, user), Call::named(name)).failed(reason));
    }

    /// Returns the caller of a connection without a login, with the user it claims to be.
    fn somebody(&self, conn: ConnId, user: &[u8]) -> Who {
        let connection = self.control.get(conn);
        let certificate = connection.and_then(|connection| connection.secured()?.certificate.clone());
        Who {
            user: user.to_vec(),
            address: connection.map(|connection| connection.ip),
            handle: Some(conn.handle()),
            certificate: certificate.map(|certificate| certificate.subject),
        }
    }

    pub(super) fn audit_logout(&self, conn: ConnId, peer: &Peer, reason: &CloseReason) {
        let error = match reason {
            CloseReason::Peer | CloseReason::Shutdown => String::new(),
            other => other.to_string(),
        };
        self.control.audit.record(|| Entry::new(peer.who(conn), Call::named("logout")).failed(error));
    }

    pub(super) fn audit_reload(&self) {
        self.control.audit.record(|| Entry::new(Who::default(), Call::named("reload")));
    }

    /// Records a page that the event loop has answered, with its path.
    pub(super) fn audit_page(&self, conn: ConnId, peer: &Peer, request: &HttpRequest, status: u16, bytes: usize) {
        self.audit_response(request, bytes, || (peer.who(conn), of_status(status)));
    }

    /// Records a response to a request before the check of its user, with the reason if it was rejected. No user: anybody can name one.
    pub(super) fn audit_nobodys_page(&self, conn: ConnId, request: &HttpRequest, error: &str, bytes: usize) {
        self.audit_response(request, bytes, || (self.somebody(conn, b""), error.to_string()));
    }

    /// Records what `.z.ac` has answered itself.
    pub(super) fn audit_answer(&self, conn: ConnId, request: &HttpRequest, answer: &[u8]) {
        let error = status_of(answer).map_or_else(String::new, of_status);
        self.audit_nobodys_page(conn, request, &error, answer.len());
    }

    fn audit_response(&self, request: &HttpRequest, bytes: usize, of: impl FnOnce() -> (Who, String)) {
        self.control.audit.record(|| {
            let shown =
                self.control.audit.showing().map_or(Shown::None, |showing| showing.text(request.path.as_bytes()));
            let (who, error) = of();
            let entry = Entry::new(who, Call { shown, ..Call::named("page") });
            Entry { bytes_out: Some(bytes as u64), ..entry.failed(error) }
        });
    }
}

/// Returns the error that stands for a status; empty for none.
fn of_status(status: u16) -> String {
    if status < 400 { String::new() } else { format!("HTTP status {status}") }
}

/// Status of a response that q code has made.
fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.strip_prefix(b"HTTP/")?.split(|byte| *byte == b'\r').next()?;
    let status = line.split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(status).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_in_the_first_line() {
        assert_eq!(status_of(b"HTTP/1.1 403 Forbidden\r\n\r\nHTTP/1.1 200 OK"), Some(403));
        assert_eq!(status_of(b"HTTP/1.0 200\r\n\r\n"), Some(200));
        assert_eq!((status_of(b""), status_of(b"200 OK"), status_of(b"HTTP/1.1 \xff")), (None, None, None));
        assert_eq!((of_status(302), of_status(403)), (String::new(), "HTTP status 403".to_string()));
    }
}
