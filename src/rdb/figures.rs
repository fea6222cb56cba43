//! Metrics and health of a node, read from the state that the ingest thread publishes, so that a scrape never blocks it.

use super::day_end::DayEnds;
use super::policy::Phase;
use super::report::Constants;
use super::shared::{Shared, State};
use crate::config::units::Scale;
use crate::config::{Limit, Limits, Program};
use crate::metrics::health::{grouped, no_standby};
use crate::metrics::{Health, Id, Process, Snapshot, counts, process};
use crate::net::Control;
use crate::queue::Date;
use crate::table::{Sym, symbol};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Heartbeat timeout of the ingest thread: health fails after this long without a published state.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// States with a gauge each; all but the current one are 0. Rare states have a gauge only while they last.
const STATES: [&str; 6] = ["waiting", "live", "rebuilding", "rolled", "leaving", "ending"];

fn text(name: Sym) -> String {
    String::from_utf8_lossy(symbol::text(name)).into_owned()
}

fn seconds(ns: Option<i64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e9)
}

/// Returns all metrics of a node.
pub fn snapshot(shared: &Shared, constants: &Constants, limits: &Limits, ctl: &Control) -> Snapshot {
    let state = shared.state();
    let mut snapshot = Snapshot::new(Process::Node);
    let mut used = symbols_used();
    process::put(&mut snapshot);
    ctl.put_metrics(&mut snapshot, &mut used);
    counts::put_limits(&mut snapshot, Program::Rdb, limits, &used);
    put_queries(&mut snapshot, shared);
    put_state(&mut snapshot, &state, constants);
    let (returned, failed) = shared.day_ends.counts();
    snapshot.set(Id::DayEndsReturned, returned);
    snapshot.set(Id::DayEndsFailed, failed);
    snapshot.set(Id::DayEndRunning, shared.day_ends.is_open());
    put_memory(&mut snapshot, &state, constants);
    put_fleet(&mut snapshot, shared);
    snapshot.set(Id::UpdatesUnserved, state.connected.then_some(state.updates_unserved));
    snapshot
}

fn put_queries(snapshot: &mut Snapshot, shared: &Shared) {
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    snapshot.set(Id::Queries, count(&shared.queries));
    snapshot.set(Id::QueryErrors, count(&shared.query_errors));
    snapshot.set(Id::QueriesOpen, count(&shared.queries_open));
}

fn put_state(snapshot: &mut Snapshot, state: &State, constants: &Constants) {
    let labels = [&text(constants.node), &text(constants.queue), state.protocol];
    snapshot.add(Id::NodeInfo, &labels, true);
    snapshot.set(Id::NodeConnected, state.connected);
    let own = state.phase.name();
    let others = STATES.into_iter().filter(|name| *name != own);
    snapshot.add(Id::NodeState, &[own], true);
    others.for_each(|name| snapshot.add(Id::NodeState, &[name], false));
    snapshot.set(Id::Updates, state.updates_taken);
    snapshot.set(Id::UpdatesRefused, state.updates_refused);
    snapshot.set(Id::UpdatesMissing, state.updates_missing);
    snapshot.set(Id::Resyncs, state.resyncs);
    snapshot.set(Id::WindowsDeclined, state.windows_declined);
    snapshot.set(Id::WindowsGivenUp, state.windows_given_up);
    snapshot.set(Id::UpdatesLeftOut, state.updates_left_out);
    snapshot.set(Id::RowsHeld, state.rows);
    snapshot.set(Id::WindowsHeld, state.windows.len());
    let live = state.live_since.map(|since| since.elapsed().as_secs_f64());
    snapshot.set(Id::LiveAge, live);
    let behind = |(tip, next): (u64, u64)| tip.saturating_sub(next);
    // Only a live node follows the tip; the next index of any other stays in the past.
    snapshot.set(Id::Lag, live.and(state.tip.zip(state.next)).map(behind));
    snapshot.set(Id::QueueWaiting, live.and(state.waiting));
    snapshot.set(Id::LeadTime, seconds(state.lead_ns));
    snapshot.set(Id::CatchUp, seconds(state.catch_up_ns));
    snapshot.set(Id::Cushion, state.cushion);
}

fn put_memory(snapshot: &mut Snapshot, state: &State, constants: &Constants) {
    let memory = &state.memory;
    snapshot.set(Id::MemoryRatio, state.memory_percent.map(|percent| percent / 100.0));
    snapshot.set(Id::MemoryUsed, memory.used);
    snapshot.set(Id::MemoryBudget, memory.budget);
    for (part, bytes) in [
        ("columns", memory.store.column_bytes as u64),
        ("index", memory.store.index_bytes as u64),
        ("symbols", memory.store.symbol_bytes as u64),
        ("buffers", memory.buffers),
        ("queries", memory.queries),
        ("ended", memory.ended),
    ] {
        snapshot.add(Id::MemoryPart, &[part], bytes);
    }
    // A total of 0 means that the server's figures could not be read.
    let is_known = memory.system_total > 0;
    snapshot.set(Id::SystemMemoryUsed, is_known.then_some(memory.system_used));
    snapshot.set(Id::SystemMemory, is_known.then_some(memory.system_total));
    let scale = match constants.policy.scale() {
        Scale::At(percent) => Some(percent / 100.0),
        Scale::Auto => None,
    };
    snapshot.set(Id::ScaleThreshold, scale);
    snapshot.set(Id::RollThreshold, constants.policy.roll_percent() / 100.0);
    snapshot.set(Id::FillRate, state.bytes_per_second);
}

fn put_fleet(snapshot: &mut Snapshot, shared: &Shared) {
    let fleet = shared.fleet();
    snapshot.set(Id::ScaleOutsAsked, fleet.map(|fleet| fleet.requested.get()));
    snapshot.set(Id::ScaleOutsGranted, fleet.map(|fleet| fleet.granted.get()));
    snapshot.set(Id::ScaleOutsRefused, fleet.map(|fleet| fleet.refused.get()));
    snapshot.set(Id::LaunchesLate, fleet.map(|fleet| fleet.late.get()));
    snapshot.set(Id::LaunchesReplaced, fleet.map(|fleet| fleet.replaced.get()));
    snapshot.set(Id::FleetThrottled, fleet.map(|fleet| fleet.throttled.get()));
    snapshot.set(Id::FleetErrors, fleet.map(|fleet| fleet.api_errors.get()));
    let seen = fleet.and_then(|fleet| fleet.desired.get().zip(fleet.max.get()));
    snapshot.set(Id::DesiredNodes, seen.map(|(desired, _)| u64::from(desired)));
    snapshot.set(Id::MaxNodes, seen.map(|(_, max)| u64::from(max)));
    // A maximum of 0 means that the group has no limits.
    snapshot.set(Id::DesiredAtMax, seen.map(|(desired, max)| max > 0 && desired >= max));
}

/// Returns the health: failed unless the node is connected, its ingest thread iterates, its windows are complete and, for a standby,
/// memory is below the roll threshold; degraded if updates of its queue cannot be queried on any node, or soon cannot, because the fleet does
/// not launch a successor. `used`: how much of each limit of the connections is in use.
pub fn health(shared: &Shared, constants: &Constants, limits: &Limits, used: &[(Limit, u64)]) -> Health {
    let state = shared.state();
    let phase = state.phase.name();
    let mut health = Health::new(phase);
    let silent = Instant::now().saturating_duration_since(state.shown_at);
    let roll_percent = constants.policy.roll_percent();
    let full = state.memory_percent.filter(|percent| state.phase == Phase::Waiting && *percent >= roll_percent);
    if shared.is_ending() {
        health.fail("ending", "ending");
    } else if silent > MAX_SILENCE {
        health.fail("ingest", format!("the ingest thread has made no progress for {} s", silent.as_secs()));
    } else if let Some(reason) = &state.refused {
        health.fail("refused", format!("{phase}: {reason}"));
    } else if !state.connected {
        health.fail("connection", format!("{phase}, not connected to its tickerplant"));
    } else if state.updates_missing > 0 {
        let missing = grouped(state.updates_missing);
        health.fail(
            "rejects",
            format!(
                "{phase}, {missing} updates of its windows were rejected: queries do not see them; the process log has \
                 the reasons"
            ),
        );
    } else if let Some(percent) = full {
        health.fail(
            "full",
            format!(
                "waiting, but full: memory use {percent:.0} %, roll threshold {roll_percent:.0} %: this node cannot \
                 take a window"
            ),
        );
    }
    if state.connected && state.updates_unserved > 0 {
        let (queue, unserved) = (text(constants.queue), grouped(state.updates_unserved));
        health.degrade(
            "queue",
            format!(
                "{unserved} updates of queue {queue} are logged but cannot be queried on any node; start another node, or see \
                 the tickerplant's /health"
            ),
        );
    }
    // The tickerplant reports the standbys, also those that cannot take a window.
    if let Some(most) = state.fleet_max.filter(|_| state.connected && state.waiting == Some(0)) {
        let (queue, node) = (text(constants.queue), text(constants.node));
        let memory = state.memory_percent.unwrap_or(0.0);
        health.degrade("no standby", no_standby(&queue, &node, most, memory, roll_percent));
    }
    if let Some(trouble) = shared.lease_trouble() {
        health.degrade("owner lease", trouble);
    }
    add_day_end(&shared.day_ends, &mut health);
    health.add_limits(limits, &[symbols_used().as_slice(), used].concat());
    health
}

/// Adds a failed `.u.end`, which is no failure of the node: replacing the node would lose its rows as well.
fn add_day_end(days: &DayEnds, health: &mut Health) {
    if let Some((date, reason)) = days.failure() {
        health.degrade("day end", format!(".u.end[{}] failed: {reason}", Date(date)));
    }
    if let Some((date, time)) = days.running() {
        let (date, time, most, bytes) = (Date(date), time.as_secs(), days.time().as_secs_f64(), days.bytes());
        health.add_status(format!(
            ".u.end[{date}] has been running for {time} s (--limit-day-end-time: {most} s), {bytes} bytes of ended days \
             are still in memory"
        ));
    }
}

/// Utilisation of the symbol table.
fn symbols_used() -> Vec<(Limit, u64)> {
    let symbols = symbol::usage();
    vec![
        (Limit::symbols, symbols.symbols),
        (Limit::symbol_bytes, symbols.text_bytes),
        (Limit::client_symbols, symbols.client_symbols),
    ]
}
