//! What a node does about its memory: when it asks for its successor, when it rolls, clears and goes. Pure.
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
//!  Leave: a live one asks for its successor, unless its fleet replaces it. Announce, and a live one rolls. When others hold
//!  what it held (Left), or its time is over: Release (Terminate, where the fleet counts it still and one more was launched for it), and End.
//! ```
//!
//! Protection against being taken by a fleet that shrinks is on while the node holds rows of the day.
//!
//! A window that is rebuilt fitted into a node up to the roll level. It takes no more after it, so that it may go on to halfway between
//! that level and all of the budget: a replay's buffers come on top of the rows.
//!
//! Levels are percent of the node's budget. Between two readings of memory, the bytes taken in since the last are added to it:
//! a burst, or a replay at full speed, does not run past a level unseen. A node that rolls without having scaled asks for its
//! successor first.
//!
//! With [`Scale::Auto`] the node asks when the time until the roll level, at the present rate, comes under a multiple of the
//! lead time, and at half of the roll level in any case while no rate is known. Bytes that come from replay count as memory,
//! but say nothing about the rate at which the feed fills it.
//!
//! The cushion is the time from asking to rolling, in lead times: under 1 the successor comes too late and the queue falls
//! behind.

mod leave;
#[cfg(test)]
mod leave_tests;
mod rate;
#[cfg(test)]
mod tests;

pub use leave::Why;
pub use rate::Rate;

use crate::config::units::Scale;

/// Thresholds and times. Made by [`Params::new`], which checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    scale: Scale,
    roll_percent: f64,
    /// With [`Scale::Auto`]: ask when the time left is under this many lead times.
    pub lead_times: f64,
    /// Lead time taken for granted until one was measured.
    pub lead_assumed_ns: i64,
    /// First and longest pause before a refused request is repeated; it doubles in between.
    pub retry_first_ns: i64,
    pub retry_most_ns: i64,
    /// After this long without an answer a request counts as refused.
    pub answer_within_ns: i64,
    /// How long queries may go on after the end of the day.
    pub drain_ns: i64,
    /// How often the node reports.
    pub report_every_ns: i64,
}

/// Thresholds that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ThresholdError {
    #[error("the {0} threshold is {1}; it must be from 0 to 100 percent")]
    OutOfRange(&'static str, f64),
    #[error(
        "the scale threshold, {scale}, is above the roll threshold, {roll}: the successor would be asked for too late"
    )]
    ScaleAboveRoll { scale: f64, roll: f64 },
}

impl Params {
    /// # Errors
    /// A threshold outside 0 to 100, or a scale threshold above the roll threshold.
    pub fn new(scale: Scale, roll_percent: f64) -> Result<Params, ThresholdError> {
        if !(0.0..=100.0).contains(&roll_percent) {
            return Err(ThresholdError::OutOfRange("roll", roll_percent));
        }
        if let Scale::At(percent) = scale {
            if !(0.0..=100.0).contains(&percent) {
                return Err(ThresholdError::OutOfRange("scale", percent));
            }
            if percent > roll_percent {
                return Err(ThresholdError::ScaleAboveRoll { scale: percent, roll: roll_percent });
            }
        }
        Ok(Params {
            scale,
            roll_percent,
            lead_times: 3.0,
            lead_assumed_ns: 120_000_000_000,
            retry_first_ns: 1_000_000_000,
            retry_most_ns: 60_000_000_000,
            answer_within_ns: 60_000_000_000,
            drain_ns: 30_000_000_000,
            report_every_ns: 1_000_000_000,
        })
    }

    pub fn scale(&self) -> Scale {
        self.scale
    }

    pub fn roll_percent(&self) -> f64 {
        self.roll_percent
    }

    /// Where a node that rebuilds a window is full.
    fn rebuild_percent(&self) -> f64 {
        f64::midpoint(self.roll_percent, 100.0)
    }
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A reading: what the node accounts for, or the server's figure where that is higher; and what it may use.
    Memory { used_bytes: u64, budget_bytes: u64 },
    /// The feed brought updates that take this much memory.
    Taken { bytes: u64 },
    /// Replay of the log brought updates that take this much memory.
    Replayed { bytes: u64 },
    /// It is live; said again after a reconnect, it changes nothing.
    BecameLive,
    /// It rebuilds a window that another lost.
    BecameRebuilding,
    /// It has all of that window.
    RebuildDone,
    /// It takes no more of its window: others may be able to go on where it cannot.
    NoProgress,
    /// It has rolled and holds nothing: its window was empty, or was given to another.
    Emptied,
    /// It was told to forget everything and wait.
    Dropped,
    /// `.u.end`.
    DayEnd,
    /// The owner's `.u.end` has returned: see [`Policy::keep_day`].
    DaySaved,
    /// Rows in its tables.
    RowsLeft(u64),
    /// Queries that have not been answered yet.
    QueriesInFlight(u64),
    /// The fleet's answer to [`Action::ScaleOut`].
    ScaleAnswer(ScaleAnswer),
    /// The tickerplant misses nodes in the queue and asks this one to tell the fleet.
    NodesMissing,
    /// The fleet would not end this node: it stays.
    TerminateRefused,
    /// From asking the fleet for a node until it waited in the queue.
    LeadTime { lead_ns: i64 },
    /// The node is going to be ended; `by_ns` at the latest it ends by itself.
    Leave { by_ns: i64, why: Why },
    /// Others hold what this node held, or it held nothing.
    Left,
    /// The fleet has heard [`Action::Release`].
    Released,
    /// Time has passed (see [`Policy::next_deadline_ns`]).
    Tick,
}

/// What became of asking for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleAnswer {
    Granted,
    /// No, or no answer: asked again with growing pauses.
    Refused,
    /// The group is as large as it may get: asked again at the longest pause.
    AtMaximum,
}

/// What the shell has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the fleet for a successor; answer with [`Event::ScaleAnswer`].
    ScaleOut,
    /// Take no more updates and tell the tickerplant.
    Roll,
    /// Drop the ended day's rows; then say [`Event::RowsLeft`].
    Clear,
    /// Go to the tickerplant and join the queue: the fleet keeps this node.
    Rejoin,
    /// Have the fleet end this node and take one off its desired capacity.
    Terminate,
    /// Whether the fleet may take this node when it shrinks.
    Protect(bool),
    /// Tell the tickerplant that this node leaves; answer with [`Event::Left`].
    Announce,
    /// The time is over and windows are left that nobody else holds: say so.
    Forsake,
    /// Tell the fleet that nothing is lost any more; answer with [`Event::Released`].
    Release,
    /// End the process.
    End,
    /// Tell the tickerplant how things are.
    Report,
}

/// What a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Waiting,
    Live,
    Rebuilding,
    Rolled,
    /// Its day is over and it is not live: it ends when nothing holds it.
    Ending {
        by_ns: i64,
    },
    /// It hands on what it holds, and goes when that is done, or then.
    Leaving {
        by_ns: i64,
    },
    /// It holds nothing, and the fleet is being told so.
    Released {
        by_ns: i64,
    },
    /// The fleet was told to end it.
    Terminated,
}

impl Phase {
    /// The word for it in `.rdb.stats` and to the service manager.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Live => "live",
            Phase::Rebuilding => "rebuilding",
            Phase::Rolled => "rolled",
            Phase::Leaving { .. } | Phase::Released { .. } => "leaving",
            Phase::Ending { .. } => "ending",
            Phase::Terminated => "terminated",
        }
    }
}

/// Whether a successor was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Successor {
    NotAsked,
    /// `again`: more nodes were missed since, so that the answer is not to what is wanted now.
    Asked {
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
    /// It wants a successor: what is asked for is not only nodes that are missing elsewhere in its queue.
    wants_successor: bool,
    /// The last reading and what came since; `None` before the first.
    memory: Option<Memory>,
    rate: Rate,
    lead_ns: Option<i64>,
    scaled_at_ns: Option<i64>,
    /// Of the last roll, in lead times.
    cushion: Option<f64>,
    /// Known since the day ended; `None` before the shell has counted.
    rows_left: Option<u64>,
    queries_in_flight: u64,
    report_at_ns: i64,
    leave: Option<leave::Leave>,
    protected: bool,
    /// The owner's `.u.end` reads the ended day: the node does not end before it has returned, or then.
    kept_until_ns: Option<i64>,
    /// It would have gone but for that.
    left_waits: bool,
}

impl Policy {
    pub fn new(params: Params) -> Policy {
        Policy {
            params,
            phase: Phase::Waiting,
            successor: Successor::NotAsked,
            wants_successor: false,
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

    /// The owner's `.u.end` is being called for a day that is about to end. [`Event::DaySaved`] says that it has returned.
    pub fn keep_day(&mut self, until_ns: i64) {
        self.kept_until_ns = Some(until_ns);
    }

    pub fn keeps_day(&self) -> bool {
        self.kept_until_ns.is_some()
    }

    /// Whether it takes updates; a rolled one takes nothing any more, whatever still arrives.
    pub fn takes_updates(&self) -> bool {
        matches!(self.phase, Phase::Live | Phase::Rebuilding)
    }

    /// Whether it is live, and has asked for its successor since it became so, or since the day began.
    pub fn has_scaled(&self) -> bool {
        self.wants_successor && self.phase == Phase::Live
    }

    /// Whether it has asked its fleet for something that was not granted yet.
    pub fn is_asking(&self) -> bool {
        matches!(self.successor, Successor::Asked { .. } | Successor::Retry { .. })
    }

    /// Share of the budget in use, percent.
    pub fn memory_percent(&self) -> Option<f64> {
        let memory = self.memory?;
        (memory.budget_bytes > 0).then(|| memory.used_bytes as f64 * 100.0 / memory.budget_bytes as f64)
    }

    /// The feed's bytes a second, averaged.
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.rate.per_second()
    }

    /// The measured lead time.
    pub fn lead_ns(&self) -> Option<i64> {
        self.lead_ns
    }

    /// Time until the roll level at the present rate; `None` while no rate is known or nothing comes in.
    pub fn until_full_ns(&self) -> Option<f64> {
        let memory = self.memory?;
        let per_second = self.rate.per_second().filter(|rate| *rate > 0.0)?;
        let level_bytes = memory.budget_bytes as f64 * self.params.roll_percent / 100.0;
        Some((level_bytes - memory.used_bytes as f64).max(0.0) / per_second * 1e9)
    }

    /// Time from asking for a successor to rolling, in lead times: as it was at the last roll; for a live node that has asked, as
    /// it will be at the present rate.
    pub fn cushion(&self, now_ns: i64) -> Option<f64> {
        match (self.phase, self.scaled_at_ns) {
            (Phase::Live, Some(scaled_at_ns)) => {
                let passed_ns = now_ns.saturating_sub(scaled_at_ns) as f64;
                Some((passed_ns + self.until_full_ns()?) / self.lead_or_assumed_ns())
            }
            _ => self.cushion,
        }
    }

    /// When [`Event::Tick`] has work to do.
    pub fn next_deadline_ns(&self) -> i64 {
        let mut deadline_ns = self.report_at_ns;
        match self.successor {
            Successor::Asked { at_ns, .. } => {
                deadline_ns = deadline_ns.min(at_ns.saturating_add(self.params.answer_within_ns));
            }
            Successor::Retry { at_ns, .. } => deadline_ns = deadline_ns.min(at_ns),
            Successor::NotAsked | Successor::Granted => {}
        }
        match self.phase {
            Phase::Ending { by_ns } if self.rows_left == Some(0) => {
                deadline_ns.min(self.kept_until_ns.map_or(by_ns, |until_ns| until_ns.max(by_ns)))
            }
            Phase::Leaving { by_ns } | Phase::Released { by_ns } => deadline_ns.min(by_ns),
            _ => deadline_ns,
        }
    }

    /// Takes an event and says what to do, in order.
    pub fn step(&mut self, event: Event, now_ns: i64) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Memory { used_bytes, budget_bytes } => self.memory = Some(Memory { used_bytes, budget_bytes }),
            Event::Taken { bytes } => {
                self.rate.add(bytes, now_ns);
                self.take(bytes, &mut out);
            }
            Event::Replayed { bytes } => self.take(bytes, &mut out),
            Event::BecameLive => self.become_live(),
            Event::BecameRebuilding if !self.is_going() => self.phase = Phase::Rebuilding,
            Event::BecameRebuilding => {}
            Event::RebuildDone if self.phase == Phase::Rebuilding => self.phase = Phase::Rolled,
            Event::RebuildDone => {}
            Event::NoProgress => self.no_progress(now_ns, &mut out),
            Event::Emptied => self.emptied(&mut out),
            Event::Dropped => self.dropped(&mut out),
            Event::DayEnd => self.day_end(now_ns, &mut out),
            Event::DaySaved => self.day_saved(now_ns, &mut out),
            Event::RowsLeft(rows) => {
                self.rows_left = Some(rows);
                if rows == 0 {
                    self.unprotect(&mut out);
                }
            }
            Event::QueriesInFlight(queries) => self.queries_in_flight = queries,
            Event::ScaleAnswer(answer) => self.scale_answer(answer, now_ns, &mut out),
            Event::NodesMissing => self.ask_again(now_ns, &mut out),
            Event::TerminateRefused if self.phase == Phase::Terminated => {
                self.phase = Phase::Waiting;
                out.push(Action::Rejoin);
            }
            Event::TerminateRefused if self.is_leaving() => out.push(Action::Release),
            Event::TerminateRefused => {}
            Event::Leave { by_ns, why } => self.leave(by_ns, why, now_ns, &mut out),
            Event::Left => self.left(now_ns, &mut out),
            Event::Released => self.released(&mut out),
            Event::LeadTime { lead_ns } => self.lead_ns = Some(lead_ns.max(0)),
            Event::Tick => {}
        }
        self.rate.advance(now_ns);
        self.decide(now_ns, &mut out);
        out
    }

    /// Whether it takes nothing any more: it leaves, or its fleet was told to end it.
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
        if self.phase == Phase::Live && self.successor == Successor::NotAsked {
            self.ask(self.params.retry_first_ns, now_ns, out);
        }
        self.phase = Phase::Rolled;
        out.push(Action::Roll);
    }

    /// A node that holds nothing is a standby, whatever it was.
    fn emptied(&mut self, out: &mut Vec<Action>) {
        if self.phase == Phase::Rolled {
            self.phase = Phase::Waiting;
            self.successor = Successor::NotAsked;
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

    fn day_end(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        // The last reading counts rows that are about to go: nothing is decided before the next.
        self.memory = None;
        self.rows_left = None;
        self.forget_successor();
        match self.phase {
            Phase::Terminated => return,
            Phase::Live | Phase::Ending { .. } => {}
            Phase::Leaving { .. } | Phase::Released { .. } => {
                out.push(Action::Clear);
                return self.left(now_ns, out);
            }
            _ => self.phase = Phase::Ending { by_ns: now_ns.saturating_add(self.params.drain_ns) },
        }
        out.push(Action::Clear);
    }

    fn forget_successor(&mut self) {
        self.successor = Successor::NotAsked;
        self.wants_successor = false;
        self.scaled_at_ns = None;
    }

    fn scale_answer(&mut self, answer: ScaleAnswer, now_ns: i64, out: &mut Vec<Action>) {
        let Successor::Asked { pause_ns, again, .. } = self.successor else { return };
        let pause_ns = match answer {
            ScaleAnswer::Granted if again => return self.ask(self.params.retry_first_ns, now_ns, out),
            ScaleAnswer::Granted => {
                self.successor = Successor::Granted;
                return;
            }
            ScaleAnswer::Refused => pause_ns,
            ScaleAnswer::AtMaximum => self.params.retry_most_ns,
        };
        self.successor = Successor::Retry { at_ns: now_ns.saturating_add(pause_ns), pause_ns };
    }

    /// Nodes are missing although a successor may have been granted. Asking the fleet twice for the same does no harm.
    fn ask_again(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        let stays = !matches!(self.phase, Phase::Ending { .. } | Phase::Released { .. } | Phase::Terminated);
        let is_taken = self.leaves() == Some(Why::Replaced);
        if !stays || is_taken {
            return;
        }
        match &mut self.successor {
            Successor::NotAsked | Successor::Granted => self.ask(self.params.retry_first_ns, now_ns, out),
            Successor::Asked { again, .. } => *again = true,
            // It will be for what is wanted by then.
            Successor::Retry { .. } => {}
        }
    }

    /// Asks for its own successor.
    fn scale_out(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        self.wants_successor = true;
        self.scaled_at_ns = self.scaled_at_ns.or(Some(now_ns));
        match &mut self.successor {
            // What was asked for was not this.
            Successor::Asked { again, .. } => *again = true,
            _ => self.ask(self.params.retry_first_ns, now_ns, out),
        }
    }

    fn ask(&mut self, pause_ns: i64, now_ns: i64, out: &mut Vec<Action>) {
        self.successor = Successor::Asked { at_ns: now_ns, pause_ns, again: false };
        out.push(Action::ScaleOut);
    }

    /// Everything that follows from how things are now.
    fn decide(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        let level =
            if self.phase == Phase::Rebuilding { self.params.rebuild_percent() } else { self.params.roll_percent };
        let full = self.memory_percent().is_some_and(|percent| percent >= level);
        if self.phase == Phase::Live && !self.wants_successor && (full || self.must_scale()) {
            self.scale_out(now_ns, out);
        }
        self.pursue(now_ns, out);
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
        match (self.params.scale, self.rate.per_second()) {
            (Scale::At(threshold), _) => percent >= threshold,
            (Scale::Auto, None) => percent >= self.params.roll_percent / 2.0,
            (Scale::Auto, Some(_)) => {
                let enough_ns = self.params.lead_times * self.lead_or_assumed_ns();
                self.until_full_ns().is_some_and(|until_full_ns| until_full_ns < enough_ns)
            }
        }
    }

    /// A request without an answer counts as refused; a refused one is repeated when its pause is over.
    fn pursue(&mut self, now_ns: i64, out: &mut Vec<Action>) {
        if let Successor::Asked { at_ns, .. } = self.successor
            && now_ns >= at_ns.saturating_add(self.params.answer_within_ns)
        {
            self.scale_answer(ScaleAnswer::Refused, now_ns, out);
        }
        if let Successor::Retry { at_ns, pause_ns } = self.successor
            && now_ns >= at_ns
        {
            let longer_ns = pause_ns.saturating_mul(2).min(self.params.retry_most_ns);
            self.ask(longer_ns, now_ns, out);
        }
    }

    /// Never 0, so that one can divide by it.
    fn lead_or_assumed_ns(&self) -> f64 {
        self.lead_ns.unwrap_or(self.params.lead_assumed_ns).max(1) as f64
    }
}
