//! Leaving: the fleet is about to end the instance, or the process was asked to end.

use super::{Dialect, Fault, Ingest};
use crate::defect::{Defect, is_planted};
use crate::fleet::Reason;
use crate::points::{self, Point};
use crate::protocol::{FromNode, Leaving};
use crate::queue;
use crate::rdb::capacity::Ask;
use crate::rdb::options::LEAVE_WITHIN;
use crate::rdb::policy::{Action, Event, Phase, Why};
use crate::rdb::shared::Ending;
use crate::sys::clock;
use proto::time::EPOCH_UNIX_S;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const ASKED: &str = "asked to end";

/// A pending request to end the process in good order.
#[derive(Clone, Copy)]
pub(super) struct AskedToEnd {
    by: Instant,
    /// When the node leaves without the fleet's reply.
    unanswered_at: Instant,
}

/// What the node announces when it leaves.
pub(super) struct Departure {
    /// Nanoseconds from 2000.01.01 UTC.
    by_ns: i64,
    reason: &'static str,
}

fn utc_ns(by: Instant) -> i64 {
    let left = by.saturating_duration_since(clock::now());
    let by = clock::wall().saturating_add(left).saturating_sub(Duration::from_secs(EPOCH_UNIX_S.unsigned_abs()));
    i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)
}

impl Ingest {
    /// Handles a notice of the fleet.
    pub(super) fn noticed(&mut self, by: Option<Instant>, reason: Reason) {
        if self.link.dialect() == Some(Dialect::Stock) {
            return tracing::warn!(
                "nobody can take over from this node, for its tickerplant has no queue: it stays to the end"
            );
        }
        let why = match reason {
            Reason::Terminating | Reason::Unhealthy => Why::Replaced,
            Reason::SpotInterruption | Reason::Rebalance => Why::Interrupted,
        };
        let within = self.options.leave_within.unwrap_or(LEAVE_WITHIN);
        let by = by.or_else(|| clock::now().checked_add(within)).unwrap_or_else(clock::now);
        self.leave(by, why, reason.name());
    }

    /// Handles a request to end the process in good order. Asks the fleet first whether it launches a replacement:
    /// otherwise the tickerplant requests one as well, and two nodes start.
    pub(super) fn asked_to_leave(&mut self) {
        let within = self.options.leave_within.unwrap_or_default();
        let now = clock::now();
        match (self.link.dialect(), now.checked_add(within)) {
            (Some(Dialect::Elastick), Some(by)) if self.policy.is_leaving() => self.leave(by, Why::Asked, ASKED),
            (Some(Dialect::Elastick), Some(by)) if self.asked_to_end.is_none() => {
                self.asked_to_end = Some(AskedToEnd { by, unanswered_at: now.checked_add(within / 2).unwrap_or(by) });
                self.ask(Ask::Leaving);
            }
            (Some(Dialect::Elastick), Some(_)) => {}
            _ => self.shared.end(Ending::Asked),
        }
    }

    /// Handles the fleet's reply whether it replaces this node.
    pub(super) fn leave_as(&mut self, replaced: bool) {
        if let Some(AskedToEnd { by, .. }) = self.asked_to_end {
            let replaced = replaced && !is_planted(Defect::LeaverCountedTwice);
            self.leave(by, if replaced { Why::Replaced } else { Why::Asked }, ASKED);
        }
    }

    /// Leaves if the fleet has not replied in half of the time, so that the rest remains for the handoff.
    pub(super) fn leave_unanswered(&mut self) {
        let unanswered = self.asked_to_end.filter(|asked| clock::now() >= asked.unanswered_at);
        if let Some(AskedToEnd { by, .. }) = unanswered.filter(|_| !self.policy.is_leaving()) {
            self.leave(by, Why::Asked, ASKED);
        }
    }

    fn leave(&mut self, by: Instant, why: Why, reason: &'static str) {
        if !self.policy.is_leaving() {
            tracing::warn!(%reason, "leaving");
            points::reach(Point::NodeLeaves);
        }
        if self.policy.phase() == Phase::Rebuilding {
            self.replay = None;
        }
        self.departure = Some(Departure { by_ns: utc_ns(by), reason });
        let by_ns = i64::try_from(by.saturating_duration_since(self.started).as_nanos()).unwrap_or(i64::MAX);
        self.step(Event::Leave { by_ns, why });
    }

    /// Returns the announcement of a leaving node.
    pub(super) fn leaving(&self) -> Option<Leaving> {
        let departure = self.departure.as_ref().filter(|_| self.policy.is_leaving())?;
        let replaced = self.policy.leaves() == Some(Why::Replaced);
        let when = queue::Leaving { by_ns: departure.by_ns, replaced };
        Some(Leaving { when, reason: departure.reason.as_bytes().to_vec() })
    }

    /// Announces the leave to the tickerplant; without a connection, the next join carries it.
    pub(super) fn announce(&mut self) -> VecDeque<Action> {
        if let Some(leaving) = self.leaving().filter(|_| self.can_announce()) {
            self.link.post(FromNode::Leaving(leaving));
        }
        self.left_untold()
    }

    /// A node that holds nothing need not wait for a connection to announce it.
    pub(super) fn left_untold(&mut self) -> VecDeque<Action> {
        let holds = !self.intake.held().is_empty() || self.intake.open_window().is_some();
        match self.policy.is_leaving() && !self.can_announce() && !holds {
            true => self.policy.step(Event::Left, self.now_ns()).into(),
            false => VecDeque::new(),
        }
    }

    fn can_announce(&self) -> bool {
        self.link.reaches_native()
    }

    /// Logs the windows that no other node holds when the time is over.
    pub(super) fn forsake(&mut self) {
        let windows: Vec<String> =
            self.intake.held().iter().map(|window| format!("[{},{})", window.first, window.next)).collect();
        if !windows.is_empty() {
            tracing::error!(
                "this node ends although nobody else holds {} yet: it is rebuilt from the log, and missing until then",
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
