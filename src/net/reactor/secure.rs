//! The event loop's part of TLS handshakes: it reads and writes their bytes, other threads compute their steps.

use super::{Reactor, Service};
use crate::config::Limit;
use crate::metrics::{self, Id};
use crate::net::tls::{Door, FIRST_BYTE, Handshakes, Session, explain};
use crate::net::{CloseReason, ConnId};
use std::io;
use std::sync::Arc;

impl<S: Service> Reactor<S> {
    /// Takes connections with TLS from now on.
    ///
    /// # Errors
    /// The operating system's, if no thread can be started.
    pub fn set_tls(&mut self, door: Arc<Door>) -> io::Result<()> {
        self.handshakes = Some(Handshakes::start(&self.control.waker(), self.control.limits.tls_handshakes)?);
        self.control.door = Some(door);
        Ok(())
    }

    /// Handles the first bytes of a connection, which show whether it uses TLS. Returns whether they belong to a plain login.
    pub(super) fn takes(&mut self, conn: ConnId, bytes: &[u8]) -> bool {
        let door = self.control.door.clone();
        let Some(connection) = self.control.get_mut(conn) else { return false };
        if connection.stream.tls.is_some() || !connection.login.is_empty() || connection.stream.as_tcp().is_none() {
            return true;
        }
        let is_tls = bytes.first() == Some(&FIRST_BYTE);
        // Its bytes go through as they are: only the other process can say what they mean.
        if is_tls && self.diverts(conn, bytes) {
            return false;
        }
        let Some(connection) = self.control.get_mut(conn) else { return false };
        let why = match door {
            None if is_tls => "a TLS client, but this port has no TLS (-E 1 or -E 2)",
            Some(door) if is_tls => {
                match Session::new(door.config(), bytes) {
                    Ok(session) => connection.stream.tls = Some(Box::new(session)),
                    Err(error) => self.control.close_with(conn, CloseReason::Tls(explain(&error))),
                }
                self.begin_step(conn);
                return false;
            }
            Some(door) if door.is_tls_only() => "a plain client, but this port takes TLS only (-E 2)",
            _ => return true,
        };
        self.control.close_with(conn, CloseReason::Tls(why.to_string()));
        false
    }

    /// Reads bytes of a TLS handshake. Returns the bytes read.
    pub(super) fn read_handshake(&mut self, conn: ConnId) -> usize {
        let Some(connection) = self.control.get_mut(conn) else { return 0 };
        if connection.stream.tls.as_ref().is_none_or(|tls| tls.is_away()) {
            // Read again after the step.
            return 0;
        }
        let read = match connection.stream.receive_handshake() {
            Ok(0) => {
                self.handshake_failed(conn, "the client closed the connection during the handshake".to_string());
                return 0;
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => {
                self.control.close_with(conn, CloseReason::Socket(error));
                return 0;
            }
        };
        if read == 0 || connection.ending || connection.stream.has_more() {
            self.control.queue_read(conn);
        }
        self.begin_step(conn);
        read
    }

    /// Hands the next step to the threads if all of its bytes have been received.
    fn begin_step(&mut self, conn: ConnId) {
        let (Some(connection), Some(handshakes)) = (self.control.get_mut(conn), &self.handshakes) else { return };
        let Some(step) = connection.stream.tls.as_mut().and_then(|tls| tls.next_step()) else { return };
        if handshakes.submit(conn, step).is_err() {
            metrics::refused(Limit::tls_handshakes);
            let most = self.control.limits.tls_handshakes;
            let why = format!("{most} steps of TLS handshakes are waiting (--limit-tls-handshakes)");
            self.control.close_with(conn, CloseReason::Limit(why));
        }
    }

    /// Continues the handshakes whose steps are done.
    pub(super) fn finish_handshakes(&mut self) {
        while let Some(job) = self.handshakes.as_ref().and_then(Handshakes::done) {
            let conn = job.conn;
            let Some(connection) = self.control.get_mut(conn) else { continue };
            let Some(tls) = &mut connection.stream.tls else { continue };
            let outcome = tls.step_done(job);
            let is_complete = tls.secured().is_some();
            if !std::mem::replace(&mut connection.dirty, true) {
                self.control.dirty.push(conn);
            }
            match outcome {
                Ok(()) if is_complete => {
                    metrics::count(Id::TlsHandshakes);
                    self.control.queue_read(conn);
                }
                Ok(()) => {
                    self.begin_step(conn);
                    self.control.queue_read(conn);
                }
                Err(error) => self.handshake_failed(conn, explain(&error)),
            }
        }
    }

    fn handshake_failed(&mut self, conn: ConnId, why: String) {
        metrics::count(Id::TlsHandshakesFailed);
        self.control.close_with(conn, CloseReason::Tls(why));
    }
}
