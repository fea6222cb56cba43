//! A day of a cluster that sleeps: it begins with the queue as the end of the same day has left it, so that the first node comes as in production.

use super::{Day, Node, NodeRun};
use crate::config::Wake;
use crate::feed::curve::DAY_NS;
use crate::fleet::group::{GroupEvent, Instance};
use crate::queue::{Date, Handle, Now, Params, QueueEvent, State, Status, UpdateIndex, Window};
use crate::rdb::policy::PolicyEvent;
use std::ops::Range;

/// The group of all nodes.
const GROUP: &[u8] = b"rdb";
/// How often a time without queries is looked at.
const LOOK_NS: u64 = 60_000_000_000;

/// How a cluster sleeps. Times are those of the planned day.
#[derive(Clone, Debug, PartialEq)]
pub struct Sleep {
    pub wake: Wake,
    /// Time without updates and queries after which the nodes end; `None` for never.
    pub idle_ns: Option<u64>,
    /// When the calendar requests the first node.
    pub prepare_ns: Option<u64>,
    /// When clients query.
    pub queries: Range<u64>,
}

impl Sleep {
    /// Returns the parameters of the queue.
    pub(super) fn params(&self) -> Params {
        let idle_ns = self.idle_ns.map_or(i64::MAX, |ns| i64::try_from(ns).unwrap_or(i64::MAX));
        Params { groups: vec![GROUP.to_vec()], wake: self.wake, idle_ns, ..Params::default() }
    }

    /// Returns the times of the day at which somebody calls for nodes: the first query, and the calendar.
    fn calls(&self) -> impl Iterator<Item = u64> {
        let first = (self.queries.start < self.queries.end).then_some(self.queries.start);
        first.into_iter().chain(self.prepare_ns.filter(|_| self.wake == Wake::Calendar))
    }
}

/// One time at which nodes were requested while none was there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waking {
    pub at_ns: u64,
    /// Instances requested.
    pub nodes: u32,
    /// What the log had.
    pub bytes: u64,
    /// When nodes held all of the day, so that a query had its first complete answer; `None` if they never did.
    pub answered_ns: Option<u64>,
}

impl Waking {
    /// Returns the time from the request until the first complete answer; `None` if there was none.
    pub fn wait_ns(&self) -> Option<u64> {
        Some(self.answered_ns?.saturating_sub(self.at_ns))
    }
}

/// What a sleeping cluster has besides, as far as the day goes.
#[derive(Debug, Default)]
pub(super) struct Asleep {
    pub ended: Vec<NodeRun>,
    pub wakings: Vec<Waking>,
    /// Time of the day without any instance.
    pub zero_ns: u64,
    /// The last moment at which updates came.
    active_ns: u64,
    looked_ns: u64,
}

impl Day<'_> {
    fn sleep(&self) -> Option<&Sleep> {
        self.setup.sleep.as_ref()
    }

    /// Ends the day that the queue was set up with, and begins the planned one.
    pub(super) fn next_day(&mut self) {
        let (tip, steady_ns) = (UpdateIndex(self.tip()), self.steady_ns());
        (self.date, self.base_ns) = (Date(self.date.0.saturating_add(1)), self.now_ns);
        let end = QueueEvent::DayEnd { new_date: self.date };
        for action in self.queue.step(end, tip, Now { wall_ns: steady_ns, steady_ns }) {
            self.of_queue(action);
        }
        self.bury();
        self.asleep = Asleep { active_ns: self.now_ns, looked_ns: self.now_ns, ..Asleep::default() };
        self.samples.clear();
        (self.most_behind_bytes, self.behind_ns) = (0, 0);
        for node in &mut self.nodes {
            (node.first, node.next, node.is_live) = (0, 0, node.is_live);
            node.run = NodeRun {
                requested_ns: self.base_ns,
                joined_ns: self.base_ns,
                live_ns: Some(self.base_ns),
                ..NodeRun::default()
            };
        }
        // Each node has applied the end of the day.
        let memory = PolicyEvent::Memory { used_bytes: self.setup.latent_bytes, budget_bytes: self.setup.memory_bytes };
        for at in 0..self.nodes.len() {
            self.policy_step(at, PolicyEvent::DayEnd);
            self.policy_step(at, memory);
            self.report(at);
        }
        self.bury();
        self.asleep.ended.clear();
        self.queue_step(QueueEvent::Tick);
    }

    /// Returns when a sleeping cluster has something to do.
    pub(super) fn sleep_due_ns(&self) -> Vec<u64> {
        let Some(sleep) = self.sleep() else { return Vec::new() };
        let of_day = |at_ns: u64| self.base_ns.saturating_add(at_ns);
        let mut due: Vec<u64> = sleep.calls().chain([sleep.queries.end]).map(of_day).collect();
        due.extend(self.queue.wakes_beyond().and_then(|beyond| Some(of_day(self.shape.reaches_ns(beyond.0)?))));
        if let Some(idle_ns) = sleep.idle_ns.filter(|_| !self.nodes.is_empty()) {
            due.push(self.asleep.active_ns.saturating_add(idle_ns));
            due.push(of_day(sleep.queries.end).saturating_add(idle_ns));
            due.push(self.asleep.looked_ns.saturating_add(LOOK_NS));
        }
        due.extend(self.nodes.iter().filter_map(|node| self.rebuilt_ns(node)));
        due
    }

    /// Returns when a node has rebuilt its window.
    fn rebuilt_ns(&self, node: &Node) -> Option<u64> {
        let missing = node.rebuilds?.last().0.saturating_sub(node.next) as f64;
        let ns = missing / self.setup.replay_bytes_per_s as f64 * 1e9;
        Some(self.now_ns.saturating_add(ns as u64 + 1))
    }

    /// Reads on in the windows that are rebuilt, at most so many bytes of each.
    pub(super) fn rebuild(&mut self, most: u64) {
        for at in 0..self.nodes.len() {
            let Some(node) = self.nodes.get_mut(at) else { continue };
            let Some(window) = node.rebuilds else { continue };
            let (handle, bytes) = (node.handle, window.last().0.saturating_sub(node.next).min(most));
            node.next = node.next.saturating_add(bytes);
            let is_done = node.next >= window.last().0;
            self.policy_step(at, PolicyEvent::Replayed { bytes });
            let still = self.nodes.get_mut(at).filter(|node| is_done && node.rebuilds == Some(window));
            if let Some(node) = still {
                node.rebuilds = None;
                self.policy_step(at, PolicyEvent::RebuildDone);
                self.queue_step(QueueEvent::Rebuilt { handle, window, date: self.date });
            }
        }
    }

    /// A node begins to rebuild a window.
    pub(super) fn rebuilds(&mut self, handle: Handle, window: Window) {
        let Some(at) = self.nodes.iter().position(|node| node.handle == handle) else { return };
        if let Some(node) = self.nodes.get_mut(at) {
            (node.first, node.next, node.rebuilds) = (window.first().0, window.first().0, Some(window));
        }
        self.policy_step(at, PolicyEvent::BecameRebuilding);
    }

    /// The tickerplant requests the first nodes.
    pub(super) fn requests_first(&mut self, desired: usize) {
        let nodes = u32::try_from(desired).unwrap_or(u32::MAX);
        self.request(nodes);
        let (at_ns, bytes) = (self.now_ns, self.tip());
        match self.asleep.wakings.last_mut().filter(|waking| waking.answered_ns.is_none()) {
            Some(waking) => waking.nodes = waking.nodes.max(nodes),
            None => self.asleep.wakings.push(Waking { at_ns, nodes, bytes, answered_ns: None }),
        }
    }

    /// What a time step leaves to do: calls for nodes, wake-ups, nodes that are idle.
    pub(super) fn sleep_step(&mut self, from_ns: u64, grew: bool) {
        let Some(sleep) = self.sleep().cloned() else { return };
        let now_ns = self.now_ns;
        if self.group.slots().is_empty() {
            self.asleep.zero_ns = self.asleep.zero_ns.saturating_add(now_ns.saturating_sub(from_ns));
        }
        if grew {
            self.asleep.active_ns = now_ns;
        }
        let is_due = |at_ns: &u64| (from_ns + 1..=now_ns).contains(&self.base_ns.saturating_add(*at_ns));
        // Who starts a cluster that has no other way to wake is a schedule.
        let starts = sleep.wake == Wake::Schedule && from_ns == 0;
        if sleep.calls().any(|at_ns| is_due(&at_ns)) || starts {
            self.queue_step(QueueEvent::Wake);
        } else if self.queue.wakes_beyond().is_some_and(|beyond| beyond < UpdateIndex(self.tip())) || grew {
            self.queue_step(QueueEvent::Tick);
        }
        let is_long = |ns: u64| sleep.idle_ns.is_some_and(|idle_ns| ns >= idle_ns);
        if is_long(now_ns.saturating_sub(self.asleep.active_ns)) && self.quiet_ns().is_some_and(is_long) {
            for at in 0..self.nodes.len() {
                self.report(at);
            }
        }
        self.asleep.looked_ns = now_ns;
        self.bury();
        let is_whole = self.is_whole();
        if let Some(waking) = self.asleep.wakings.last_mut().filter(|waking| is_whole && waking.answered_ns.is_none()) {
            waking.answered_ns = Some(now_ns);
        }
    }

    /// Whether the cluster has no nodes on purpose, or waits for the first ones: what has arrived meanwhile is not behind.
    pub(super) fn is_away(&self) -> bool {
        let wakes = self.asleep.wakings.last().is_some_and(|waking| waking.answered_ns.is_none());
        self.sleep().is_some() && (wakes || self.nodes.is_empty())
    }

    /// Whether nodes hold all of the day.
    fn is_whole(&self) -> bool {
        let is_level = self.nodes.iter().any(|node| node.is_live && node.next >= self.tip());
        let is_rebuilt = self.nodes.iter().all(|node| node.rebuilds.is_none());
        is_level && is_rebuilt && self.queue.lines().values().all(|line| line.lost.is_empty())
    }

    /// Time since the last query; `None` while clients query.
    fn quiet_ns(&self) -> Option<u64> {
        let queries = &self.sleep()?.queries;
        let of_day = self.now_ns.saturating_sub(self.base_ns);
        match queries.contains(&of_day) {
            true => None,
            // The last query of the day before, or of today.
            false if of_day < queries.start => Some(of_day.saturating_add(DAY_NS.saturating_sub(queries.end))),
            false => Some(of_day.saturating_sub(queries.end)),
        }
    }

    /// A node reports its status.
    fn report(&mut self, at: usize) {
        let quiet_ns = self.quiet_ns().map_or(0, |ns| i64::try_from(ns).unwrap_or(i64::MAX));
        let Some(node) = self.nodes.get(at) else { return };
        let next = node.is_live.then_some(UpdateIndex(node.next));
        let status = Status {
            next,
            date: Some(self.date),
            scaled: node.policy.has_scaled(),
            quiet_ns: Some(quiet_ns),
            ..Status::default()
        };
        self.queue_step(QueueEvent::Status { handle: node.handle, status });
    }

    /// The tickerplant tells a node to end, as its day is over or the cluster sleeps.
    pub(super) fn ends(&mut self, handle: Handle, event: PolicyEvent) {
        let Some(at) = self.nodes.iter().position(|node| node.handle == handle) else { return };
        if let Some(node) = self.nodes.get_mut(at) {
            (node.is_live, node.rebuilds) = (false, None);
        }
        self.policy_step(at, event);
    }

    /// The fleet ends an instance at the request of its node, or because it was surplus.
    pub(super) fn stopped(&mut self, instance: Instance) {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.instance == instance) {
            node.run.ended_ns = Some(self.now_ns);
        }
        self.group_step(GroupEvent::Exited(instance));
    }

    /// Takes the nodes that have ended out of the cluster. Not within a step, which refers to nodes by their place.
    fn bury(&mut self) {
        let gone: Vec<Node> = self.nodes.extract_if(.., |node| node.run.ended_ns.is_some()).collect();
        for node in gone {
            let is_in_table =
                self.queue.subscribers().iter().any(|sub| sub.handle == Some(node.handle) && sub.state != State::Lost);
            if is_in_table {
                self.queue_step(QueueEvent::Disconnect { handle: node.handle });
            }
            let held_bytes = node.next.saturating_sub(node.first);
            self.asleep.ended.push(NodeRun { held_bytes, ..node.run });
        }
    }
}
