//! Eviction: an operator gives up a connected node whose process is known to be gone although its connection has not ended, such as one
//! on a host that hangs or behind a half-open link.
//!
//! The node is lost at once, without a grace period, and other nodes rebuild its windows. Its process may come back, and its join would look like
//! that of a new process. So the random id of each evicted process is kept, in the journal too, and its later joins are rejected.

use super::event::{Action, QueueError};
use super::ids::{NodeName, QueueName, Symbol};
use super::journal::Change;
use super::note::Note;
use super::table::{Queue, State};
use std::collections::VecDeque;

/// Most evicted processes that are remembered; the oldest make room. One that comes back after that drops its rows, as others hold its windows.
pub const MAX_EVICTED: usize = 1024;

/// Ids of evicted processes, in order of eviction.
#[derive(Clone, Debug, Default)]
pub(super) struct Evicted {
    processes: VecDeque<Symbol>,
    /// Number of ids at the end that are not in the journal yet.
    unsaved: usize,
}

impl Evicted {
    fn remember(&mut self, process: &Symbol) {
        if self.contains(process) {
            return;
        }
        if self.processes.len() >= MAX_EVICTED {
            self.processes.pop_front();
        }
        self.processes.push_back(process.clone());
        self.unsaved = self.unsaved.saturating_add(1).min(self.processes.len());
    }

    /// Remembers a process of the journal.
    pub fn restore(&mut self, process: &Symbol) {
        self.remember(process);
        self.unsaved = 0;
    }

    pub fn clear(&mut self) {
        *self = Evicted::default();
    }

    pub fn contains(&self, process: &Symbol) -> bool {
        self.processes.contains(process)
    }

    /// Returns all of them for a snapshot of the table.
    pub fn all(&self) -> impl Iterator<Item = Change> {
        self.processes.iter().cloned().map(Change::Evicted)
    }

    /// Returns those that the journal does not have yet, and takes them for saved.
    pub fn take_unsaved(&mut self) -> Vec<Change> {
        let saved = self.processes.len().saturating_sub(std::mem::take(&mut self.unsaved));
        self.processes.iter().skip(saved).cloned().map(Change::Evicted).collect()
    }
}

impl Queue {
    /// Gives up the node of this name, unless another process has the name now. A second call changes nothing.
    pub(super) fn evict(&mut self, node: &NodeName, process: &Symbol, out: &mut Vec<Action>) {
        let found = self.subscribers.iter().find(|s| s.node.as_ref() == Some(node) && s.state != State::Lost);
        let Some((id, handle)) = found.map(|s| (s.id, s.handle)) else {
            self.evicted.remember(process);
            return;
        };
        // The ids of processes are not kept over a restart of the tickerplant. A missing id does not show that it is another process.
        if self.processes.get(&id).is_some_and(|owner| owner != process) {
            return;
        }
        self.evicted.remember(process);
        if let Some(sub) = self.subscribers.iter().find(|s| s.id == id) {
            out.push(Action::Alarm(
                sub.note("the node is evicted: its connection is closed, and its process may not join again"),
            ));
        }
        out.extend(handle.map(|handle| Action::StopFeed { handle }));
        out.extend(handle.map(|handle| Action::Close { handle }));
        self.give_up(id, out);
        if let Some(sub) = self.find(id) {
            // The instance does not count as one that has come up any more: whichever node watches the launches next has it replaced, unless
            // another process joins from there.
            (sub.group, sub.instance) = (None, None);
        }
    }

    /// Forgets a queue whose cluster is gone: no node of it is connected or within its grace period. Returns why it cannot be forgotten.
    pub(super) fn forget_queue(&mut self, queue: &QueueName, out: &mut Vec<Action>) -> Option<QueueError> {
        let is_here = |s: &&super::Subscriber| s.queue == *queue && s.state != State::Lost;
        if let Some(sub) = self.subscribers.iter().find(is_here) {
            return Some(QueueError::QueueInUse(queue.clone(), sub.label()));
        }
        let gone: Vec<_> = self.subscribers.iter().filter(|s| s.queue == *queue).map(|s| s.id).collect();
        for id in gone {
            self.remove(id);
        }
        if self.lines.remove(queue).is_some() {
            self.last_requests.remove(queue);
            self.blocked.remove(queue);
            out.push(Action::Note(Note::new("the queue is forgotten: none of its nodes is left").queue(queue)));
        }
        None
    }

    /// Returns the id of the process that owns a connected node's name, if the node sent one.
    pub fn process(&self, id: super::SubscriberId) -> Option<&Symbol> {
        self.processes.get(&id)
    }

    /// Returns whether this process was evicted.
    pub fn is_evicted(&self, process: &Symbol) -> bool {
        self.evicted.contains(process)
    }
}
