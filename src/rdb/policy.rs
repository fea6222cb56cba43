//! The scaling policy of a node, driven by its memory: when it requests a successor, rolls, clears and ends. Pure.
//!
//! ```text
//!             BecameLive                    roll level
//!  Waiting ----------------> Live ------------------------> Rolled
//!     |                       | scale level: ScaleOut          ^
//!     |    BecameRebuilding   |                                |
//!     +--------------------> Rebuilding -----------------------+
//!                              RebuildDone, or the roll level
//!  Rolled with nothing held (the window was empty): Emptied, and it waits again.
//!  DayEnd: Clear. A live one stays live and may scale again; all others end: Terminate, once no row is left and queries
//!  have drained or had their time.
//!  Leave: a live one requests its successor, unless its fleet replaces it. Announce, and a live one rolls. When others hold
//!  what it held (Left), or its time is over: Release (Terminate, where the fleet counts it still and one more was launched for it), and End.
//! ```
//!
//! While the node holds rows of the day it is protected from scale-in of its fleet.
//!
//! A window being rebuilt fitted into another node up to the roll level, and grows no further. The rebuilding node may
//! therefore fill up to halfway between the roll level and the whole budget, as the replay's buffers come on top of the
//! rows.
//!
//! Levels are percent of the node's budget. Bytes taken since the last memory reading are added to it, so that a burst,
//! or a replay at full speed, cannot pass a level unnoticed. A node that rolls without having scaled requests its
//! successor first.
//!
//! With [`Scale::Auto`] the node requests a successor when the time until the roll level, at the present rate, falls
//! below a multiple of the lead time. While the rate is unknown it does so at half of the roll level. Replayed bytes
//! count as memory but not towards the rate, which is the feed's.
//!
//! The cushion is the time from the request to the roll, in lead times. Below 1 the successor comes too late and the
//! queue falls behind the feed.

mod event;
mod leave;
#[cfg(test)]
mod leave_tests;
mod params;
mod rate;
#[cfg(test)]
mod tests;

pub use event::{Action, Phase, PolicyEvent, ScaleAnswer};
pub use leave::LeaveReason;
pub use params::{Params, ThresholdError};
pub use rate::Rate;

use crate::config::units::Scale;

/// State of the request for a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Successor {
    NotRequested,
    /// `again`: more nodes were requested since, so the pending reply does not cover them.
    Requested {
        at_ns: i64,
        pause_ns: i64,
        again: bool,
    },
    Retry {
        at_ns: i64,
        pause_ns: i64,
    },
    Granted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    used_bytes: u64,
    budget_bytes: u64,
}

/// The policy of one node.
#[derive(Clone, Debug)]
pub struct Policy {
    params: Params,
    phase: Phase,
    successor: Successor,
    /// A successor is wanted, not only nodes missing elsewhere in the queue.
    wants_successor: bool,
    /// Number of instances at which the fleet refused the last request; `None` once it grants one.
    fleet_max: Option<u32>,
    /// Last reading plus bytes taken since; `None` before the first reading.
    memory: Option<Memory>,
    rate: Rate,
    lead_ns: Option<i64>,
    scaled_at_ns: Option<i64>,
    /// Cushion of the last roll, in lead times.
    cushion: Option<f64>,
    /// Rows left after the end of the day; `None` before they were counted.
    rows_left: Option<u64>,
    queries_in_flight: u64,
    report_at_ns: i64,
    leave: Option<leave::Leave>,
    protected: bool,
    /// Until when the node waits for the owner's `.u.end`, which still reads the ended day.
    kept_until_ns: Option<i64>,
    /// The node is drained and waits only for that.
    left_waits: bool,
}

impl Policy {
    pub fn new(params: Params) -> Policy {
        Policy {
            params,
            phase: Phase::Waiting,
            successor: Successor::NotRequested,
            wants_successor: false,
            fleet_max: None,
            memory: None,
            rate: Rate::default(),
            lead_ns: None,
            scaled_at_ns: None,
            cushion: None,
            rows_left: None,
            queries_in_flight: 0,
            report_at_ns: i64::MIN,
            leave: None,
            protected: false,
            kept_until_ns: None,
            left_waits: false,
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Called when the owner's `.u.end` starts for a day that is ending; [`PolicyEvent::DaySaved`] says that it returned.
    pub fn keep_day(&mut self, until_ns: i64) {
        self.kept_until_ns = Some(until_ns);
    }

    pub fn keeps_day(&self) -> bool {
        self.kept_until_ns.is_some()
    }

    /// Returns whether the node takes updates. A rolled one takes none, whatever still arrives.
    pub fn takes_updates(&self) -> bool {
        matches!(self.phase, Phase::Live | Phase::Rebuilding)
    }

    /// Returns whether the node is live and has requested its successor since it became live or the day began.
    pub fn has_scaled(&self) -> bool {
        self.wants_successor && self.phase == Phase::Live
    }

    /// Returns the number of instances at which the fleet stays, if the node is live and the fleet has not granted its successor.
    pub fn fleet_max(&self) -> Option<u32> {
        self.fleet_max.filter(|_| self.has_scaled())
    }

    /// Returns whether a request to the fleet is pending or to be retried.
    pub fn is_asking(&self) -> bool {
        matches!(self.successor, Successor::Requested { .. } | Successor::Retry { .. })
    }

    /// Memory use in percent of the budget.
    pub fn memory_percent(&self) -> Option<f64> {
        let memory = self.memory?;
        (memory.budget_bytes > 0).then(|| memory.used_bytes as f64 * 100.0 / memory.budget_bytes as f64)
    }

    /// Average rate of the feed in bytes per second.
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.rate.per_second()
    }

    /// Measured lead time.
    pub fn lead_ns(&self) -> Option<i64> {
        self.lead_ns
    }

    /// Time until the roll level at the present rate; `None` while the rate is unknown or zero.
    pub fn until_full_ns(&self) -> Option<f64> {
        let memory = self.memory?;
        let per_second = self.rate.per_second().filter(|rate| *rate > 0.0)?;
        let level_bytes = memory.budget_bytes as f64 * self.params.roll_percent() / 100.0;
        Some((level_bytes - memory.used_bytes as f64).max(0.0) / per_second * 1e9)
    }

    /// Returns the cushion in lead times: projected at the present rate for a live node that has scaled, otherwise that
    /// of the last roll.
    pub fn cushion(&self, now_ns: i64) -> Option<f64> {
        match (self.phase, self.scaled_at_ns) {
            (Phase::Live, Some(scaled_at_ns)) => {
                let passed_ns = now_ns.saturating_sub(scaled_at_ns) as f64;
                Some((passed_ns + self.until_full_ns()?) / self.lead_or_assumed_ns())
            }
            _ => self.cushion,
        }
    }

    /// Returns when [`PolicyEvent::Tick`] is due.
    pub fn next_deadline_ns(&self) -> i64 {
        let mut deadline_ns = self.report_at_ns;
        match self.successor {
            Successor::Requested { at_ns, .. } => {
                deadline_ns = deadline_ns.min(at_ns.saturating_add(self.params.answer_within_ns));
            }
            Successor::Retry { at_ns, .. } => deadline_ns = deadline_ns.min(at_ns),
            Successor::NotRequested | Successor::Granted => {}
        }
        match self.phase {
            Phase::Ending { by_ns } if self.rows_left == Some(0) => {
                deadline_ns.min(self.kept_until_ns.map_or(by_ns, |until_ns| until_ns.max(by_ns)))
            }
            Phase::Leaving { by_ns } | Phase::Released { by_ns } => deadline_ns.min(by_ns),
            _ => deadline_ns,
        }
    }

    /// Processes an event; returns the actions in order.
    pub fn step(&mut self, event: PolicyEvent, now_ns: i64) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            PolicyEvent::Memory { used_bytes, budget_bytes } => self.memory = Some(Memory { used_bytes, budget_bytes }),
            PolicyEvent::Taken { bytes } => {
                self.rate.add(bytes, now_ns);
                self.take(bytes, &mut out);
            }
            PolicyEvent::Replayed { bytes } => self.take(bytes, &mut out),
            PolicyEvent::BecameLive => self.become_live(),
            PolicyEvent::BecameRebuilding if !self.is_going() => self.phase = Phase::Rebuilding,
            PolicyEvent::BecameRebuilding => {}
            PolicyEvent::RebuildDone if self.phase == Phase::Rebuilding => self.phase = Phase::Rolled,
            PolicyEvent::RebuildDone => {}
            PolicyEvent::NoProgress => self.no_progress(now_ns, &mut out),
            PolicyEvent::Emptied => self.emptied(&mut out),
            PolicyEvent::Dropped => self.dropped(&mut out),
            PolicyEvent::DayEnd => self.day_end(true, now_ns, &mut out),
            PolicyEvent::Sleep => self.day_end(false, now_ns, &mut out),
            PolicyEvent::DaySaved => self.day_saved(now_ns, &mut out),
            PolicyEvent::RowsLeft(rows) => {
                self.rows_left = Some(rows);
                if rows == 0 {
                    self.unprotect(&mut out);
                }
            }
            PolicyEvent::QueriesInFlight(queries) => self.queries_in_flight = queries,
            PolicyEvent::ScaleAnswer(answer) => self.scale_answer(answer, now_ns, &mut out),
            PolicyEvent::NodesMissing => self.request_again(now_ns, &mut out),
            PolicyEvent::TerminateRefused if self.phase == Phase::Terminated => {
                self.phase = Phase::Waiting;
                out.push(Action::Rejoin);
            }
            PolicyEvent::TerminateRefused if self.is_leaving() => out.push(Action::Release),
            PolicyEvent::TerminateRefused => {}
            PolicyEvent::Leave { by_ns, why } => self.leave(by_ns, why, now_ns, &mut out),
            PolicyEvent::Left => self.left(now_ns, &mut out),
            PolicyEvent::Released => self.released(&mut out),
            PolicyEvent::LeadTime { lead_ns } => self.lead_ns = Some(lead_ns.max(0)),
            PolicyEvent::Tick => {}
        }
        self.rate.advance(now_ns);
        self.decide(now_ns, &mut out);
        out
    }

    /// Returns whether the node takes no more windows: it is leaving or was terminated.
    pub fn is_going(&self) -> bool {
        self.phase == Phase::Terminated || self.is_leaving()
    }

    fn take(&mut self, bytes: u64, out: &mut Vec<Action>) {
        if bytes > 0 && self.takes_updates() {
            self.protect(out);
        }
        if let Some(memory) = &mut self.memory {
            memory.used_bytes = memory.used_bytes.saturating_add(bytes);
        }
    }

    fn become_live(&mut self) {
        if self.phase != Phase::Live && !self.is_going() {
            self.phase = Phase::Live;
            self.forget_successor();
            self.rate = Rate::default();
        }
    }

    fn no_progress(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        if !self.takes_updates() {
            return;
        }
        if self.phase == Phase::Live && self.successor == Successor::NotRequested {
            self.request_successor(self.params.retry_first_ns, now_ns, out);
        }
        self.phase = Phase::Rolled;
        out.push(Action::Roll);
    }

    /// A node that holds nothing is a standby, whatever it was before.
    fn emptied(&mut self, out: &mut Vec<Action>) {
        if self.phase == Phase::Rolled {
            self.phase = Phase::Waiting;
            self.successor = Successor::NotRequested;
            self.scaled_at_ns = None;
            self.unprotect(out);
        }
    }

    fn dropped(&mut self, out: &mut Vec<Action>) {
        if self.phase == Phase::Terminated {
            return;
        }
        if !self.is_leaving() {
            self.phase = Phase::Waiting;
            self.forget_successor();
        }
        self.memory = None;
        out.push(Action::Clear);
    }

    /// The day ends, or the cluster sleeps, which the live node outlasts only if it `stays`.
    fn day_end(&mut self, stays: bool, now_ns: i64, out: &mut Vec<Action>) {
        // The last reading includes rows that are about to be dropped: decide nothing before the next one.
        self.memory = None;
        self.rows_left = None;
        self.forget_successor();
        match self.phase {
            Phase::Terminated => return,
            Phase::Ending { .. } => {}
            Phase::Live if stays => {}
            Phase::Leaving { .. } | Phase::Released { .. } => {
                out.push(Action::Clear);
                return self.left(now_ns, out);
            }
            _ => self.phase = Phase::Ending { by_ns: now_ns.saturating_add(self.params.drain_ns) },
        }
        out.push(Action::Clear);
    }

    fn forget_successor(&mut self) {
        self.successor = Successor::NotRequested;
        self.wants_successor = false;
        self.fleet_max = None;
        self.scaled_at_ns = None;
    }

    fn scale_answer(&mut self, answer: ScaleAnswer, now_ns: i64, out: &mut Vec<Action>) {
        let Successor::Requested { pause_ns, again, .. } = self.successor else { return };
        let pause_ns = match answer {
            ScaleAnswer::Granted if again => return self.request_successor(self.params.retry_first_ns, now_ns, out),
            ScaleAnswer::Granted => {
                self.successor = Successor::Granted;
                self.fleet_max = None;
                return;
            }
            ScaleAnswer::Refused => pause_ns,
            ScaleAnswer::AtMaximum { instances } => {
                self.fleet_max = Some(instances);
                self.params.retry_most_ns
            }
        };
        self.successor = Successor::Retry { at_ns: now_ns.saturating_add(pause_ns), pause_ns };
    }

    /// Requests missing nodes, though a successor may have been granted: repeating a request to the fleet is harmless.
    fn request_again(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        let stays = !matches!(self.phase, Phase::Ending { .. } | Phase::Released { .. } | Phase::Terminated);
        let is_taken = self.leaves() == Some(LeaveReason::Replaced);
        if !stays || is_taken {
            return;
        }
        match &mut self.successor {
            Successor::NotRequested | Successor::Granted => {
                self.request_successor(self.params.retry_first_ns, now_ns, out)
            }
            Successor::Requested { again, .. } => *again = true,
            // The retry will use the number wanted by then.
            Successor::Retry { .. } => {}
        }
    }

    /// Requests the node's own successor.
    fn scale_out(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        self.wants_successor = true;
        self.scaled_at_ns = self.scaled_at_ns.or(Some(now_ns));
        match &mut self.successor {
            // The pending request was for other nodes.
            Successor::Requested { again, .. } => *again = true,
            _ => self.request_successor(self.params.retry_first_ns, now_ns, out),
        }
    }

    fn request_successor(&mut self, pause_ns: i64, now_ns: i64, out: &mut Vec<Action>) {
        self.successor = Successor::Requested { at_ns: now_ns, pause_ns, again: false };
        out.push(Action::ScaleOut);
    }

    /// Derives all due actions from the current state.
    fn decide(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        let level =
            if self.phase == Phase::Rebuilding { self.params.rebuild_percent() } else { self.params.roll_percent() };
        let full = self.memory_percent().is_some_and(|percent| percent >= level);
        if self.phase == Phase::Live && !self.wants_successor && (full || self.must_scale()) {
            self.scale_out(now_ns, out);
        }
        self.retry_request(now_ns, out);
        if full && self.takes_updates() {
            if self.phase == Phase::Live {
                let scaled_at_ns = self.scaled_at_ns.unwrap_or(now_ns);
                self.cushion = Some(now_ns.saturating_sub(scaled_at_ns) as f64 / self.lead_or_assumed_ns());
            }
            self.phase = Phase::Rolled;
            out.push(Action::Roll);
        }
        if let Phase::Ending { by_ns } = self.phase
            && self.rows_left == Some(0)
            && (self.queries_in_flight == 0 || now_ns >= by_ns)
            && self.kept_until_ns.is_none_or(|until_ns| now_ns >= until_ns)
        {
            self.phase = Phase::Terminated;
            out.push(Action::Terminate);
        }
        self.go_on_time(now_ns, out);
        if now_ns >= self.report_at_ns {
            self.report_at_ns = now_ns.saturating_add(self.params.report_every_ns);
            out.push(Action::Report);
        }
    }

    fn must_scale(&self) -> bool {
        let Some(percent) = self.memory_percent() else { return false };
        match (self.params.scale(), self.rate.per_second()) {
            (Scale::At(threshold), _) => percent >= threshold,
            (Scale::Auto, None) => percent >= self.params.roll_percent() / 2.0,
            (Scale::Auto, Some(_)) => {
                let enough_ns = self.params.lead_times * self.lead_or_assumed_ns();
                self.until_full_ns().is_some_and(|until_full_ns| until_full_ns < enough_ns)
            }
        }
    }

    /// Times out an unanswered request, and repeats a rejected one after its pause.
    fn retry_request(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        if let Successor::Requested { at_ns, .. } = self.successor
            && now_ns >= at_ns.saturating_add(self.params.answer_within_ns)
        {
            self.scale_answer(ScaleAnswer::Refused, now_ns, out);
        }
        if let Successor::Retry { at_ns, pause_ns } = self.successor
            && now_ns >= at_ns
        {
            let longer_ns = pause_ns.saturating_mul(2).min(self.params.retry_most_ns);
            self.request_successor(longer_ns, now_ns, out);
        }
    }

    /// Never 0, as it is a divisor.
    fn lead_or_assumed_ns(&self) -> f64 {
        self.lead_ns.unwrap_or(self.params.lead_assumed_ns).max(1) as f64
    }
}
