//! Counts of what a run has met.

use elastick::tick::plant::Stats;
use std::collections::BTreeMap;
use std::fmt;

/// Counts of one seed, or of many added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub days: u64,
    pub events: u64,
    pub audits: u64,
    pub acknowledged: u64,
    pub allowed_losses: u64,
    pub checked_rows: u64,
    pub updates: u64,
    pub refused: u64,
    pub verified: u64,
    pub differing: u64,
    /// Longest time in which a node took none of its updates while everything flowed.
    pub longest_idle_ns: u64,
    faults: BTreeMap<&'static str, u64>,
    moves: BTreeMap<(&'static str, &'static str), u64>,
    met: BTreeMap<&'static str, u64>,
}

/// State transitions that a long run under all faults must meet, or the simulator does not do its work.
const MOVES: &[(&str, &str)] = &[
    ("away", "leaving"),
    ("away", "live"),
    ("away", "lost"),
    ("away", "rolled"),
    ("away", "waiting"),
    ("leaving", "away"),
    ("leaving", "gone"),
    ("leaving", "gone with the day"),
    ("leaving", "lost"),
    ("live", "away"),
    ("live", "gone"),
    ("live", "leaving"),
    ("live", "lost"),
    ("live", "rolled"),
    ("live", "waiting"),
    ("lost", "gone with the day"),
    ("new", "leaving"),
    ("new", "live"),
    ("new", "lost"),
    ("new", "rebuilding"),
    ("new", "rolled"),
    ("new", "taking"),
    ("new", "waiting"),
    ("rebuilding", "away"),
    ("rebuilding", "gone"),
    ("rebuilding", "lost"),
    ("rebuilding", "rolled"),
    ("rebuilding", "waiting"),
    ("rolled", "away"),
    ("rolled", "gone"),
    ("rolled", "gone with the day"),
    ("rolled", "leaving"),
    ("rolled", "lost"),
    ("taking", "away"),
    ("taking", "gone"),
    ("taking", "gone with the day"),
    ("taking", "lost"),
    ("taking", "rolled"),
    ("waiting", "away"),
    ("waiting", "gone"),
    ("waiting", "gone with the day"),
    ("waiting", "live"),
    ("waiting", "rebuilding"),
    ("waiting", "taking"),
];

/// Faults and events that such a run must meet too. A node's `Fault::Surprise` is not among them: only a defect causes it.
const ALL_MET: &[&str] = &[
    "another log at the path of a node's log",
    "another volume where a host should have the log",
    "async update confirmed to a feed",
    "bytes lost at power cuts",
    "clock that jumps",
    "clock that jumps days ahead",
    "clock that jumps days back",
    "clock that jumps hours ahead",
    "clock that jumps hours back",
    "log of tomorrow that is there already",
    "connection closed by the tickerplant",
    "connection cut",
    "connection half open",
    "disk full",
    "feed that ended with updates in doubt",
    "file system that hangs on a node's host",
    "file system that hangs under the thread that syncs",
    "file system that hangs under the tickerplant",
    "fleet call throttled",
    "fleet call without an answer",
    "group at its maximum",
    "hole in what was not synced",
    "launch that is late",
    "launch that never comes",
    "live node with updates that a crash took from the log",
    "log taken over by a second tickerplant",
    "memory of a node filled by others",
    "log that could not be opened to be read",
    "one too many: capacity raised",
    "one too many: ended between the day's end and its own",
    "one too many: given up while its instance is there",
    "one too many: left without an answer of its fleet",
    "one too many: not in the table at the day's end",
    "one too many: server taken back",
    "one too many: standby that cannot take a window",
    "one too many: there when the day began",
    "node asked to end",
    "node found unhealthy by the fleet",
    "node killed",
    "node left",
    "node paused",
    "node restarted in its place",
    "node terminated after its day",
    "nothing passes one way",
    "old size or missing name on another host",
    "power cut",
    "numbered update confirmed",
    "numbered update sent again",
    "queues with a part of the tables each",
    "rolled node back before the live one",
    "second tickerplant started beside the first",
    "several queues on the servers of one group",
    "slow network",
    "slow reader",
    "spot interruption",
    "start rejected",
    "surge of the feed",
    "sync that failed",
    "tickerplant ended in order",
    "tickerplant killed",
    "tickerplant killed between log and publish",
    "tickerplant paused",
    "failed tickerplant restarted",
    "tickerplant that continues after a full disk",
    "tickerplant that had lost its log ended",
    "torn last write",
    "two launched instead of one",
    "update larger than a node",
    "update that nodes left out",
    "update in doubt found in the log",
    "update in doubt sent again",
    "update refused",
    "write to a full disk",
];

impl Report {
    pub fn fault(&mut self, name: &'static str) {
        add(&mut self.faults, name, 1);
    }

    pub fn met(&mut self, name: &'static str) {
        add(&mut self.met, name, 1);
    }

    pub fn met_times(&mut self, name: &'static str, times: u64) {
        if times > 0 {
            add(&mut self.met, name, times);
        }
    }

    pub fn fault_times(&mut self, name: &'static str, times: u64) {
        if times > 0 {
            add(&mut self.faults, name, times);
        }
    }

    pub fn moved(&mut self, from: &'static str, to: &'static str) {
        add(&mut self.moves, (from, to), 1);
    }

    /// Adds a tickerplant's own counts when it ends.
    pub fn add(&mut self, stats: &Stats) {
        self.updates = self.updates.saturating_add(stats.updates);
        self.refused = self.refused.saturating_add(stats.refused);
        self.verified = self.verified.saturating_add(stats.verified);
        self.differing = self.differing.saturating_add(stats.differing);
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Report) {
        for (own, other) in [
            (&mut self.days, other.days),
            (&mut self.events, other.events),
            (&mut self.audits, other.audits),
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.allowed_losses, other.allowed_losses),
            (&mut self.checked_rows, other.checked_rows),
            (&mut self.updates, other.updates),
            (&mut self.refused, other.refused),
            (&mut self.verified, other.verified),
            (&mut self.differing, other.differing),
        ] {
            *own = own.saturating_add(other);
        }
        self.longest_idle_ns = self.longest_idle_ns.max(other.longest_idle_ns);
        other.faults.iter().for_each(|(name, count)| add(&mut self.faults, *name, *count));
        other.met.iter().for_each(|(name, count)| add(&mut self.met, *name, *count));
        other.moves.iter().for_each(|(name, count)| add(&mut self.moves, *name, *count));
    }

    /// Returns transitions and faults that a long run must meet and this one did not.
    pub fn never_met(&self) -> Vec<String> {
        let missing = MOVES.iter().filter(|(from, to)| !self.moves.keys().any(|(a, b)| (a, b) == (from, to)));
        let met = |name: &str| self.faults.contains_key(name) || self.met.contains_key(name);
        let unmet = ALL_MET.iter().filter(|name| !met(name)).map(ToString::to_string);
        missing.map(|(from, to)| format!("{from} -> {to}")).chain(unmet).collect()
    }
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, times: u64) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(times);
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} days, {} events, {} whole audits", self.days, self.events, self.audits)?;
        writeln!(
            f,
            "{} updates accepted, {} acknowledged ({} lost where nothing better was promised), {} refused",
            self.updates, self.acknowledged, self.allowed_losses, self.refused
        )?;
        writeln!(
            f,
            "{} rows of nodes compared with the log; {} windows proved, {} differed",
            self.checked_rows, self.verified, self.differing
        )?;
        let idle_ms = self.longest_idle_ns / 1_000_000;
        writeln!(f, "{idle_ms} ms at most in which a node took none of the updates that it was given")?;
        writeln!(f, "faults:")?;
        for (name, count) in &self.faults {
            writeln!(f, "  {count:>9}  {name}")?;
        }
        writeln!(f, "met:")?;
        for (name, count) in &self.met {
            writeln!(f, "  {count:>9}  {name}")?;
        }
        writeln!(f, "changes of state:")?;
        for ((from, to), count) in &self.moves {
            writeln!(f, "  {count:>9}  {from} -> {to}")?;
        }
        Ok(())
    }
}
