//! One step of the queue: apply the event, expire deadlines, assign windows to standbys, then record the changes.

use super::event::{Action, QueueError, QueueEvent, Subscribe, Subscription};
use super::ids::{Handle, NodeName, Now, QueueName, Symbol, UpdateIndex, Window};
use super::journal::{Change, Record};
use super::leave;
use super::table::{Kind, LastRequest, Line, Progress, Queue, State, Subscriber, SubscriberId};
use crate::bug;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Queue {
    /// Applies an event at `now` with the log's `tip` (for [`QueueEvent::DayEnd`], that of the ended log), and returns the actions that follow.
    /// No event breaks the invariants (see [`super::invariants`]), in any order and from any peer.
    pub fn step(&mut self, event: QueueEvent, tip: UpdateIndex, now: Now) -> Vec<Action> {
        let mut out = Vec::new();
        self.now_ns = now.steady_ns;
        match event {
            QueueEvent::Status { handle, status } => {
                self.note_activity(tip);
                let may_sleep = self.may_sleep(handle);
                if self.set_status(handle, status) || may_sleep {
                    let before = self.parts();
                    self.tip = self.tip.max(tip);
                    if may_sleep {
                        self.reported(handle, &mut out);
                    }
                    self.settle(before, now, &mut out);
                }
            }
            QueueEvent::DayEnd { new_date } => {
                self.tip = self.tip.max(tip);
                self.day_end(new_date, &mut out);
            }
            QueueEvent::Restored => {
                let before = self.parts();
                self.restored(tip, now, &mut out);
                self.settle(before, now, &mut out);
            }
            event => {
                let before = self.parts();
                self.tip = self.tip.max(tip);
                self.give_up_overdue(now, &mut out);
                self.handle(event, now, &mut out);
                self.settle(before, now, &mut out);
            }
        }
        debug_assert_eq!(super::invariants::check(self), Ok(()));
        out
    }

    fn handle(&mut self, event: QueueEvent, now: Now, out: &mut Vec<Action>) {
        match event {
            QueueEvent::Subscribe(subscribe) => self.subscribe(subscribe, now, out),
            QueueEvent::Join(join) => self.join(join, now, out),
            QueueEvent::Roll { handle, next, date } => self.roll(handle, next, date, now, out),
            QueueEvent::Rebuilt { handle, window, date } => self.rebuilt(handle, window, date, now, out),
            QueueEvent::Proved { handle, window, date, ok } => self.proved(handle, window, date, ok, out),
            QueueEvent::Unproved { handle, window, date } => self.unproved(handle, window, date, out),
            QueueEvent::Leaving { handle, leaving } => self.leaving(handle, leaving, out),
            QueueEvent::Disconnect { handle } => self.disconnect(handle, now, out),
            QueueEvent::Written { handle, next, date } => self.write_down(handle, next, date, out),
            QueueEvent::Wake => self.wake(out),
            QueueEvent::Evict { node, process } => self.evict(&node, &process, out),
            QueueEvent::Forget { handle, queue } => {
                let refused = self.forget_queue(&queue, out);
                out.extend(refused.map(|reason| Action::Refused { handle, reason }));
            }
            QueueEvent::Status { .. } | QueueEvent::DayEnd { .. } | QueueEvent::Restored | QueueEvent::Tick => {}
        }
    }

    /// Derives what follows from a change: expired deadlines, assignments, requests for nodes. Inserts the journal record first.
    fn settle(&mut self, before: Parts, now: Now, out: &mut Vec<Action>) {
        self.give_up_overdue(now, out);
        self.hand_off_written(out);
        self.hand_over(now, out);
        self.end_back_offs();
        self.sleep_or_wake(out);
        self.let_go_written(out);
        self.assign(now, out);
        self.forget_old_rows();
        self.alarm_blocked(out);
        self.call_for_nodes(out);
        self.request_first(out);
        self.notify_groups(out);
        let changes = self.changes_since(before);
        if !changes.is_empty() {
            out.insert(0, Action::Journal(Record { tip: self.tip, changes }));
        }
    }

    /// Adds a paper client as a standby.
    fn subscribe(&mut self, event: Subscribe, now: Now, out: &mut Vec<Action>) {
        let Subscribe { handle, queue, subscription, ip } = event;
        if let Some(there) = self.by_handle(handle) {
            let reason = QueueError::AlreadySubscribed(there.queue.clone());
            return out.push(Action::Refused { handle, reason });
        }
        if let Err(reason) = self.check_room(&queue) {
            return out.push(Action::Refused { handle, reason });
        }
        let (node, group, instance) = (None, None, None);
        self.add(Newcomer { handle, node, queue, subscription, ip, port: None, group, instance }, now);
    }

    /// Returns whether one more subscriber of this queue stays within the limits.
    pub(super) fn check_room(&self, queue: &QueueName) -> Result<(), QueueError> {
        if self.subscribers.iter().filter(|s| s.state != State::Lost).count() >= self.params.subscribers_max {
            return Err(QueueError::TooManySubscribers(self.params.subscribers_max));
        }
        if !self.lines.contains_key(queue) && self.lines.len() >= self.params.queues_max {
            return Err(QueueError::TooManyQueues(self.params.queues_max));
        }
        Ok(())
    }

    /// Adds a standby at the end of the table.
    pub(super) fn add(&mut self, new: Newcomer, now: Now) -> SubscriberId {
        let id = self.next_id;
        self.next_id = SubscriberId(id.0.saturating_add(1));
        self.lines.entry(new.queue.clone()).or_default();
        self.came_ns.insert(id, now.steady_ns);
        self.subscribers.push(Subscriber {
            id,
            time_ns: now.wall_ns,
            handle: Some(new.handle),
            node: new.node,
            queue: new.queue,
            subscription: new.subscription,
            ip: new.ip,
            port: new.port,
            group: new.group,
            instance: new.instance,
            leaving: None,
            state: State::Waiting,
            live_ns: None,
            rolled_ns: None,
            span: None,
            held: Vec::new(),
            rejected: 0,
            resume_by_ns: None,
        });
        id
    }

    /// Starts the grace period of a native node; gives up a paper client at once, which cannot be recognised again.
    fn disconnect(&mut self, handle: Handle, now: Now, out: &mut Vec<Action>) {
        let grace_ns = self.params.grace_ns;
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.handle == Some(handle)) else { return };
        let note = sub.note(format!("{} node is disconnected", sub.state.name()));
        sub.handle = None;
        match sub.kind() {
            Kind::Native => {
                sub.resume_by_ns = Some(now.steady_ns.saturating_add(grace_ns));
                out.push(Action::Note(note));
            }
            Kind::Paper => {
                let id = sub.id;
                self.give_up(id, out);
            }
        }
    }

    /// Gives up every subscriber whose grace period is over.
    pub(super) fn give_up_overdue(&mut self, now: Now, out: &mut Vec<Action>) {
        let overdue: Vec<SubscriberId> = self
            .subscribers
            .iter()
            .filter(|s| s.resume_by_ns.is_some_and(|deadline_ns| deadline_ns <= now.steady_ns))
            .map(|s| s.id)
            .collect();
        for id in overdue {
            self.give_up(id, out);
        }
    }

    /// Marks a subscriber as lost and its windows as unheld; removes it if it was waiting. A window that it was taking over stays with the
    /// draining node.
    pub(super) fn give_up(&mut self, id: SubscriberId, out: &mut Vec<Action>) {
        let tip = self.tip;
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.id == id) else { return };
        if sub.state == State::Waiting {
            out.push(Action::Note(sub.note("the node left the queue while waiting")));
            return self.remove(id);
        }
        let open = self.lines.get(&sub.queue).map(|line| line.open).unwrap_or_default();
        let (first, last) = match sub.state {
            State::Live => (Some(open), Some(tip)),
            State::Rebuilding { window, .. } => (Some(window.first()), Some(window.last())),
            State::TakingOver { .. } => (None, None),
            _ => (sub.held.first().map(|h| h.window.first()), sub.held.last().map(|h| h.window.last())),
        };
        let span = first.zip(last).and_then(|(first, last)| Window::new(first, last));
        match span {
            Some(window) => out.push(Action::Note(
                sub.note(format!("{} node is lost: other nodes will rebuild its windows", sub.state.name()))
                    .window(window),
            )),
            None => out.push(Action::Note(sub.note(format!("{} node is lost; it held no windows", sub.state.name())))),
        }
        sub.span = span.or(sub.span);
        sub.handle = None;
        sub.resume_by_ns = None;
        sub.leaving = None;
        self.release(id);
        if let Some(sub) = self.find(id) {
            sub.state = State::Lost;
        }
        self.forget(id);
    }

    /// Assigns work to standbys, longest-waiting first: open window, then lost windows, then windows of draining nodes. The last go to
    /// native nodes only: a paper client cannot hide a window, and would show it while the draining node still does.
    fn assign(&mut self, now: Now, out: &mut Vec<Action>) {
        let tip = self.tip;
        let queues: Vec<QueueName> = self.lines.keys().cloned().collect();
        for queue in &queues {
            while let Some(line) = self.lines.get(queue) {
                let has_live = self.subscribers.iter().any(|s| s.is_live_in(queue));
                let handed_on = match has_live && line.lost.is_empty() {
                    true => match leave::not_taken_over(&self.subscribers, queue).first() {
                        Some(window) => Some(*window),
                        None => break,
                    },
                    false => None,
                };
                let Some(id) = self.next_standby(queue, handed_on.is_some()) else { break };
                let (Some(line), Some(sub)) =
                    (self.lines.get_mut(queue), self.subscribers.iter_mut().find(|s| s.id == id))
                else {
                    bug!("the next standby is not in the table");
                    break;
                };
                let Some(handle) = sub.handle else {
                    bug!("the next standby is not connected");
                    break;
                };
                sub.live_ns = Some(now.wall_ns);
                sub.rolled_ns = None;
                sub.span = None;
                if let Some(window) = handed_on {
                    sub.state = State::TakingOver { window, rejections: 0, progress: Progress::Replaying };
                    out.push(Action::Note(sub.note("the node takes over the window").window(window)));
                    out.push(Action::Rebuild { handle, window, hidden: true });
                } else if has_live {
                    let lost = line.lost.remove(0);
                    sub.state = State::Rebuilding { window: lost.window, rejections: lost.rejections };
                    out.push(Action::Note(sub.note("the node rebuilds the window").window(lost.window)));
                    out.push(Action::Rebuild { handle, window: lost.window, hidden: false });
                } else {
                    sub.state = State::Live;
                    out.push(Action::Note(sub.note(format!("the node is live from update {}", line.open))));
                    out.push(Action::MakeLive { handle, first: line.open, tip });
                }
            }
        }
    }

    /// Bounds the table: keeps only the newest rows of lost subscribers, and drops queues that have neither subscribers nor state.
    fn forget_old_rows(&mut self) {
        let lost = self.subscribers.iter().filter(|s| s.state == State::Lost).count();
        let mut surplus = lost.saturating_sub(self.params.lost_rows_max);
        self.subscribers.retain(|s| {
            let goes = surplus > 0 && s.state == State::Lost;
            surplus -= usize::from(goes);
            !goes
        });
        let subscribers = &self.subscribers;
        self.lines.retain(|queue, line| *line != Line::default() || subscribers.iter().any(|s| s.queue == *queue));
    }

    /// Requests nodes for every queue with more open, lost and unassigned draining windows than standbys.
    fn call_for_nodes(&mut self, out: &mut Vec<Action>) {
        let mut last_requests = BTreeMap::new();
        for (queue, line) in self.lines.iter().filter(|(_, line)| !self.is_asleep(line)) {
            let has_live = self.subscribers.iter().any(|s| s.is_live_in(queue));
            let waiting = self.subscribers.iter().filter(|s| s.queue == *queue && self.counts_as_waiting(s)).count();
            let handed_on = leave::not_taken_over(&self.subscribers, queue).len();
            let work = line.lost.len() + usize::from(!has_live) + handed_on;
            let missing = work.saturating_sub(waiting);
            let in_all = |via: Option<&&Subscriber>| {
                self.taken(queue, via.and_then(|s| s.group.as_ref())).saturating_add(work.max(waiting))
            };
            let callers = self.callers(queue);
            let (best, desired) = (callers.first().and_then(|s| s.handle), in_all(callers.first()));
            let before = self.last_requests.get(queue).copied().unwrap_or_default();
            let notified = callers.iter().position(|s| s.handle == before.via);
            // A request in flight to a closed connection may never have arrived.
            let undelivered = best.is_some() && (best != before.best || notified.is_none());
            let overdue = before.due_ns(&self.params).is_some_and(|due_ns| due_ns <= self.now_ns);
            let is_due =
                missing > before.missing || (missing > 0 && (desired > before.desired || undelivered || overdue));
            let (via, at_ns) = if is_due {
                // The notified node changed nothing and may be unable to ask: notify the next one.
                let next = notified.filter(|_| overdue && best == before.best).map_or(0, |at| at.saturating_add(1));
                let via = callers.iter().cycle().nth(next);
                let (desired, via) = (in_all(via), via.and_then(|s| s.handle));
                out.push(Action::NeedNode { queue: queue.clone(), missing, desired, via });
                (via, self.now_ns)
            } else {
                (before.via.filter(|_| notified.is_some()), before.at_ns)
            };
            last_requests.insert(queue.clone(), LastRequest { missing, desired, best, via, at_ns });
        }
        self.last_requests = last_requests;
    }

    /// Returns the nodes that can ask the fleet for nodes of this queue: the live one, then the others that stay, then draining ones (a
    /// draining live one first). A node that its fleet already replaces is included only if there is no other.
    pub(super) fn callers(&self, queue: &QueueName) -> Vec<&Subscriber> {
        let here = |s: &&Subscriber| s.queue == *queue && s.kind() == Kind::Native && s.handle.is_some();
        let mut callers: Vec<&Subscriber> = self.subscribers.iter().filter(here).collect();
        if callers.iter().any(|s| !s.is_replaced()) {
            callers.retain(|s| !s.is_replaced());
        }
        callers.sort_by_key(|s| (s.leaving.is_some(), s.state != State::Live));
        callers
    }

    fn parts(&self) -> Parts {
        Parts {
            subscribers: self.subscribers.clone(),
            lines: self.lines.clone(),
            next_id: self.next_id,
            written: self.written,
        }
    }

    /// Returns the rows that differ from `before`, for the journal.
    fn changes_since(&mut self, before: Parts) -> Vec<Change> {
        let mut changes = Vec::new();
        for sub in &self.subscribers {
            if before.subscribers.iter().find(|b| b.id == sub.id) != Some(sub) {
                changes.push(Change::Subscriber(Box::new(sub.clone())));
            }
        }
        for gone in before.subscribers.iter().filter(|b| !self.subscribers.iter().any(|s| s.id == b.id)) {
            changes.push(Change::SubscriberGone(gone.id));
        }
        // A subscriber that came and went within the step has used its id: the journal must know, so that it is not reused.
        let came = before.next_id.0..self.next_id.0;
        let gone = came.map(SubscriberId).filter(|id| !self.subscribers.iter().any(|s| s.id == *id));
        changes.extend(gone.map(Change::SubscriberGone));
        for (queue, line) in &self.lines {
            if before.lines.get(queue) != Some(line) {
                changes.push(Change::Line { queue: queue.clone(), line: line.clone() });
            }
        }
        for queue in before.lines.keys().filter(|queue| !self.lines.contains_key(*queue)) {
            changes.push(Change::LineGone(queue.clone()));
        }
        changes.extend((before.written != self.written).then_some(Change::Written(self.written)));
        changes.extend(self.departed.take_unsaved());
        changes.extend(self.evicted.take_unsaved());
        changes
    }
}

/// The journaled state before a step.
struct Parts {
    subscribers: Vec<Subscriber>,
    lines: BTreeMap<QueueName, Line>,
    next_id: SubscriberId,
    written: UpdateIndex,
}

/// Fields of a new subscriber.
pub(super) struct Newcomer {
    pub handle: Handle,
    pub node: Option<NodeName>,
    pub queue: QueueName,
    pub subscription: Arc<Subscription>,
    pub ip: IpAddr,
    pub port: Option<u16>,
    pub group: Option<Symbol>,
    pub instance: Option<Symbol>,
}
