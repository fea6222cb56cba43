//! The event loop's part of WebSocket: an HTTP connection after its upgrade.

use super::{Reactor, Service};
use crate::config::Limit;
use crate::less;
use crate::metrics;
use crate::net::websocket::{self, Reader, WebSocketEvent};
use crate::net::{CloseReason, ConnId, Peer};

impl<S: Service> Reactor<S> {
    /// Completes the upgrade.
    pub(super) fn begin_web(&mut self, conn: ConnId, key: &[u8], peer: Peer) {
        let most = self.control.limits.web_message_bytes;
        let Some(connection) = self.control.get_mut(conn) else { return };
        let session = connection.http.take();
        let mut reader = Reader::new(most);
        // Frames may have arrived with the request.
        reader.extend(&std::mem::take(&mut connection.login));
        connection.web = Some(reader);
        connection.admitted(conn.handle(), peer.clone());
        if let Some(session) = session {
            self.control.sessions.remove(&(session.by, conn));
        }
        self.share_outbox(conn);
        self.control.send(conn, websocket::accepted(key));
        self.audit_login(conn, &peer);
        self.note_expiry(conn, &peer);
        self.service.opened(conn, &peer, &mut self.control);
        self.control.queue_read(conn);
    }

    /// Delivers buffered messages, then reads once. Returns the bytes read.
    pub(super) fn read_web(&mut self, conn: ConnId) -> usize {
        if !self.hand_over_web(conn) {
            return 0;
        }
        let mut buffer = [0u8; 16384];
        let Some(read) = self.read_once(conn, &mut buffer) else { return 0 };
        if let Some(reader) = self.control.get_mut(conn).and_then(|connection| connection.web.as_mut()) {
            reader.extend(buffer.get(..read).unwrap_or_default());
        }
        self.hand_over_web(conn);
        self.account(conn);
        read
    }

    /// Delivers whole messages. Returns false if the connection has to wait before its next one, or ends.
    fn hand_over_web(&mut self, conn: ConnId) -> bool {
        loop {
            if !self.control.may_go_on(conn) {
                if let Some(connection) = self.control.get_mut(conn) {
                    connection.stalled = true;
                }
                return false;
            }
            let Some(reader) = self.control.get_mut(conn).and_then(|connection| connection.web.as_mut()) else {
                return false;
            };
            match reader.next_event() {
                Ok(None) => return true,
                Ok(Some(WebSocketEvent::Message { is_text, payload })) => {
                    self.service.web_message(conn, is_text, payload, &mut self.control);
                }
                Ok(Some(WebSocketEvent::Reply(frame))) => self.control.send(conn, frame),
                Ok(Some(WebSocketEvent::Close(frame))) => {
                    self.control.send(conn, frame);
                    self.control.close_with(conn, CloseReason::Peer);
                    return false;
                }
                Err(broken) => {
                    if broken.is_too_large() {
                        metrics::refused(Limit::web_message_bytes);
                    }
                    self.control.send(conn, broken.reply);
                    self.control.close_with(conn, CloseReason::Service(broken.reason));
                    return false;
                }
            }
        }
    }

    /// Updates this connection's share of the receive-buffer total.
    fn account(&mut self, conn: ConnId) {
        let Some(connection) = self.control.get_mut(conn) else { return };
        let held = connection.web.as_ref().map_or(0, Reader::held_bytes);
        let before = std::mem::replace(&mut connection.inbox_bytes, held);
        self.control.inboxes_bytes = less!(self.control.inboxes_bytes, before).saturating_add(held);
        self.control.relieve_inboxes();
    }
}
