//! Detects that a peer's host disappeared without closing: network cut or power off.
//!
//! A host that shuts down closes its connections, and the kernel answers for a hanging process. If the host itself disappears, TCP alone
//! takes a quarter of an hour to notice with unacknowledged data, and never notices without.

use rustix::net::sockopt;
use std::os::fd::AsFd;
use std::time::Duration;

/// Unanswered keepalive probes before the connection fails.
const PROBES: u32 = 3;

/// Makes a TCP connection fail after its peer has answered neither data nor probes for about `most`.
///
/// A socket that rejects these options keeps the system's defaults.
pub(super) fn set(stream: impl AsFd, most: Duration) {
    let step = (most / (PROBES + 1)).max(Duration::from_secs(1));
    let milliseconds = u32::try_from(most.as_millis()).unwrap_or(u32::MAX);
    let set = sockopt::set_socket_keepalive(&stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(&stream, step))
        .and_then(|()| sockopt::set_tcp_keepintvl(&stream, step))
        .and_then(|()| sockopt::set_tcp_keepcnt(&stream, PROBES))
        .and_then(|()| sockopt::set_tcp_user_timeout(&stream, milliseconds));
    if let Err(error) = set {
        tracing::debug!(%error, "cannot set TCP keepalive: a dead peer will be detected late");
    }
}
