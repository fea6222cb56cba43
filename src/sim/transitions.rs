//! Which changes of state a run has met, so that one that is never met is seen.

use super::report::Report;
use crate::queue::{Queue, State};
use std::collections::BTreeMap;

/// The states of subscribers as they were seen last, by number.
#[derive(Default)]
pub struct Seen {
    states: BTreeMap<u64, (&'static str, bool)>,
    date: i32,
}

impl Seen {
    /// Looks at the table and counts what has changed.
    pub fn look(&mut self, queue: &Queue, report: &mut Report) {
        let mut now = BTreeMap::new();
        for subscriber in queue.subscribers() {
            let state = match subscriber.leaving {
                Some(_) if subscriber.state == State::Rolled => "leaving",
                _ => subscriber.state.name(),
            };
            now.insert(subscriber.id.0, (state, subscriber.resume_by_ns.is_some()));
        }
        if now == self.states && queue.date().0 == self.date {
            return;
        }
        let new_day = queue.date().0 != self.date;
        for (id, (state, away)) in &now {
            match self.states.get(id) {
                None => report.moved("new", state),
                Some((before, was_away)) => {
                    if before != state {
                        report.moved(before, state);
                    }
                    match (was_away, away) {
                        (false, true) => report.moved(state, "away"),
                        (true, false) => report.moved("away", state),
                        _ => {}
                    }
                }
            }
        }
        for (id, (state, _)) in &self.states {
            if !now.contains_key(id) {
                report.moved(state, if new_day { "gone with the day" } else { "gone" });
            }
        }
        (self.states, self.date) = (now, queue.date().0);
    }
}
