//! Instances whose nodes have left the queues, because they were drained or their day ended. They came up and may still be at work, as an
//! owner's `.u.end` may run for hours: a watcher of launches that did not know them would replace them.

use super::ids::Symbol;
use super::journal::Change;
use std::collections::VecDeque;

/// Most departed instances that are remembered; the oldest make room.
pub(super) const MAX_DEPARTED: usize = 1024;

/// Age at which the end of a day forgets a departed instance: the end of the next day keeps those that may still be ending this one, and the
/// one after that forgets them.
pub(super) const KEPT_NS: i64 = 36 * 3600 * 1_000_000_000;

/// The departed instances, in order of departure.
#[derive(Clone, Debug, Default)]
pub(super) struct Departed {
    instances: VecDeque<Instance>,
    /// Number of instances at the end that are not in the journal yet.
    unsaved: usize,
}

#[derive(Clone, Debug)]
struct Instance {
    group: Symbol,
    name: Symbol,
    /// Departure on the steady clock.
    at_ns: i64,
}

impl Departed {
    /// Remembers an instance that departs now.
    pub fn remember(&mut self, group: &Symbol, name: &Symbol, now_ns: i64) {
        let before = self.instances.len();
        self.instances.retain(|known| known.group != *group || known.name != *name);
        let is_new = self.instances.len() == before;
        if is_new && self.instances.len() >= MAX_DEPARTED {
            self.instances.pop_front();
        }
        self.instances.push_back(Instance { group: group.clone(), name: name.clone(), at_ns: now_ns });
        self.unsaved = self.unsaved.saturating_add(1).min(self.instances.len());
    }

    /// Remembers an instance of the journal. Its age is unknown until [`Departed::restart`].
    pub fn restore(&mut self, group: &Symbol, name: &Symbol) {
        self.remember(group, name, i64::MIN);
        self.unsaved = 0;
    }

    /// Counts the age of all instances from now: the steady clock of another process means nothing here.
    pub fn restart(&mut self, now_ns: i64) {
        self.instances.iter_mut().for_each(|instance| instance.at_ns = now_ns);
    }

    pub fn clear(&mut self) {
        *self = Departed::default();
    }

    /// Forgets the instances that departed long ago. The journal does not record this: a snapshot has to follow.
    pub fn expire(&mut self, now_ns: i64) {
        while self.instances.front().is_some_and(|first| first.at_ns.saturating_add(KEPT_NS) <= now_ns) {
            self.instances.pop_front();
        }
        self.unsaved = 0;
    }

    /// Returns the departed instances of a group.
    pub fn of<'a>(&'a self, group: &'a Symbol) -> impl Iterator<Item = &'a Symbol> {
        self.instances.iter().filter(move |instance| instance.group == *group).map(|instance| &instance.name)
    }

    /// Returns the names of all of them.
    pub fn names(&self) -> Vec<&Symbol> {
        self.instances.iter().map(|instance| &instance.name).collect()
    }

    /// Returns all of them for a snapshot of the table.
    pub fn all(&self) -> impl Iterator<Item = Change> {
        self.instances.iter().map(Instance::change)
    }

    /// Returns those that the journal does not have yet, and takes them for saved.
    pub fn take_unsaved(&mut self) -> Vec<Change> {
        let saved = self.instances.len().saturating_sub(std::mem::take(&mut self.unsaved));
        self.instances.iter().skip(saved).map(Instance::change).collect()
    }
}

impl Instance {
    fn change(&self) -> Change {
        Change::Departed { group: self.group.clone(), instance: self.name.clone() }
    }
}
