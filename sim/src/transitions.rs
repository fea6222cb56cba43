//! Counts state transitions of a run, so that transitions never met are found.

use super::report::Report;
use elastick::queue::{Queue, State, Subscriber};
use std::collections::{BTreeMap, BTreeSet};

/// Place of a subscriber's node: its queue and its instance, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub queue: Vec<u8>,
    pub instance: Vec<u8>,
}

impl Place {
    fn of(subscriber: &Subscriber) -> Place {
        let instance = subscriber.instance.as_ref().cloned().unwrap_or_default();
        Place { queue: subscriber.queue.0.to_vec(), instance }
    }
}

/// A row of the table, as far as transitions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    state: &'static str,
    away: bool,
    leaves: bool,
    place: Place,
}

/// States of subscribers as last seen, by number.
#[derive(Default)]
pub struct Seen {
    rows: BTreeMap<u64, Row>,
    date: i32,
}

/// A subscriber that the table dropped although it was not draining.
pub struct GivenUp {
    pub id: u64,
    pub place: Place,
    /// Its grace period ended. Otherwise it has rejoined, or left in one step.
    pub is_lost: bool,
}

/// Changes of the table that affect the number of instances.
#[derive(Default)]
pub struct Changes {
    pub given_up: Vec<GivenUp>,
    /// Set if a day has ended: nodes that were connected and so were notified.
    pub sent_home: Option<BTreeSet<Place>>,
}

impl Seen {
    /// Returns the state for a starting tickerplant whose table last had this date.
    pub fn since(date: i32) -> Seen {
        Seen { rows: BTreeMap::new(), date }
    }

    /// Compares the table with the last one and counts transitions.
    pub fn look(&mut self, queue: &Queue, report: &mut Report) -> Changes {
        let mut now = BTreeMap::new();
        for subscriber in queue.subscribers() {
            let state = match subscriber.leaving {
                Some(_) if subscriber.state == State::Rolled => "leaving",
                _ => subscriber.state.name(),
            };
            let (away, leaves) = (subscriber.resume_by_ns.is_some(), subscriber.leaving.is_some());
            now.insert(subscriber.id.0, Row { state, away, leaves, place: Place::of(subscriber) });
        }
        let mut changes = Changes::default();
        if now == self.rows && queue.date().0 == self.date {
            return changes;
        }
        let new_day = queue.date().0 != self.date;
        for (id, row) in &now {
            let before = self.rows.get(id);
            if row.state == "lost" && before.is_none_or(|before| before.state != "lost" && !before.leaves) {
                changes.given_up.push(GivenUp { id: *id, place: row.place.clone(), is_lost: true });
            }
            match before {
                None => report.moved("new", row.state),
                Some(before) => {
                    if before.state != row.state {
                        report.moved(before.state, row.state);
                    }
                    match (before.away, row.away) {
                        (false, true) => report.moved(row.state, "away"),
                        (true, false) => report.moved("away", row.state),
                        _ => {}
                    }
                }
            }
        }
        for (id, row) in &self.rows {
            if !now.contains_key(id) {
                report.moved(row.state, if new_day { "gone with the day" } else { "gone" });
                if !new_day && !row.leaves && row.state != "lost" {
                    changes.given_up.push(GivenUp { id: *id, place: row.place.clone(), is_lost: false });
                }
            }
        }
        let comes_back = |(id, row): (&u64, &Row)| {
            row.state == "rolled" && !row.away && self.rows.get(id).is_some_and(|before| before.away)
        };
        let before_live = |(_, row): &(&u64, &Row)| {
            let of_queue = |(_, other): &(&u64, &Row)| other.place.queue == row.place.queue;
            now.iter().filter(of_queue).any(|(_, other)| other.state == "live" && other.away)
        };
        if now.iter().filter(|(id, row)| comes_back((id, row))).any(|row| before_live(&row)) {
            report.met("rolled node back before the live one");
        }
        if new_day && self.date != 0 {
            let here = self.rows.values().filter(|row| !row.away && row.state != "lost");
            changes.sent_home = Some(here.map(|row| row.place.clone()).collect());
        }
        (self.rows, self.date) = (now, queue.date().0);
        changes
    }
}
