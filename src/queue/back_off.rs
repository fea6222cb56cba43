//! Back-off of standbys that cannot take a window: those whose memory is at their roll level, and those that gave a window back untouched.
//!
//! A standby at its roll level would roll before its first update, so it is passed over until it reports less. A node that gave a window
//! back is offered one again after a back-off that doubles, so that full standbys never exchange a window in a hot loop. Neither of
//! them counts as a standby: another instance is requested in its place, but only for a bounded number of them. A cause that fills every new
//! node as well (a budget too small, a crowded host) would otherwise take the group to its maximum.

use super::event::{Action, Status};
use super::ids::{Handle, QueueName};
use super::leave;
use super::note::Note;
use super::table::{Kind, Queue, State, Subscriber, SubscriberId};

/// Back-off of a node that gave a window back untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// On the steady clock; `None` once the back-off is over.
    pub until_ns: Option<i64>,
    pub pause_ns: i64,
}

impl Status {
    /// Returns whether the node would roll before it takes an update.
    pub fn is_full(&self) -> bool {
        matches!((self.memory_percent, self.roll_percent), (Some(memory), Some(roll)) if memory >= roll)
    }
}

impl Queue {
    /// Returns whether a standby can take a window now.
    pub fn is_able(&self, sub: &Subscriber) -> bool {
        let is_backing_off = self.back_offs.get(&sub.id).is_some_and(|back_off| back_off.until_ns.is_some());
        !is_backing_off && !self.status.get(&sub.id).is_some_and(Status::is_full)
    }

    /// Returns the number of standbys of a queue that cannot take a window now.
    pub fn unable(&self, queue: &QueueName) -> usize {
        self.unable_of(queue).count()
    }

    /// Returns the back-off of a node that gave a window back.
    pub fn back_off(&self, id: SubscriberId) -> Option<BackOff> {
        self.back_offs.get(&id).copied()
    }

    fn unable_of<'a>(&'a self, queue: &'a QueueName) -> impl Iterator<Item = &'a Subscriber> {
        self.subscribers.iter().filter(|s| s.state == State::Waiting && s.queue == *queue && !self.is_able(s))
    }

    /// Returns whether a subscriber counts as a standby when nodes are requested.
    pub(super) fn counts_as_waiting(&self, sub: &Subscriber) -> bool {
        let replaced = || self.unable_of(&sub.queue).take(self.params.unable_replaced_max).any(|s| s.id == sub.id);
        sub.state == State::Waiting && !replaced()
    }

    /// Stores a node's status report. Returns whether that changes its ability to take a window.
    pub(super) fn set_status(&mut self, handle: Handle, status: Status) -> bool {
        let Some(id) = self.id_by_handle(handle) else { return false };
        let is_full = status.is_full();
        self.status.insert(id, status).is_some_and(|before| before.is_full()) != is_full
    }

    /// Starts the back-off of a node that gave its window back before it took an update.
    pub(super) fn start_back_off(&mut self, id: SubscriberId) {
        let (first_ns, most_ns) = (self.params.rest_first_ns, self.params.rest_most_ns);
        let pause_ns =
            self.back_offs.get(&id).map_or(first_ns, |back_off| back_off.pause_ns.saturating_mul(2).min(most_ns));
        self.back_offs.insert(id, BackOff { until_ns: Some(self.now_ns.saturating_add(pause_ns)), pause_ns });
    }

    /// Returns the ends of all back-offs.
    pub(super) fn back_offs_due_ns(&self) -> impl Iterator<Item = i64> {
        self.back_offs.values().filter_map(|back_off| back_off.until_ns)
    }

    /// Ends the back-offs that are over.
    pub(super) fn end_back_offs(&mut self) {
        let now_ns = self.now_ns;
        for back_off in self.back_offs.values_mut() {
            back_off.until_ns = back_off.until_ns.filter(|until_ns| *until_ns > now_ns);
        }
    }

    /// Returns the standby for the next window: of those that can take it, the one with the shortest back-off, then the longest-waiting.
    pub(super) fn next_standby(&self, queue: &QueueName, native_only: bool) -> Option<SubscriberId> {
        let can =
            |s: &&Subscriber| s.is_waiting_here(queue) && self.is_able(s) && (!native_only || s.kind() == Kind::Native);
        let pause_ns = |s: &&Subscriber| self.back_offs.get(&s.id).map_or(0, |back_off| back_off.pause_ns);
        self.subscribers.iter().filter(can).min_by_key(|s| (pause_ns(s), s.id)).map(|s| s.id)
    }

    /// Raises an alarm if a window has no taker although nodes wait; once, until every window has a taker again.
    pub(super) fn alarm_blocked(&mut self, out: &mut Vec<Action>) {
        for (queue, line) in &self.lines {
            let has_live = self.subscribers.iter().any(|s| s.is_live_in(queue));
            let work =
                !has_live || !line.lost.is_empty() || !leave::not_taken_over(&self.subscribers, queue).is_empty();
            let unable = self.unable(queue);
            let is_blocked = work && unable > 0;
            if is_blocked && self.blocked.insert(queue.clone()) {
                let what = if has_live {
                    "no standby can rebuild the lost windows:"
                } else {
                    "no standby can take the open window:"
                };
                let text = format!(
                    "{what} {unable} are at the roll threshold or have given a window back; free memory there, or \
                     raise the capacity of the fleet"
                );
                out.push(Action::Alarm(Note::new(text).queue(queue)));
            } else if !is_blocked && self.blocked.remove(queue) {
                out.push(Action::Note(Note::new("every window is assigned again").queue(queue)));
            }
        }
        let lines = &self.lines;
        self.blocked.retain(|queue| lines.contains_key(queue));
    }
}
