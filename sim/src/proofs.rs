//! Judges differing proofs once the tickerplant has compared them: a node may differ from the log only where a crash took updates from the
//! log, or where an update is larger than a node.

use super::audit::Broken;
use super::audit::holdings::Filter;
use super::world::World;
use elastick::queue::{State, Subscriber, Window};
use elastick::tick::plant::Plant;
use std::collections::BTreeMap;

/// Differing proofs known so far, of one run of the tickerplant.
#[derive(Default)]
pub struct Seen {
    differing: u64,
    /// Number of differing windows of each subscriber, by number.
    of: BTreeMap<u64, usize>,
}

impl Seen {
    pub fn of(plant: &Plant) -> Seen {
        let of = plant.queue().subscribers().iter().map(|own| (own.id.0, differed(own))).collect();
        Seen { differing: plant.stats.differing, of }
    }
}

/// Counts a subscriber's windows whose proof differed: those taken from it, and those that it keeps.
fn differed(subscriber: &Subscriber) -> usize {
    let kept = subscriber.held.iter().filter(|held| held.verified == Some(false)).count();
    (subscriber.rejected as usize).saturating_add(kept)
}

/// Returns the doubtful windows of a subscriber's queue: to be rebuilt since a proof differed, or kept all the same.
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
    /// Judges proofs that were found to differ since the last call.
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
            let filter = self.plan.queues.iter().find(|of| of.name.as_bytes() == own.queue.0).map(|of| &of.filter);
            let leaves_out = windows.iter().any(|window| {
                let window = window.first().0 as usize..window.last().0 as usize;
                filter.is_some_and(|filter| self.auditor.leaves_out(date, window, filter))
            });
            if !leaves_out && !lost_from(date).is_some_and(|from| is_taken(from as u64)) {
                let windows: Vec<String> = windows.iter().map(ToString::to_string).collect();
                judged = Err(Broken(format!(
                    "the proof of {} differs ({} of {date}), of which nothing was taken from the log",
                    own.label(),
                    windows.join(", ")
                )));
            }
        }
        // No subscriber matches: the window is of the day before, its node is gone, or it was taken over unproved.
        let everything = Filter::default();
        let leaves_out = |date| self.auditor.leaves_out(date, 0..usize::MAX, &everything);
        let days = || [Some(date), self.auditor.day_before(date)].into_iter().flatten();
        if !named && !days().any(|date| lost_from(date).is_some() || leaves_out(date)) {
            judged = Err(Broken(format!(
                "a proof of {date} or the day before differs, of which nothing was taken from the log"
            )));
        }
        self.judge(judged);
    }
}
