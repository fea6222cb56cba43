//! Health of the tickerplant, in words.

use super::Plant;
use crate::config::Limit;
use crate::metrics::Health;
use crate::metrics::health::{grouped, mebibytes, no_standby};
use crate::queue::{Line, QueueName, State, Subscriber, UpdateIndex};
use crate::tick::lease;
use crate::tick::sequence_state::SequenceState;
use crate::tick::space::Space;

/// Parts of the log's file system, in per cent, below which free space is reported: to act on, and to act on at once.
const LOW_PERCENT: u64 = 10;
const VERY_LOW_PERCENT: u64 = 2;

/// Utilisation of the quarantine from which it is reported, in per cent: beyond its limit the oldest updates are dropped.
const FULL_PERCENT: usize = 90;

impl Plant {
    /// Returns whether updates are accepted and logged. Any response shows that the port listens and the event loop runs. Degraded if
    /// updates of today cannot be queried on a node or soon will not, a node does not answer, the log's path does not lead to the log, a
    /// day cannot end, the clock is not trusted, or a disk, a buffer or the quarantine fills. That is no failure: a supervisor that
    /// restarts the tickerplant for it repairs nothing, closes the last reference to a removed log, and confirms a wrong clock. `used`:
    /// utilisation of the connections' limits.
    pub fn health(&self, used: &[(Limit, u64)]) -> Health {
        let mut health = Health::new(self.activity());
        if let Some(failure) = self.log.failure() {
            health.fail("log", format!("rejecting updates: {failure}; {}", self.log.remedy()));
        }
        if self.is_leaving() {
            health.fail("leaving", "accepts no more updates, and hands the log over".to_string());
        }
        lease::add_health(self.tenure.as_deref(), &mut health);
        health.degrade_if("path", self.log.elsewhere());
        health.degrade_if("followers", self.followers.trouble());
        health.degrade_if("clock", self.clock_trouble());
        health.degrade_if("day", self.log.roll_held().cloned());
        let space = self.little_space();
        let is_urgent = |space: &(u64, String)| space.0 < VERY_LOW_PERCENT;
        let (urgent, low) = (space.clone().filter(is_urgent), space.filter(|space| !is_urgent(space)));
        health.degrade_if("disk nearly full", urgent.map(|(_, text)| text));
        for (name, line) in self.queue.core().lines().iter().filter(|(_, line)| !self.queue.core().is_asleep(line)) {
            self.add_queue(name, line, &mut health);
        }
        health.degrade_if("disk", low.map(|(_, text)| text));
        health.degrade_if("quarantine", self.full_quarantine());
        // Under durability `none` the log's buffer is meant to fill.
        let behind =
            self.log.writer().filter(|log| log.writes_behind()).map(|log| (Limit::log_buffer_bytes, log.held_bytes()));
        let of_queues = self.used().into_iter().filter(|(limit, _)| *limit != Limit::log_buffer_bytes);
        let used: Vec<(Limit, u64)> = of_queues.chain(behind).chain(used.iter().copied()).collect();
        health.add_limits(&self.limits, &used);
        health
    }

    /// Returns a count of records of the log, in words: where publishers number their updates, the numbers are records as well.
    pub(super) fn logged_in_words(&self, records: u64) -> String {
        let has_numbers = self.sequences.as_ref().is_some_and(SequenceState::exists);
        format!("{} {}", grouped(records), if has_numbers { "records (updates and their numbers)" } else { "updates" })
    }

    /// Describes a queue whose open window no connected node holds; `full`: the standbys that cannot take it.
    fn without_live(&self, name: &QueueName, line: &Line, full: &str) -> String {
        let (open, tip) = (line.open, self.feed.tip().index);
        let updates = self.logged_in_words(tip.saturating_sub(open.0));
        let live = self.queue.core().subscribers().iter().find(|sub| sub.is_live_in(name));
        let (state, then) = match live.and_then(|sub| Some((sub.label(), sub.resume_by_ns?))) {
            Some((label, by_ns)) => {
                // A standby waits: the node may have the rows, which another would have to read from the log.
                let seconds = by_ns.saturating_sub(self.steady_ns()).max(0) / 1_000_000_000;
                let then = format!("another takes over in {seconds} s (--node-grace, --start-grace) unless it is back");
                (format!("live node {label} of queue {name} is disconnected"), then)
            }
            None => {
                let then = match self.queue.core().first_requested() {
                    0 => "start another node, or see why the fleet does not".to_string(),
                    1 => "1 node is requested from --node-fleet; see the log if it does not come".to_string(),
                    nodes => format!("{nodes} nodes in all are requested from --node-fleet; see the log if none comes"),
                };
                (format!("no live node in queue {name}{full}"), then)
            }
        };
        format!("{state}: {updates} from update {open} on are logged but cannot be queried; {then}")
    }

    /// Adds what keeps updates of a queue from being queried.
    fn add_queue(&self, name: &QueueName, line: &Line, health: &mut Health) {
        let queue = self.queue.core();
        let tip = UpdateIndex(self.feed.tip().index);
        let of_queue = || queue.subscribers().iter().filter(|sub| sub.queue == *name);
        let full = match queue.unable(name) {
            0 => String::new(),
            1 => " (1 standby is full)".to_string(),
            several => format!(" ({several} standbys are full)"),
        };
        let is_live = |sub: &Subscriber| sub.state == State::Live && sub.handle.is_some();
        if line.open < tip && !of_queue().any(is_live) {
            health.degrade("no live node", self.without_live(name, line, &full));
        }
        if let Some(lost) = line.lost.first() {
            let (updates, window) =
                (self.logged_in_words(line.lost.iter().map(|lost| lost.window.updates()).sum()), lost.window);
            health.degrade(
                "windows lost",
                format!(
                    "no node of queue {name} holds {updates} (window {window} first){full}: they are logged but cannot be \
                     queried until a node has rebuilt them; start another node"
                ),
            );
        }
        if let Some(away) = of_queue().find(|sub| sub.resume_by_ns.is_some() && !sub.held.is_empty()) {
            let updates = self.logged_in_words(away.held.iter().map(|held| held.window.updates()).sum());
            let label = away.label();
            health.degrade(
                "node away",
                format!("node {label} of queue {name} is disconnected: its {updates} cannot be queried"),
            );
        }
        let now_ns = self.steady_ns();
        if let Some((sub, silence_ns)) = self.queue.silent(now_ns).into_iter().find(|(sub, _)| sub.queue == *name) {
            let (label, state, seconds) = (sub.label(), sub.shown_state(), silence_ns / 1_000_000_000);
            health.degrade(
                "node silent",
                format!(
                    "{state} node {label} of queue {name} has not answered for {seconds} s: what it holds may not be queried; see its \
                     process, or end it so that its fleet replaces it"
                ),
            );
        }
        let rebuilding = of_queue().find_map(|sub| match sub.state {
            State::Rebuilding { window, .. } => Some((sub, window)),
            _ => None,
        });
        if let Some((sub, window)) = rebuilding {
            let (label, updates) = (sub.label(), self.logged_in_words(window.updates()));
            health.degrade(
                "rebuilding",
                format!(
                    "node {label} of queue {name} rebuilds window {window}: until then its {updates} cannot be queried"
                ),
            );
        }
        let status_of_live = of_queue().find(|sub| is_live(sub)).and_then(|sub| Some((sub, queue.status(sub.id)?)));
        let stands_by = |sub: &Subscriber| sub.state == State::Waiting && sub.handle.is_some() && queue.is_able(sub);
        if let Some((sub, status)) = status_of_live
            && let Some(most) = status.fleet_max
            && !of_queue().any(stands_by)
        {
            let (memory, roll) = (status.memory_percent.unwrap_or(0.0), status.roll_percent.unwrap_or(0.0));
            health.degrade("no standby", no_standby(&name.to_string(), &sub.label(), most, memory, roll));
        }
        let refused = |sub: &Subscriber| queue.status(sub.id)?.refused.filter(|count| *count > 0);
        if let Some((sub, count)) = of_queue().find_map(|sub| Some((sub, refused(sub)?))) {
            let (label, count) = (sub.label(), grouped(count));
            health.degrade(
                "node rejects",
                format!("node {label} of queue {name} could not store {count} updates of its windows"),
            );
        }
    }

    /// Returns the part of the log's file system that is free, in per cent, and its description, if it is little.
    fn little_space(&self) -> Option<(u64, String)> {
        let space = self.log.space().and_then(Space::latest)?;
        let free_percent = space.free_bytes.saturating_mul(100).checked_div(space.total_bytes)?;
        (free_percent < LOW_PERCENT).then(|| {
            let free = mebibytes(space.free_bytes);
            let text = format!(
                "the log's file system has {free} free ({free_percent} %): once it is full, updates are rejected; free \
                 space there"
            );
            (free_percent, text)
        })
    }

    fn full_quarantine(&self) -> Option<String> {
        let (held, most) = (self.quarantine.iter().len(), self.quarantine.updates_most());
        let (held_bytes, most_bytes) = (self.quarantine.bytes(), self.quarantine.bytes_most());
        let is_full = |used: usize, most: usize| used.saturating_mul(100) >= most.saturating_mul(FULL_PERCENT);
        (held > 0 && (is_full(held, most) || is_full(held_bytes, most_bytes))).then(|| {
            let held = grouped(held as u64);
            format!("{held} rejected updates fill the quarantine, which drops the oldest (.u.rejected)")
        })
    }
}
