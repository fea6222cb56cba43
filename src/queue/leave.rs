//! Draining: other nodes take over the windows of a node that is about to end, while it still serves queries.
//!
//! A node that takes over replays the window, or the part that fits, hidden from queries. Once all parts of a window are proved, one step
//! takes it from the draining node ([`Action::Handed`]) and gives it to the others ([`Action::Show`]): before that step the draining node
//! holds it, after it they do. If the draining node ends first, its windows are lost, and a node that was taking one over keeps it.

use super::event::{Action, QueueError};
use super::ids::{Handle, Now, QueueName, UpdateIndex, Window};
use super::table::{Held, Kind, Progress, Queue, State, Subscriber, SubscriberId};
use crate::bug;

/// A node's announcement that it drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// When it ends, whether or not its windows are handed off by then; nanoseconds from 2000.01.01 UTC. For display and ordering only.
    pub by_ns: i64,
    /// The fleet no longer counts the instance, and launches a replacement by itself.
    pub replaced: bool,
}

/// Returns the windows of draining nodes, or parts, that no node takes over yet: of the node that ends first, then by first update.
pub(super) fn not_taken_over(subscribers: &[Subscriber], queue: &QueueName) -> Vec<Window> {
    let here = || subscribers.iter().filter(|s| s.queue == *queue);
    let mut leavers: Vec<&Subscriber> = here().filter(|s| s.leaving.is_some() && !s.held.is_empty()).collect();
    leavers.sort_by_key(|s| s.leaving.map(|leaving| leaving.by_ns));
    let mut open = Vec::new();
    for held in leavers.iter().flat_map(|s| &s.held) {
        let mut rest = Some(held.window);
        for part in parts(subscribers, queue, held.window) {
            let [before, behind] = rest.map_or([None, None], |rest| rest.without(part));
            open.extend(before);
            rest = behind;
        }
        open.extend(rest);
    }
    open
}

/// Returns the parts of a window that are being taken over, sorted by first update.
fn parts(subscribers: &[Subscriber], queue: &QueueName, window: Window) -> Vec<Window> {
    let taken = subscribers.iter().filter(|s| s.queue == *queue).filter_map(Subscriber::takes_over);
    let mut parts: Vec<Window> = taken.filter(|part| window.contains(*part)).collect();
    parts.sort();
    parts
}

impl Subscriber {
    /// Returns the window, or part of one, that this node takes over.
    pub(super) fn takes_over(&self) -> Option<Window> {
        match self.state {
            State::TakingOver { window, .. } => Some(window),
            _ => None,
        }
    }

    /// Returns whether this node drains and holds all of `window`.
    pub(super) fn hands_on(&self, window: Window) -> bool {
        self.leaving.is_some() && self.held.iter().any(|held| held.window.contains(window))
    }

    /// Applies the result of comparing a takeover's proof with the log. If it differs, the same node replays the window again.
    pub(super) fn proved_taken(
        &mut self,
        handle: Handle,
        window: Window,
        rejections: u8,
        ok: bool,
        rebuilds_max: u8,
        out: &mut Vec<Action>,
    ) {
        if !ok && rejections < rebuilds_max {
            self.rejected = self.rejected.saturating_add(1);
            let rejections = rejections.saturating_add(1);
            self.state = State::TakingOver { window, rejections, progress: Progress::Replaying };
            out.push(Action::Recheck { handle, window });
            return out.push(Action::Rebuild { handle, window, hidden: true });
        }
        if !ok {
            let text = format!("takeover: accepting the window unverified after {rebuilds_max} rebuilds");
            out.push(Action::Alarm(self.note(text).window(window)));
        }
        self.state = State::TakingOver { window, rejections, progress: Progress::Proved { as_logged: ok } };
    }

    /// Becomes the holder of the window it took over; if its replay is incomplete, it continues as a visible rebuild.
    fn take_in_hand(&mut self, window: Window, now: Now) {
        let State::TakingOver { rejections, progress, .. } = self.state else { return };
        let verified = match progress {
            Progress::Replaying => {
                self.state = State::Rebuilding { window, rejections };
                return;
            }
            Progress::Filled => None,
            Progress::Proved { as_logged } => Some(as_logged),
        };
        self.state = State::Rolled;
        self.rolled_ns = Some(now.wall_ns);
        self.span = Some(window);
        self.add_held(Held { window, verified, rejections });
    }
}

impl Queue {
    /// Marks a node as draining. Releases a window that it rebuilds or takes over, also one that is complete but not handed off yet.
    pub(super) fn leaving(&mut self, handle: Handle, leaving: Leaving, out: &mut Vec<Action>) {
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.handle == Some(handle)) else {
            return out.push(Action::Refused { handle, reason: QueueError::NotSubscribed });
        };
        if sub.kind() == Kind::Paper {
            return out.push(Action::Refused { handle, reason: QueueError::NoName });
        }
        if sub.leaving.is_none() {
            out.push(Action::Note(sub.note(format!("{} node is draining", sub.state.name()))));
        }
        sub.leaving = Some(leaving);
        // A partial replay is useless, and a node that ends cannot take a window over: another node replays all of it.
        let id = sub.id;
        if matches!(sub.state, State::Rebuilding { .. } | State::TakingOver { .. }) {
            // The rest of the window may be in flight from the log.
            out.push(Action::StopFeed { handle });
            self.release(id);
        }
    }

    /// Rolls a node that is full before the end of the window it takes over: it keeps the part that fits, and another node takes the rest.
    pub(super) fn roll_of_part(
        &mut self,
        id: SubscriberId,
        window: Window,
        rejections: u8,
        next: UpdateIndex,
        out: &mut Vec<Action>,
    ) {
        let date = self.date;
        let Some(sub) = self.find(id) else { return bug!("the subscriber that rolls is not in the table") };
        let Some(handle) = sub.handle else { return bug!("the subscriber that rolls is not connected") };
        // The rest may be in flight from the log.
        out.push(Action::StopFeed { handle });
        match Window::new(window.first(), next.min(window.last())) {
            Some(window) => {
                out.push(Action::Note(
                    sub.note("the node filled up before the end of the window that it takes over").window(window),
                ));
                sub.state = State::TakingOver { window, rejections, progress: Progress::Filled };
                out.push(Action::Verify { handle, window, date });
            }
            None => {
                out.push(Action::Note(sub.note("the node rolled before its first update")));
                sub.give_back();
                self.start_back_off(id);
            }
        }
    }

    /// Advances draining and takeovers after a change.
    pub(super) fn hand_over(&mut self, now: Now, out: &mut Vec<Action>) {
        self.inherit(now, out);
        self.swap(now, out);
        self.let_go(out);
    }

    /// Ends takeovers whose draining node no longer holds the window: the node keeps the window if it is unheld, and drops it otherwise.
    fn inherit(&mut self, now: Now, out: &mut Vec<Action>) {
        let taking: Vec<(SubscriberId, Window)> =
            self.subscribers.iter().filter_map(|s| Some((s.id, s.takes_over()?))).collect();
        for (id, window) in taking {
            let Some(queue) = self.subscribers.iter().find(|s| s.id == id).map(|s| s.queue.clone()) else { continue };
            if self.subscribers.iter().any(|s| s.queue == queue && s.hands_on(window)) {
                continue;
            }
            let written = self.written;
            let free = self.lines.get_mut(&queue).and_then(|line| line.take_lost(window));
            let free = free.filter(|_| window.last() > written);
            let Some(sub) = self.find(id) else { continue };
            match free {
                Some(_) => {
                    sub.take_in_hand(window, now);
                    out.push(Action::Note(
                        sub.note("the node keeps the window: its former holder is gone").window(window),
                    ));
                    out.extend(sub.handle.map(|handle| Action::Show { handle, window }));
                }
                None => {
                    sub.state = State::Waiting;
                    if let Some(handle) = sub.handle {
                        out.extend([Action::StopFeed { handle }, Action::Drop { handle }]);
                    }
                }
            }
        }
    }

    /// Hands off windows whose parts are all proved, if every node involved is connected.
    fn swap(&mut self, now: Now, out: &mut Vec<Action>) {
        let leavers = self.subscribers.iter().filter(|s| s.leaving.is_some() && s.handle.is_some());
        let held: Vec<(SubscriberId, QueueName, Window)> =
            leavers.flat_map(|s| s.held.iter().map(|held| (s.id, s.queue.clone(), held.window))).collect();
        for (leaver, queue, window) in held {
            let heirs: Vec<(SubscriberId, Window)> = self
                .subscribers
                .iter()
                .filter(|s| s.queue == queue && s.handle.is_some())
                .filter(|s| matches!(s.state, State::TakingOver { progress: Progress::Proved { .. }, .. }))
                .filter_map(|s| Some((s.id, s.takes_over().filter(|part| window.contains(*part))?)))
                .collect();
            // Parts never overlap, so equal numbers of updates mean that they cover the window.
            if heirs.iter().map(|(_, part)| part.updates()).sum::<u64>() != window.updates() {
                continue;
            }
            if let Some(sub) = self.find(leaver) {
                sub.held.retain(|held| held.window != window);
                sub.span = Some(window);
                out.extend(sub.handle.map(|handle| Action::Handed { handle, window }));
            }
            for (heir, part) in heirs {
                if let Some(sub) = self.find(heir) {
                    sub.take_in_hand(part, now);
                    out.push(Action::Note(sub.note("the node has taken over the window").window(part)));
                    out.extend(sub.handle.map(|handle| Action::Show { handle, window: part }));
                }
            }
        }
    }

    /// Removes draining nodes that hold nothing more, and allows them to end.
    fn let_go(&mut self, out: &mut Vec<Action>) {
        let done = |s: &&Subscriber| {
            let empty = s.held.is_empty() && matches!(s.state, State::Waiting | State::Rolled);
            s.leaving.is_some() && s.handle.is_some() && empty
        };
        let gone: Vec<Subscriber> = self.subscribers.iter().filter(done).cloned().collect();
        for sub in gone {
            out.push(Action::Note(sub.note("the drained node has left")));
            out.extend(sub.handle.map(|handle| Action::Left { handle }));
            self.remove(sub.id);
            self.remember_departed(sub.group.as_ref(), sub.instance.as_ref());
        }
    }
}
