//! Metrics and health of the tickerplant.

use super::Plant;
use crate::config::{Limit, Program};
use crate::log::LogWriter;
use crate::metrics::{Id, Process, Snapshot, counts, process};
use crate::net::Links;
use crate::queue::{State, Subscriber};
use crate::table::symbol;
use crate::tick::space::Space;
use std::collections::BTreeMap;

/// States of a queue's subscribers in the metrics; each is exported, even if 0.
const STATES: [&str; 8] = ["waiting", "live", "rebuilding", "taking", "rolled", "leaving", "lost", "away"];

/// Subscribers of a queue by state.
#[derive(Debug, Default)]
struct Counted {
    states: BTreeMap<&'static str, usize>,
    live: bool,
    unable: usize,
    windows_lost: usize,
}

impl Plant {
    /// Returns all metrics from numbers in memory: no disk access, no blocking.
    pub fn snapshot(&self, globals_bytes: usize, ctl: &dyn Links) -> Snapshot {
        let mut snapshot = Snapshot::new(Process::Tick);
        let mut used = self.used();
        used.push((Limit::globals_bytes, globals_bytes as u64));
        process::put(&mut snapshot);
        ctl.put_metrics(&mut snapshot, &mut used);
        counts::put_limits(&mut snapshot, Program::Tick, &self.limits, &used);
        self.put_own(&mut snapshot);
        self.put_log(&mut snapshot);
        self.put_queues(&mut snapshot);
        snapshot
    }

    /// Utilisation of the tickerplant's own limits.
    fn used(&self) -> Vec<(Limit, u64)> {
        let in_queues = self.queue.core().subscribers().iter().filter(|subscriber| subscriber.state != State::Lost);
        let symbols = symbol::usage();
        vec![
            (Limit::lanes, self.feed.lanes() as u64),
            (Limit::queue_subscribers, in_queues.count() as u64),
            (Limit::quarantine_updates, self.quarantine.iter().len() as u64),
            (Limit::quarantine_bytes, self.quarantine.bytes() as u64),
            (Limit::symbols, symbols.symbols),
            (Limit::symbol_bytes, symbols.text_bytes),
            (Limit::client_symbols, symbols.client_symbols),
            (Limit::log_buffer_bytes, self.log.writer().map_or(0, LogWriter::held_bytes)),
        ]
    }

    fn put_own(&self, snapshot: &mut Snapshot) {
        let stats = &self.stats;
        snapshot.set(Id::TickUp, !self.log.has_failed());
        snapshot.set(Id::LogFailed, self.log.has_failed());
        snapshot.set(Id::LogFileHarmed, self.log.is_harmed());
        let (jump, ahead) = self.time.figures();
        snapshot.set(Id::ClockJump, jump);
        snapshot.set(Id::DayAhead, ahead);
        snapshot.set(Id::Updates, stats.updates);
        snapshot.set(Id::Rows, stats.rows);
        snapshot.set(Id::UpdatesRefused, stats.refused);
        snapshot.set(Id::UpdatesUnlogged, stats.unlogged);
        snapshot.set(Id::Turns, stats.turns);
        snapshot.set(Id::Queries, stats.queries);
        snapshot.set(Id::QueryErrors, stats.query_errors);
        snapshot.set(Id::Malformed, stats.malformed);
        snapshot.set(Id::WindowsVerified, stats.verified);
        snapshot.set(Id::WindowsDiffering, stats.differing);
        snapshot.set(Id::Quarantined, self.quarantine.iter().len());
        snapshot.set(Id::Lanes, self.feed.lanes());
        snapshot.set(Id::Subscribers, self.feed.subscribers().count());
        snapshot.set(Id::SubscribersBehind, self.feed.behind());
        snapshot.set(Id::SlowConsumers, self.feed.demotions().all());
    }

    fn put_log(&self, snapshot: &mut Snapshot) {
        let log = self.log.writer();
        snapshot.set(Id::LogUpdates, self.feed.tip().index);
        snapshot.set(Id::LogDurable, log.map(LogWriter::durable_tip));
        snapshot.set(Id::LogBytes, log.map(LogWriter::written_bytes));
        let space = self.log.space().and_then(Space::latest);
        snapshot.set(Id::LogFreeBytes, space.map(|space| space.free_bytes));
        snapshot.set(Id::LogFileSystemBytes, space.map(|space| space.total_bytes));
    }

    fn put_queues(&self, snapshot: &mut Snapshot) {
        let queues = self.count_queues();
        for id in [Id::QueueNodes, Id::QueueLive, Id::QueueStandbysUnable, Id::QueueWindowsLost] {
            snapshot.none(id);
        }
        snapshot.set(Id::Queues, queues.len());
        snapshot.set(Id::QueuesWithoutLive, queues.values().filter(|queue| !queue.live).count());
        snapshot.set(Id::WindowsLost, queues.values().map(|queue| queue.windows_lost).sum::<usize>());
        for (name, queue) in &queues {
            snapshot.add(Id::QueueLive, &[name], queue.live);
            snapshot.add(Id::QueueStandbysUnable, &[name], queue.unable);
            snapshot.add(Id::QueueWindowsLost, &[name], queue.windows_lost);
            for (state, count) in &queue.states {
                snapshot.add(Id::QueueNodes, &[name, state], *count);
            }
        }
    }

    /// Returns the day's queues by name.
    fn count_queues(&self) -> BTreeMap<String, Counted> {
        let text = |name: &[u8]| match std::str::from_utf8(name) {
            Ok(name) => name.to_string(),
            Err(_) => name.escape_ascii().to_string(),
        };
        let mut queues: BTreeMap<String, Counted> = BTreeMap::new();
        for (name, line) in self.queue.core().lines() {
            let queue = queues.entry(text(&name.0)).or_default();
            queue.unable = queue.unable.saturating_add(self.queue.core().unable(name));
            queue.windows_lost = queue.windows_lost.saturating_add(line.lost.len());
            queue.states.extend(STATES.map(|state| (state, 0)));
        }
        for subscriber in self.queue.core().subscribers() {
            let queue = queues.entry(text(&subscriber.queue.0)).or_default();
            let count = queue.states.entry(subscriber.shown_state()).or_default();
            *count = count.saturating_add(1);
            queue.live |= subscriber.state == State::Live && subscriber.resume_by_ns.is_none();
        }
        queues
    }

    /// Returns whether updates are accepted and logged. Any response shows that the port listens and the event loop runs. `degraded` if
    /// updates of today cannot be queried on a node, the log's path does not lead to the log, a day cannot end, or the clock is not
    /// trusted. That is no error: a supervisor that restarts the tickerplant for it repairs nothing, closes the last reference to a
    /// removed log, and confirms a wrong clock.
    ///
    /// # Errors
    /// Why updates are not accepted, or may be missing from the log at the next start.
    pub fn health(&self) -> Result<String, String> {
        if self.log.has_failed() {
            return Err(self.status_line());
        }
        let trouble = self.log.elsewhere().or_else(|| self.clock_trouble()).or_else(|| self.log.roll_held().cloned());
        Ok(match trouble.or_else(|| self.not_queryable()) {
            Some(why) => format!("degraded: {why}; {}", self.status_line()),
            None => format!("ok: {}", self.status_line()),
        })
    }

    /// Describes the first queue with logged updates that no connected node holds.
    fn not_queryable(&self) -> Option<String> {
        let tip = self.feed.tip().index;
        self.queue.core().lines().iter().find_map(|(name, line)| {
            let here = || self.queue.core().subscribers().iter().filter(|sub| sub.queue == *name);
            let away = here().filter(|sub| sub.resume_by_ns.is_some()).find(|sub| !sub.held.is_empty());
            let rebuilding = here().find(|sub| matches!(sub.state, State::Rebuilding { .. }));
            let is_here = |sub: &Subscriber| sub.resume_by_ns.is_none();
            let live = here().any(|sub| sub.state == State::Live && is_here(sub));
            let unable = self.queue.core().unable(name);
            if let Some(lost) = line.lost.first() {
                Some(format!("queue {name} needs a node to rebuild {} ({unable} standbys are full)", lost.window))
            } else if !live && line.open.0 < tip {
                Some(format!(
                    "queue {name} has no live node for updates from {} on ({unable} standbys are full)",
                    line.open
                ))
            } else if let Some(away) = away {
                Some(format!("node {} of queue {name} is disconnected and holds windows", away.label()))
            } else if let Some(sub) = rebuilding {
                Some(format!("node {} of queue {name} rebuilds a window", sub.label()))
            } else {
                let refused = |sub: &Subscriber| self.queue.core().status(sub.id)?.refused.filter(|count| *count > 0);
                let (sub, count) = here().find_map(|sub| Some((sub, refused(sub)?)))?;
                Some(format!("node {} of queue {name} could not store {count} updates of its windows", sub.label()))
            }
        })
    }
}
