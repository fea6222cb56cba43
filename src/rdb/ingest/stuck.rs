//! Detects a node that makes no progress: successive connections end at the same update. Its window then goes to the
//! next node. An update that two nodes cannot receive is left out, and the window's proof differs.

use super::{Fault, Ingest};
use crate::rdb::policy::Event;

/// Maximum number of consecutive connections that end at an update that cannot be received, before the window goes to
/// the next node.
const UNREADABLE_MOST: u32 = 3;
/// The same for connections that end for another reason, which may be transient, while updates are due.
const RESUMES_MOST: u32 = 8;

/// Consecutive connections that ended at the same update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stuck {
    at: u64,
    times: u32,
    /// Latest error of receiving the update; `None` if all connections ended for other reasons.
    unreadable: Option<String>,
}

impl Stuck {
    fn is_over(&self) -> bool {
        self.times >= if self.unreadable.is_some() { UNREADABLE_MOST } else { RESUMES_MOST }
    }
}

impl Ingest {
    /// Counts a connection that ended before the next update; gives the window up after several.
    pub(super) fn note_progress(&mut self, fault: &Fault, had_joined: bool) {
        let unreadable = match fault {
            Fault::Unreadable(reason) => Some(reason.clone()),
            Fault::Connection(_) | Fault::NoLog(_) => None,
            Fault::Surprise(_) | Fault::Fatal(_) => return,
        };
        let Some(open) = self.intake.open_window() else { return };
        let (at, is_empty) = (open.window.next, open.window.is_empty());
        // A node without due updates is not stuck.
        let is_behind = open.last.or(self.tip).is_some_and(|end| at < end);
        let counts = had_joined && self.link.is_native() && self.policy.takes_updates();
        if !counts || !(is_behind || unreadable.is_some()) {
            return;
        }
        let stuck = match self.stuck.take().filter(|stuck| stuck.at == at) {
            Some(before) => {
                Stuck { times: before.times.saturating_add(1), unreadable: unreadable.or(before.unreadable), ..before }
            }
            None => Stuck { at, times: 1, unreadable },
        };
        let (is_over, skips) = (stuck.is_over(), stuck.unreadable.is_some() && is_empty);
        let times = stuck.times;
        self.stuck = Some(stuck);
        if !is_over || skips {
            return;
        }
        tracing::error!(update = %at, connections = %times, "no progress over several connections: the window goes to the next node");
        if is_empty {
            self.stuck = None;
        }
        self.counters.windows_given_up = self.counters.windows_given_up.saturating_add(1);
        self.step(Event::NoProgress);
        // The connection is gone, so drop the roll message: the next join claims the windows held, which shows where
        // this one ends.
        self.link.drop_output();
    }

    /// Leaves out the window's first update if this node could not receive it in several attempts. Another node could
    /// not either: the one before it in the queue, or one that is to rebuild from there.
    pub(super) fn skip_unreadable(&mut self) {
        let Some(stuck) = self.stuck.clone().filter(Stuck::is_over) else { return };
        let (Some(reason), Some(open)) = (stuck.unreadable, self.intake.open_window()) else { return };
        if open.window.next == stuck.at && open.window.is_empty() {
            self.stuck = None;
            self.leave_out(stuck.at, &reason);
        }
    }

    /// Leaves out an update that no node of this size, or with these limits, can take.
    pub(super) fn leave_out(&mut self, index: u64, reason: &str) {
        self.counters.updates_left_out = self.counters.updates_left_out.saturating_add(1);
        self.intake.skip_refused();
        self.refuse(&format!("update {index} is left out, its rows cannot be queried here: {reason}"));
    }
}
