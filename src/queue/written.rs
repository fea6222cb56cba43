//! Updates that another process has written down: no node needs to hold them any more.
//!
//! A write-down process says that it has the rows of all updates before an index. Nodes whose windows end before it drop them and end, lost
//! windows before it are not rebuilt, and the next live node begins there. A window that is only in part below the index stays whole, because its
//! proof is that of the whole window.

use super::event::{Action, QueueError};
use super::ids::{Date, Handle, QueueName, UpdateIndex};
use super::note::Note;
use super::table::{Held, Kind, Queue, State, Subscriber, SubscriberId};

impl Queue {
    /// Returns the index before which all updates of the day are written down.
    pub fn written(&self) -> UpdateIndex {
        self.written
    }

    /// Takes a report of the write-down process. An index below an earlier one changes nothing.
    pub(super) fn write_down(&mut self, handle: Handle, next: UpdateIndex, date: Date, out: &mut Vec<Action>) {
        let (today, tip) = (self.date, self.tip);
        if date != today {
            return out.push(Action::Refused { handle, reason: QueueError::WrittenOtherDay(date, today) });
        }
        if next > tip {
            return out.push(Action::Refused { handle, reason: QueueError::WrittenBeyond(next, tip) });
        }
        if next > self.written {
            self.written = next;
            out.push(Action::Note(Note::new(format!("the updates before {next} are written down")).date(date)));
        }
    }

    /// Takes the windows that are written down from draining nodes: no other node needs to take them over.
    pub(super) fn hand_off_written(&mut self, out: &mut Vec<Action>) {
        let written = self.written;
        for sub in self.subscribers.iter_mut().filter(|s| s.leaving.is_some()) {
            let Some(handle) = sub.handle else { continue };
            let (done, held) = sub.held.iter().partition(|held| held.window.last() <= written);
            sub.held = held;
            let done: Vec<Held> = done;
            out.extend(done.iter().map(|held| Action::Handed { handle, window: held.window }));
        }
    }

    /// Lets go of the windows that are written down.
    pub(super) fn let_go_written(&mut self, out: &mut Vec<Action>) {
        let written = self.written;
        if written == UpdateIndex::default() {
            return;
        }
        let is_done = |s: &&Subscriber| {
            let may_end =
                s.state == State::Rolled && s.kind() == Kind::Native && s.handle.is_some() && s.leaving.is_none();
            may_end && !s.held.is_empty() && s.held.iter().all(|held| held.window.last() <= written)
        };
        let done: Vec<SubscriberId> = self.subscribers.iter().filter(is_done).map(|s| s.id).collect();
        for id in done {
            let Some(sub) = self.find(id) else { continue };
            out.push(Action::Note(sub.note("the node's windows are written down: it drops them and ends")));
            sub.held.clear();
            self.end_node(id, out);
        }
        let queues: Vec<QueueName> = self.lines.keys().cloned().collect();
        for queue in queues {
            let has_live = self.subscribers.iter().any(|s| s.is_live_in(&queue));
            if let Some(line) = self.lines.get_mut(&queue) {
                line.lost.retain(|lost| lost.window.last() > written);
                if !has_live {
                    line.open = line.open.max(written);
                }
            }
        }
    }
}
