//! A state of the model: the processes, the store, the log's epoch and what may still go wrong; the steps from it; its rules.

use super::store::{self, Defect};
use super::{Bounds, UNIT_NS};
use elastick::lease::{
    Epoch, Lease, LeaseAction, LeaseEvent, LeaseRecord, LeaseWrite, Left, Standing, Terms, Unanswered, Written,
};
use std::fmt;

/// A call of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Call {
    /// On its way to the store.
    Sent(Option<LeaseWrite>),
    /// On its way back.
    Answered(LeaseEvent),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    lease: Lease,
    /// Its clock, in units.
    clock: u64,
    /// Units that have passed since its clock last fell behind.
    since_drift: u8,
    call: Option<Call>,
    /// Units that have passed during the call.
    call_age: u8,
    is_paused: bool,
    /// Epoch with which the process is to open the log.
    opening: Option<Epoch>,
    /// Epoch with which the process writes the log.
    writes: Option<Epoch>,
    /// The process has stepped down and is to close the log.
    is_closing: bool,
    /// The next read finds no record: the seeded bug [`Defect::SkipsReadBack`].
    reads_nothing: bool,
    /// A renewal was applied; set with the seeded bug [`Defect::RenewsOnce`] only.
    has_renewed: bool,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    processes: Vec<Process>,
    record: Option<LeaseRecord>,
    /// Writes that were answered with an error and may still be applied.
    late: Vec<(String, LeaseWrite)>,
    /// Epoch of the log's last writer.
    log: Epoch,
    /// Highest epoch under which a process was active.
    led: Epoch,
    started: u8,
    /// How long an owner counts on its lease.
    usable_ns: u64,
    /// No call was lost or late, no process stopped, and no clock fell behind.
    is_undisturbed: bool,
    /// What may still happen.
    left: Bounds,
    violation: Option<&'static str>,
}

/// A step. Processes are given by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A unit of time passes; the clock of the process given does not move.
    Time(Option<u8>),
    /// The store executes a call.
    Execute(u8),
    /// A process receives an answer.
    Receive(u8),
    /// A call gets lost on its way to the store, or the answer on its way back.
    Lose(u8),
    /// A write is answered with an error, and stays on its way.
    Delay(u8),
    ApplyLate(u8),
    Pause(u8),
    Resume(u8),
    Kill(u8),
    StepDown(u8),
    OpenLog(u8),
    CloseLog(u8),
    /// A process writes a record into the log.
    Append(u8),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Time(None) => f.write_str("time passes"),
            Act::Time(Some(slow)) => write!(f, "time passes, but not on the clock of process {slow}"),
            Act::Execute(place) => write!(f, "the store executes the call of process {place}"),
            Act::Receive(place) => write!(f, "process {place} receives the answer"),
            Act::Lose(place) => write!(f, "the call of process {place} fails, or its answer is lost"),
            Act::Delay(place) => write!(f, "the write of process {place} is late, and it gets an error"),
            Act::ApplyLate(write) => write!(f, "late write {write} is executed"),
            Act::Pause(place) => write!(f, "process {place} stops"),
            Act::Resume(place) => write!(f, "process {place} goes on"),
            Act::Kill(place) => write!(f, "process {place} is killed, and another one starts"),
            Act::StepDown(place) => write!(f, "process {place} is asked to step down"),
            Act::OpenLog(place) => write!(f, "process {place} opens the log"),
            Act::CloseLog(place) => write!(f, "process {place} closes the log"),
            Act::Append(place) => write!(f, "process {place} writes into the log"),
        }
    }
}

impl Bounds {
    /// Counts a step that is bounded.
    fn spend(&mut self, act: Act) {
        let left = match act {
            Act::Time(slow) => {
                self.drift = self.drift.saturating_sub(u8::from(slow.is_some()));
                &mut self.time
            }
            Act::Lose(_) => &mut self.lost,
            Act::Delay(_) => &mut self.late,
            Act::Pause(_) => &mut self.pauses,
            Act::Kill(_) => &mut self.kills,
            Act::StepDown(_) => &mut self.requests,
            _ => return,
        };
        *left = left.saturating_sub(1);
    }
}

/// What all states of a search share.
pub struct Setting {
    pub terms: Terms,
    pub defect: Option<Defect>,
}

impl Process {
    fn start(number: u8, setting: &Setting, clock: u64) -> Process {
        let mut terms = setting.terms;
        if setting.defect == Some(Defect::NoMargin) {
            // What it counts on is then as long as what others wait.
            terms.lease_ns = terms.lease_ns.saturating_mul(6) / 5;
        }
        Process {
            lease: Lease::new(format!("p{number}"), terms, clock.saturating_mul(UNIT_NS)),
            clock,
            since_drift: 0,
            call: None,
            call_age: 0,
            is_paused: false,
            opening: None,
            writes: None,
            is_closing: false,
            reads_nothing: false,
            has_renewed: false,
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.saturating_mul(UNIT_NS)
    }

    fn is_due(&self) -> bool {
        !self.is_paused && self.lease.next_deadline_ns().is_some_and(|due_ns| due_ns <= self.now_ns())
    }
}

impl State {
    pub fn first(bounds: Bounds, setting: &Setting) -> State {
        let mut state = State {
            processes: (0..bounds.processes).map(|number| Process::start(number, setting, 0)).collect(),
            record: None,
            late: Vec::new(),
            log: Epoch(0),
            led: Epoch(0),
            started: bounds.processes,
            usable_ns: setting.terms.usable_ns(),
            is_undisturbed: true,
            left: bounds,
            violation: None,
        };
        (0..bounds.processes).for_each(|place| state.wake(place));
        state
    }

    fn process(&mut self, place: u8) -> Option<&mut Process> {
        self.processes.get_mut(usize::from(place))
    }

    /// Ticks a process whose deadline has come.
    fn wake(&mut self, place: u8) {
        if self.process(place).is_some_and(|process| process.is_due()) {
            self.step(place, LeaseEvent::Tick);
        }
    }

    /// Steps a process's lease, and carries out what it says.
    fn step(&mut self, place: u8, event: LeaseEvent) {
        let (led, usable_ns) = (self.led, self.usable_ns);
        let owner = self.record.as_ref().filter(|record| !record.is_released).map(|record| record.owner.clone());
        let is_undisturbed = self.is_undisturbed;
        let Some(process) = self.process(place) else { return };
        let now_ns = process.now_ns();
        let renewed_ns = process.lease.renewed_ns();
        let (mut new_led, mut violation) = (led, None);
        for action in process.lease.step(event, now_ns) {
            match action {
                LeaseAction::Read => (process.call, process.call_age) = (Some(Call::Sent(None)), 0),
                LeaseAction::Write(write) => (process.call, process.call_age) = (Some(Call::Sent(Some(write))), 0),
                LeaseAction::Lead(epoch) => {
                    if epoch <= led {
                        violation = Some("a process became active under an epoch that is not above all before");
                    }
                    new_led = led.max(epoch);
                    process.opening = Some(epoch);
                }
                LeaseAction::StepDown(left) => {
                    let is_in_time = renewed_ns.is_some_and(|renewed_ns| now_ns < renewed_ns.saturating_add(usable_ns));
                    if left != Left::Requested && is_undisturbed {
                        violation = Some("a lease ended though no call was lost and no process stopped");
                    }
                    if left == Left::Taken && is_in_time {
                        violation = Some("a lease was taken before it ended");
                    }
                    if left == Left::Taken && owner.as_deref() == Some(process.lease.name()) {
                        violation = Some("a process gave up a lease that it has");
                    }
                    process.opening = None;
                    process.is_closing = true;
                }
                LeaseAction::Danger { .. } | LeaseAction::Safe | LeaseAction::Hold | LeaseAction::Copies { .. } => {}
            }
        }
        self.led = new_led;
        self.violation = self.violation.or(violation);
    }

    /// Returns the steps from this state.
    pub fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        let left = &self.left;
        if self.violation.is_some() {
            return acts;
        }
        // A store answers within a unit, if only with an error; a process that runs handles what it has received.
        let is_late = |process: &Process| process.call.is_some() && process.call_age > 0 && !process.is_paused;
        let may_pass = left.time > 0 && !self.processes.iter().any(is_late);
        if may_pass {
            acts.push(Act::Time(None));
        }
        for (place, process) in (0u8..).zip(&self.processes) {
            match &process.call {
                Some(Call::Sent(write)) => {
                    acts.push(Act::Execute(place));
                    if left.lost > 0 && !process.is_paused {
                        acts.push(Act::Lose(place));
                    }
                    if left.late > 0 && write.is_some() && !process.is_paused {
                        acts.push(Act::Delay(place));
                    }
                }
                Some(Call::Answered(_)) if !process.is_paused => {
                    acts.push(Act::Receive(place));
                    if left.lost > 0 {
                        acts.push(Act::Lose(place));
                    }
                }
                _ => {}
            }
            if process.is_paused {
                acts.push(Act::Resume(place));
            } else {
                if left.pauses > 0 {
                    acts.push(Act::Pause(place));
                }
                if left.requests > 0 {
                    acts.push(Act::StepDown(place));
                }
                if process.opening.is_some() {
                    acts.push(Act::OpenLog(place));
                }
                if process.is_closing {
                    acts.push(Act::CloseLog(place));
                }
            }
            // Only an append with another epoch than the log's can break a rule.
            if process.writes.is_some_and(|epoch| epoch != self.log) {
                acts.push(Act::Append(place));
            }
            if left.kills > 0 {
                acts.push(Act::Kill(place));
            }
            if may_pass && left.drift > 0 && process.since_drift >= 5 {
                acts.push(Act::Time(Some(place)));
            }
        }
        acts.extend((0u8..).zip(&self.late).map(|(write, _)| Act::ApplyLate(write)));
        acts
    }

    /// Takes a step.
    pub fn after(&self, act: Act, setting: &Setting) -> State {
        let mut next = self.clone();
        next.left.spend(act);
        let is_fault = matches!(act, Act::Lose(_) | Act::Delay(_) | Act::Pause(_) | Act::Time(Some(_)));
        next.is_undisturbed &= !is_fault;
        match act {
            Act::Time(slow) => next.pass(slow),
            Act::Execute(place) => next.execute(place, setting),
            Act::Receive(place) => {
                let call = next.process(place).and_then(|process| process.call.take());
                if let Some(Call::Answered(event)) = call {
                    next.step(place, event);
                }
            }
            Act::Lose(place) | Act::Delay(place) => next.lose(place, matches!(act, Act::Delay(_)), setting),
            Act::ApplyLate(write) => {
                let (me, write) = next.late.remove(usize::from(write));
                let mut record = next.record.take();
                next.write(&mut record, &me, &write, setting);
                next.record = record;
            }
            Act::Pause(place) | Act::Resume(place) => {
                if let Some(process) = next.process(place) {
                    process.is_paused = matches!(act, Act::Pause(_));
                }
                next.wake(place);
            }
            Act::Kill(place) => {
                let (number, clock) = (next.started, self.processes.get(usize::from(place)).map_or(0, |p| p.clock));
                next.started = next.started.saturating_add(1);
                if let Some(process) = next.process(place) {
                    *process = Process::start(number, setting, clock);
                }
                next.wake(place);
            }
            Act::StepDown(place) => next.step(place, LeaseEvent::StepDown { successor: None }),
            Act::OpenLog(place) => next.open_log(place),
            Act::CloseLog(place) => {
                if let Some(process) = next.process(place) {
                    (process.is_closing, process.writes) = (false, None);
                }
                next.step(place, LeaseEvent::Closed);
            }
            Act::Append(place) => {
                let writes = next.process(place).and_then(|process| process.writes);
                let is_fenced = setting.defect != Some(Defect::NoFenceAtLog);
                if !is_fenced && writes.is_some_and(|epoch| epoch < next.log) {
                    next.violation = Some("the log has a record of a process that had been replaced");
                }
                if let Some(process) = next.process(place) {
                    process.writes = None;
                }
            }
        }
        next.check();
        next
    }

    /// A unit of time passes: all processes that run notice deadlines in it.
    fn pass(&mut self, slow: Option<u8>) {
        for place in 0..u8::try_from(self.processes.len()).unwrap_or(u8::MAX) {
            if let Some(process) = self.process(place) {
                match slow == Some(place) {
                    true => process.since_drift = 0,
                    false => process.clock = process.clock.saturating_add(1),
                }
                process.since_drift = process.since_drift.saturating_add(1).min(5);
                process.call_age = u8::from(process.call.is_some());
            }
            self.wake(place);
        }
    }

    /// The store executes a write.
    fn write(&mut self, record: &mut Option<LeaseRecord>, me: &str, write: &LeaseWrite, setting: &Setting) -> Written {
        let is_trespass = store::is_trespass(record.as_ref(), me, write);
        let written = store::write(record, me, setting.terms.lease_ns, write, setting.defect);
        if is_trespass && written == Written::Applied {
            self.violation = self.violation.or(Some("a process changed the lease of another one"));
        }
        written
    }

    fn execute(&mut self, place: u8, setting: &Setting) {
        let Some(process) = self.process(place) else { return };
        let me = process.lease.name().to_string();
        let reads_nothing = std::mem::take(&mut process.reads_nothing);
        let has_renewed = process.has_renewed;
        let Some(Call::Sent(write)) = process.call.take() else { return };
        let renews_once = matches!(write, Some(LeaseWrite::Renew { .. })) && setting.defect == Some(Defect::RenewsOnce);
        let mut record = self.record.take();
        let event = match write {
            None if reads_nothing => LeaseEvent::Read(Ok(None)),
            None => LeaseEvent::Read(Ok(store::read(record.as_ref(), &me, setting.defect))),
            Some(_) if renews_once && has_renewed => LeaseEvent::Wrote(Err(Unanswered)),
            Some(write) => LeaseEvent::Wrote(Ok(self.write(&mut record, &me, &write, setting))),
        };
        self.record = record;
        if let Some(process) = self.process(place) {
            process.has_renewed |= renews_once && event == LeaseEvent::Wrote(Ok(Written::Applied));
            process.call = Some(Call::Answered(event));
        }
    }

    /// A call has no answer. A write may be applied, at once or later.
    fn lose(&mut self, place: u8, is_late: bool, setting: &Setting) {
        let Some(process) = self.process(place) else { return };
        let me = process.lease.name().to_string();
        let event = match process.call.take() {
            Some(Call::Sent(Some(write))) => {
                if is_late {
                    self.late.push((me, write));
                }
                LeaseEvent::Wrote(Err(Unanswered))
            }
            Some(Call::Answered(LeaseEvent::Wrote(_))) => LeaseEvent::Wrote(Err(Unanswered)),
            _ => LeaseEvent::Read(Err(Unanswered)),
        };
        if setting.defect == Some(Defect::SkipsReadBack)
            && event == LeaseEvent::Wrote(Err(Unanswered))
            && let Some(process) = self.process(place)
        {
            process.reads_nothing = true;
        }
        self.step(place, event);
    }

    fn open_log(&mut self, place: u8) {
        let log = self.log;
        let Some(process) = self.process(place) else { return };
        let Some(epoch) = process.opening.take() else { return };
        if epoch > log {
            process.writes = Some(epoch);
            self.log = epoch;
        } else {
            self.step(place, LeaseEvent::LogEpoch(log));
        }
    }

    /// Checks the rules of every state.
    fn check(&mut self) {
        let runs = |process: &&Process| !process.is_paused && matches!(process.lease.standing(), Standing::Active(_));
        if self.processes.iter().filter(runs).count() > 1 {
            self.violation = self.violation.or(Some("two processes are active at the same time"));
        }
    }

    pub fn violation(&self) -> Option<&'static str> {
        self.violation
    }

    /// Whether one process is active and writes the log under its epoch.
    pub fn is_served(&self) -> bool {
        self.processes.iter().any(|process| {
            matches!(process.lease.standing(), Standing::Active(epoch) if process.writes == Some(epoch) && epoch == self.log)
        })
    }

    /// The next step of a run without further faults, in which time passes only if nothing else is left.
    pub fn next_without_faults(&self) -> Act {
        let harmless = self.acts().into_iter().find(|act| {
            matches!(
                act,
                Act::Execute(_)
                    | Act::Receive(_)
                    | Act::Resume(_)
                    | Act::OpenLog(_)
                    | Act::CloseLog(_)
                    | Act::ApplyLate(_)
            )
        });
        harmless.unwrap_or(Act::Time(None))
    }
}
