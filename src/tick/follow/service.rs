//! What a follower answers to clients: its state, and to everything else where the active tickerplant is.

use super::copier::Copier;
use super::status::Status;
use crate::election::Tenure;
use crate::metrics::{self, Health, Id, Process, Snapshot};
use crate::net::forward::Diverted;
use crate::net::http::{self, Page};
use crate::net::{CloseReason, ConnId, Control, Login, Peer, Service, signals};
use crate::protocol::{LeaseState, Standing, TickState};
use crate::tick::lease;
use crate::tick::standby::Standby;
use proto::Header;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The follower as the event loop drives it.
pub struct FollowService {
    pub copier: Copier,
    dir: PathBuf,
    clients: Standby,
    /// URL of the lease, and the lease, if one decides who takes over.
    lease: Option<(String, Arc<Tenure>)>,
    /// Set when the process was asked to stop.
    end: Arc<AtomicBool>,
}

impl FollowService {
    pub fn new(
        copier: Copier,
        dir: PathBuf,
        clients: Standby,
        lease: Option<(String, Arc<Tenure>)>,
        end: Arc<AtomicBool>,
    ) -> FollowService {
        FollowService { copier, dir, clients, lease, end }
    }

    fn state(&self) -> TickState {
        let status = self.copier.status.get();
        let of_lease = self.lease.as_ref().map(|(_, tenure)| tenure.state()).unwrap_or_default();
        let trouble = self.trouble(&status).unwrap_or_default();
        let record = LeaseState { trouble, ..of_lease };
        TickState {
            role: Standing::Passive,
            lease: self.lease.as_ref().map(|(url, _)| url.clone()).unwrap_or_default(),
            epoch: status.epoch,
            tip: status.tip,
            lag: status.lag(),
            late_ns: status.late().map(|late| i64::try_from(late.as_nanos()).unwrap_or(i64::MAX)),
            note: self.note(&status),
            record,
            active: status.leader,
            ..TickState::default()
        }
    }

    /// Why it copies nothing, or could not take over.
    fn trouble(&self, status: &Status) -> Option<String> {
        let of_lease = self.lease.as_ref().and_then(|(_, tenure)| tenure.view().words());
        let all: Vec<String> = [of_lease, status.trouble.clone()].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// What an operator should know: what was cut off the log, and whether take-overs are paused.
    fn note(&self, status: &Status) -> String {
        let of_lease = self.lease.as_ref().map(|(_, tenure)| tenure.note()).unwrap_or_default();
        let all = [of_lease, status.note.clone()];
        all.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Whether the process has the lease, and takes over.
    fn leads(&self) -> bool {
        self.lease.as_ref().is_some_and(|(_, tenure)| tenure.lead().is_some())
    }

    /// Error for a client that wants the active tickerplant.
    fn refusal(&self) -> String {
        match self.copier.status.get().leader.as_str() {
            "" => "passive: this tickerplant follows another one, and has not found it yet".to_string(),
            leader => {
                let unreached = self.clients.unreached();
                let unreached = unreached.map(|why| format!(", and cannot be reached from here: {why}"));
                format!("passive: this tickerplant follows {leader}{}", unreached.unwrap_or_default())
            }
        }
    }

    /// One line for pages and the service manager.
    fn words(&self) -> String {
        let status = self.copier.status.get();
        let mut words = self.refusal();
        if let (Some(tip), Some(lag), Some(late)) = (status.tip, status.lag(), status.late()) {
            words.push_str(&format!("; {tip} updates of today, {lag} behind, {} ms late", late.as_millis()));
        }
        if let Some(trouble) = &status.trouble {
            words.push_str(&format!("; nothing is copied: {trouble}"));
        }
        if let Some(trouble) = self.lease.as_ref().and_then(|(_, tenure)| tenure.view().words()) {
            words.push_str(&format!("; cannot take over: {trouble}"));
        }
        let note = self.note(&status);
        if !note.is_empty() {
            words.push_str(&format!("; {note}"));
        }
        words
    }
}

impl Service for FollowService {
    fn login(&mut self, conn: ConnId, user: &[u8], password: &[u8], _: &mut Control) -> Login {
        self.clients.login(conn, user, password)
    }

    fn opened(&mut self, conn: ConnId, peer: &Peer, _: &mut Control) {
        tracing::debug!(handle = conn.handle(), %peer, "connection opened while following");
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        self.clients.answer(conn, (header, body), ctl, || self.refusal(), || self.state());
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
        if signals::is_asked(&self.end) || self.leads() || self.copier.status.get().failure.is_some() {
            ctl.stop();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn timer(&mut self, _: &mut Control) {}

    fn page(&mut self, path: &str, query: &str, ctl: &mut Control) -> Option<Page> {
        let status = self.copier.status.get();
        match path {
            http::METRICS => {
                let mut snapshot = Snapshot::new(Process::Tick);
                metrics::process::put(&mut snapshot);
                ctl.put_metrics(&mut snapshot, &mut Vec::new());
                snapshot.set(Id::TickUp, false);
                snapshot.set(Id::TickActive, false);
                snapshot.set(Id::FollowConnected, status.is_connected);
                snapshot.set(Id::FollowLag, status.lag());
                snapshot.set(Id::FollowLate, status.late().map(|late| late.as_secs_f64()));
                let (forwarded, _) = self.forwarded(Ipv4Addr::UNSPECIFIED.into());
                snapshot.set(Id::TickForwarded, forwarded);
                lease::put(self.lease.as_ref().map(|(_, tenure)| &**tenure), &mut snapshot);
                snapshot.set(Id::LogUpdates, status.tip);
                snapshot.set(Id::LogDurable, status.tip);
                Some(Page::metrics(&snapshot))
            }
            http::HEALTH if http::asks_for_passive(query) => {
                let is_sound = status.is_connected && self.trouble(&status).is_none();
                Some(Page::text(if is_sound { 200 } else { 503 }, &self.words()))
            }
            http::HEALTH => {
                let mut health = Health::new(format!("copies a log into {}", self.dir.display()));
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
