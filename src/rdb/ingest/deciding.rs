//! Feeds events to the policy and carries out its actions.

use super::memory::Besides;
use super::{Dialect, Fault, Ingest};
use crate::protocol::{FromNode, foreign};
use crate::rdb::capacity::{FleetReply, FleetRequest};
use crate::rdb::policy::{Action, Phase, PolicyEvent};
use crate::rdb::shared::Ending;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Percentage of its memory that rows and running queries of a live node may use together; at 95 % of the server it would roll.
const QUERIES_TO_PERCENT: u64 = 90;

impl Ingest {
    /// One round of control: checks memory, replies of the fleet and queries, carries out the policy's actions,
    /// publishes the state.
    pub(super) fn watch(&mut self) {
        self.agree();
        self.progress.reached(self.intake.next(), self.env.clock.now());
        self.watch_as(self.replays.is_on());
    }

    pub(super) fn watch_as(&mut self, replaying: bool) {
        self.shared.ingest_comes_round();
        let buffers = self.link.buffer_bytes().saturating_add(if replaying { self.replays.bytes() } else { 0 });
        let shared = &self.shared;
        let globals = [&shared.global_bytes, &*shared.space_bytes];
        let globals = globals.iter().filter_map(|bytes| u64::try_from(bytes.load(Ordering::Relaxed)).ok()).sum();
        let queries = shared.query_memory.held_bytes();
        let besides = Besides { buffers, globals, queries, ended: shared.day_ends.bytes() };
        let (memory, grown) = self.memory.read(self.intake.store().usage(), besides, self.env.clock.now());
        let percent = if self.policy.takes_updates() { QUERIES_TO_PERCENT } else { 100 };
        self.shared.query_memory.set_max((memory.budget / 100 * percent).saturating_sub(memory.lasting));
        if self.policy.keeps_day() && !self.shared.day_ends.is_open() {
            self.step(PolicyEvent::DaySaved);
        }
        // Without a queue there is no successor, so there is nothing to decide.
        if self.link.dialect() != Some(Dialect::Stock) {
            if grown > 0 {
                self.step(if replaying {
                    PolicyEvent::Replayed { bytes: grown }
                } else {
                    PolicyEvent::Taken { bytes: grown }
                });
            }
            self.step(PolicyEvent::Memory { used_bytes: memory.lasting, budget_bytes: memory.budget });
        } else if self.memory.warns_above(&memory, self.options.policy.roll_percent()) {
            tracing::warn!(
                "memory is above the roll threshold, but this tickerplant has no queue, so there is no successor"
            );
        }
        while let Some(answer) = self.requests.next_answer() {
            match answer {
                FleetReply::Scaled(answer) => {
                    self.step(PolicyEvent::ScaleAnswer(answer));
                    if !self.policy.is_asking() {
                        self.requests.granted();
                    }
                }
                FleetReply::LeadTime { lead_ns } => self.step(PolicyEvent::LeadTime { lead_ns }),
                FleetReply::TerminateRefused => self.step(PolicyEvent::TerminateRefused),
                FleetReply::Leave { by, reason } => self.noticed(by, reason),
                FleetReply::Leaving { replaced } => self.leave_as(replaced),
                FleetReply::Released => self.step(PolicyEvent::Released),
                FleetReply::Late { .. } => {}
                FleetReply::Terminated if !self.policy.is_ending() => self.shared.end(Ending::Left),
                FleetReply::Terminated => self.shared.end(Ending::Terminated),
            }
        }
        if self.shared.take_leave() {
            self.on_termination_request();
        }
        self.leave_unanswered();
        if let Phase::Ending { .. } = self.policy.phase() {
            self.count_queries();
        }
        self.memory.show(memory);
        self.show();
    }

    pub(super) fn count_queries(&mut self) {
        self.step(PolicyEvent::QueriesInFlight(self.shared.queries_open.load(Ordering::SeqCst)));
    }

    /// Passes an event to the policy and carries out its actions.
    pub(super) fn step(&mut self, event: PolicyEvent) {
        let phase_before = self.policy.phase();
        let mut todo: VecDeque<Action> = self.policy.step(event, self.now_ns()).into();
        while let Some(action) = todo.pop_front() {
            match action {
                Action::ScaleOut => {
                    tracing::info!("requesting a successor");
                    self.requests.send(FleetRequest::AtLeast(self.requests.to_request(self.policy.has_scaled())));
                }
                Action::Roll => {
                    self.roll();
                    self.emptied();
                    todo.extend(self.leave_unannounced());
                }
                Action::Clear => {
                    if let Err(error) = self.intake.clear().and_then(|()| self.intake.set_hidden(false)) {
                        self.link.fail(Fault::Fatal(format!("cannot clear the tables: {error}")));
                    }
                    self.memory.cleared(self.intake.store().usage());
                    self.show();
                    todo.extend(self.policy.step(PolicyEvent::RowsLeft(0), self.now_ns()));
                }
                Action::Rejoin => self.link.outdate(),
                Action::Terminate => self.requests.send(FleetRequest::Terminate),
                Action::Protect(on) => self.requests.send(FleetRequest::Protect(on)),
                Action::Announce => todo.extend(self.announce()),
                Action::Abandon => self.log_abandoned_windows(),
                Action::Release => self.requests.send(FleetRequest::Released),
                Action::End => self.shared.end(Ending::Left),
                Action::Report => self.report(),
            }
        }
        if self.policy.phase() != phase_before {
            // The watch over launches may have moved to another node: forget the joined instances until the tickerplant
            // reports them again.
            self.requests.send(FleetRequest::Joined(Vec::new()));
        }
    }

    fn roll(&mut self) {
        self.replays.stop();
        let Some(window) = self.intake.close() else { return };
        let _span = tracing::info_span!("roll", window = %format_args!("[{},{})", window.first, window.next)).entered();
        let why = if self.policy.is_leaving() { "leaving" } else { "full" };
        if window.is_empty() && !self.policy.is_leaving() {
            self.progress.declined();
            let percent = self.policy.memory_percent().unwrap_or_default();
            tracing::error!(
                "giving back the window from update {}: memory use is {percent:.0} % before its first row. Check \
                 what else uses memory here: queries, globals of clients, other programs",
                window.first
            );
        } else {
            tracing::info!(reason = why, "rolling: the window is closed");
        }
        match self.link.dialect() {
            Some(Dialect::Paper) => self.link.write(|out| foreign::append_paper_roll(out, window.next)),
            _ => {
                let (proof, date) = (self.intake.proof(&window), self.day.date_or_null());
                self.link.post(FromNode::Rolling { next: window.next, proof, date: Some(date) });
            }
        }
    }
}
