//! Copies of the log that the record of the lease names, where each tickerplant has a log of its own: who may take over, and what that means for
//! acknowledgements.

use super::Plant;
use crate::config::ReplicaMissing;
use crate::election::Election;
use crate::lease::{Copies, CopyName};
use crate::net::Links;
use crate::q::QError;
use crate::tick::follow::in_sync::{Event, InSync};
use crate::tick::follow::replicas::{Change, Position};
use std::sync::Arc;

/// The own copy, and the lease whose record names it.
pub struct OwnLease {
    pub copy: CopyName,
    pub election: Arc<Election>,
}

/// The copies of a leader.
pub(super) struct Keeping {
    pub in_sync: InSync,
    election: Arc<Election>,
    /// The last request that is known to be carried out.
    named: u64,
}

impl Keeping {
    pub fn new(own: OwnLease, needed: usize, timeout_ns: i64) -> Keeping {
        let OwnLease { copy, election } = own;
        // A number of the lease before belongs to another process, which has another election.
        Keeping { in_sync: InSync::new(copy, needed, timeout_ns), election, named: 0 }
    }

    pub fn request(&self, record: Option<(u64, Copies)>) {
        if let Some((request, copies)) = record {
            self.election.name_copies(request, copies);
        }
    }

    /// The request that was carried out since the last call.
    fn carried_out(&mut self) -> Option<u64> {
        let named = self.election.tenure().named();
        (std::mem::replace(&mut self.named, named) != named).then_some(named)
    }

    /// Whether the lease has carried out the first request.
    pub fn is_settled(&self) -> bool {
        self.in_sync.is_settled()
    }

    pub fn is_missing(&self) -> bool {
        self.in_sync.is_missing()
    }

    /// Followers that are promised to have an update before its publisher gets the response.
    pub fn needed(&self) -> usize {
        self.in_sync.needed()
    }

    pub fn due_ns(&self) -> Option<i64> {
        self.in_sync.due_ns()
    }

    /// What all that may take over have; `None` if no response waits for that. Each response waits for the first request.
    pub fn replicated(&self, is_promised: bool, missing: ReplicaMissing) -> Option<Position> {
        if !is_promised && self.in_sync.is_settled() {
            return None;
        }
        let nothing = (self.is_missing() && missing == ReplicaMissing::Refuse).then(Position::default);
        self.in_sync.confirmed().or(nothing)
    }

    /// Whether a follower claims to be this tickerplant's own copy.
    pub fn is_own(&self, copy: &str) -> bool {
        self.in_sync.own() == copy
    }

    pub fn has(&self, copy: &str) -> bool {
        self.in_sync.names(copy)
    }

    pub fn named(&self) -> usize {
        self.in_sync.named()
    }
}

impl Plant {
    /// Takes note of what happens to the copies of followers.
    pub(super) fn copies_step(&mut self, event: Event, ctl: &mut dyn Links) {
        // Once the log is closed it has no tip, and any follower would seem to have all of it.
        if !self.log.exists() {
            return;
        }
        let (position, now_ns) = (self.log.position(), self.steady_ns());
        let Some(keeping) = &mut self.followers.keeping else { return };
        let steps = keeping.in_sync.step(event, position, now_ns);
        keeping.request(steps.record);
        self.promised(steps.change, ctl);
    }

    /// Looks whether the store has carried out a request.
    pub(super) fn look_at_copies(&mut self, ctl: &mut dyn Links) {
        if let Some(request) = self.followers.keeping.as_mut().and_then(Keeping::carried_out) {
            self.copies_step(Event::Recorded(request), ctl);
        }
    }

    /// Publishers are promised another thing from now on.
    pub(super) fn promised(&mut self, change: Option<Change>, ctl: &mut dyn Links) {
        self.log.set_replicated(self.followers.replicated());
        match change {
            None => {}
            Some(Change::Back) => {
                tracing::warn!("enough followers confirm again: acknowledged updates are on their disks as well");
            }
            Some(Change::Missing) => self.too_few_followers(ctl),
        }
    }

    /// Checks that a follower may take over, `successor` if it is named.
    ///
    /// # Errors
    /// `io` if the record of the lease names none, or not that one.
    pub(super) fn check_successor(&self, successor: Option<&str>) -> Result<(), QError> {
        let Some(keeping) = &self.followers.keeping else { return Ok(()) };
        // A process is named after its address, and so is its follower's connection.
        let address = successor.and_then(|name| name.rsplit_once('/')).map(|(address, _)| address.as_bytes());
        let is_asked = |name: &[u8]| address.is_none_or(|address| address == name);
        let may = self.followers.copies().any(|(name, copy)| is_asked(name) && keeping.has(copy));
        if may {
            return Ok(());
        }
        let of = successor.unwrap_or("no follower");
        let verb = if successor.is_some() { "may lack" } else { "is known to have" };
        Err(QError::with("io", format!("{of} {verb} acknowledged updates: see copies in elastick lease show")))
    }
}
