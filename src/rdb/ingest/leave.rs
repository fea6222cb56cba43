//! Leaving: the fleet is about to end the instance, or the process was asked to end.

use super::{Dialect, Fault, Ingest};
use crate::fleet::Reason;
use crate::protocol::{FromNode, Leaving};
use crate::queue;
use crate::rdb::capacity::FleetRequest;
use crate::rdb::options::LEAVE_WITHIN;
use crate::rdb::policy::{Action, LeaveReason, Phase, PolicyEvent};
use crate::rdb::shared::Ending;
use crate::sys::clock::Clock;
use proto::time::EPOCH_UNIX_S;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const REQUESTED: &str = "draining before termination";

/// A pending request to end the process in good order.
#[derive(Clone, Copy, Debug)]
struct PendingShutdown {
    by: Instant,
    /// When the node leaves without the fleet's reply.
    unanswered_at: Instant,
}

/// What the node announces when it leaves.
#[derive(Clone, Copy, Debug)]
struct Departure {
    /// Nanoseconds from 2000.01.01 UTC.
    by_ns: i64,
    reason: &'static str,
}

/// The requested shutdown of a node, and what it announces.
#[derive(Debug, Default)]
pub(super) struct Leave {
    requested: Option<PendingShutdown>,
    departure: Option<Departure>,
}

impl Leave {
    /// The process was asked to end. Returns whether for the first time, which sets the deadlines.
    fn requested(&mut self, by: Instant, unanswered_at: Instant) -> bool {
        let is_first = self.requested.is_none();
        if is_first {
            self.requested = Some(PendingShutdown { by, unanswered_at });
        }
        is_first
    }

    /// Returns the deadline of the pending request to end.
    fn by(&self) -> Option<Instant> {
        self.requested.map(|requested| requested.by)
    }

    /// Returns the deadline if the fleet has not replied in half of the time, so that the rest remains for the handoff.
    fn unanswered(&self, now: Instant) -> Option<Instant> {
        self.requested.filter(|requested| now >= requested.unanswered_at).map(|requested| requested.by)
    }

    fn departs(&mut self, by_ns: i64, reason: &'static str) {
        self.departure = Some(Departure { by_ns, reason });
    }

    /// Returns the announcement.
    fn announcement(&self, replaced: bool) -> Option<Leaving> {
        let Departure { by_ns, reason } = self.departure?;
        Some(Leaving { when: queue::Leaving { by_ns, replaced }, reason: reason.as_bytes().to_vec() })
    }

    pub fn is_announced(&self) -> bool {
        self.departure.is_some()
    }
}

fn utc_ns(clock: &dyn Clock, by: Instant) -> i64 {
    let left = by.saturating_duration_since(clock.now());
    let by = clock.wall().saturating_add(left).saturating_sub(Duration::from_secs(EPOCH_UNIX_S.unsigned_abs()));
    i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)
}

impl Ingest {
    /// Handles a notice of the fleet.
    pub(super) fn noticed(&mut self, by: Option<Instant>, reason: Reason) {
        if self.link.dialect() == Some(Dialect::Stock) {
            return tracing::warn!(
                "cannot drain: the tickerplant has no queue, so no other node can take over. This node keeps its \
                 rows until it is terminated"
            );
        }
        let why = match reason {
            Reason::Terminating | Reason::Unhealthy => LeaveReason::Replaced,
            Reason::SpotInterruption | Reason::Rebalance => LeaveReason::Interrupted,
        };
        let within = self.options.leave_within.unwrap_or(LEAVE_WITHIN);
        let now = self.env.clock.now();
        let by = by.or_else(|| now.checked_add(within)).unwrap_or(now);
        self.leave(by, why, reason.name());
    }

    /// Handles a request to end the process in good order. Asks the fleet first whether it launches a replacement:
    /// otherwise the tickerplant requests one as well, and two nodes start.
    pub(super) fn on_termination_request(&mut self) {
        let within = self.options.leave_within.unwrap_or_default();
        let now = self.env.clock.now();
        match now.checked_add(within).filter(|_| self.link.is_native()) {
            // The signal is the fleet's own, or an operator's: in neither case is the fleet to launch a replacement.
            Some(_) if self.policy.is_ending() => {
                let (by_ns, why) = (self.now_ns(), LeaveReason::Requested);
                self.step(PolicyEvent::Leave { by_ns, why });
            }
            Some(by) if self.policy.is_leaving() => self.leave(by, LeaveReason::Requested, REQUESTED),
            Some(by) => {
                if self.leave.requested(by, now.checked_add(within / 2).unwrap_or(by)) {
                    self.requests.send(FleetRequest::Leaving);
                }
            }
            None => self.shared.end(Ending::Requested),
        }
    }

    /// Handles the fleet's reply whether it replaces this node.
    pub(super) fn leave_as(&mut self, replaced: bool) {
        if let Some(by) = self.leave.by() {
            self.leave(by, if replaced { LeaveReason::Replaced } else { LeaveReason::Requested }, REQUESTED);
        }
    }

    /// Leaves if the fleet has not replied in half of the time, so that the rest remains for the handoff.
    pub(super) fn leave_unanswered(&mut self) {
        if let Some(by) = self.leave.unanswered(self.env.clock.now()).filter(|_| !self.policy.is_leaving()) {
            self.leave(by, LeaveReason::Requested, REQUESTED);
        }
    }

    fn leave(&mut self, by: Instant, why: LeaveReason, reason: &'static str) {
        if !self.policy.is_leaving() {
            tracing::warn!(%reason, "leaving");
        }
        if self.policy.phase() == Phase::Rebuilding {
            self.replays.stop();
        }
        self.leave.departs(utc_ns(&*self.env.clock, by), reason);
        let by_ns = i64::try_from(by.saturating_duration_since(self.started).as_nanos()).unwrap_or(i64::MAX);
        self.step(PolicyEvent::Leave { by_ns, why });
    }

    /// Returns the announcement of a leaving node.
    pub(super) fn leaving(&self) -> Option<Leaving> {
        let leave = self.policy.is_leaving().then_some(&self.leave)?;
        leave.announcement(self.policy.leaves() == Some(LeaveReason::Replaced))
    }

    /// Announces the leave to the tickerplant; without a connection, the next join carries it.
    pub(super) fn announce(&mut self) -> VecDeque<Action> {
        if let Some(leaving) = self.leaving().filter(|_| self.can_announce()) {
            self.link.post(FromNode::Leaving(leaving));
        }
        self.leave_unannounced()
    }

    /// A node that holds nothing need not wait for a connection to announce it.
    pub(super) fn leave_unannounced(&mut self) -> VecDeque<Action> {
        let holds = !self.intake.held().is_empty() || self.intake.open_window().is_some();
        match self.policy.is_leaving() && !self.can_announce() && !holds {
            true => self.policy.step(PolicyEvent::Left, self.now_ns()).into(),
            false => VecDeque::new(),
        }
    }

    fn can_announce(&self) -> bool {
        self.link.reaches_native()
    }

    /// Logs the windows that no other node holds when the time is over.
    pub(super) fn log_abandoned_windows(&mut self) {
        let windows: Vec<String> =
            self.intake.held().iter().map(|window| format!("[{},{})", window.first, window.next)).collect();
        if !windows.is_empty() {
            tracing::error!(
                "this node terminates before another one has taken over {}: queries miss those rows until they are \
                 rebuilt from the log",
                windows.join(" ")
            );
        }
    }

    /// Hides the node's rows from queries, or shows them.
    pub(super) fn set_hidden(&mut self, hidden: bool) -> Result<(), Fault> {
        let set = self.intake.set_hidden(hidden);
        self.show();
        set.map_err(|error| Fault::Fatal(format!("cannot show or hide the tables: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_leaves_without_the_fleets_reply_after_half_of_its_time() {
        let (now, within) = (Instant::now(), Duration::from_secs(60));
        let mut leave = Leave::default();
        assert!(leave.requested(now + within, now + within / 2));
        assert!(!leave.requested(now + within * 2, now + within), "the first deadline stands");
        let at = |time| leave.unanswered(now + time);
        assert_eq!((at(within / 3), at(within / 2)), (None, Some(now + within)));
    }

    #[test]
    fn a_node_announces_its_last_reason() {
        let mut leave = Leave::default();
        assert!(leave.announcement(true).is_none());
        leave.departs(5, "rebalance");
        leave.departs(9, "spot");
        let announced = leave.announcement(true).expect("it leaves");
        assert_eq!((announced.when.by_ns, announced.when.replaced, announced.reason), (9, true, b"spot".to_vec()));
    }
}
