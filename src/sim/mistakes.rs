//! What operators and those who set hosts up do wrong. Each kind draws from a stream of its own: what else is planned for a seed stays as
//! it is without it.

use super::rng::Rng;
use super::world::{Event, NodeKey, SECOND, World};

/// The kinds, each with what its stream is told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// Another volume is mounted where a node's host should have the log.
    OtherLog,
}

/// A kind that is made in this world, and the stream that it draws from.
#[derive(Clone, Debug)]
pub struct Mistakes {
    other_logs: Option<Rng>,
}

impl Mistakes {
    /// Of those kinds that a seed has; none where nothing is to go wrong.
    pub fn of(seed: u64, some: bool) -> Mistakes {
        let stream = |salt: u64, percent: u64| {
            let mut rng = Rng::new(seed ^ salt);
            (some && rng.percent(percent)).then_some(rng)
        };
        Mistakes { other_logs: stream(0x006d_6f75_6e74, 30) }
    }

    pub fn kinds(&self) -> Vec<Mistake> {
        [self.other_logs.as_ref().map(|_| Mistake::OtherLog)].into_iter().flatten().collect()
    }
}

impl World {
    /// One is made, and the next one of its kind is looked forward to.
    pub fn mistake(&mut self, kind: Mistake) {
        let pause_ns = match kind {
            Mistake::OtherLog => self.mount_at_some_node(),
        };
        self.after(pause_ns.unwrap_or(SECOND), Event::Mistake(kind));
    }

    fn mount_at_some_node(&mut self) -> Option<u64> {
        let keys: Vec<NodeKey> = self.nodes.keys().copied().collect();
        let rng = self.mistakes.other_logs.as_mut()?;
        let pause_ns = rng.from(2 * SECOND, 10 * SECOND);
        let key = rng.pick(&keys).copied();
        if let Some(node) = key.filter(|_| self.chaotic).and_then(|key| self.nodes.get(&key)) {
            self.mount_at(node.host);
        }
        Some(pause_ns)
    }

    /// A new host has another volume at times.
    pub fn host_comes_up(&mut self, host: u32) {
        let is_odd = self.mistakes.other_logs.as_mut().is_some_and(|rng| rng.percent(30));
        if is_odd && self.chaotic {
            self.mount_at(host);
        }
    }

    /// It need not be noticed while the node lives: nobody puts it right before its time, at rest neither.
    fn mount_at(&mut self, host: u32) {
        let Some(rng) = self.mistakes.other_logs.as_mut() else { return };
        // What a tickerplant that writes, or wrote, has open stays where it is.
        if host == self.tick_host || self.old.as_ref().is_some_and(|old| old.host == host) {
            return;
        }
        let for_ns = if rng.percent(30) { u64::MAX } else { rng.from(SECOND, 60 * SECOND) };
        self.storage.mount(host, self.now_ns.saturating_add(for_ns), rng);
        self.report.fault("another volume where a host should have the log");
    }
}
