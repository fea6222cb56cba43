//! Leaving: the node announces it, rolls, lets other nodes rebuild its windows, and ends when it holds nothing or its
//! time is over.

use super::{Action, Phase, Policy};

/// Why a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// The process was asked to end, and its fleet did not confirm that it launches a replacement.
    Requested,
    /// The server is being reclaimed while the fleet still counts it. The takeover needed one more node, so the
    /// instance ends with the capacity reduced by one.
    Interrupted,
    /// The fleet has stopped counting the instance and waits until it may end.
    Replaced,
}

/// A leave in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leave {
    reason: LeaveReason,
    /// The node held windows, whose takeover needs another node.
    handed_on: bool,
    /// When the leave began, the node was ending already: its day was over, or its cluster had gone to sleep.
    was_ending: bool,
}

/// Time for the fleet to acknowledge that the node may end.
const RELEASE_WITHIN_NS: i64 = 10_000_000_000;

impl Policy {
    /// Returns whether the node is leaving, and so takes nothing more.
    pub fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving { .. } | Phase::Released { .. })
    }

    /// Returns whether the node ends because its day is over or the cluster sleeps, so that nothing is to replace it.
    pub fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. } | Phase::Terminated)
            || self.leave.is_some_and(|leave| leave.was_ending)
    }

    /// Returns why the node is leaving; `None` if it is not.
    pub fn leaves(&self) -> Option<LeaveReason> {
        self.leave.map(|leave| leave.reason)
    }

    pub(super) fn leave(&mut self, by_ns: i64, reason: LeaveReason, now_ns: i64, out: &mut Vec<Action>) {
        let rolls = self.phase == Phase::Live;
        let handed_on = match self.phase {
            Phase::Ending { .. } | Phase::Terminated | Phase::Released { .. } => {
                return self.hurry(reason, now_ns, out);
            }
            Phase::Leaving { by_ns: before_ns } => {
                // SIGTERM says nothing about a replacement: keep what the fleet said.
                let reason = if reason == LeaveReason::Requested { self.leaves().unwrap_or(reason) } else { reason };
                let again = self.leaves() != Some(reason);
                self.phase = Phase::Leaving { by_ns: before_ns.min(by_ns) };
                self.leave = self.leave.map(|leave| Leave { reason, ..leave });
                if again {
                    out.push(Action::Announce);
                }
                return;
            }
            Phase::Live => {
                // A group that ends a node launches a replacement itself, unless the operator is shrinking it.
                if reason != LeaveReason::Replaced && !self.wants_successor {
                    self.scale_out(now_ns, out);
                }
                true
            }
            Phase::Rolled => true,
            Phase::Rebuilding => {
                out.push(Action::Clear);
                false
            }
            Phase::Waiting => false,
        };
        self.phase = Phase::Leaving { by_ns };
        self.leave = Some(Leave { reason, handed_on, was_ending: false });
        out.push(Action::Announce);
        if rolls {
            // After the announcement, so that the number requested for the successor does not count this node.
            out.push(Action::Roll);
        }
    }

    /// The node is ending already: shortens what is left.
    fn hurry(&mut self, reason: LeaveReason, now_ns: i64, out: &mut Vec<Action>) {
        match (reason, self.phase) {
            // The capacity must go down with the node: the fleet replaces an instance that is gone without that.
            (LeaveReason::Requested, Phase::Ending { .. } | Phase::Terminated) => {
                self.unprotect(out);
                if self.phase != Phase::Terminated {
                    out.push(Action::Terminate);
                }
                self.phase = Phase::Released { by_ns: now_ns.saturating_add(RELEASE_WITHIN_NS) };
                self.leave = Some(Leave { reason, handed_on: false, was_ending: true });
            }
            (LeaveReason::Requested, _) => out.push(Action::End),
            // The rows are dropped or about to be: the fleet need not wait.
            (LeaveReason::Replaced, Phase::Terminated) => out.push(Action::Release),
            _ => {}
        }
    }

    /// The node is drained: no window is left that only it holds.
    pub(super) fn left(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        let (Phase::Leaving { by_ns }, Some(leave)) = (self.phase, self.leave) else { return };
        if now_ns < by_ns && self.kept_until_ns.is_some_and(|until_ns| now_ns < until_ns) {
            self.left_waits = true;
            return;
        }
        self.phase = Phase::Released { by_ns: by_ns.max(now_ns.saturating_add(RELEASE_WITHIN_NS)) };
        self.unprotect(out);
        out.push(match leave {
            Leave { reason: LeaveReason::Requested, .. } => Action::End,
            Leave { reason: LeaveReason::Interrupted, handed_on: true, .. } => Action::Terminate,
            _ => Action::Release,
        });
    }

    /// The owner's `.u.end` has returned.
    pub(super) fn day_saved(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        self.kept_until_ns = None;
        if std::mem::take(&mut self.left_waits) {
            self.left(now_ns, out);
        }
    }

    /// The fleet has acknowledged, or keeps the node and will end it later.
    pub(super) fn released(&mut self, out: &mut Vec<Action>) {
        if let Phase::Released { .. } = self.phase {
            out.push(Action::End);
        }
    }

    /// Ends the node when its time is over, drained or not.
    pub(super) fn go_on_time(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Leaving { by_ns } if now_ns >= by_ns => {
                out.push(Action::Abandon);
                // A replacement will rebuild the windows; it needs no extra capacity.
                self.leave = self.leave.map(|leave| Leave { handed_on: false, ..leave });
                self.left(now_ns, out);
            }
            Phase::Released { by_ns } if now_ns >= by_ns => out.push(Action::End),
            _ => {}
        }
    }

    /// Turns scale-in protection on with the first rows of the day.
    pub(super) fn protect(&mut self, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.protected, true) {
            out.push(Action::Protect(true));
        }
    }

    pub(super) fn unprotect(&mut self, out: &mut Vec<Action>) {
        if std::mem::replace(&mut self.protected, false) {
            out.push(Action::Protect(false));
        }
    }
}
