//! Transitions of windows: rolls, rebuilds, proofs, and releasing the windows of a subscriber that is lost.

use super::event::{Action, QueueError};
use super::ids::{Date, Handle, Now, UpdateIndex, Window};
use super::note::Note;
use super::table::{Held, Kind, Lost, Progress, Queue, State, Subscriber, SubscriberId};

impl Subscriber {
    /// Returns whether `[first, last)` lies in the window that the node replays and has not reported complete. The check is needed because a
    /// request for log data may cross a change of assignment.
    pub fn replays(&self, first: UpdateIndex, last: UpdateIndex) -> bool {
        let (State::Rebuilding { window, .. } | State::TakingOver { window, progress: Progress::Replaying, .. }) =
            self.state
        else {
            return false;
        };
        window.first() <= first && first <= last && last <= window.last()
    }
}

impl Queue {
    /// Closes the window of a subscriber that is full or leaves, at `next`; the rest of a window that it rebuilds becomes lost.
    pub(super) fn roll(&mut self, handle: Handle, next: UpdateIndex, date: Date, now: Now, out: &mut Vec<Action>) {
        let Some(id) = self.id_by_handle(handle) else {
            return out.push(Action::Refused { handle, reason: QueueError::NotSubscribed });
        };
        if date != self.date {
            return self.roll_of_other_day(id, handle, date, out);
        }
        let (tip, date) = (self.tip, self.date);
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.id == id) else { return };
        let line = self.lines.entry(sub.queue.clone()).or_default();
        // The subscriber has already stopped taking updates. Rejecting an impossible index would leave a live subscriber that takes
        // nothing, so clamp it into range; a native node's proof then shows whether it holds that window. A node that took no update of its
        // window is a standby again. A node whose updates the log has lost is not: it still holds their rows.
        let begins = match sub.state {
            State::Live => line.open,
            State::Rebuilding { window, .. } | State::TakingOver { window, .. } => window.first(),
            _ => next,
        };
        let gives_back = sub.kind() == Kind::Native && sub.held.is_empty() && next <= begins;
        let (closed, rest) = match sub.state {
            State::Live => {
                let end = next.min(tip).max(line.open);
                let closed = Window::new(line.open, end);
                line.open = end;
                if line.group.is_some() && sub.leaving.is_none() && !gives_back {
                    // A node may also roll before it is full, and a few small windows would be requested as many nodes.
                    line.filled = line.filled.max(closed.map(Window::updates));
                }
                (closed.map(|window| Held { window, verified: None, rejections: 0 }), None)
            }
            State::Rebuilding { window, rejections } => {
                let end = next.max(window.first()).min(window.last());
                let closed = Window::new(window.first(), end).map(|window| Held { window, verified: None, rejections });
                (closed, Window::new(end, window.last()).map(|window| Lost { window, rejections }))
            }
            State::TakingOver { window, rejections, progress: Progress::Replaying } => {
                return self.roll_of_part(id, window, rejections, next, out);
            }
            State::Rolled | State::TakingOver { .. } => {
                return out.push(Action::Note(sub.note("the node has already rolled")));
            }
            State::Waiting | State::Lost => {
                return out.push(Action::Refused { handle, reason: QueueError::NotReceiving(sub.state.name()) });
            }
        };
        sub.state = State::Rolled;
        sub.rolled_ns = Some(now.wall_ns);
        sub.span = closed.map(|held| held.window);
        out.push(Action::StopFeed { handle });
        match closed {
            Some(held) => {
                out.push(Action::Note(sub.note("the node rolled and holds the window").window(held.window)));
                if held.window.last() != next {
                    out.push(Action::Note(
                        sub.note(format!("the node reported a window up to {next}, which is impossible")),
                    ));
                }
                if sub.kind() == Kind::Native {
                    out.push(Action::Verify { handle, window: held.window, date });
                }
                sub.add_held(held);
            }
            None => out.push(Action::Note(sub.note("the node rolled before its first update"))),
        }
        let gives_back = gives_back && sub.held.is_empty();
        if gives_back {
            sub.give_back();
        }
        if let Some(lost) = rest {
            line.add_lost(lost);
        }
        match gives_back {
            true => self.start_back_off(id),
            false => _ = self.back_offs.remove(&id),
        }
    }

    /// Rejects a roll of another day. A roll in flight at the end of the day leaves its sender live in the new day, so that one leaves the
    /// queue.
    fn roll_of_other_day(&mut self, id: SubscriberId, handle: Handle, date: Date, out: &mut Vec<Action>) {
        let today = self.date;
        match self.find(id) {
            Some(sub) if sub.state == State::Live && date < today => {
                let (group, instance) = (sub.group.clone(), sub.instance.clone());
                let sub_leaves = sub.leaving.is_some();
                out.push(Action::StopFeed { handle });
                out.push(Action::Note(
                    sub.note("the node rolled at the end of the day; it is not part of the new day").date(date),
                ));
                // `.u.end` was queued in the feed that is stopped here, so send it directly.
                match sub_leaves {
                    true => out.push(Action::Left { handle }),
                    false => out.push(Action::EndOfDay { handle, date }),
                }
                self.release(id);
                self.remove(id);
                self.remember_departed(group.as_ref(), instance.as_ref());
            }
            _ => out.push(Action::Refused { handle, reason: QueueError::OtherDay(date) }),
        }
    }

    /// Closes a window that a node has finished replaying. Ignored unless the node was assigned this window today.
    pub(super) fn rebuilt(&mut self, handle: Handle, window: Window, date: Date, now: Now, out: &mut Vec<Action>) {
        let today = self.date;
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.handle == Some(handle)) else { return };
        match sub.state {
            State::Rebuilding { window: assigned, rejections } if assigned == window && date == today => {
                sub.state = State::Rolled;
                sub.rolled_ns = Some(now.wall_ns);
                sub.span = Some(window);
                sub.add_held(Held { window, verified: None, rejections });
                self.back_offs.remove(&sub.id);
                out.push(Action::Note(sub.note("the node has rebuilt the window").window(window)));
                if sub.kind() == Kind::Native {
                    out.push(Action::Verify { handle, window, date });
                }
            }
            State::TakingOver { window: assigned, rejections, progress: Progress::Replaying }
                if assigned == window && date == today =>
            {
                sub.state = State::TakingOver { window, rejections, progress: Progress::Filled };
                out.push(Action::Verify { handle, window, date });
            }
            _ => {}
        }
    }

    /// Records the result of comparing a proof. A window that differs is rebuilt, up to `rebuilds_max` times.
    pub(super) fn proved(&mut self, handle: Handle, window: Window, date: Date, ok: bool, out: &mut Vec<Action>) {
        let Some(sub) = self.by_handle(handle) else {
            return out.push(verdict(Note::default().node(format!("handle {handle}")), window, date, ok));
        };
        out.push(verdict(sub.note(""), window, date, ok));
        self.judged(handle, window, date, ok, out);
    }

    /// Treats a window without a proof like one whose proof differs: nothing shows that the node holds it. Ignored if the node has given
    /// the window up meanwhile.
    pub(super) fn unproved(&mut self, handle: Handle, window: Window, date: Date, out: &mut Vec<Action>) {
        let Some(sub) = self.by_handle(handle).filter(|_| date == self.date) else { return };
        let is_held = sub.held.iter().any(|held| held.window == window && held.verified.is_none());
        let is_taken =
            matches!(sub.state, State::TakingOver { window: of, progress: Progress::Filled, .. } if of == window);
        if is_held || is_taken {
            let text = "the node has sent no proof of its window in time: another node rebuilds it";
            out.push(Action::Alarm(sub.note(text).window(window).date(date)));
            self.judged(handle, window, date, false, out);
        }
    }

    fn judged(&mut self, handle: Handle, window: Window, date: Date, ok: bool, out: &mut Vec<Action>) {
        let (today, rebuilds_max) = (self.date, self.params.rebuilds_max);
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.handle == Some(handle)) else { return };
        if let State::TakingOver { window: of, rejections, progress: Progress::Filled } = sub.state
            && of == window
            && date == today
        {
            return sub.proved_taken(handle, window, rejections, ok, rebuilds_max, out);
        }
        let Some(held) = sub.held.iter_mut().find(|h| h.window == window).filter(|_| date == today) else { return };
        held.verified = Some(ok);
        if ok {
            return;
        }
        if held.rejections >= rebuilds_max {
            let text = format!("accepting the window unverified after {rebuilds_max} rebuilds");
            return out.push(Action::Alarm(sub.note(text).window(window)));
        }
        let lost = Lost { window, rejections: held.rejections.saturating_add(1) };
        sub.held.retain(|h| h.window != window);
        sub.rejected = sub.rejected.saturating_add(1);
        out.push(Action::Recheck { handle, window });
        // The node holds nothing now. Its state or its copy of the log caused the difference, so other nodes are tried first.
        let rests = sub.held.is_empty() && sub.state == State::Rolled && sub.kind() == Kind::Native;
        let id = sub.id;
        if rests {
            sub.give_back();
        }
        self.lines.entry(sub.queue.clone()).or_default().add_lost(lost);
        if rests {
            self.start_back_off(id);
        }
    }

    /// Takes all windows from a subscriber, which is then waiting.
    pub(super) fn release(&mut self, id: SubscriberId) {
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.id == id) else { return };
        let line = self.lines.entry(sub.queue.clone()).or_default();
        for held in sub.held.drain(..) {
            line.add_lost(Lost { window: held.window, rejections: held.rejections });
        }
        if let State::Rebuilding { window, rejections } = sub.state {
            line.add_lost(Lost { window, rejections });
        }
        sub.state = State::Waiting;
    }
}

fn verdict(about: Note, window: Window, date: Date, ok: bool) -> Action {
    let about = about.window(window).date(date);
    if ok {
        Action::Note(Note { text: "the node's window is verified: it agrees with the log".to_string(), ..about })
    } else {
        Action::Alarm(Note { text: "the node's window differs from the log".to_string(), ..about })
    }
}
