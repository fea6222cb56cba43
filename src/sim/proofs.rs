//! Proofs that differ, judged when the tickerplant has compared them: only what was taken from the log may be held otherwise than it
//! is logged.

use super::audit::Broken;
use super::world::World;
use crate::queue::{State, Subscriber, Window};
use crate::tick::plant::Plant;
use std::collections::BTreeMap;

/// What one tickerplant had found before.
#[derive(Default)]
pub struct Seen {
    differing: u64,
    /// How many windows of each subscriber, by number.
    of: BTreeMap<u64, usize>,
}

impl Seen {
    pub fn of(plant: &Plant) -> Seen {
        let of = plant.queue().subscribers().iter().map(|own| (own.id.0, differed(own))).collect();
        Seen { differing: plant.stats.differing, of }
    }
}

/// Windows of a subscriber that differed: those that were taken from it, and those that it keeps.
fn differed(subscriber: &Subscriber) -> usize {
    let kept = subscriber.held.iter().filter(|held| held.verified == Some(false)).count();
    (subscriber.rejected as usize).saturating_add(kept)
}

/// Windows of a subscriber's queue that are in doubt: to be rebuilt since a proof differed, or kept all the same.
fn doubted(plant: &Plant, of: &Subscriber) -> Vec<Window> {
    let line = plant.queue().lines().get(&of.queue);
    let lost = line.into_iter().flat_map(|line| &line.lost).filter(|lost| lost.rejections > 0);
    let mut windows: Vec<Window> = lost.map(|lost| lost.window).collect();
    for subscriber in plant.queue().subscribers().iter().filter(|own| own.queue == of.queue) {
        match subscriber.state {
            State::Rebuilding { window, rejections } | State::TakingOver { window, rejections, .. }
                if rejections > 0 =>
            {
                windows.push(window);
            }
            _ => {}
        }
        let held = subscriber.held.iter().filter(|held| held.rejections > 0 || held.verified == Some(false));
        windows.extend(held.map(|held| held.window));
    }
    windows
}

impl World {
    /// Looks whether the tickerplant has found a proof that differs.
    pub fn judge_proofs(&mut self) {
        let Some(tick) = self.tick.as_mut() else { return };
        let plant = &tick.service.plant;
        if plant.stats.differing == tick.proofs.differing {
            return;
        }
        let before = std::mem::replace(&mut tick.proofs, Seen::of(plant));
        let date = plant.queue().date().0;
        let lost_from = |date: i32| self.auditor.day(date).and_then(|day| day.lost_from);
        let count = |own: &Subscriber| before.of.get(&own.id.0).copied().unwrap_or_default();
        let mut judged = Ok(());
        let mut named = false;
        for own in plant.queue().subscribers().iter().filter(|own| differed(own) > count(own)) {
            named = true;
            let windows = doubted(plant, own);
            let is_taken = |from: u64| windows.iter().any(|window| window.last().0 > from);
            if !lost_from(date).is_some_and(|from| is_taken(from as u64)) {
                let windows: Vec<String> = windows.iter().map(ToString::to_string).collect();
                judged = Err(Broken(format!(
                    "the proof of {} differs ({} of {date}), of which nothing was taken from the log",
                    own.label(),
                    windows.join(", ")
                )));
            }
        }
        // Of yesterday, of one who is gone, or of what is taken over unproved.
        if !named && lost_from(date).or(lost_from(date.saturating_sub(1))).is_none() {
            judged = Err(Broken(format!(
                "a proof of {date} or the day before differs, of which nothing was taken from the log"
            )));
        }
        self.judge(judged);
    }
}
