//! `.u.state[]` and `.u.failover` of the active tickerplant.

use super::Plant;
use crate::lease::OwnerName;
use crate::log::LogWriter;
use crate::net::Links;
use crate::protocol::{LogState, Standing, TickState};
use crate::q::QError;
use crate::tick::core::Reason;
use proto::View;

/// Longest name of a successor.
const MAX_NAME_BYTES: usize = 512;

/// A hand-over that an operator has requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The only process that may take over at first; `None` for any.
    pub successor: Option<OwnerName>,
    /// The epoch that ends.
    pub epoch: u64,
}

impl Plant {
    /// Why no update is accepted; `None` if they are.
    pub(super) fn why_closed(&self) -> Option<Reason> {
        match self.log.has_failed() {
            true => Some(Reason::LogFailed),
            false if self.is_over || self.is_leaving() => Some(Reason::LeaseOver),
            false => self.followers.refuses_updates().then_some(Reason::NotReplicated),
        }
    }

    /// Why this process has to step down, in words; `None` if it need not.
    pub fn must_step_down(&self) -> Option<&'static str> {
        let has_left = self.tenure.as_ref().is_some_and(|tenure| tenure.has_left());
        let is_asked = self.departure.hand_over.is_some().then_some("handing over on request");
        has_left.then_some("stepping down: the lease is lost").or(is_asked).or(self.leaves_log())
    }

    /// Why this process leaves the log to another tickerplant: it cannot write it any more. With a log of its own it does so if a complete copy can go
    /// on: under the other durabilities a copy may lack what was acknowledged. In a common directory another host may be able to write the log,
    /// unless this one waits for room on a full disk, or the log itself has lost updates.
    pub fn leaves_log(&self) -> Option<&'static str> {
        if !self.log.has_failed() {
            return None;
        }
        let is_common = self.lease.is_some() && self.followers.keeping.is_none();
        if self.followers.may_go_on() {
            return Some("stepping down: the log cannot be written, and a complete copy can go on");
        }
        (is_common && !self.log.can_resume() && !self.log.is_harmed())
            .then_some("stepping down: the log cannot be written from here, perhaps from another host")
    }

    /// The hand-over for which this process steps down.
    pub fn requested_hand_over(&self) -> Option<&HandOver> {
        self.departure.hand_over.as_ref()
    }

    /// `.u.failover[]` or `.u.failover "name"`: lets this process step down at the end of this iteration of the event loop.
    ///
    /// # Errors
    /// `nyi` if no other process can take over, or it cannot be chosen; `type` if the successor is no name; `io` if its log may lack updates.
    pub(super) fn hand_over(&mut self, args: &[View<'_>]) -> Result<(), QError> {
        let name = args.first().filter(|name| !name.is_null()).map(View::text);
        let successor = match name {
            None | Some(Some(b"")) => None,
            Some(Some(name)) if name.len() <= MAX_NAME_BYTES => Some(String::from_utf8_lossy(name).into_owned()),
            Some(_) => {
                return Err(QError::with("type", ".u.failover takes the name of a passive tickerplant, or none"));
            }
        };
        if self.lease.is_none() {
            return Err(QError::with("nyi", "this tickerplant has no --lease: no other one waits for its log"));
        }
        if successor.is_some() && self.tenure.is_none() {
            let why = "under --lease file: the first that gets the lock of the log takes over: .u.failover[]";
            return Err(QError::with("nyi", why));
        }
        self.check_successor(successor.as_deref())?;
        tracing::warn!(successor = successor.as_deref().unwrap_or("any"), "an operator requests a hand-over");
        self.departure.given_up = None;
        self.departure.hand_over = Some(HandOver { successor, epoch: self.log.epoch().0 });
        Ok(())
    }

    /// As [`Plant::state`], once readers of the log's file find there what the samples are of.
    pub(super) fn readable_state(&mut self, ctl: &mut dyn Links) -> TickState {
        if let Err(error) = self.log.announce(false) {
            self.fail(&error, ctl);
        }
        self.state()
    }

    /// Returns whether this tickerplant is active, which it is as long as it may log updates. Without a log there is no passive one.
    fn state(&self) -> TickState {
        let is_active = !self.log.has_failed() && !self.is_over && !self.is_leaving();
        let mut record = self.tenure.as_ref().map(|tenure| tenure.state()).unwrap_or_default();
        if let Some(failure) = self.log.failure().filter(|_| record.trouble.is_empty()) {
            record.trouble = failure.to_string();
        }
        TickState {
            role: if is_active { Standing::Active } else { Standing::Passive },
            lease: self.lease.clone().unwrap_or_default(),
            epoch: self.log.exists().then(|| self.log.epoch().0),
            tip: Some(self.feed.tip().index),
            active: self.address.clone().filter(|_| is_active).unwrap_or_default(),
            note: self.departure.given_up.clone().unwrap_or_default(),
            record,
            process: self.log.writer().filter(|_| is_active).map(LogWriter::process).unwrap_or_default(),
            log: self.log.writer().filter(|_| is_active).map(|log| LogState {
                id: Some(log.writer_id().log),
                began: Some(log.began_at()),
                samples: log.samples(),
            }),
            ..TickState::default()
        }
    }
}
