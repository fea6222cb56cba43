//! Notifications to the service manager (systemd's `sd_notify` protocol): ready, status, watchdog, stopping.
//!
//! The manager passes a datagram socket in `NOTIFY_SOCKET`; without it nothing is sent. After startup a send never blocks: a manager that
//! does not read must not stop a tickerplant.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of the `READY` notification.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// Interval of status notifications without a watchdog.
const STATUS_EVERY: Duration = Duration::from_secs(30);
/// Maximum length of a status line.
const MAX_STATUS_BYTES: usize = 500;

struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

/// Sender of notifications; without a manager it does nothing.
#[derive(Clone, Default)]
pub struct Notifier {
    manager: Option<Arc<Manager>>,
    /// Watchdog timeout: the manager kills the process after so long without a notification.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Configured by `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`. An unusable socket is logged and ignored; the manager detects the
    /// missing notifications.
    pub fn from_environment() -> Notifier {
        Notifier::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Notifier {
        let Some(name) = variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Notifier::default() };
        let manager = match Manager::at(&name) {
            Ok(manager) => manager,
            Err(error) => {
                tracing::warn!(socket = %name.display(), %error, "cannot notify the service manager");
                return Notifier::default();
            }
        };
        let number = |name: &str| variable(name).and_then(|text| text.to_str()?.parse::<u64>().ok());
        // A watchdog of another process is ignored.
        let is_ours = variable("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == Some(std::process::id().into());
        let watchdog = number("WATCHDOG_USEC").filter(|time| is_ours && *time > 0).map(Duration::from_micros);
        Notifier { manager: Some(Arc::new(manager)), watchdog }
    }

    /// Reports that the process serves. Blocks for a short time, because the manager kills a process that never reports it.
    pub fn ready(&self, status: &str) {
        let Some(manager) = &self.manager else { return };
        if let Err(error) = manager.send_patiently(&format!("READY=1\n{}", status_line(status))) {
            tracing::warn!(%error, "cannot notify the service manager that this process is ready");
        }
    }

    /// Sends a status line, for `systemctl status`.
    pub fn status(&self, status: &str) {
        self.send(&status_line(status));
    }

    /// Reports that the process is stopping.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=ending");
    }

    fn send(&self, text: &str) -> bool {
        let Some(manager) = &self.manager else { return false };
        let sent = manager.socket.send_to_addr(text.as_bytes(), &manager.address);
        if let Err(error) = &sent {
            tracing::debug!(?text, %error, "cannot notify the service manager");
        }
        sent.is_ok()
    }
}

impl Manager {
    fn at(name: &OsStr) -> io::Result<Manager> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a path or an abstract name")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Manager { socket, address })
    }

    fn send_patiently(&self, text: &str) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        self.socket.set_write_timeout(Some(READY_WITHIN))?;
        let sent = self.socket.send_to_addr(text.as_bytes(), &self.address);
        self.socket.set_nonblocking(true)?;
        sent.map(drop)
    }
}

/// Formats one short line: a line break would begin another field of the protocol.
fn status_line(status: &str) -> String {
    let line: String = status.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = line.floor_char_boundary(MAX_STATUS_BYTES);
    format!("STATUS={}", line.get(..end).unwrap_or_default())
}

/// Watchdog of the event loop: schedules the liveness notifications.
///
/// The loop itself sends them between iterations, so the manager kills a process whose loop hangs. Other critical threads are checked
/// through `liveness`, see [`Watchdog::beat`].
pub struct Watchdog {
    notifier: Notifier,
    /// Half of the watchdog timeout, as the protocol advises.
    every: Duration,
    next: Option<Instant>,
}

impl Watchdog {
    pub fn new(notifier: Notifier, now: Instant) -> Watchdog {
        let every = notifier.watchdog.map_or(STATUS_EVERY, |patience| patience / 2);
        let next = notifier.manager.as_ref().map(|_| now);
        Watchdog { notifier, every, next }
    }

    /// Time of the next notification; `None` without a manager.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Sends a liveness notification with the status. If `liveness` is `None`, sends nothing. Then, or if the send fails, retries after a
    /// quarter of the interval, so that a thread that was busy for a while does not use up the watchdog timeout.
    pub fn beat(&mut self, now: Instant, liveness: Option<String>) {
        let alive = if self.notifier.watchdog.is_some() { "WATCHDOG=1\n" } else { "" };
        let told = liveness.is_some_and(|status| self.notifier.send(&format!("{alive}{}", status_line(&status))));
        self.next = now.checked_add(if told { self.every } else { self.every / 4 });
    }

    pub fn stopping(&self) {
        self.notifier.stopping();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn variables(of: &[(&str, &str)]) -> Notifier {
        let of: HashMap<String, OsString> = of.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
        Notifier::from_variables(|name| of.get(name).cloned())
    }

    /// A listening manager, and the value of `NOTIFY_SOCKET` for it.
    fn manager(kind: &str) -> (UnixDatagram, String) {
        let name = format!("elastick-notify-{kind}-{}", std::process::id());
        let socket = match kind {
            "abstract" => UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            _ => UnixDatagram::bind(std::env::temp_dir().join(&name)).unwrap(),
        };
        socket.set_nonblocking(true).unwrap();
        let path = std::env::temp_dir().join(&name).to_string_lossy().into_owned();
        (socket, if kind == "abstract" { format!("@{name}") } else { path })
    }

    fn heard(socket: &UnixDatagram) -> Option<String> {
        let mut buffer = [0; 4096];
        let bytes = socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..bytes]).into_owned())
    }

    #[test]
    fn a_service_manager_at_a_path_is_notified() {
        let (socket, name) = manager("path");
        let notifier = variables(&[("NOTIFY_SOCKET", &name)]);
        notifier.ready("listening on 5010");
        notifier.stopping();
        std::fs::remove_file(&name).unwrap();
        assert_eq!(heard(&socket).as_deref(), Some("READY=1\nSTATUS=listening on 5010"));
        assert_eq!(heard(&socket).as_deref(), Some("STOPPING=1\nSTATUS=ending"));
    }

    #[test]
    fn a_service_manager_at_an_abstract_name_is_notified() {
        let (socket, name) = manager("abstract");
        variables(&[("NOTIFY_SOCKET", &name)]).status("one\ntwo");
        assert_eq!(heard(&socket).as_deref(), Some("STATUS=one two"));
    }

    #[test]
    fn without_a_manager_nothing_is_due() {
        let names = ["", "relative", "vsock:2:1", "/no/such/socket"];
        for name in names {
            let notifier = variables(&[("NOTIFY_SOCKET", name), ("WATCHDOG_USEC", "1000000")]);
            notifier.ready("");
            notifier.stopping();
        }
        assert_eq!(Watchdog::new(variables(&[]), Instant::now()).due(), None);
    }

    #[test]
    fn a_manager_that_does_not_read_is_not_waited_for() {
        let (socket, name) = manager("full");
        let notifier = variables(&[("NOTIFY_SOCKET", &name)]);
        let sent = (0..10_000).take_while(|_| notifier.send("STATUS=again")).count();
        std::fs::remove_file(&name).unwrap();
        assert!(sent < 10_000, "the queue of a socket ends somewhere");
        drop(socket);
    }

    #[test]
    fn the_watchdog_is_fed_at_half_of_its_patience() {
        let (socket, name) = manager("watchdog");
        let notifier = variables(&[("NOTIFY_SOCKET", &name), ("WATCHDOG_USEC", "20000000")]);
        let start = Instant::now();
        let mut watchdog = Watchdog::new(notifier, start);
        assert_eq!(watchdog.due(), Some(start));
        watchdog.beat(start, Some("well".to_string()));
        assert_eq!(heard(&socket).as_deref(), Some("WATCHDOG=1\nSTATUS=well"));
        assert_eq!(watchdog.due(), Some(start + Duration::from_secs(10)));
        std::fs::remove_file(&name).unwrap();
    }

    #[test]
    fn without_liveness_the_watchdog_is_not_fed_and_the_next_check_is_soon() {
        let (socket, name) = manager("starved");
        let mut watchdog =
            Watchdog::new(variables(&[("NOTIFY_SOCKET", &name), ("WATCHDOG_USEC", "20000000")]), Instant::now());
        std::fs::remove_file(&name).unwrap_or_default();
        let now = Instant::now();
        watchdog.beat(now, None);
        assert_eq!(heard(&socket), None);
        assert_eq!(watchdog.due(), Some(now + Duration::from_millis(2500)));
    }

    #[test]
    fn a_watchdog_for_another_process_is_not_fed() {
        let (socket, name) = manager("other");
        let of = [("NOTIFY_SOCKET", name.as_str()), ("WATCHDOG_USEC", "1000000"), ("WATCHDOG_PID", "1")];
        Watchdog::new(variables(&of), Instant::now()).beat(Instant::now(), Some("well".to_string()));
        assert_eq!(heard(&socket).as_deref(), Some("STATUS=well"));
        std::fs::remove_file(&name).unwrap();
    }
}
