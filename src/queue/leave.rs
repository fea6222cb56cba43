//! A node leaves before it dies: what it holds is rebuilt by others while it still answers for it.
//!
//! One that takes over replays the window, or a part that fits, out of sight of queries. When all parts of a window are proved,
//! one step takes it off the leaver ([`Action::Handed`]) and gives it to the others ([`Action::Show`]): before that step the
//! leaver holds it, after it they do. If the leaver goes first, its windows are lost like anyone's, and who was taking one over
//! goes on with it as its holder.

use super::event::{Action, Refusal};
use super::ids::{Handle, Now, QueueName, UpdateIndex, Window};
use super::table::{Held, Kind, Progress, Queue, State, Subscriber, SubscriberId};

/// How a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// When it ends, whether or not it has handed on what it holds; nanoseconds from 2000.01.01 UTC. Shown, not acted on.
    pub by_ns: i64,
    /// Its fleet has taken the instance out of its capacity, and launches another by itself.
    pub replaced: bool,
}

/// Windows of those who leave, or parts of them, that nobody takes over yet: of who ends first first, then the earliest.
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

/// The parts of a window that are being taken over, by first update.
fn parts(subscribers: &[Subscriber], queue: &QueueName, window: Window) -> Vec<Window> {
    let taken = subscribers.iter().filter(|s| s.queue == *queue).filter_map(Subscriber::takes_over);
    let mut parts: Vec<Window> = taken.filter(|part| window.contains(*part)).collect();
    parts.sort();
    parts
}

impl Subscriber {
    /// The window, or part of one, that it takes over.
    pub(super) fn takes_over(&self) -> Option<Window> {
        match self.state {
            State::TakingOver { window, .. } => Some(window),
            _ => None,
        }
    }

    /// Whether it holds, and is about to hand on, all of this.
    pub(super) fn hands_on(&self, window: Window) -> bool {
        self.leaving.is_some() && self.held.iter().any(|held| held.window.contains(window))
    }

    /// What it rebuilt out of sight was compared with the log. If it differs, the same node tries again.
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
            let text = format!("{} takes {window} over unproved after {rebuilds_max} rebuilds", self.label());
            out.push(Action::Alarm(text));
        }
        self.state = State::TakingOver { window, rejections, progress: Progress::Proved { as_logged: ok } };
    }

    /// Holds from now on what it took over, or rebuilds it in sight if it has not got all of it.
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
    pub(super) fn leaving(&mut self, handle: Handle, leaving: Leaving, out: &mut Vec<Action>) {
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.handle == Some(handle)) else {
            return out.push(Action::Refused { handle, reason: Refusal::NotSubscribed });
        };
        if sub.kind() == Kind::Paper {
            return out.push(Action::Refused { handle, reason: Refusal::NoName });
        }
        if sub.leaving.is_none() {
            out.push(Action::Note(format!("{} ({}) is about to leave", sub.label(), sub.state.name())));
        }
        sub.leaving = Some(leaving);
        // Half a window is of no use to anyone.
        let id = sub.id;
        if matches!(sub.state, State::Rebuilding { .. } | State::TakingOver { .. }) {
            // The rest of it may be under way to it from the log.
            out.push(Action::StopFeed { handle });
            self.release(id);
        }
    }

    /// The part of a window that fits into one that takes it over; the rest is another's.
    pub(super) fn roll_of_part(
        &mut self,
        id: SubscriberId,
        window: Window,
        rejections: u8,
        next: UpdateIndex,
        out: &mut Vec<Action>,
    ) {
        let date = self.date;
        let Some(sub) = self.find(id) else { return };
        let Some(handle) = sub.handle else { return };
        // The rest may be under way to it from the log.
        out.push(Action::StopFeed { handle });
        match Window::new(window.first(), next.min(window.last())) {
            Some(window) => {
                out.push(Action::Note(format!("{} is full with {window} of what it takes over", sub.label())));
                sub.state = State::TakingOver { window, rejections, progress: Progress::Filled };
                out.push(Action::Verify { handle, window, date });
            }
            None => {
                out.push(Action::Note(format!("{} rolled before it took an update", sub.label())));
                sub.give_back();
                self.rests(id);
            }
        }
    }

    /// What follows for those who leave and those who take over.
    pub(super) fn hand_over(&mut self, now: Now, out: &mut Vec<Action>) {
        self.inherit(now, out);
        self.swap(now, out);
        self.let_go(out);
    }

    /// Who was taking over from one that holds it no longer goes on for itself.
    fn inherit(&mut self, now: Now, out: &mut Vec<Action>) {
        let taking: Vec<(SubscriberId, Window)> =
            self.subscribers.iter().filter_map(|s| Some((s.id, s.takes_over()?))).collect();
        for (id, window) in taking {
            let Some(queue) = self.subscribers.iter().find(|s| s.id == id).map(|s| s.queue.clone()) else { continue };
            if self.subscribers.iter().any(|s| s.queue == queue && s.hands_on(window)) {
                continue;
            }
            let free = self.lines.get_mut(&queue).and_then(|line| line.take_lost(window));
            let Some(sub) = self.find(id) else { continue };
            match free {
                Some(_) => {
                    sub.take_in_hand(window, now);
                    out.push(Action::Note(format!("{} keeps {window}: who held it is gone", sub.label())));
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

    /// Windows of which every part is proved elsewhere change hands, if everyone can be told at once.
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
            // Parts never overlap, so that they are the whole if they are as long.
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
                    out.push(Action::Note(format!("{} has taken over {part}", sub.label())));
                    out.extend(sub.handle.map(|handle| Action::Show { handle, window: part }));
                }
            }
        }
    }

    /// Those who leave and have nothing left may end.
    fn let_go(&mut self, out: &mut Vec<Action>) {
        let done = |s: &&Subscriber| {
            let empty = s.held.is_empty() && matches!(s.state, State::Waiting | State::Rolled);
            s.leaving.is_some() && s.handle.is_some() && empty
        };
        let gone: Vec<(SubscriberId, Option<Handle>, String)> =
            self.subscribers.iter().filter(done).map(|s| (s.id, s.handle, s.label())).collect();
        for (id, handle, label) in gone {
            out.push(Action::Note(format!("{label} has left")));
            out.extend(handle.map(|handle| Action::Left { handle }));
            self.remove(id);
        }
    }
}
