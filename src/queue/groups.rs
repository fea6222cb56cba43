//! Computes the number of instances that a group needs, where several queues may share its instances.
//!
//! Requests to the fleet are for "at least N instances", so that repeated requests are idempotent. A queue's N counts every instance of the group
//! without a standby in this queue, plus one for each window that needs a node. So a launch that serves two queues, because its instance
//! brings a node for each, is requested by both and made once. If another queue's node took the instance that this queue had requested,
//! this queue's N is larger now, and it asks again.
//!
//! An instance starts its nodes one after another. If another instance of the group has nodes in both queues, a new one with a node in the
//! other queue counts as a standby here too, until [`super::Params::companions_ns`] have passed.
//!
//! A node that names no instance counts as one instance, in its own queue.

use super::event::Action;
use super::ids::{Handle, QueueName, Symbol};
use super::table::{Kind, Queue, State, Subscriber};
use std::collections::{BTreeMap, BTreeSet};

/// Last [`Action::Group`] sent to the node that watches a queue's launches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastSent {
    handle: Handle,
    /// State of the node at that time: a node whose state has changed has discarded the list.
    state: &'static str,
    desired: usize,
    joined: Vec<Symbol>,
}

/// All nodes of one instance, in any queue, lost ones included.
type Nodes<'a> = Vec<&'a Subscriber>;

impl Queue {
    /// Returns the number of instances of the queue's group without a standby in this queue. The live node requests this plus one, for its
    /// successor.
    pub fn position(&self, of: &Subscriber) -> usize {
        self.taken(&of.queue, of.group.as_ref())
    }

    /// Returns the number of instances of the group without a standby in this queue, plus the nodes of this queue that name no instance and
    /// are no standby. Instances that the fleet replaces, and those whose nodes are all lost, do not count.
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

    /// Returns the instances of the group that have come up: those of nodes that are away or lost too, and those whose nodes have left
    /// or ended their day, as an owner's `.u.end` may run for longer than a launch takes.
    pub(super) fn came_up(&self, group: &Symbol) -> Vec<Symbol> {
        let all: BTreeSet<&Symbol> = self.instances(group).into_keys().chain(self.departed.of(group)).collect();
        all.into_iter().cloned().collect()
    }

    /// Remembers the instance of a node that leaves the table because it is drained or its day has ended.
    pub(super) fn remember_departed(&mut self, group: Option<&Symbol>, instance: Option<&Symbol>) {
        if let (Some(group), Some(instance)) = (group, instance) {
            self.departed.remember(group, instance, self.now_ns);
        }
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

    /// Returns whether an instance may still start a node for this queue: it is recent, and another instance of the group has nodes in this
    /// queue and in one of the instance's queues.
    fn is_expected(&self, queue: &QueueName, nodes: &Nodes<'_>, instances: &BTreeMap<&Symbol, Nodes<'_>>) -> bool {
        let brings = |nodes: &Nodes<'_>, queue: &QueueName| nodes.iter().any(|s| s.queue == *queue);
        let alike = |others: &Nodes<'_>| brings(others, queue) && nodes.iter().any(|s| brings(others, &s.queue));
        let due_ns = self.companions_of_ns(nodes);
        !brings(nodes, queue) && due_ns.is_some_and(|due_ns| self.now_ns < due_ns) && instances.values().any(alike)
    }

    /// Returns when an instance is no longer expected to start more nodes.
    fn companions_of_ns(&self, nodes: &Nodes<'_>) -> Option<i64> {
        Some(nodes.iter().filter_map(|s| self.came_ns.get(&s.id)).min()?.saturating_add(self.params.companions_ns))
    }

    /// Returns when the next instance is no longer expected to start more nodes.
    pub(super) fn companions_due_ns(&self) -> Option<i64> {
        let groups: BTreeSet<&Symbol> = self.subscribers.iter().filter_map(|s| Some(s.place()?.0)).collect();
        let several = self.lines.len() > 1;
        let due = groups.into_iter().filter(|_| several).flat_map(|group| {
            self.instances(group).into_values().filter_map(|nodes| self.companions_of_ns(&nodes)).collect::<Vec<i64>>()
        });
        due.filter(|due_ns| *due_ns > self.now_ns).min()
    }

    /// Sends changes of its group to the node that watches the group's launches: a queue's live node, or, while none is live, the first
    /// that can ask for a successor (the live node's successor may be an instance that never comes up).
    pub(super) fn notify_groups(&mut self, out: &mut Vec<Action>) {
        let mut last_sent = BTreeMap::new();
        for sub in self.lines.keys().filter_map(|queue| self.watcher(queue)) {
            let (Some(handle), Some((group, _))) = (sub.handle, sub.place()) else { continue };
            let joined = self.came_up(group);
            let now =
                LastSent { handle, state: sub.shown_state(), desired: self.position(sub).saturating_add(1), joined };
            if self.last_sent.get(&sub.id) != Some(&now) {
                out.push(Action::Group { handle, desired: now.desired, joined: now.joined.clone() });
            }
            last_sent.insert(sub.id, now);
        }
        for sub in self.subscribers.iter().filter(|s| !last_sent.contains_key(&s.id)) {
            // Its list becomes stale from now on: it must not replace instances that join later as if they had not come up.
            if let Some(before) = self.last_sent.get(&sub.id).filter(|before| sub.handle == Some(before.handle)) {
                out.push(Action::Group { handle: before.handle, desired: before.desired, joined: Vec::new() });
            }
        }
        self.last_sent = last_sent;
    }

    /// Returns the node that watches the launches for a queue: the live one, or the first that can ask the fleet.
    fn watcher(&self, queue: &QueueName) -> Option<&Subscriber> {
        let callers = self.callers(queue);
        callers.iter().find(|s| s.state == State::Live).or(callers.first()).copied()
    }
}

impl Subscriber {
    /// Returns its group and instance, if it named both.
    fn place(&self) -> Option<(&Symbol, &Symbol)> {
        self.group.as_ref().zip(self.instance.as_ref())
    }

    /// Returns whether its fleet no longer counts it.
    pub(super) fn is_replaced(&self) -> bool {
        self.leaving.is_some_and(|leaving| leaving.replaced)
    }
}
