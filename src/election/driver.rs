//! Carries out the actions of the lease: calls the store, keeps the time, and notifies the process.

use super::caller::Caller;
use super::input::{Answer, Input, Job};
use super::others::Others;
use super::store::{Store, StoreError};
use super::tenure::{Ends, Known, Tenure, View};
use crate::env::Env;
use crate::env::task::{Due, Running, Task};
use crate::lease::{
    Copies, CopyName, Epoch, Lease, LeaseAction, LeaseEvent, LeaseRecord, LeaseWrite, Left, OwnCopy, OwnerName,
    Standing, Terms, Unanswered,
};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Least and longest deadline of a call: a heartbeat, within these.
const MIN_CALL_NS: u64 = 200_000_000;
const MAX_CALL_NS: u64 = 3_000_000_000;
/// Share of the lease after which a call has no answer, at most.
const CALLS_PER_LEASE: u64 = 3;

/// Who takes part, where and how.
pub struct ElectionOptions {
    /// Name of this process, which no process has had before.
    pub me: OwnerName,
    pub terms: Terms,
    /// The own copy of the log, if each process has one.
    pub copy: Option<OwnCopy>,
    /// URL of the lease, for reports.
    pub url: String,
}

/// A lease that is being driven. Dropping it ends the threads, without releasing the lease or waiting for a call.
pub struct Election {
    inputs: Sender<Input>,
    tenure: Arc<Tenure>,
    terms: Terms,
    _running: Mutex<[Box<dyn Running>; 2]>,
}

impl Election {
    /// Starts the threads. The process is passive.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(env: &Env, store: Box<dyn Store>, options: ElectionOptions) -> io::Result<Election> {
        let ElectionOptions { me, terms, copy, url } = options;
        let tenure = Arc::new(Tenure::new(url, me.clone(), Arc::clone(&env.clock)));
        let (inputs, received) = channel();
        let (calls, jobs) = sync_channel(1);
        let caller = Caller::new(store, Arc::clone(&env.clock), jobs, inputs.clone());
        let lease = Lease::new(me, terms, tenure.now_ns()).with_copy(copy);
        let driver = Driver::new(lease, terms, received, calls, Arc::clone(&tenure));
        let running =
            [env.spawner.spawn("lease-store", Box::new(caller))?, env.spawner.spawn("lease", Box::new(driver))?];
        Ok(Election { inputs, tenure, terms, _running: Mutex::new(running) })
    }

    pub fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// The log has this epoch of another process ([`LeaseEvent::LogEpoch`]).
    pub fn log_epoch(&self, epoch: Epoch) {
        self.event(LeaseEvent::LogEpoch(epoch));
    }

    /// The directory, which other processes share, has this log ([`LeaseEvent::OwnLog`]).
    pub fn own_log(&self, log: CopyName) {
        self.event(LeaseEvent::OwnLog(log));
    }

    /// The process leaves the lease alone, or competes for it again ([`LeaseEvent::Pause`]).
    pub fn pause(&self, is_paused: bool) {
        self.event(LeaseEvent::Pause(is_paused));
    }

    /// Lets the record name these copies of the log, while this process holds the lease. [`View::named`] has the number of the last request
    /// that was carried out.
    pub fn name_copies(&self, request: u64, copies: Copies) {
        self.event(LeaseEvent::Copies { request, copies });
    }

    /// It is proved that this owner cannot write the log any more ([`LeaseEvent::CannotWrite`]).
    pub fn cannot_write(&self, owner: OwnerName) {
        self.event(LeaseEvent::CannotWrite(owner));
    }

    /// The log is closed, or was never opened, after the process had to step down.
    pub fn closed(&self) {
        self.event(LeaseEvent::Closed);
    }

    /// Gives the lease back and takes no other one, before the process ends. The log is closed. Waits for the store, no longer than `most`;
    /// returns whether the store has answered.
    pub fn leave(&self, most: Duration) -> bool {
        self.release(None, most)
    }

    /// After the process had to step down and has closed the log: gives back what it may still have of the lease, within `most`.
    pub fn give_back(&self, most: Duration) {
        self.closed();
        self.tenure.settled(most);
    }

    /// As [`Election::leave`], and keeps the lease for `successor` while the record protects it. Waits no longer than a lease lasts.
    pub fn hand_over(&self, successor: Option<OwnerName>) -> bool {
        self.release(successor, Duration::from_nanos(self.terms.lease_ns))
    }

    fn release(&self, successor: Option<OwnerName>, most: Duration) -> bool {
        for event in [LeaseEvent::Pause(true), LeaseEvent::StepDown { successor }, LeaseEvent::Closed] {
            self.event(event);
        }
        self.tenure.settled(most)
    }

    fn event(&self, event: LeaseEvent) {
        self.tenure.unsettle();
        // The driver ends with its sender only.
        let _ = self.inputs.send(Input::Event(event));
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        // The thread of the calls can send as well, so the driver would not notice the end of this sender.
        let _ = self.inputs.send(Input::End);
    }
}

/// A call under way.
struct Call {
    number: u64,
    is_write: bool,
    until_ns: u64,
}

pub(super) struct Driver {
    lease: Lease,
    terms: Terms,
    inputs: Receiver<Input>,
    input: Option<Input>,
    calls: SyncSender<Job>,
    call: Option<Call>,
    drawn: u64,
    tenure: Arc<Tenure>,
    view: View,
    others: Others,
    is_in_danger: bool,
}

impl Driver {
    pub fn new(
        lease: Lease,
        terms: Terms,
        inputs: Receiver<Input>,
        calls: SyncSender<Job>,
        tenure: Arc<Tenure>,
    ) -> Driver {
        Driver {
            lease,
            terms,
            inputs,
            input: None,
            calls,
            call: None,
            drawn: 0,
            tenure,
            view: View::default(),
            others: Others::default(),
            is_in_danger: false,
        }
    }

    /// Time of the next event that comes by itself.
    fn next_ns(&self) -> Option<u64> {
        let call_ns = self.call.as_ref().map(|call| call.until_ns);
        [call_ns, self.lease.next_deadline_ns()].into_iter().flatten().min()
    }

    fn call_ns(&self) -> u64 {
        let most_ns = MAX_CALL_NS.min(self.terms.lease_ns / CALLS_PER_LEASE).max(1);
        self.terms.heartbeat_ns.max(MIN_CALL_NS).min(most_ns)
    }

    fn step(&mut self, event: LeaseEvent, now_ns: u64) {
        if event == LeaseEvent::Closed {
            self.view.left = None;
        }
        for action in self.lease.step(event, now_ns) {
            match action {
                LeaseAction::Read => self.send(None, now_ns),
                LeaseAction::Write(write) => self.send(Some(write), now_ns),
                LeaseAction::Lead(epoch) => {
                    tracing::info!("{}: this process has the lease, with epoch {epoch}", self.tenure.name());
                    (self.view.lead, self.view.left) = (Some(epoch), None);
                }
                LeaseAction::Copies { request, copies } => {
                    match copies.is_common() {
                        true => tracing::info!("the lease is one of this log: {copies}"),
                        false => tracing::info!(
                            "copies of the log with every acknowledged update, as the lease has it: {copies}"
                        ),
                    }
                    self.view.named = request;
                }
                LeaseAction::Danger { left_ns } => {
                    self.is_in_danger = true;
                    let left = Duration::from_nanos(left_ns);
                    let why = self.view.trouble.as_deref().unwrap_or("the store is slow");
                    tracing::warn!("the lease is renewed late and ends in {left:.1?}: {why}");
                }
                LeaseAction::Safe => {
                    tracing::info!("the lease is renewed again");
                    (self.is_in_danger, self.view.is_held) = (false, false);
                }
                LeaseAction::Hold => {
                    (self.is_in_danger, self.view.is_held) = (true, true);
                    let why = self.view.trouble.as_deref().unwrap_or("the store is slow");
                    tracing::error!(
                        "the lease is over and cannot be renewed ({why}): staying active by the lock of the log alone, as \
                         --lease-failsafe has it. Another tickerplant that reaches the store may believe that it is active"
                    );
                }
                LeaseAction::StepDown(left) => {
                    tracing::warn!("{}: stepping down: {}", self.tenure.name(), words(left));
                    (self.view.lead, self.view.left) = (None, Some(left));
                    (self.is_in_danger, self.view.is_held) = (false, false);
                }
            }
        }
        self.publish();
    }

    /// Passes a call to the thread that makes it.
    fn send(&mut self, write: Option<LeaseWrite>, now_ns: u64) {
        self.drawn = self.drawn.wrapping_add(1);
        let mut until_ns = now_ns.saturating_add(self.call_ns());
        let (number, is_write) = (self.drawn, write.is_some());
        if self.calls.try_send(Job { number, write, until_ns }).is_err() {
            // An earlier call hangs, and another one waits behind it.
            until_ns = now_ns;
        }
        self.call = Some(Call { number, is_write, until_ns });
    }

    /// Event of an answer; `None` if the call has counted as unanswered before.
    fn answered(&mut self, number: u64, answer: Answer) -> Option<LeaseEvent> {
        let call = self.call.take_if(|call| call.number == number)?;
        let (event, error) = match answer {
            Answer::Read(Ok(record)) => {
                self.note_owner(record.as_ref());
                (LeaseEvent::Read(Ok(record)), None)
            }
            Answer::Wrote(Ok(written)) => (LeaseEvent::Wrote(Ok(written)), None),
            Answer::Read(Err(error)) | Answer::Wrote(Err(error)) => (unanswered(&call), Some(error)),
        };
        self.note_trouble(error);
        Some(event)
    }

    fn note_owner(&mut self, record: Option<&LeaseRecord>) {
        self.view.owner = record.map(|record| record.owner.clone()).unwrap_or_default();
        self.view.is_released = record.is_some_and(|record| record.is_released);
        self.view.owner_epoch = record.map(|record| record.epoch);
    }

    fn note_trouble(&mut self, error: Option<StoreError>) {
        let trouble = error.map(|error| error.to_string());
        self.view.failures = self.view.failures.saturating_add(u64::from(trouble.is_some()));
        match (&trouble, &self.view.trouble) {
            (Some(now), before) if before.as_ref() != Some(now) => {
                tracing::warn!("{}: {now}; trying again", self.tenure.name());
            }
            (None, Some(_)) => tracing::info!("{}: the store answers again", self.tenure.name()),
            _ => {}
        }
        self.view.trouble = trouble;
    }

    /// Shows the state to other threads.
    fn publish(&mut self) {
        let standing = self.lease.standing();
        let (mut renewed_ns, mut ends) = (self.lease.renewed_ns(), Ends::Over);
        match standing {
            Standing::Active(_) => {
                self.view.owner = self.lease.name().to_string();
                self.view.is_released = false;
                let end_ns = renewed_ns.map(|at| at.saturating_add(self.terms.usable_ns()));
                ends = if self.terms.holds_without_store { Ends::Never } else { Ends::At(end_ns.unwrap_or(0)) };
            }
            Standing::Passive => renewed_ns = self.lease.seen().map(|(_, since_ns)| since_ns),
            Standing::Closing => {}
        }
        self.view.barrier = (standing == Standing::Passive).then(|| self.lease.barrier()).flatten();
        (self.view.long, self.view.is_address_taken) = self.others.look(&self.lease);
        self.view.is_settled = standing == Standing::Passive && self.call.is_none();
        let is_in_danger = self.is_in_danger && matches!(ends, Ends::At(_));
        self.tenure.set(Known { view: self.view.clone(), renewed_ns, is_in_danger }, ends);
    }
}

fn unanswered(call: &Call) -> LeaseEvent {
    if call.is_write { LeaseEvent::Wrote(Err(Unanswered)) } else { LeaseEvent::Read(Err(Unanswered)) }
}

/// Why a process is not active any more, for an operator.
fn words(left: Left) -> &'static str {
    match left {
        Left::Requested => "on request",
        Left::Taken => "another process owns the lease, or its record is gone",
        Left::Expired => "the lease was not renewed in time",
        Left::NoEpoch => "the log has the highest epoch that there is",
        Left::Unclear => "the answer of the store about the lease's new epoch was lost",
    }
}

impl Task for Driver {
    fn wait(&mut self) -> bool {
        let next_ns = self.next_ns();
        let left_ns = next_ns.map(|next| next.saturating_sub(self.tenure.now_ns()));
        // The timer stands still while the host is suspended; `Tenure::is_over` does not.
        let received = match left_ns {
            Some(left_ns) => self.inputs.recv_timeout(Duration::from_nanos(left_ns)),
            None => self.inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return false,
            Ok(input) => self.input = Some(input),
            Err(RecvTimeoutError::Timeout) => self.input = None,
        }
        true
    }

    fn due(&mut self) -> Due {
        if self.input.is_some() { Due::Now } else { Due::Later }
    }

    fn work(&mut self) {
        let now_ns = self.tenure.now_ns();
        let event = match self.input.take() {
            Some(Input::End) => None,
            Some(Input::Event(event)) => Some(event),
            Some(Input::Answer(number, answer)) => self.answered(number, answer),
            None => match self.call.take_if(|call| call.until_ns <= now_ns) {
                Some(call) => {
                    let within = Duration::from_nanos(self.call_ns());
                    self.note_trouble(Some(StoreError::Failed(format!("no answer within {within:?}"))));
                    Some(unanswered(&call))
                }
                None => Some(LeaseEvent::Tick),
            },
        };
        if let Some(event) = event {
            self.step(event, now_ns);
        }
    }
}
