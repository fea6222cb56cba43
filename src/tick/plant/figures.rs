//! Metrics of the tickerplant.

use super::Plant;
use crate::config::{Limit, Program};
use crate::log::LogWriter;
use crate::metrics::{Id, Process, Snapshot, counts, process};
use crate::net::Links;
use crate::queue::{State, UpdateIndex};
use crate::table::symbol;
use crate::tick::lease;
use crate::tick::node_fleet::Counters;
use crate::tick::retention::Retention;
use crate::tick::space::Space;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// States of a queue's subscribers in the metrics; each is exported, even if 0.
const STATES: [&str; 8] = ["waiting", "live", "rebuilding", "taking", "rolled", "leaving", "lost", "away"];

/// Subscribers of a queue by state.
#[derive(Debug, Default)]
struct Counted {
    states: BTreeMap<&'static str, usize>,
    live: bool,
    unable: usize,
    silent: usize,
    windows_lost: usize,
    unserved: u64,
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
        self.put_connections(ctl, &mut snapshot);
        snapshot
    }

    /// Utilisation of the tickerplant's own limits.
    pub(super) fn used(&self) -> Vec<(Limit, u64)> {
        let in_queues = self.queue.core().subscribers().iter().filter(|subscriber| subscriber.state != State::Lost);
        let symbols = symbol::usage();
        vec![
            (Limit::lanes, self.feed.lanes() as u64),
            (Limit::followers, self.followers.count() as u64),
            (Limit::queue_subscribers, in_queues.count() as u64),
            (Limit::quarantine_updates, self.quarantine.iter().len() as u64),
            (Limit::quarantine_bytes, self.quarantine.bytes() as u64),
            (Limit::publishers, self.publishers.len() as u64),
            (Limit::publisher_id_bytes, self.publishers.longest_bytes() as u64),
            (Limit::symbols, symbols.symbols),
            (Limit::symbol_bytes, symbols.text_bytes),
            (Limit::client_symbols, symbols.client_symbols),
            (Limit::log_buffer_bytes, self.log.writer().map_or(0, LogWriter::held_bytes)),
        ]
    }

    fn put_own(&self, snapshot: &mut Snapshot) {
        let stats = &self.stats;
        snapshot.set(Id::TickUp, !self.log.has_failed());
        snapshot.set(Id::TickActive, self.why_closed().is_none());
        lease::put(self.tenure.as_deref(), snapshot);
        snapshot.set(Id::LogFailed, self.log.has_failed());
        snapshot.set(Id::LogFileHarmed, self.log.is_harmed());
        let (jump, ahead) = self.time.figures();
        snapshot.set(Id::ClockJump, jump);
        snapshot.set(Id::DayAhead, ahead);
        snapshot.set(Id::Updates, stats.updates);
        snapshot.set(Id::Rows, stats.rows);
        snapshot.set(Id::UpdatesCoerced, stats.coerced);
        snapshot.set(Id::UpdatesRefused, stats.refused);
        snapshot.set(Id::UpdatesUnlogged, stats.unlogged);
        snapshot.set(Id::UpdatesDuplicate, stats.duplicates);
        snapshot.set(Id::Turns, stats.turns);
        snapshot.set(Id::Queries, stats.queries);
        snapshot.set(Id::QueryErrors, stats.query_errors);
        snapshot.set(Id::Malformed, stats.malformed);
        snapshot.set(Id::WindowsVerified, stats.verified);
        snapshot.set(Id::WindowsDiffering, stats.differing);
        snapshot.set(Id::Quarantined, self.quarantine.iter().len());
        snapshot.set(Id::Followers, self.followers.count());
        snapshot.set(Id::ReplicasMissing, self.followers.trouble().is_some());
        snapshot.none(Id::FollowerLag);
        for (follower, lag) in self.follower_lags() {
            snapshot.add(Id::FollowerLag, &[&follower], lag);
        }
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
        snapshot.set(Id::LogDaysDeleted, self.log.retention().map_or(0, Retention::deleted));
        snapshot.set(Id::LogDaysHeld, self.log.retention().map_or(0, Retention::held));
        snapshot.set(Id::LogFileSystemBytes, space.map(|space| space.total_bytes));
    }

    fn put_queues(&self, snapshot: &mut Snapshot) {
        let queues = self.count_queues();
        let of_queue = [Id::QueueStandbysUnable, Id::QueueNodesSilent, Id::QueueNotQueryable, Id::QueueWindowsLost];
        for id in [Id::QueueNodes, Id::QueueLive].into_iter().chain(of_queue) {
            snapshot.none(id);
        }
        snapshot.set(Id::Queues, queues.len());
        snapshot.set(Id::QueuesAsleep, self.queue.core().sleeping());
        let count = |of: fn(&Counters) -> &AtomicU64| {
            self.nodes.as_ref().map_or(0, |nodes| of(&nodes.counters).load(Ordering::Relaxed))
        };
        snapshot.set(Id::NodesRequested, count(|counters| &counters.granted));
        snapshot.set(Id::NodeRequestsFailed, count(|counters| &counters.failed));
        snapshot.set(Id::QueuesWithoutLive, queues.values().filter(|queue| !queue.live).count());
        snapshot.set(Id::WindowsLost, queues.values().map(|queue| queue.windows_lost).sum::<usize>());
        for (name, queue) in &queues {
            snapshot.add(Id::QueueLive, &[name], queue.live);
            snapshot.add(Id::QueueStandbysUnable, &[name], queue.unable);
            snapshot.add(Id::QueueNodesSilent, &[name], queue.silent);
            snapshot.add(Id::QueueNotQueryable, &[name], queue.unserved);
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
            let tip = UpdateIndex(self.feed.tip().index);
            queue.unserved = queue.unserved.saturating_add(self.queue.core().unserved(name, tip));
            queue.states.extend(STATES.map(|state| (state, 0)));
        }
        let silent: Vec<_> = self.queue.silent(self.steady_ns()).into_iter().map(|(sub, _)| sub.id).collect();
        for subscriber in self.queue.core().subscribers() {
            let queue = queues.entry(text(&subscriber.queue.0)).or_default();
            let count = queue.states.entry(subscriber.shown_state()).or_default();
            *count = count.saturating_add(1);
            queue.silent = queue.silent.saturating_add(usize::from(silent.contains(&subscriber.id)));
            queue.live |= subscriber.state == State::Live && subscriber.resume_by_ns.is_none();
        }
        queues
    }
}
