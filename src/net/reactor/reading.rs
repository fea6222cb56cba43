//! One read of a connection's socket, whatever the connection speaks.

use super::{Reactor, Service};
use crate::net::{CloseReason, ConnId};
use std::io::{self, Read};

impl<S: Service> Reactor<S> {
    /// Reads once into `room`, and has the connection read again where there may be more. Answers how many bytes came; none
    /// where nothing has come yet, or the connection has ended and is going to be closed.
    pub(super) fn read_once(&mut self, conn: ConnId, room: &mut [u8]) -> Option<usize> {
        let connection = self.control.get_mut(conn)?;
        let reason = match connection.stream.read(room) {
            Ok(0) => CloseReason::Peer,
            Ok(read) => {
                // A short read has emptied the socket; the next bytes are an event of their own.
                if read == room.len() || connection.ending {
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
}
