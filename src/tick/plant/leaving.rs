//! The end of a leader that gives its lease back, where each tickerplant has a log of its own.

use super::Plant;
use super::state::HandOver;
use crate::net::Links;

/// Time that followers have to get the last updates.
const LEVEL_WITHIN_NS: i64 = 2_000_000_000;
/// Time after which the process ends, or goes on, without the store's answer.
const LEAVE_WITHIN_NS: i64 = 5_000_000_000;

/// Why and how a leader leaves.
#[derive(Debug, Default)]
pub(super) struct Departure {
    pub hand_over: Option<HandOver>,
    leaving: Option<Leaving>,
    /// Why the last hand-over was given up.
    pub given_up: Option<String>,
}

/// How far it has come.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    since_ns: i64,
    has_excluded: bool,
}

impl Plant {
    /// Whether the log may be closed. A process that gives its lease back first lets the followers that may take over get the last updates, and
    /// accepts no more; to be called again in each iteration. A hand-over is given up, and the process goes on, if nobody could take over.
    /// `must_end`: the process ends in any case.
    pub fn may_stop(&mut self, must_end: bool, ctl: &mut dyn Links) -> bool {
        let has_left = self.is_over || self.tenure.as_ref().is_some_and(|tenure| tenure.has_left());
        if self.followers.keeping.is_none() || has_left || self.log.has_failed() {
            return true;
        }
        let now_ns = self.steady_ns();
        if self.departure.leaving.is_none() {
            self.flush_merged(ctl);
            self.settle(ctl);
            self.followers.hasten(ctl.now());
            self.departure.leaving = Some(Leaving { since_ns: now_ns, has_excluded: false });
        }
        self.serve_followers(ctl);
        let (position, has_successor) = (self.log.position(), self.has_successor());
        let (Some(keeping), Some(leaving)) = (&mut self.followers.keeping, &mut self.departure.leaving) else {
            return true;
        };
        let is_level = keeping.in_sync.is_level(position);
        if is_level && (must_end || has_successor) {
            return true;
        }
        let waited_ns = now_ns.saturating_sub(leaving.since_ns);
        if waited_ns <= LEVEL_WITHIN_NS {
            return false;
        }
        if is_level {
            self.keep_role("nobody who may take over answers");
            return false;
        }
        if !std::mem::replace(&mut leaving.has_excluded, true) {
            let record = keeping.in_sync.exclude_behind(position);
            keeping.request(record);
        }
        if waited_ns <= LEAVE_WITHIN_NS {
            return false;
        }
        let seconds = LEAVE_WITHIN_NS / 1_000_000_000;
        match must_end {
            true => tracing::warn!(
                "stopping although the lease may name followers that lack updates: the store has not answered within {seconds} s"
            ),
            false => self.keep_role(&format!("the store has not answered within {seconds} s")),
        }
        must_end
    }

    /// Whether a hand-over has somebody to take over: it has called since it began.
    fn has_successor(&self) -> bool {
        let successor = self.departure.hand_over.as_ref().and_then(|hand_over| hand_over.successor.as_deref());
        self.check_successor(successor).is_ok()
    }

    /// Gives a hand-over up: updates are accepted again.
    fn keep_role(&mut self, why: &str) {
        let text = format!("the hand-over is given up, this tickerplant stays active: {why}");
        tracing::error!("{text}");
        self.departure = Departure { given_up: Some(text), ..Departure::default() };
    }

    /// Whether the process gives its lease back and accepts nothing more.
    pub fn is_leaving(&self) -> bool {
        self.departure.leaving.is_some()
    }

    /// When [`Plant::may_stop`] is to be called again without an event.
    pub(super) fn leaving_due_ns(&self) -> Option<i64> {
        let Leaving { since_ns, has_excluded } = self.departure.leaving?;
        let after_ns = if has_excluded { LEAVE_WITHIN_NS } else { LEVEL_WITHIN_NS };
        Some(since_ns.saturating_add(after_ns).saturating_add(1))
    }
}
