//! Mistakes of operators and administrators. Each kind draws from its own random stream, so that adding one changes nothing else in a seed's plan.

use super::audit::record::TABLES;
use super::clients::Publisher;
use super::rng::Rng;
use super::world::{DAY, NodeKey, SECOND, World, WorldEvent};

/// Kinds of mistake; each has its own salt of the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// Another volume is mounted where a node's host should have the log.
    OtherLog,
    /// An update larger than a node.
    LargeUpdate,
    /// The clock of the tickerplant's host is set days or years off.
    FarClock,
}

/// Random streams of the kinds that occur in this seed.
#[derive(Clone, Debug)]
pub struct Mistakes {
    other_logs: Option<Rng>,
    large_updates: Option<Rng>,
    far_clocks: Option<Rng>,
}

impl Mistakes {
    /// Draws which kinds a seed has; none without faults.
    pub fn of(seed: u64, some: bool) -> Mistakes {
        let stream = |salt: u64, percent: u64| {
            let mut rng = Rng::new(seed ^ salt);
            (some && rng.percent(percent)).then_some(rng)
        };
        Mistakes {
            other_logs: stream(0x006d_6f75_6e74, 30),
            large_updates: stream(0x006c_6172_6765, 15),
            far_clocks: stream(0x0063_6c6f_636b, 15),
        }
    }

    pub fn kinds(&self) -> Vec<Mistake> {
        let kinds = [
            (&self.other_logs, Mistake::OtherLog),
            (&self.large_updates, Mistake::LargeUpdate),
            (&self.far_clocks, Mistake::FarClock),
        ];
        kinds.into_iter().filter(|(stream, _)| stream.is_some()).map(|(_, kind)| kind).collect()
    }
}

impl World {
    /// Makes one mistake and schedules the next of its kind.
    pub fn mistake(&mut self, kind: Mistake) {
        let pause_ns = match kind {
            Mistake::OtherLog => self.mount_at_some_node(),
            Mistake::LargeUpdate => self.publish_large(),
            Mistake::FarClock => self.set_clock_far_off(),
        };
        self.after(pause_ns.unwrap_or(SECOND), WorldEvent::Mistake(kind));
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

    fn publish_large(&mut self) -> Option<u64> {
        let publishers = self.publishers.len() as u64;
        let rng = self.mistakes.large_updates.as_mut()?;
        let pause_ns = rng.from(5 * SECOND, 40 * SECOND);
        let (at, table) = (rng.below(publishers), rng.below(TABLES.len() as u64));
        let (at, table) = (usize::try_from(at).unwrap_or(0), usize::try_from(table).unwrap_or(0));
        // One column of a node holds at most the node's memory budget in bytes, so a column of longs cannot hold this many rows.
        let rows = usize::try_from(self.plan.budget_bytes / 8).unwrap_or(0).saturating_add(1);
        let can = |own: &Publisher| own.open && own.feed.is_none() && own.numbered.is_none();
        let is_plain = self.extras().get(table) == Some(&0);
        if self.chaotic && self.publishing && is_plain && self.publishers.get(at).is_some_and(can) {
            self.report.fault("update larger than a node");
            if let Some(id) = self.publish_rows(at, table, vec![1; rows], false) {
                self.auditor.is_too_large(id);
            }
        }
        Some(pause_ns)
    }

    /// Production ignores such a jump. The operator sets the clock right, or restarts the tickerplant, which then adopts the clock as it is.
    fn set_clock_far_off(&mut self) -> Option<u64> {
        let rng = self.mistakes.far_clocks.as_mut()?;
        let pause_ns = rng.from(10 * SECOND, 60 * SECOND);
        let days = if rng.percent(50) { rng.from(4, 40) } else { rng.from(365, 19 * 365) };
        let (back, confirms, for_ns) = (rng.percent(50), rng.percent(20), rng.from(SECOND, 10 * SECOND));
        if self.chaotic {
            self.report.fault(if back { "clock that jumps days back" } else { "clock that jumps days ahead" });
            self.set_clock_off(days.saturating_mul(DAY), back, for_ns);
            if confirms {
                self.report.fault("start with a clock that is days off");
                self.stop_tick_in_order();
            }
        }
        Some(pause_ns)
    }

    /// Gives some new hosts another volume.
    pub fn host_comes_up(&mut self, host: u32) {
        let is_odd = self.mistakes.other_logs.as_mut().is_some_and(|rng| rng.percent(30));
        if is_odd && self.chaotic {
            self.mount_at(host);
        }
    }

    /// Production may not notice the mount while the node lives, so it stays until its time even at rest.
    fn mount_at(&mut self, host: u32) {
        let Some(rng) = self.mistakes.other_logs.as_mut() else { return };
        // A mount does not change files that a present or past writer has open.
        if host == self.tick_host || self.old.as_ref().is_some_and(|old| old.host == host) {
            return;
        }
        let for_ns = if rng.percent(30) { u64::MAX } else { rng.from(SECOND, 60 * SECOND) };
        self.storage.mount(host, self.now_ns.saturating_add(for_ns), rng);
        self.report.fault("another volume where a host should have the log");
    }
}
