//! A node leaves: it says so, rolls, lets others rebuild what it holds, and goes when nothing is left or its time is over.

use super::{Action, Phase, Policy};

/// Why a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Someone ends the process, and its fleet did not say that it launches another in its place.
    Asked,
    /// The server is taken back while the fleet counts it still: once others hold what it held, which needed one more node, it is
    /// ended with one off the capacity.
    Interrupted,
    /// The fleet has taken it off its capacity already, and waits until it may end.
    Replaced,
}

/// Since it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leave {
    why: Why,
    /// It held windows, for which another node was needed.
    handed_on: bool,
}

/// Time for the fleet to hear that the node may end.
const RELEASE_WITHIN_NS: i64 = 10_000_000_000;

impl Policy {
    /// Whether it is on its way out and takes nothing any more.
    pub fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving { .. } | Phase::Released { .. })
    }

    /// Why it leaves, if it does.
    pub fn leaves(&self) -> Option<Why> {
        self.leave.map(|leave| leave.why)
    }

    pub(super) fn leave(&mut self, by_ns: i64, why: Why, now_ns: i64, out: &mut Vec<Action>) {
        let rolls = self.phase == Phase::Live;
        let handed_on = match self.phase {
            Phase::Ending { .. } | Phase::Terminated | Phase::Released { .. } => return self.hurry(why, out),
            Phase::Leaving { by_ns: before_ns } => {
                // A process that is told to end by hand was not told that its fleet replaces it.
                let why = if why == Why::Asked { self.leaves().unwrap_or(why) } else { why };
                let again = self.leaves() != Some(why);
                self.phase = Phase::Leaving { by_ns: before_ns.min(by_ns) };
                self.leave = self.leave.map(|leave| Leave { why, ..leave });
                if again {
                    out.push(Action::Announce);
                }
                return;
            }
            Phase::Live => {
                // A group that ends a node by itself launches another in its place, unless it is made smaller on purpose.
                if why != Why::Replaced && !self.wants_successor {
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
        self.leave = Some(Leave { why, handed_on });
        out.push(Action::Announce);
        if rolls {
            // After the announcement: the number that its successor asks the fleet for does not count this node.
            out.push(Action::Roll);
        }
    }

    /// It is going already.
    fn hurry(&mut self, why: Why, out: &mut Vec<Action>) {
        match (why, self.phase) {
            (Why::Asked, _) => out.push(Action::End),
            // Its rows are gone or about to be: the fleet need not wait.
            (Why::Replaced, Phase::Terminated) => out.push(Action::Release),
            _ => {}
        }
    }

    /// Nothing is left that only this node holds.
    pub(super) fn left(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        let (Phase::Leaving { by_ns }, Some(leave)) = (self.phase, self.leave) else { return };
        if now_ns < by_ns && self.kept_until_ns.is_some_and(|until_ns| now_ns < until_ns) {
            self.left_waits = true;
            return;
        }
        self.phase = Phase::Released { by_ns: by_ns.max(now_ns.saturating_add(RELEASE_WITHIN_NS)) };
        self.unprotect(out);
        out.push(match leave {
            Leave { why: Why::Asked, .. } => Action::End,
            Leave { why: Why::Interrupted, handed_on: true } => Action::Terminate,
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

    /// The fleet has heard, or keeps it and will end it in its own time.
    pub(super) fn released(&mut self, out: &mut Vec<Action>) {
        if let Phase::Released { .. } = self.phase {
            out.push(Action::End);
        }
    }

    /// Its time is over, done or not.
    pub(super) fn go_on_time(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Leaving { by_ns } if now_ns >= by_ns => {
                out.push(Action::Forsake);
                // What it held is rebuilt on a node that takes its place.
                self.leave = self.leave.map(|leave| Leave { handed_on: false, ..leave });
                self.left(now_ns, out);
            }
            Phase::Released { by_ns } if now_ns >= by_ns => out.push(Action::End),
            _ => {}
        }
    }

    /// Rows of the day have come to an unprotected node.
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
