//! A tickerplant that is not active, as the event loop drives it.

use super::Standby;
use crate::metrics::{self, Health, Id, Process, Snapshot};
use crate::net::forward::Diverted;
use crate::net::http::{self, Page};
use crate::net::{CloseReason, ConnId, Control, Login, Peer, Service};
use crate::protocol::TickState;
use proto::Header;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

/// What a tickerplant does while it is not active.
pub trait Inactive {
    /// Name of this state in messages for developers.
    const NAME: &'static str;

    fn state(&self) -> TickState;

    /// Error for a client that wants the active tickerplant; `unreached` says why that could not be reached for the last client.
    fn refusal(&self, unreached: Option<&str>) -> String;

    /// The state in one line, for `/health` and the service manager.
    fn words(&self, unreached: Option<&str>) -> String;

    /// What the process does, for the page of its health.
    fn purpose(&self) -> String;

    /// Whether it could take over.
    fn is_sound(&self) -> bool;

    /// Whether the loop should stop; asked whenever it is woken.
    fn is_over(&mut self) -> bool;

    /// Adds its own metrics.
    fn put_metrics(&self, snapshot: &mut Snapshot);
}

/// The event loop's service of an inactive tickerplant.
pub struct StandbyService<I> {
    pub inactive: I,
    clients: Standby,
}

impl<I: Inactive> StandbyService<I> {
    pub fn new(inactive: I, clients: Standby) -> StandbyService<I> {
        StandbyService { inactive, clients }
    }

    fn words(&self) -> String {
        self.inactive.words(self.clients.unreached())
    }

    fn metrics(&self, ctl: &mut Control) -> Page {
        let mut snapshot = Snapshot::new(Process::Tick);
        metrics::process::put(&mut snapshot);
        ctl.put_metrics(&mut snapshot, &mut Vec::new());
        snapshot.set(Id::TickUp, false);
        snapshot.set(Id::TickActive, false);
        let (forwarded, _) = self.clients.forwarded(Ipv4Addr::UNSPECIFIED.into());
        snapshot.set(Id::TickForwarded, forwarded);
        self.inactive.put_metrics(&mut snapshot);
        Page::metrics(&snapshot)
    }
}

impl<I: Inactive> Service for StandbyService<I> {
    fn login(&mut self, conn: ConnId, user: &[u8], password: &[u8], _: &mut Control) -> Login {
        self.clients.login(conn, user, password)
    }

    fn opened(&mut self, conn: ConnId, peer: &Peer, _: &mut Control) {
        tracing::debug!(handle = conn.handle(), %peer, "connection opened while {}", I::NAME);
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        let refusal = || self.inactive.refusal(self.clients.unreached());
        self.clients.answer(conn, (header, body), ctl, refusal, || self.inactive.state());
    }

    fn iteration_ended(&mut self, _: &mut Control) {}

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, _: ConnId, _: &CloseReason, _: &mut Control) {}

    fn diverts(&mut self, conn: ConnId) -> bool {
        self.clients.diverts(conn)
    }

    fn take(&mut self, conn: ConnId, diverted: Option<Diverted>) {
        self.clients.take(conn, diverted);
    }

    fn forwarded(&self, ip: IpAddr) -> (usize, usize) {
        self.clients.forwarded(ip)
    }

    fn woken(&mut self, ctl: &mut Control) {
        self.clients.woken(ctl);
        if self.inactive.is_over() {
            ctl.stop();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn timer(&mut self, _: &mut Control) {}

    fn page(&mut self, path: &str, query: &str, ctl: &mut Control) -> Option<Page> {
        match path {
            http::METRICS => Some(self.metrics(ctl)),
            http::HEALTH if http::asks_for_passive(query) => {
                Some(Page::text(if self.inactive.is_sound() { 200 } else { 503 }, &self.words()))
            }
            http::HEALTH => {
                let mut health = Health::new(self.inactive.purpose());
                health.fail("passive", self.words());
                Some(Page::health(&health))
            }
            _ => None,
        }
    }

    fn liveness(&mut self) -> Option<String> {
        Some(self.words())
    }
}
