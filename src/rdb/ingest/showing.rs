//! Publishes the node's state to queries and pages, and its status report to the tickerplant.

use super::{Dialect, Ingest};
use crate::config::units::Scale;
use crate::protocol::FromNode;
use crate::queue::{Date, Status, UpdateIndex};
use crate::rdb::policy::Phase;
use crate::rdb::shared::{ShownWindow, State};
use crate::rdb::windows::Window;
use std::sync::atomic::Ordering;

impl Ingest {
    pub(super) fn report(&mut self) {
        if !self.link.is_open() || self.link.dialect() != Some(Dialect::Elastick) {
            return;
        }
        let (count, open) = (&self.shared.queries, &self.shared.queries_open);
        let (count, open) = (count.load(Ordering::Relaxed), open.load(Ordering::SeqCst));
        let quiet = self.progress.quiet(count, open, self.env.clock.now());
        let status = Status {
            quiet_ns: Some(i64::try_from(quiet.as_nanos()).unwrap_or(i64::MAX)),
            memory_percent: Some(self.policy.memory_percent().unwrap_or(0.0)),
            scale_percent: match self.options.policy.scale() {
                Scale::At(percent) => Some(percent),
                Scale::Auto => None,
            },
            roll_percent: Some(self.options.policy.roll_percent()),
            rows: Some(self.intake.rows()),
            bytes: Some(self.memory.store_bytes()),
            next: self.intake.next().map(UpdateIndex),
            date: self.day.date().map(Date),
            scaled: self.policy.has_scaled(),
            lead_ns: self.policy.lead_ns(),
            refused: Some(self.intake.refused()),
            fleet_max: self.policy.fleet_max(),
        };
        self.link.post(FromNode::Status(status));
    }

    pub(super) fn show(&self) {
        let (memory, counters) = (self.memory.shown(), self.progress.counters());
        let shown = |window: &Window, open| ShownWindow { window: window.clone(), open };
        let held = self.intake.held().iter().map(|window| shown(window, false));
        let open = self.intake.open_window().map(|open| shown(&open.window, true));
        self.shared.show(State {
            tables: self.intake.store().schemas().map(|schema| schema.name).collect(),
            windows: held.chain(open).filter(|_| !self.intake.is_hidden()).collect(),
            changes: self.intake.store().changes(),
            phase: self.policy.phase(),
            connected: self.link.is_open(),
            refused: self.log.refused().cloned(),
            shown_at: self.env.clock.now(),
            live_since: self.progress.live_since().filter(|_| self.policy.phase() == Phase::Live),
            waiting: self.requests.standbys(),
            updates_unserved: self.requests.unserved(),
            fleet_max: self.policy.fleet_max(),
            protocol: self.link.dialect().map_or("", Dialect::name),
            date: self.day.date(),
            next: self.intake.next(),
            // Each update of the feed is in the log, so the tip is at least the next index.
            tip: self.day.tip().map(|tip| tip.max(self.intake.next().unwrap_or(tip))),
            memory,
            memory_percent: percent(memory.used, memory.budget),
            scaled: self.policy.has_scaled(),
            lead_ns: self.policy.lead_ns(),
            catch_up_ns: self.progress.catch_up().and_then(|time| i64::try_from(time.as_nanos()).ok()),
            cushion: self.policy.cushion(self.now_ns()),
            bytes_per_second: self.policy.bytes_per_second(),
            rows: self.intake.rows(),
            updates_taken: self.progress.counters().updates_taken,
            updates_refused: counters.updates_refused,
            updates_missing: self.intake.refused(),
            resyncs: counters.resyncs,
            windows_declined: counters.windows_declined,
            windows_given_up: counters.windows_given_up,
            updates_left_out: counters.updates_left_out,
        });
    }
}

pub(super) fn percent(used: u64, budget: u64) -> Option<f64> {
    (budget > 0).then(|| used as f64 * 100.0 / budget as f64)
}
