//! One read of a connection's socket, for every protocol, and the end of a connection that is not read.

use super::{Reactor, Service};
use crate::net::{CloseReason, ConnId};
use std::io::{self, Read};

impl<S: Service> Reactor<S> {
    /// Reads once into `room`, and requeues the connection if more may be available. Returns the bytes read; `None` if nothing has arrived
    /// yet, or the connection has ended and will be closed.
    pub(super) fn read_once(&mut self, conn: ConnId, room: &mut [u8]) -> Option<usize> {
        let now = self.control.now;
        let connection = self.control.get_mut(conn)?;
        let reason = match connection.stream.read(room) {
            Ok(0) => CloseReason::Peer,
            Ok(read) => {
                connection.active_at = now;
                // A short read has emptied the socket; further bytes raise an event.
                if read == room.len() || connection.ending || connection.stream.has_more() {
                    self.control.queue_read(conn);
                }
                return Some(read);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.control.queue_read(conn);
                return None;
            }
            Err(error) => CloseReason::Socket(error),
        };
        self.control.close_with(conn, reason);
        None
    }

    /// Looks at a connection that is not read because a message of it is in evaluation. Returns whether its peer has ended the stream; the service
    /// is notified the first time.
    pub(super) fn leaves(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.control.get(conn).filter(|connection| connection.ending) else { return false };
        if !connection.gone.set() {
            self.service.left(conn, &mut self.control);
        }
        true
    }
}
