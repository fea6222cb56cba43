//! A connection as queue and feed see it.

use crate::net::{ConnId, Links};
use crate::queue::Handle;

/// Returns the queue's identity of a connection.
pub(super) fn handle(conn: ConnId) -> Handle {
    Handle(conn.handle())
}

/// Whether kdb+ would compress messages to this peer.
pub(super) fn compresses(conn: ConnId, ctl: &dyn Links) -> bool {
    ctl.peer(conn).is_some_and(|peer| !peer.local && peer.capability > 0)
}
