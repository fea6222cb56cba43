//! How many instances a group needs, where several queues may share its instances.
//!
//! A fleet is asked for "at least so many instances", so that repeated requests change nothing. The number that a queue asks for
//! counts every instance of the group on which no node waits in this queue, and one for each window that wants a node. A launch
//! that serves two queues, because its instance brings a node for each, is thus asked for by both and made once; where another
//! queue's node took the instance that this one had asked for, this queue's number is larger now, and it asks again.
//!
//! An instance brings its nodes one after the other. Where another instance of the group has nodes in both queues, a new one with
//! a node in the other queue counts as waiting here too, for a while.
//!
//! Nodes that name no instance count one each, in their own queue.

use super::event::Action;
use super::ids::{Handle, QueueName, Symbol};
use super::table::{Kind, Queue, State, Subscriber};
use crate::defect::{Defect, is_planted};
use std::collections::{BTreeMap, BTreeSet};

/// What the node that watches a queue's launches was told of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    handle: Handle,
    /// What it was then: a node whose state has changed has forgotten what it knew.
    state: &'static str,
    desired: usize,
    joined: Vec<Symbol>,
}

/// The nodes of one instance, of whatever queue; those that were lost too.
type Nodes<'a> = Vec<&'a Subscriber>;

impl Queue {
    /// How many instances the queue's group has that do not wait in this queue: with one more, its live node has a successor. What
    /// a live node asks its fleet for is this plus one.
    pub fn position(&self, of: &Subscriber) -> usize {
        self.taken(&of.queue, of.group.as_ref())
    }

    /// Instances of the group, and nodes of this queue that name none, on which no node waits in this queue.
    pub(super) fn taken(&self, queue: &QueueName, group: Option<&Symbol>) -> usize {
        let alone = |s: &&Subscriber| {
            let counts = s.kind() == Kind::Native && s.queue == *queue && (group.is_none() || s.place().is_none());
            counts && s.state != State::Lost && !self.counts_as_waiting(s) && !s.is_replaced()
        };
        let instances = group.map(|group| self.instances(group)).unwrap_or_default();
        let taken = instances.values().filter(|nodes| {
            let ends = nodes.iter().any(|s| s.is_replaced()) || nodes.iter().all(|s| s.state == State::Lost);
            let waits = nodes.iter().any(|s| s.queue == *queue && self.counts_as_waiting(s));
            !ends && !waits && !self.is_expected(queue, nodes, &instances)
        });
        self.subscribers.iter().filter(alone).count().saturating_add(taken.count())
    }

    fn instances(&self, group: &Symbol) -> BTreeMap<&Symbol, Nodes<'_>> {
        let mut instances: BTreeMap<&Symbol, Nodes<'_>> = BTreeMap::new();
        for sub in &self.subscribers {
            if let Some((_, instance)) = sub.place().filter(|(of, _)| *of == group) {
                instances.entry(instance).or_default().push(sub);
            }
        }
        instances
    }

    /// Whether an instance may still bring a node for this queue, as others have that host the same queues.
    fn is_expected(&self, queue: &QueueName, nodes: &Nodes<'_>, instances: &BTreeMap<&Symbol, Nodes<'_>>) -> bool {
        let brings = |nodes: &Nodes<'_>, queue: &QueueName| nodes.iter().any(|s| s.queue == *queue);
        let alike = |others: &Nodes<'_>| brings(others, queue) && nodes.iter().any(|s| brings(others, &s.queue));
        let due_ns = self.companions_of_ns(nodes);
        !brings(nodes, queue) && due_ns.is_some_and(|due_ns| self.now_ns < due_ns) && instances.values().any(alike)
    }

    fn companions_of_ns(&self, nodes: &Nodes<'_>) -> Option<i64> {
        Some(nodes.iter().filter_map(|s| self.came_ns.get(&s.id)).min()?.saturating_add(self.params.companions_ns))
    }

    /// When an instance is no longer expected to bring more nodes.
    pub(super) fn companions_due_ns(&self) -> Option<i64> {
        let groups: BTreeSet<&Symbol> = self.subscribers.iter().filter_map(|s| Some(s.place()?.0)).collect();
        let several = self.lines.len() > 1;
        let due = groups.into_iter().filter(|_| several).flat_map(|group| {
            self.instances(group).into_values().filter_map(|nodes| self.companions_of_ns(&nodes)).collect::<Vec<i64>>()
        });
        due.filter(|due_ns| *due_ns > self.now_ns).min()
    }

    /// Tells who watches the launches of a group what has changed in it: a queue's live node, or, while nobody lives, the first of
    /// those that can ask for a successor, which may be one that never comes up.
    pub(super) fn tell_groups(&mut self, out: &mut Vec<Action>) {
        let mut told = BTreeMap::new();
        for sub in self.lines.keys().filter_map(|queue| self.watcher(queue)) {
            let (Some(handle), Some((group, _))) = (sub.handle, sub.place()) else { continue };
            // Those that are away or lost as well: they have come up.
            let joined = self.instances(group).into_keys().cloned().collect();
            let now = Told { handle, state: sub.shown_state(), desired: self.position(sub).saturating_add(1), joined };
            if self.told.get(&sub.id) != Some(&now) {
                out.push(Action::Group { handle, desired: now.desired, joined: now.joined.clone() });
            }
            told.insert(sub.id, now);
        }
        for sub in self.subscribers.iter().filter(|s| !told.contains_key(&s.id)) {
            // What it knows grows old from now on, and who comes later is not late.
            if let Some(before) = self.told.get(&sub.id).filter(|before| sub.handle == Some(before.handle))
                && !is_planted(Defect::RolledNodeReplacesOthers)
            {
                out.push(Action::Group { handle: before.handle, desired: before.desired, joined: Vec::new() });
            }
        }
        self.told = told;
    }

    fn watcher(&self, queue: &QueueName) -> Option<&Subscriber> {
        let callers = self.callers(queue);
        callers.iter().find(|s| s.state == State::Live).or(callers.first()).copied()
    }
}

impl Subscriber {
    /// Its group and instance, where it named both.
    fn place(&self) -> Option<(&Symbol, &Symbol)> {
        self.group.as_ref().zip(self.instance.as_ref())
    }

    /// Whether its fleet counts it no longer.
    pub(super) fn is_replaced(&self) -> bool {
        self.leaving.is_some_and(|leaving| leaving.replaced)
    }
}
