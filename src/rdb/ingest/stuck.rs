//! A node that makes no progress: successive connections end at the same update. Its window then goes to the next node. An update that two
//! nodes cannot receive is left out, and the window's proof differs.

use super::{Fault, Ingest};
use crate::rdb::policy::PolicyEvent;

impl Ingest {
    /// Counts a connection that ended before the next update; gives the window up after several.
    pub(super) fn note_progress(&mut self, fault: &Fault, had_joined: bool) {
        let unreadable = match fault {
            Fault::Unreadable(reason) => Some(reason.clone()),
            Fault::Connection(_) | Fault::JoinsAgain(_) | Fault::NoLog(_) => None,
            Fault::Surprise(_) | Fault::Fatal(_) => return,
        };
        let Some(open) = self.intake.open_window() else { return };
        let (at, is_empty) = (open.window.next, open.window.is_empty());
        // A node without due updates is not stuck.
        let is_behind = open.last.or(self.day.tip()).is_some_and(|end| at < end);
        let counts = had_joined && self.link.is_native() && self.policy.takes_updates();
        if !counts || !(is_behind || unreadable.is_some()) {
            return;
        }
        let Some(times) = self.progress.ended_at(at, is_empty, unreadable) else { return };
        tracing::error!(update = %at, connections = %times, "no progress over several connections: handing the window to the next node");
        self.step(PolicyEvent::NoProgress);
        // The connection is gone, so drop the roll message: the next join claims the windows held, which shows where
        // this one ends.
        self.link.drop_output();
    }

    /// Leaves out the window's first update if this node could not receive it in several attempts. Another node could
    /// not either: the one before it in the queue, or one that is to rebuild from there.
    pub(super) fn skip_unreadable(&mut self) {
        let Some(open) = self.intake.open_window().filter(|open| open.window.is_empty()) else { return };
        let at = open.window.next;
        if let Some(reason) = self.progress.leaves_out(at) {
            self.leave_out(at, &reason);
        }
    }

    /// Leaves out an update that no node of this size, or with these limits, can take.
    pub(super) fn leave_out(&mut self, index: u64, reason: &str) {
        self.progress.left_out();
        self.intake.skip_refused();
        self.refuse(&format!("skipping update {index}, its rows cannot be queried on this node: {reason}"));
    }
}
