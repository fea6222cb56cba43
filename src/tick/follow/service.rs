//! What a follower answers to clients: its state, and to everything else where the active tickerplant is.

use super::copier::Copier;
use super::status::Status;
use crate::election::Tenure;
use crate::metrics::{Id, Snapshot};
use crate::net::signals;
use crate::protocol::{LeaseState, Standing, TickState};
use crate::tick::lease;
use crate::tick::standby::service::Inactive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The follower.
pub struct Follower {
    pub copier: Copier,
    dir: PathBuf,
    /// URL of the lease, and the lease, if one decides who takes over.
    lease: Option<(String, Arc<Tenure>)>,
    /// Set when the process was asked to stop.
    end: Arc<AtomicBool>,
}

impl Follower {
    pub fn new(copier: Copier, dir: PathBuf, lease: Option<(String, Arc<Tenure>)>, end: Arc<AtomicBool>) -> Follower {
        Follower { copier, dir, lease, end }
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
}

impl Inactive for Follower {
    const NAME: &'static str = "following";

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

    fn refusal(&self, unreached: Option<&str>) -> String {
        match self.copier.status.get().leader.as_str() {
            "" => "passive: this tickerplant follows another one, and has not found it yet".to_string(),
            leader => {
                let unreached = unreached.map(|why| format!(", and cannot be reached from here: {why}"));
                format!("passive: this tickerplant follows {leader}{}", unreached.unwrap_or_default())
            }
        }
    }

    fn words(&self, unreached: Option<&str>) -> String {
        let status = self.copier.status.get();
        let mut words = self.refusal(unreached);
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

    fn purpose(&self) -> String {
        format!("copies a log into {}", self.dir.display())
    }

    fn is_sound(&self) -> bool {
        let status = self.copier.status.get();
        status.is_connected && self.trouble(&status).is_none()
    }

    fn is_over(&mut self) -> bool {
        signals::is_asked(&self.end) || self.leads() || self.copier.status.get().failure.is_some()
    }

    fn put_metrics(&self, snapshot: &mut Snapshot) {
        let status = self.copier.status.get();
        snapshot.set(Id::FollowConnected, status.is_connected);
        snapshot.set(Id::FollowLag, status.lag());
        snapshot.set(Id::FollowLate, status.late().map(|late| late.as_secs_f64()));
        snapshot.set(Id::LogUpdates, status.tip);
        snapshot.set(Id::LogDurable, status.tip);
        lease::put(self.lease.as_ref().map(|(_, tenure)| &**tenure), snapshot);
    }
}
