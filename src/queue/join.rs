//! Native nodes joining, for the first time or again.
//!
//! The queue first releases every window that the table attributes to the node, as if it had died, then takes each claimed window out of
//! the unheld ones. This one rule covers a node that resumes after a disconnect, one whose roll or finished rebuild never arrived, one that
//! restarted empty, and one that returns after its windows were declared lost but before another node got them. If any claim fails, the
//! node holds updates that another node holds or that the log lacks: it must discard everything.

use super::event::{Action, Join, OpenWindow, QueueError};
use super::ids::{Now, UpdateIndex, Window};
use super::note::Note;
use super::step::Newcomer;
use super::table::{Held, Line, Lost, Queue, State, Subscriber, SubscriberId};
use crate::bug;

impl Queue {
    /// Admits a native node: releases its windows, takes in those it claims, and assigns its row.
    pub(super) fn join(&mut self, join: Join, now: Now, out: &mut Vec<Action>) {
        let handle = join.handle;
        if join.node.0.is_empty() {
            return out.push(Action::Refused { handle, reason: QueueError::NoName });
        }
        if let Err(reason) = self.check_connection(&join) {
            return out.push(Action::Refused { handle, reason });
        }
        if join.process.as_ref().is_some_and(|process| self.evicted.contains(process)) {
            return out.push(Action::Refused { handle, reason: QueueError::Evicted(join.node) });
        }
        if let Some(reason) = self.name_taken(&join) {
            return out.push(Action::Refused { handle, reason });
        }
        let known = self.subscribers.iter().find(|s| s.node.as_ref() == Some(&join.node)).cloned();
        let same_queue = known.as_ref().is_some_and(|k| k.queue == join.queue);
        if !same_queue && let Err(reason) = self.check_room(&join.queue) {
            return out.push(Action::Refused { handle, reason });
        }
        if let Some(known) = &known {
            if let Some(old) = known.handle.filter(|old| *old != handle) {
                out.push(Action::Close { handle: old });
            }
            self.release(known.id);
        }

        // Rows of another queue are no part of this one, which may select other tables or symbols.
        let other_queue = known.is_some() && !same_queue;
        let other_day = join.date.is_some_and(|date| date != self.date);
        let claims = !join.held.is_empty() || join.open.is_some();
        let adopted = if other_day || other_queue { None } else { self.adopt(&join) };
        let drop = other_day || (claims && adopted.is_none());
        out.push(Action::Joined { handle, drop });
        if let Some(date) = join.date.filter(|date| *date < self.date)
            && self.is_surplus(&join)
        {
            if let Some(known) = &known {
                self.remove(known.id);
            }
            self.remember_departed(join.group.as_ref(), join.instance.as_ref());
            out.push(Action::Note(
                Note::new("the node missed the end of the day and is no longer needed").node(&join.node).date(date),
            ));
            return out.push(Action::EndOfDay { handle, date });
        }

        if known.is_none() && self.lets_go(&join, out) {
            return;
        }
        let was_waiting = known.as_ref().is_some_and(|k| k.state == State::Waiting);
        let keeps_its_place = same_queue && !drop && (claims || was_waiting);
        let known = match known {
            Some(known) if keeps_its_place => Some(known),
            Some(known) => {
                self.remove(known.id);
                None
            }
            None => None,
        };
        let id = match &known {
            Some(known) => known.id,
            None => {
                let new = Newcomer {
                    handle,
                    node: Some(join.node.clone()),
                    queue: join.queue.clone(),
                    subscription: join.subscription.clone(),
                    ip: join.ip,
                    port: join.port,
                    group: join.group.clone(),
                    instance: join.instance.clone(),
                };
                self.add(new, now)
            }
        };
        match &join.process {
            Some(process) => self.processes.insert(id, process.clone()),
            None => self.processes.remove(&id),
        };
        self.seat(id, &join, known.as_ref(), adopted.unwrap_or_default(), now, out);
        self.explain(id, drop, other_day, out);
    }

    /// A connection belongs to one subscriber.
    fn check_connection(&self, join: &Join) -> Result<(), QueueError> {
        match self.by_handle(join.handle) {
            Some(other) if other.node.as_ref() != Some(&join.node) => {
                Err(QueueError::AlreadySubscribed(other.queue.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the rejection if another process is connected under this name: each would close the other's connection forever. The process
    /// that owns the name may join again beside a half-open connection of its own. Nodes of
    /// older versions send no process id: one of them counts as the owner of the name if the owner has sent none either.
    fn name_taken(&self, join: &Join) -> Option<QueueError> {
        let holder = self.subscribers.iter().find(|s| s.node.as_ref() == Some(&join.node))?;
        let is_taken = holder.handle.is_some() && join.process.as_ref() != self.processes.get(&holder.id);
        is_taken.then(|| QueueError::NameTaken(join.node.clone(), holder.ip))
    }

    /// Returns whether the end of the day would have removed this node, given the other standbys.
    fn is_surplus(&self, join: &Join) -> bool {
        let is_other = |s: &&Subscriber| s.node.as_ref() != Some(&join.node) && s.is_waiting_here(&join.queue);
        let waiting = self.subscribers.iter().filter(is_other).count();
        let is_enough = |line| self.is_asleep(line) || waiting >= self.standbys(&join.queue);
        self.lines.get(&join.queue).is_some_and(is_enough)
    }

    /// Takes every claimed window out of the unheld ones; all or none.
    fn adopt(&mut self, join: &Join) -> Option<Adopted> {
        if join.held.len() > self.params.held_windows_max {
            return None;
        }
        let has_live = self.subscribers.iter().any(|s| s.is_live_in(&join.queue));
        let mut line = self.lines.get(&join.queue).cloned().unwrap_or_default();
        let mut windows = join.held.clone();
        windows.sort();
        let mut held = Vec::with_capacity(windows.len());
        for window in windows {
            let rejections = line.take(window, has_live, self.tip)?;
            held.push(Held { window, verified: None, rejections });
        }
        if let Some(open) = join.open {
            line.take_open(open, has_live, self.tip)?;
        }
        self.lines.insert(join.queue.clone(), line);
        Some(Adopted { held, open: join.open })
    }

    /// Fills in the row of a node that has joined.
    fn seat(
        &mut self,
        id: SubscriberId,
        join: &Join,
        known: Option<&Subscriber>,
        adopted: Adopted,
        now: Now,
        out: &mut Vec<Action>,
    ) {
        let (date, handle) = (self.date, join.handle);
        let Adopted { mut held, open } = adopted;
        let Some(sub) = self.find(id) else { return bug!("the joining node is not in the table") };
        for window in &mut held {
            let before = known.and_then(|k| k.held.iter().find(|h| h.window == window.window));
            window.verified = before.and_then(|before| before.verified);
            // Includes windows whose proof was in flight when the connection ended.
            if window.verified.is_none() {
                out.push(Action::Verify { handle, window: window.window, date });
            }
        }
        sub.handle = Some(handle);
        sub.resume_by_ns = None;
        sub.subscription = join.subscription.clone();
        sub.ip = join.ip;
        sub.port = join.port;
        sub.group = join.group.clone();
        sub.instance = join.instance.clone();
        // An announcement made before the connection ended still applies to the rows of that time.
        sub.leaving = join.leaving.or(known.and_then(|k| k.leaving));
        sub.state = match open {
            Some(_) => State::Live,
            None if held.is_empty() => State::Waiting,
            None => State::Rolled,
        };
        match sub.state {
            State::Live => {
                sub.live_ns = sub.live_ns.or(Some(now.wall_ns));
                sub.rolled_ns = None;
                sub.span = None;
            }
            State::Rolled => {
                sub.rolled_ns = sub.rolled_ns.or(Some(now.wall_ns));
                sub.span = held.last().map(|h| h.window);
            }
            _ => {
                sub.live_ns = None;
                sub.rolled_ns = None;
                sub.span = None;
            }
        }
        sub.held = held;
        if let Some(open) = open {
            out.push(Action::Resume { handle, next: open.next });
        }
    }

    fn explain(&self, id: SubscriberId, drop: bool, other_day: bool, out: &mut Vec<Action>) {
        let Some(sub) = self.subscribers.iter().find(|s| s.id == id) else { return };
        out.push(Action::Note(match (drop, other_day) {
            (true, true) => sub.note("node joined with rows of another day, which it must drop"),
            (true, false) => {
                sub.note("node joined with rows that other nodes hold or that are not in the log, which it must drop")
            }
            _ => sub.note(format!("node joined as {}", sub.state.name())),
        }));
    }
}

/// The windows that a joining node may keep.
#[derive(Default)]
struct Adopted {
    held: Vec<Held>,
    open: Option<OpenWindow>,
}

impl Line {
    /// Takes a closed window out of the unheld ones. Returns its number of rejections; `None` if any of it is held.
    fn take(&mut self, window: Window, has_live: bool, tip: UpdateIndex) -> Option<u8> {
        if let Some(rejections) = self.take_lost(window) {
            return Some(rejections);
        }
        if has_live || window.first() < self.open || window.last() > tip {
            return None;
        }
        self.skip_to(window.first());
        self.open = window.last();
        Some(0)
    }

    /// Takes a window out of the lost one that contains it. Returns the number of rejections of that one.
    pub(super) fn take_lost(&mut self, window: Window) -> Option<u8> {
        let at = self.lost.iter().position(|lost| lost.window.contains(window))?;
        let Lost { window: whole, rejections } = self.lost.remove(at);
        for window in whole.without(window).into_iter().flatten() {
            self.add_lost(Lost { window, rejections });
        }
        Some(rejections)
    }

    /// Takes the open window; `None` if a subscriber is live in it or the claim is out of range.
    fn take_open(&mut self, claim: OpenWindow, has_live: bool, tip: UpdateIndex) -> Option<()> {
        if has_live || claim.first < self.open || claim.next < claim.first || claim.next > tip {
            return None;
        }
        self.skip_to(claim.first);
        Some(())
    }

    /// Moves the start of the open window to `first`; the updates before it become a lost window.
    fn skip_to(&mut self, first: UpdateIndex) {
        if let Some(window) = Window::new(self.open, first) {
            self.add_lost(Lost { window, rejections: 0 });
        }
        self.open = self.open.max(first);
    }
}
