//! Sleep and wake: a queue without nodes, whose updates only the log holds, and the requests for the first nodes that follow.
//!
//! A node requests its own successor, so a queue without nodes has nobody to request the first one. For the groups in
//! [`super::Params::groups`] the tickerplant does ([`Action::Request`]). A queue of such a group falls asleep at the end of a day
//! ([`Wake`]), or when it was idle for [`super::Params::idle_ns`]: each of its nodes gets [`Action::Sleep`], drops its rows and ends. The
//! windows that they held are lost ones, so that the nodes of the wake-up rebuild them, each one of them.

use super::event::{Action, Status};
use super::ids::{Handle, QueueName, Symbol, UpdateIndex, Window};
use super::leave;
use super::note::Note;
use super::table::{FirstRequest, Kind, Line, Lost, OpenAtEnd, Queue, State, Subscriber, SubscriberId};
use crate::config::Wake;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A node that answered a query within this time wakes its queue, nanoseconds: it reports every second.
pub const RECENT_NS: u64 = 2_000_000_000;

/// Maximum number of windows into which a day is shared out at once.
const MAX_SHARES: usize = 64;

impl Queue {
    /// Whether the tickerplant requests the first nodes of a group.
    fn has_group(&self, group: &Symbol) -> bool {
        self.params.groups.contains(group)
    }

    /// Whether a queue sleeps: it has no nodes on purpose.
    pub fn is_asleep(&self, line: &Line) -> bool {
        line.asleep.is_some() && line.group.as_ref().is_some_and(|group| self.has_group(group))
    }

    /// Returns the number of queues that sleep.
    pub fn sleeping(&self) -> usize {
        self.lines.values().filter(|line| self.is_asleep(line)).count()
    }

    /// Returns the number of instances that the tickerplant has requested and that have not come yet; 0 if a node is there to request them.
    pub fn first_requested(&self) -> usize {
        self.first_requests.values().map(|request| request.desired).sum()
    }

    /// Returns the tip beyond which the next update wakes a queue: step [`super::QueueEvent::Tick`] then. `None` if no update does.
    pub fn wakes_beyond(&self) -> Option<UpdateIndex> {
        if !self.update_wakes() {
            return None;
        }
        let asleep = self.lines.values().filter(|line| self.is_asleep(line)).filter_map(|line| line.asleep);
        let is_first = self.wakes_first()
            && self.tip == UpdateIndex::default()
            && self.params.groups.iter().any(|group| self.is_unknown(group));
        asleep.chain(is_first.then(UpdateIndex::default)).min()
    }

    /// Returns when a day's first node starts.
    pub fn wakes_by(&self) -> Wake {
        self.params.wake
    }

    /// Whether a day's first update wakes a group that never had a node.
    fn wakes_first(&self) -> bool {
        matches!(self.params.wake, Wake::FirstUpdate | Wake::Calendar)
    }

    /// Returns the live nodes that end once they have finished the day before.
    pub fn ending(&self) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.iter().filter(|s| self.ending.contains_key(&s.id))
    }

    /// Appends the state of queues that may sleep to a fingerprint, as text. `None` for the time stands for a queue to be restored.
    pub fn put_sleep(&self, now_ns: Option<i64>, out: &mut String) {
        if self.params.groups.is_empty() {
            return;
        }
        // Writing to a string cannot fail.
        let _ = write!(out, "written {} departed {:?} ending", self.written, self.departed.names());
        for sub in self.ending() {
            let _ = write!(out, " {} {:?}", sub.label(), self.ending.get(&sub.id));
        }
        let Some(now_ns) = now_ns else { return };
        let is_quiet = now_ns.saturating_sub(self.active_ns) >= self.params.idle_ns;
        let requested: Vec<usize> = self.first_requests.values().map(|request| request.desired).collect();
        let late =
            self.late_launches.iter().map(|(queue, late)| (queue, late.nodes, &late.let_go, now_ns < late.until_ns));
        let late: Vec<_> = late.collect();
        let _ = write!(
            out,
            " quiet {is_quiet} {:?} late {late:?} requested {requested:?} {:?}",
            self.active_tip, self.waking
        );
        for sub in &self.subscribers {
            let of = |status: &Status| (status.next, status.date, status.scaled, status.fleet_max, status.quiet_ns);
            let came_ns = self.came_ns.get(&sub.id).copied();
            let is_here = came_ns.is_none_or(|came_ns| now_ns.saturating_sub(came_ns) >= self.params.idle_ns);
            let _ = write!(out, " {:?} {}", self.status.get(&sub.id).map(of), is_here);
        }
    }

    fn update_wakes(&self) -> bool {
        self.params.wake != Wake::FirstQuery && !self.params.groups.is_empty()
    }

    /// Whether no queue has had a node of this group.
    fn is_unknown(&self, group: &Symbol) -> bool {
        !self.lines.values().any(|line| line.group.as_ref() == Some(group))
    }

    /// Somebody wants to query, or a market is about to open: wakes all queues.
    pub(super) fn wake(&mut self, out: &mut Vec<Action>) {
        self.active_ns = self.now_ns;
        self.ending.clear();
        let mut woken = Vec::new();
        for (queue, line) in &mut self.lines {
            if line.asleep.take().is_some() {
                out.push(Action::Note(Note::new("waking the queue: its nodes are wanted").queue(queue)));
                woken.push(queue.clone());
            }
        }
        woken.iter().for_each(|queue| self.share_out(queue));
        let unknown: Vec<Symbol> = self.params.groups.iter().filter(|group| self.is_unknown(group)).cloned().collect();
        self.waking.extend(unknown);
    }

    /// Shares the open window of a queue without a live node out: as many updates as filled a node before become lost windows, so that as many
    /// nodes as the day needs are requested at once and replay at the same time.
    fn share_out(&mut self, queue: &QueueName) {
        let (tip, written) = (self.tip, self.written);
        if self.subscribers.iter().any(|s| s.is_live_in(queue)) {
            return;
        }
        let Some(line) = self.lines.get_mut(queue) else { return };
        let Some(updates) = line.filled.filter(|updates| *updates > 0) else { return };
        line.open = line.open.max(written);
        for _ in 0..MAX_SHARES {
            let last = UpdateIndex(line.open.0.saturating_add(updates));
            let Some(window) = Window::new(line.open, last).filter(|_| last < tip) else { break };
            line.add_lost(Lost { window, rejections: 0 });
            line.open = last;
        }
    }

    /// Notes which group serves which queue, wakes queues that an update has arrived for, and lets idle ones sleep.
    pub(super) fn sleep_or_wake(&mut self, out: &mut Vec<Action>) {
        if self.params.groups.is_empty() {
            return;
        }
        let served: Vec<(QueueName, Symbol)> = self
            .subscribers
            .iter()
            .filter_map(|s| Some((s.queue.clone(), s.group.clone()?)))
            .filter(|(_, group)| self.has_group(group))
            .collect();
        for (queue, group) in served {
            self.waking.remove(&group);
            if let Some(line) = self.lines.get_mut(&queue) {
                line.group = Some(group);
            }
        }
        self.note_activity(self.tip);
        let (tip, wakes) = (self.tip, self.update_wakes());
        for (queue, line) in &mut self.lines {
            if wakes && line.asleep.is_some_and(|at| at < tip) {
                line.asleep = None;
                out.push(Action::Note(Note::new("waking the queue: an update has arrived").queue(queue)));
            }
        }
        self.keep_ending();
        self.keep_late_launches();
        let groups: Vec<Symbol> = self.params.groups.iter().filter(|group| self.is_idle(group)).cloned().collect();
        for group in groups {
            self.put_to_sleep(&group, out);
        }
    }

    /// Forgets nodes that were to end and are live no more, or whose queue has woken; wakes a queue of which such a node has rolled.
    pub(super) fn keep_ending(&mut self) {
        if self.ending.is_empty() {
            return;
        }
        // A node that rolled before its report could end it has a successor by now, which is live: the queue is awake, and sleeps when it is idle.
        let has_rolled = |s: &&Subscriber| s.state == State::Rolled && self.ending.contains_key(&s.id);
        let awake: Vec<QueueName> = self.subscribers.iter().filter(has_rolled).map(|s| s.queue.clone()).collect();
        for queue in awake {
            if let Some(line) = self.lines.get_mut(&queue) {
                line.asleep = None;
            }
        }
        let is_asleep = |s: &Subscriber| self.lines.get(&s.queue).is_some_and(|line| line.asleep.is_some());
        let ends = |s: &Subscriber| s.state == State::Live && is_asleep(s);
        let ending: BTreeSet<SubscriberId> = self.subscribers.iter().filter(|s| ends(s)).map(|s| s.id).collect();
        self.ending.retain(|id, _| ending.contains(id));
    }

    /// Returns the window that a live subscriber has open as the day ends, if it ends with the day.
    pub(super) fn open_at_end(&self, sub: &Subscriber) -> Option<OpenAtEnd> {
        if sub.state != State::Live || !self.ends_with_day(sub) {
            return None;
        }
        let open = self.lines.get(&sub.queue).map(|line| line.open).unwrap_or_default();
        let reported = self.status.get(&sub.id).and_then(|status| status.next).filter(|next| *next <= self.tip);
        Some(OpenAtEnd { from: open.max(reported.unwrap_or_default()), to: self.tip })
    }

    /// Notes when the last update arrived.
    pub(super) fn note_activity(&mut self, tip: UpdateIndex) {
        if tip != self.active_tip || self.active_ns == i64::MAX {
            (self.active_tip, self.active_ns) = (tip, self.now_ns);
        }
    }

    /// Whether a report of this node may put a queue to sleep, wake it, or end the node.
    pub(super) fn may_sleep(&self, handle: Handle) -> bool {
        let Some(sub) = self.by_handle(handle) else { return false };
        if !sub.group.as_ref().is_some_and(|group| self.has_group(group)) {
            return false;
        }
        let is_asleep = self.lines.get(&sub.queue).is_some_and(|line| line.asleep.is_some());
        is_asleep || self.ending.contains_key(&sub.id) || self.is_quiet()
    }

    /// Whether no update has arrived for [`super::Params::idle_ns`].
    fn is_quiet(&self) -> bool {
        self.params.idle_ns != i64::MAX && self.now_ns.saturating_sub(self.active_ns) >= self.params.idle_ns
    }

    /// A node has sent a report: a query wakes its queue, and a node that has finished the day before ends.
    pub(super) fn reported(&mut self, handle: Handle, out: &mut Vec<Action>) {
        let Some(sub) = self.by_handle(handle) else { return };
        let (id, queue) = (sub.id, sub.queue.clone());
        let Some(&Status { next, date, quiet_ns, .. }) = self.status.get(&id) else { return };
        if let Some(open) = self.ending.get(&id).copied() {
            // A position in the new day shows that the node has applied the end of the day, which is sent in order with the updates. Older versions do
            // not send the date.
            let is_at_start = self.tip == UpdateIndex::default() && next == Some(self.tip);
            // Under `--wake first-update` a node that has received an update of the new day stays.
            let is_past = |next: UpdateIndex| !self.update_wakes() && next <= self.tip && !open.may_have(next);
            let is_of_today = |date| date == self.date && (self.tip == UpdateIndex::default() || !self.update_wakes());
            let is_new = date.map_or_else(|| is_at_start || next.is_some_and(is_past), is_of_today);
            if is_new && quiet_ns.is_some() {
                self.end_node(id, out);
                let text = "the queue sleeps until the day's first update, or until queries are announced";
                out.push(Action::Note(Note::new(text).queue(&queue)));
            }
            return;
        }
        if let Some(line) = self.lines.get_mut(&queue)
            && quiet_ns.is_some_and(|quiet_ns| quiet_ns < RECENT_NS.cast_signed())
            && line.asleep.take().is_some()
        {
            out.push(Action::Note(Note::new("waking the queue: a node was queried").queue(&queue)));
        }
    }

    /// Whether a group may sleep: no update and no query of its nodes for [`super::Params::idle_ns`], and none of them is needed for something else.
    fn is_idle(&self, group: &Symbol) -> bool {
        if !self.is_quiet() {
            return false;
        }
        let is_long = |ns: i64| ns >= self.params.idle_ns;
        let mut of_group =
            self.subscribers.iter().filter(|s| s.group.as_ref() == Some(group) && s.state != State::Lost);
        let may_end = |s: &Subscriber| {
            let quiet_ns = self.status.get(&s.id).and_then(|status| status.quiet_ns);
            let is_settled = matches!(s.state, State::Live | State::Rolled | State::Waiting) && s.leaving.is_none();
            // A node that was woken for queries waits as long for them, however long its launch took. One that was lost and is back has no arrival.
            let came_ns = self.came_ns.get(&s.id);
            let is_here = came_ns.is_none_or(|came_ns| is_long(self.now_ns.saturating_sub(*came_ns)));
            let is_idle = quiet_ns.is_some_and(is_long) && is_here;
            s.handle.is_some() && is_settled && is_idle
        };
        let lines = || self.lines.values().filter(|line| line.group.as_ref() == Some(group));
        let has_nodes = of_group.clone().next().is_some();
        // A query wakes only the queue of its node: of one group some may sleep and some not.
        let is_whole = lines().all(|line| line.lost.is_empty() || line.asleep.is_some());
        let is_awake = lines().any(|line| line.asleep.is_none());
        has_nodes && is_whole && is_awake && of_group.all(may_end) && !self.has_paper_clients(group)
    }

    /// Whether a queue of the group also has the paper's clients, which cannot be ended.
    fn has_paper_clients(&self, group: &Symbol) -> bool {
        let of_group = |s: &Subscriber| self.lines.get(&s.queue).is_some_and(|line| line.group.as_ref() == Some(group));
        self.subscribers.iter().any(|s| s.kind() == Kind::Paper && s.state != State::Lost && of_group(s))
    }

    fn put_to_sleep(&mut self, group: &Symbol, out: &mut Vec<Action>) {
        self.expect_late_launches(group);
        let of_group = |s: &&Subscriber| s.group.as_ref() == Some(group) && s.state != State::Lost;
        let ids: Vec<SubscriberId> = self.subscribers.iter().filter(of_group).map(|s| s.id).collect();
        for id in ids {
            self.end_node(id, out);
        }
        let tip = self.tip;
        for (queue, line) in self.lines.iter_mut().filter(|(_, line)| line.group.as_ref() == Some(group)) {
            line.asleep = Some(tip);
            let text = "the queue sleeps: no update and no query came for as long as --idle-off says";
            out.push(Action::Note(Note::new(text).queue(queue)));
        }
    }

    /// Ends a node: its windows are only in the log from here on.
    pub(super) fn end_node(&mut self, id: SubscriberId, out: &mut Vec<Action>) {
        self.ending.remove(&id);
        let Some(sub) = self.find(id) else { return };
        let (handle, state) = (sub.handle, sub.state);
        let (group, instance) = (sub.group.clone(), sub.instance.clone());
        if let Some(handle) = handle {
            if state == State::Live {
                out.push(Action::StopFeed { handle });
            }
            out.push(Action::Sleep { handle });
        }
        self.release(id);
        self.remember_departed(group.as_ref(), instance.as_ref());
        self.remove(id);
    }

    /// Whether the nodes of a queue end with the day.
    pub(super) fn ends_with_day(&self, sub: &Subscriber) -> bool {
        let is_ours = sub.group.as_ref().is_some_and(|group| self.has_group(group));
        self.params.wake != Wake::Schedule && is_ours
    }

    /// Returns the state in which a queue begins the next day, if it is to be remembered without nodes.
    pub(super) fn line_of_next_day(&self, line: &Line) -> Option<Line> {
        let group = line.group.clone().filter(|group| self.has_group(group))?;
        let sleeps = self.params.wake != Wake::Schedule || line.asleep.is_some();
        sleeps.then(|| Line {
            group: Some(group),
            asleep: Some(UpdateIndex::default()),
            filled: line.filled,
            ..Line::default()
        })
    }

    /// Requests nodes for the groups of which no node can request any.
    pub(super) fn request_first(&mut self, out: &mut Vec<Action>) {
        let mut requests = BTreeMap::new();
        for group in &self.params.groups {
            let desired = self.first_desired(group);
            if desired == 0 {
                continue;
            }
            let before = self.first_requests.get(group).copied();
            let overdue = |of: FirstRequest| self.now_ns.saturating_sub(of.at_ns) >= self.params.first_again_ns;
            let request = match before.filter(|before| desired <= before.desired && !overdue(*before)) {
                Some(before) => before,
                None => {
                    out.push(Action::Request { group: group.clone(), desired });
                    FirstRequest { desired, at_ns: self.now_ns }
                }
            };
            requests.insert(group.clone(), request);
        }
        self.first_requests = requests;
    }

    /// Returns the number of instances that a group needs and no node can request; 0 if there is none.
    fn first_desired(&self, group: &Symbol) -> usize {
        let is_here = |s: &&Subscriber| s.group.as_ref() == Some(group) && s.handle.is_some();
        // An instance starts its nodes one after another.
        let came_ns = self.subscribers.iter().filter(is_here).filter_map(|s| self.came_ns.get(&s.id));
        if came_ns.max().is_some_and(|came_ns| self.now_ns < came_ns.saturating_add(self.params.companions_ns)) {
            return 0;
        }
        let is_first = self.wakes_first() && self.tip > UpdateIndex::default();
        if self.is_unknown(group) {
            return usize::from(is_first || self.waking.contains(group));
        }
        let of_group =
            self.lines.iter().filter(|(_, line)| line.group.as_ref() == Some(group) && line.asleep.is_none());
        let desired = of_group.filter(|(queue, _)| self.callers(queue).is_empty()).map(|(queue, line)| {
            let has_live = self.subscribers.iter().any(|s| s.is_live_in(queue));
            let handed_on = leave::not_taken_over(&self.subscribers, queue).len();
            let work = line.lost.len() + usize::from(!has_live) + handed_on;
            if work > 0 { self.taken(queue, Some(group)).saturating_add(work) } else { 0 }
        });
        desired.max().unwrap_or(0)
    }

    /// Returns when the requests are to be looked at again.
    pub(super) fn first_requests_due_ns(&self) -> impl Iterator<Item = i64> {
        let again_ns = self.params.first_again_ns;
        let due = self.first_requests.values().filter_map(move |request| request.at_ns.checked_add(again_ns));
        due.filter(|due_ns| *due_ns < i64::MAX)
    }
}
