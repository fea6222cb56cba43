//! Noticing that a peer's host is gone without a word: cut off, or switched off.
//!
//! A host that ends says so, and a process that hangs is answered for by its kernel. Of a host that is simply no longer there
//! TCP alone would not know for a quarter of an hour while something waits to be acknowledged, and for ever while nothing does.

use rustix::net::sockopt;
use std::os::fd::AsFd;
use std::time::Duration;

/// Questions to a silent peer before it counts as gone.
const QUESTIONS: u32 = 3;

/// Has a TCP connection fail when its peer has said nothing for about `most`, though it was asked or sent something.
///
/// A socket that does not take the options keeps the system's patience.
pub(super) fn end_after(stream: impl AsFd, most: Duration) {
    let step = (most / (QUESTIONS + 1)).max(Duration::from_secs(1));
    let milliseconds = u32::try_from(most.as_millis()).unwrap_or(u32::MAX);
    let set = sockopt::set_socket_keepalive(&stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(&stream, step))
        .and_then(|()| sockopt::set_tcp_keepintvl(&stream, step))
        .and_then(|()| sockopt::set_tcp_keepcnt(&stream, QUESTIONS))
        .and_then(|()| sockopt::set_tcp_user_timeout(&stream, milliseconds));
    if let Err(error) = set {
        log::debug!("a silent peer will be noticed late: {error}");
    }
}
