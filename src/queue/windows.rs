//! Windows change hands: rolls, rebuilds, proofs, and what becomes of a subscriber's windows when it no longer counts.

use super::event::{Action, Refusal};
use super::ids::{Date, Handle, Now, UpdateIndex, Window};
use super::table::{Held, Kind, Lost, Progress, Queue, State, Subscriber, SubscriberId};
use crate::defect::{Defect, is_planted};

impl Subscriber {
    /// Whether it has been told to take `[first, last)` from the log, and has not said yet that it has: what it asks for may have
    /// been under way while it was told otherwise.
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
    pub(super) fn roll(&mut self, handle: Handle, next: UpdateIndex, date: Date, now: Now, out: &mut Vec<Action>) {
        let Some(id) = self.id_by_handle(handle) else {
            return out.push(Action::Refused { handle, reason: Refusal::NotSubscribed });
        };
        if date != self.date {
            return self.roll_of_other_day(id, handle, date, out);
        }
        let (tip, date) = (self.tip, self.date);
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.id == id) else { return };
        let line = self.lines.entry(sub.queue.clone()).or_default();
        // A subscriber that says it has rolled has stopped taking updates already. Refusing an index that cannot be would leave a
        // live one that takes nothing, so it is brought into range; a native node's proof then tells whether it holds that.
        // A node that took nothing of its window holds nothing: it is a standby again. Where the log has lost what it took, it holds rows.
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
                return out.push(Action::Note(format!("{} has rolled already", sub.label())));
            }
            State::Waiting | State::Lost => {
                return out.push(Action::Refused { handle, reason: Refusal::NotReceiving(sub.state.name()) });
            }
        };
        sub.state = State::Rolled;
        sub.rolled_ns = Some(now.wall_ns);
        sub.span = closed.map(|held| held.window);
        out.push(Action::StopFeed { handle });
        match closed {
            Some(held) => {
                out.push(Action::Note(format!(
                    "{} rolled at {}, holds {}",
                    sub.label(),
                    held.window.last(),
                    held.window
                )));
                if held.window.last() != next {
                    out.push(Action::Note(format!("{} said {next}, which it cannot hold", sub.label())));
                }
                if sub.kind() == Kind::Native {
                    out.push(Action::Verify { handle, window: held.window, date });
                }
                sub.add_held(held);
            }
            None => out.push(Action::Note(format!("{} rolled before it took an update", sub.label()))),
        }
        let gives_back = gives_back && sub.held.is_empty();
        if gives_back {
            sub.give_back();
        }
        if let Some(lost) = rest {
            line.add_lost(lost);
        }
        match gives_back {
            true => self.rests(id),
            false => _ = self.rests.remove(&id),
        }
    }

    /// The day ended while the roll was on its way: the subscriber was live into the new day, of which it takes nothing.
    fn roll_of_other_day(&mut self, id: SubscriberId, handle: Handle, date: Date, out: &mut Vec<Action>) {
        let today = self.date;
        match self.find(id) {
            Some(sub) if sub.state == State::Live && date < today => {
                let (label, sub_leaves) = (sub.label(), sub.leaving.is_some());
                out.push(Action::StopFeed { handle });
                out.push(Action::Note(format!("{label} rolled as {date} ended; it takes no part in the new day")));
                // The day's end waited in its feed, which is stopped: it is told here.
                match sub_leaves {
                    true => out.push(Action::Left { handle }),
                    false => out.push(Action::EndOfDay { handle, date }),
                }
                self.release(id);
                self.remove(id);
            }
            _ => out.push(Action::Refused { handle, reason: Refusal::OtherDay(date) }),
        }
    }

    pub(super) fn rebuilt(&mut self, handle: Handle, window: Window, date: Date, now: Now, out: &mut Vec<Action>) {
        let today = self.date;
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.handle == Some(handle)) else { return };
        match sub.state {
            State::Rebuilding { window: asked, rejections } if asked == window && date == today => {
                sub.state = State::Rolled;
                sub.rolled_ns = Some(now.wall_ns);
                sub.span = Some(window);
                sub.add_held(Held { window, verified: None, rejections });
                self.rests.remove(&sub.id);
                out.push(Action::Note(format!("{} has rebuilt {window}", sub.label())));
                if sub.kind() == Kind::Native {
                    out.push(Action::Verify { handle, window, date });
                }
            }
            State::TakingOver { window: asked, rejections, progress: Progress::Replaying }
                if asked == window && date == today =>
            {
                sub.state = State::TakingOver { window, rejections, progress: Progress::Filled };
                out.push(Action::Verify { handle, window, date });
            }
            _ => {}
        }
    }

    pub(super) fn proved(&mut self, handle: Handle, window: Window, date: Date, ok: bool, out: &mut Vec<Action>) {
        let (today, rebuilds_max) = (self.date, self.params.rebuilds_max);
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.handle == Some(handle)) else {
            return out.push(verdict(&format!("handle {handle}"), window, date, ok));
        };
        let label = sub.label();
        out.push(verdict(&label, window, date, ok));
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
            let text = format!("{label} keeps {window} unproved after {rebuilds_max} rebuilds");
            return out.push(Action::Alarm(text));
        }
        let lost = Lost { window, rejections: held.rejections.saturating_add(1) };
        sub.held.retain(|h| h.window != window);
        sub.rejected = sub.rejected.saturating_add(1);
        out.push(Action::Recheck { handle, window });
        // It holds nothing any more. What it was, or its log, made it differ: others are tried first.
        let rests = sub.held.is_empty() && sub.state == State::Rolled && sub.kind() == Kind::Native;
        let id = sub.id;
        if rests {
            sub.give_back();
        }
        self.lines.entry(sub.queue.clone()).or_default().add_lost(lost);
        if rests {
            self.rests(id);
        }
    }

    /// Takes everything from a subscriber, which is then waiting.
    pub(super) fn release(&mut self, id: SubscriberId) {
        let Some(sub) = self.subscribers.iter_mut().find(|s| s.id == id) else { return };
        let line = self.lines.entry(sub.queue.clone()).or_default();
        for held in sub.held.drain(..).filter(|_| !is_planted(Defect::LostWindowForgotten)) {
            line.add_lost(Lost { window: held.window, rejections: held.rejections });
        }
        if let State::Rebuilding { window, rejections } = sub.state {
            line.add_lost(Lost { window, rejections });
        }
        sub.state = State::Waiting;
    }
}

fn verdict(label: &str, window: Window, date: Date, ok: bool) -> Action {
    if ok {
        Action::Note(format!("{label} holds {window} of {date} as logged"))
    } else {
        Action::Alarm(format!("what {label} holds of {window} of {date} differs from the log"))
    }
}
