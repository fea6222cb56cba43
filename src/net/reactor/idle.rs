//! Clients that have logged in and neither send nor receive anything (`--limit-idle`).

use super::{Reactor, Service};
use crate::config::Limit;
use crate::metrics;
use crate::net::{CloseReason, ConnId};
use std::time::{Duration, Instant};

/// Shortest time between two looks at all connections.
const EVERY: Duration = Duration::from_millis(100);

impl<S: Service> Reactor<S> {
    /// Closes idle clients, and plans the next look.
    pub(super) fn drop_idle(&mut self) {
        let (now, limit) = (self.control.now, self.control.limits.idle);
        if limit.is_zero() || self.idle_at.is_some_and(|at| at > now) {
            return;
        }
        let mut next = now.checked_add(limit);
        let mut idle: Vec<ConnId> = Vec::new();
        for (conn, _) in self.control.connections() {
            // A subscriber of a quiet table waits for updates.
            let until = match self.control.get(conn) {
                Some(connection) if !connection.is_in_use() && !self.service.is_served(conn) => {
                    connection.active_at.checked_add(limit)
                }
                _ => continue,
            };
            match until {
                Some(until) if until <= now => idle.push(conn),
                until => next = until.into_iter().chain(next).min(),
            }
        }
        for conn in idle {
            metrics::refused(Limit::idle_ns);
            let why = format!("nothing was sent or received for {limit:?} (--limit-idle)");
            self.control.close_with(conn, CloseReason::Limit(why));
        }
        self.idle_at = next.max(now.checked_add(EVERY));
    }

    /// Returns when connections are to be looked at next.
    pub(super) fn idle_deadline(&self) -> Option<Instant> {
        self.idle_at.filter(|_| !self.control.limits.idle.is_zero())
    }
}
