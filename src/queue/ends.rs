//! End of the day, and restart of the tickerplant.

use super::event::Action;
use super::ids::{Date, Now, QueueName, Symbol, UpdateIndex, Window};
use super::note::Note;
use super::table::{Kind, Line, Lost, Queue, State, Subscriber};
use crate::config::Wake;
use std::collections::BTreeMap;

impl Queue {
    /// Ends the day: live subscribers start the new log at 0, [`Queue::standbys`] standbys stay, all others receive `.u.end` and leave the
    /// table. No standby is promoted here; the first step after the new log is open does that.
    pub(super) fn day_end(&mut self, new_date: Date, out: &mut Vec<Action>) {
        if new_date <= self.date {
            return out.push(Action::Note(
                Note::new(format!("the day cannot end: {new_date} is not after it")).date(self.date),
            ));
        }
        let (ended, tip) = (self.date, self.tip);
        for (queue, line) in &self.lines {
            for lost in &line.lost {
                out.push(Action::Note(
                    Note::new("the day ended before any node held the window")
                        .queue(queue)
                        .window(lost.window)
                        .date(ended),
                ));
            }
        }
        let mut standbys: BTreeMap<QueueName, usize> =
            self.lines.keys().map(|queue| (queue.clone(), self.standbys(queue))).collect();
        let remembered: Vec<(QueueName, Line)> =
            self.lines.iter().filter_map(|(queue, line)| Some((queue.clone(), self.line_of_next_day(line)?))).collect();
        let sleeping: Vec<Symbol> =
            self.params.groups.iter().filter(|_| self.params.wake != Wake::Schedule).cloned().collect();
        sleeping.iter().for_each(|group| self.expect_late_launches(group));
        let mut kept: Vec<Subscriber> = Vec::new();
        let mut ending = BTreeMap::new();
        for mut sub in std::mem::take(&mut self.subscribers) {
            let stays = match sub.state {
                State::Live => true,
                State::Waiting if self.ends_with_day(&sub) => false,
                State::Waiting if sub.handle.is_some() => match standbys.get_mut(&sub.queue) {
                    Some(left) if *left > 0 => {
                        *left -= 1;
                        true
                    }
                    _ => false,
                },
                _ => false,
            };
            if stays {
                if let (State::Live, Kind::Native, Some(handle)) = (sub.state, sub.kind(), sub.handle) {
                    let open = self.lines.get(&sub.queue).map(|line| line.open).unwrap_or_default();
                    if let Some(window) = Window::new(open, tip) {
                        out.push(Action::Verify { handle, window, date: ended });
                    }
                }
                ending.extend(self.open_at_end(&sub).map(|open| (sub.id, open)));
                sub.held.clear();
                sub.span = None;
                sub.rejected = 0;
                kept.push(sub);
            } else {
                self.forget(sub.id);
                self.remember_departed(sub.group.as_ref(), sub.instance.as_ref());
                if let Some(handle) = sub.handle {
                    if matches!(sub.state, State::Rebuilding { .. } | State::TakingOver { .. }) {
                        // The rest of its window is useless now, and would arrive in the day in which the node joins again.
                        out.push(Action::StopFeed { handle });
                    }
                    out.push(Action::EndOfDay { handle, date: ended });
                }
            }
        }
        self.lines = kept.iter().map(|s| (s.queue.clone(), Line::default())).chain(remembered).collect();
        self.subscribers = kept;
        self.ending = ending;
        self.waking.clear();
        self.last_requests.clear();
        self.first_requests.clear();
        self.date = new_date;
        self.tip = UpdateIndex::default();
        self.written = UpdateIndex::default();
        self.departed.expire(self.now_ns);
        out.insert(0, Action::Journal(self.snapshot()));
    }

    /// Returns the number of standbys of this queue that stay over the end of the day: as many as configured, and at least one while no
    /// live subscriber is connected.
    pub(super) fn standbys(&self, queue: &QueueName) -> usize {
        let live_is_here = self.subscribers.iter().any(|s| s.is_live_in(queue) && s.handle.is_some());
        self.params.standbys_kept.max(usize::from(!live_is_here))
    }

    /// Starts the restart grace period of every subscriber that is not lost. Paper clients, which cannot be recognised again, and holders of
    /// updates that the log has lost are given up at once.
    pub(super) fn restored(&mut self, tip: UpdateIndex, now: Now, out: &mut Vec<Action>) {
        self.tip = tip;
        self.written = self.written.min(tip);
        (self.active_ns, self.active_tip) = (now.steady_ns, tip);
        // The steady clock restarts with each process, so its readings in the journal mean nothing here.
        self.came_ns = self.subscribers.iter().map(|s| (s.id, now.steady_ns)).collect();
        self.departed.restart(now.steady_ns);
        let deadline_ns = now.steady_ns.saturating_add(self.params.restart_grace_ns);
        let mut gone = Vec::new();
        for sub in self.subscribers.iter_mut().filter(|s| s.state != State::Lost) {
            sub.handle = None;
            sub.resume_by_ns = Some(deadline_ns);
            let open = self.lines.get(&sub.queue).map(|line| line.open).unwrap_or_default();
            let beyond = match sub.state {
                State::Live => open > tip,
                State::Rebuilding { window, .. } | State::TakingOver { window, .. } => window.last() > tip,
                _ => false,
            } || sub.held.iter().any(|h| h.window.last() > tip);
            if beyond || sub.kind() == Kind::Paper {
                gone.push(sub.id);
            }
        }
        for id in gone {
            self.give_up(id, out);
        }
        self.keep_ending();
        for line in self.lines.values_mut() {
            line.open = line.open.min(tip);
            line.asleep = line.asleep.map(|at| at.min(tip));
            line.lost = std::mem::take(&mut line.lost)
                .into_iter()
                .filter_map(|lost| {
                    let window = Window::new(lost.window.first(), lost.window.last().min(tip))?;
                    Some(Lost { window, ..lost })
                })
                .collect();
        }
    }
}
