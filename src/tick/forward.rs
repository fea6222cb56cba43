//! `--forward`: a passive tickerplant hands connections through to the active one.

use crate::config::Address;
use crate::env::Env;
use crate::env::task::Every;
use crate::log::Waker;
use crate::net::ConnId;
use crate::net::forward::{Diverted, Forwarder, Targets};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Interval between looks at where the active tickerplant is.
const EVERY: Duration = Duration::from_millis(100);
/// Interval between resolutions of its name.
const RESOLVE_EVERY: Duration = Duration::from_secs(5);
/// Records of the name that are tried.
const MAX_RECORDS: usize = 8;

/// Forwards connections, and resolves the name of the active tickerplant on a thread of its own, which may wait for DNS.
pub struct Forward {
    forwarder: Forwarder,
    active: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// Why the active tickerplant could not be reached the last time.
    unreached: Option<String>,
    _every: Every,
}

impl Forward {
    /// `active` returns where the active tickerplant is, if that is known. `held_bytes` of all connections may wait to be sent.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        env: &Env,
        active: impl Fn() -> Option<String> + Send + Sync + 'static,
        held_bytes: usize,
        waker: Waker,
    ) -> io::Result<Forward> {
        let (targets, active) = (Targets::default(), Arc::new(active));
        let of_look = Arc::clone(&active);
        let (shared, mut known, mut resolved_at) = (Targets::clone(&targets), None, Instant::now());
        let look = move || {
            let now = of_look();
            if now == known && resolved_at.elapsed() < RESOLVE_EVERY {
                return ControlFlow::Continue(());
            }
            resolved_at = Instant::now();
            let resolved = now.as_deref().map_or(Ok(Vec::new()), resolve);
            match resolved {
                Ok(resolved) => *shared.lock().unwrap_or_else(PoisonError::into_inner) = resolved,
                // The former records may still be right.
                Err(_) if now == known => {}
                Err(error) => {
                    tracing::warn!(active = now.as_deref(), %error, "cannot resolve the address of the active tickerplant");
                    shared.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
            }
            known = now;
            ControlFlow::Continue(())
        };
        let every = Every::start(&*env.spawner, "forward-names", EVERY, look)?;
        let forwarder = Forwarder::start(targets, held_bytes, waker)?;
        Ok(Forward { forwarder, active, unreached: None, _every: every })
    }

    /// Tries to reach the active tickerplant for a client. Returns false if it is not known where that is.
    pub fn dial(&self, conn: ConnId) -> bool {
        // Its name may not be resolved yet.
        let is_known = (self.active)().is_some();
        if is_known {
            self.forwarder.dial(conn);
        }
        is_known
    }

    /// Returns the next client of [`Forward::dial`], and whether the active tickerplant was reached.
    pub fn reached(&mut self) -> Option<(ConnId, bool)> {
        let (conn, result) = self.forwarder.reached()?;
        self.unreached = result.err();
        Some((conn, self.unreached.is_none()))
    }

    /// Why the active tickerplant could not be reached for the last client; `None` if it was.
    pub fn unreached(&self) -> Option<&str> {
        self.unreached.as_deref()
    }

    /// Takes over a client's connection; `None` if it has closed meanwhile.
    pub fn take(&self, conn: ConnId, diverted: Option<Diverted>) {
        self.forwarder.take(conn, diverted);
    }

    /// Number of forwarded connections, and of those from one address.
    pub fn open(&self, ip: IpAddr) -> (usize, usize) {
        self.forwarder.open(ip)
    }
}

fn resolve(address: &str) -> Result<Vec<SocketAddr>, String> {
    let Address { host, port, .. } = address.parse()?;
    let records = (host.as_str(), port).to_socket_addrs().map_err(|error| error.to_string())?;
    Ok(records.take(MAX_RECORDS).collect())
}
