//! Liveness rule: a connected node that is sent updates takes them within a bound, or its window is handed off. Only time counts in which
//! everything between the tickerplant and the node flows.

use super::audit::Broken;
use super::world::{MS, SECOND, World};
use elastick::queue::{Progress, State, Subscriber};
use std::collections::BTreeMap;

/// Interval of the check.
pub const LOOKS_EVERY_NS: u64 = 500 * MS;

/// Longest allowed time without progress while everything flows.
const WITHIN_NS: u64 = 30 * SECOND;

/// A subscriber's position, and how long it has not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Watched {
    run: u32,
    state: State,
    next: Option<u64>,
    idle_ns: u64,
}

/// Subscribers that should take updates, by number in the table.
#[derive(Debug, Default)]
pub struct Watch(BTreeMap<u64, Watched>);

impl World {
    /// Checks that every subscriber that should take updates makes progress; one without it for too long breaks a rule.
    pub fn judge_progress(&mut self) {
        self.after(LOOKS_EVERY_NS, super::world::WorldEvent::Progress);
        let before = std::mem::take(&mut self.progress.0);
        let Some(tick) = self.tick.as_ref().filter(|_| self.old.is_none()) else { return };
        let plant = &tick.service.plant;
        let stands = self.tick_paused_until_ns > self.now_ns
            || plant.failure().is_some()
            || self.storage.hangs_until_ns(self.tick_host) > self.now_ns
            || self.slow_net_until_ns > self.now_ns;
        let (mut watched, mut idle_most) = (BTreeMap::new(), None);
        for own in plant.queue().subscribers().iter().filter(|own| own.handle.is_some() && is_given(own)) {
            let Some((next, flows)) = self.next_of(own) else { continue };
            let same = before
                .get(&own.id.0)
                .filter(|before| before.run == self.tick_runs && before.state == own.state && before.next == next);
            let idle_ns = same.map_or(0, |before| before.idle_ns);
            let waits = match next {
                Some(next) if own.state == State::Live => self.has_more(own, next),
                _ => true,
            };
            let idle_ns = match (waits, flows && !stands) {
                (false, _) => 0,
                (true, true) => idle_ns.saturating_add(LOOKS_EVERY_NS),
                (true, false) => idle_ns,
            };
            if idle_ns > WITHIN_NS {
                idle_most = Some((own.label(), own.state.name(), next));
            }
            watched.insert(own.id.0, Watched { run: self.tick_runs, state: own.state, next, idle_ns });
        }
        self.longest_idle_ns = watched.values().map(|of| of.idle_ns).chain([self.longest_idle_ns]).max().unwrap_or(0);
        self.progress.0 = watched;
        if let Some((who, state, next)) = idle_most {
            let within = WITHIN_NS / SECOND;
            self.judge(Err(Broken(format!("{who} is {state} at {next:?} and has taken nothing for {within} s"))));
        }
    }

    /// Returns the update that a subscriber's node expects next, and whether everything sent to it arrives.
    fn next_of(&self, own: &Subscriber) -> Option<(Option<u64>, bool)> {
        let name = own.node.as_ref()?;
        let node = self.nodes.values().find(|node| node.name.as_bytes() == name.0)?;
        let line = node.line.and_then(|line| self.lines.get(&line));
        let flows = line.is_some_and(|line| !line.cut && line.slow_bytes.is_none() && !line.is_held_up(self.now_ns))
            && node.paused_until_ns <= self.now_ns
            && self.storage.hangs_until_ns(node.host) <= self.now_ns;
        Some((node.shared.state().next, flows))
    }

    /// Returns whether the log has more updates for a live subscriber.
    fn has_more(&self, own: &Subscriber, next: u64) -> bool {
        let of = self.plan.queues.iter().find(|of| of.name.as_bytes() == own.queue.0);
        let date = self.tick.as_ref().map(|tick| tick.service.plant.queue().date().0);
        let next = usize::try_from(next).unwrap_or(usize::MAX);
        of.zip(date).is_some_and(|(of, date)| self.auditor.next_received(date, next, &of.filter).is_some())
    }
}

/// Returns whether a subscriber should take updates.
fn is_given(own: &Subscriber) -> bool {
    matches!(
        own.state,
        State::Live | State::Rebuilding { .. } | State::TakingOver { progress: Progress::Replaying, .. }
    )
}
