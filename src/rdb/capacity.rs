//! The fleet thread: makes all calls to the fleet, as each may take as long as a network timeout.
//!
//! A request is kept until it succeeds or is superseded; a failed call is retried with growing pauses and jitter. The
//! log gets a line when the outcome changes, not one per attempt.

mod counters;
mod demand;
mod task;
#[cfg(test)]
mod tests;

pub use counters::CapacityCounters;
pub use demand::Demand;

use super::policy::ScaleAnswer;
use crate::env::Env;
use crate::env::task::{self as background, Due, Running};
use crate::fleet::scaling::launches::{LaunchFault, Launches};
use crate::fleet::{Capacity, Description, Fleet, FleetError, Reason, Stage};
use crate::points::{self, Point};
use crate::sys::clock::Clock;
use demand::PendingDemand;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use task::Task;

/// A request to the fleet thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetRequest {
    /// The node waits in its queue.
    Ready,
    /// The group needs at least this many nodes.
    AtLeast(Demand),
    /// Lowers a pending request: fewer nodes suffice by now.
    AtMost(u32),
    /// The group's instances whose nodes have joined, including this one, as reported by the tickerplant. Empty if
    /// unknown, or if another node watches the launches.
    Joined(Vec<String>),
    /// Switches scale-in protection: on while the node holds rows of the day.
    Protect(bool),
    /// This process ends on its own: the fleet should stop counting it.
    Leaving,
    /// Ending the instance loses nothing any more; follows [`FleetReply::Leave`].
    Released,
    /// A day has ended and its rolled nodes go: drops pending requests for capacity.
    DayEnd,
    /// End this instance and take one off the desired capacity.
    Terminate,
}

/// Replies and notices of the fleet thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetReply {
    Scaled(ScaleAnswer),
    /// The latest lead time of the group.
    LeadTime {
        lead_ns: i64,
    },
    /// The fleet is about to end this instance, at `by` if known. Repeated if the reason changes.
    Leave {
        by: Option<Instant>,
        reason: Reason,
    },
    /// Reply to [`FleetRequest::Leaving`]: whether the fleet launches a replacement before this node has ended.
    Leaving {
        replaced: bool,
    },
    /// The fleet knows that ending the instance loses nothing.
    Released,
    /// A launched instance never joined and is being replaced.
    Late {
        instance: String,
    },
    /// Reply to [`FleetRequest::Terminate`]: the fleet ends this instance.
    Terminated,
    /// Reply to [`FleetRequest::Terminate`]: the fleet keeps this instance.
    TerminateRefused,
}

/// Channels and counters of the fleet thread.
pub struct Link {
    pub requests: Sender<FleetRequest>,
    pub answers: Receiver<FleetReply>,
    pub counters: Arc<CapacityCounters>,
    pub running: Box<dyn Running>,
}

/// Pause between descriptions of the group while an instance is awaited.
const DESCRIBE_SOON: Duration = Duration::from_secs(5);
/// After this long without success a termination is given up: the node rejoins its queue.
const TERMINATE_WITHIN: Duration = Duration::from_secs(600);

const CAPACITY: &str = "cannot request a successor from the fleet";
const PROTECTION: &str = "cannot change the protection of this node";

/// Starts the thread. An instance that has not joined its queue after `launch_timeout` is late. The thread ends when
/// the sender of requests is dropped.
///
/// # Errors
/// The thread cannot start.
pub fn start(env: &Env, fleet: Box<dyn Fleet>, launch_timeout: Duration) -> std::io::Result<Link> {
    let (requests, answers, calls) = calls(Arc::clone(&env.clock), fleet, launch_timeout);
    let counters = Arc::clone(&calls.worker.counters);
    let running = env.spawner.spawn("fleet", Box::new(calls))?;
    Ok(Link { requests, answers, counters, running })
}

/// Makes the work of the fleet thread, with the other ends of its channels.
fn calls(
    clock: Arc<dyn Clock>,
    fleet: Box<dyn Fleet>,
    launch_timeout: Duration,
) -> (Sender<FleetRequest>, Receiver<FleetReply>, Calls) {
    let (requests, received) = channel();
    let (answers, answered) = channel();
    let worker = Worker::new(clock, fleet, answers, launch_timeout);
    (requests, answered, Calls { worker, received, is_over: false })
}

/// The work of the fleet thread.
struct Calls {
    worker: Worker,
    received: Receiver<FleetRequest>,
    is_over: bool,
}

impl background::Task for Calls {
    fn wait(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        let wait = self.worker.deadline().saturating_duration_since(self.worker.clock.now());
        match self.received.recv_timeout(wait) {
            Ok(request) => {
                self.worker.take(request);
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    fn due(&mut self) -> Due {
        Due::At(self.worker.deadline())
    }

    fn work(&mut self) {
        while let Ok(request) = self.received.try_recv() {
            self.worker.take(request);
        }
        // An ended node has dropped its receiver.
        self.is_over = self.worker.work().is_err();
    }
}

/// The receiver of answers is gone.
struct Disconnected;

/// State of the fleet thread.
struct Worker {
    clock: Arc<dyn Clock>,
    fleet: Box<dyn Fleet>,
    answers: Sender<FleetReply>,
    counters: Arc<CapacityCounters>,
    ready: Option<Task>,
    /// Pending request for capacity.
    demand: Option<(PendingDemand, Task)>,
    /// Reason of the last rejection.
    refusal: Option<String>,
    replace: Vec<(String, Task)>,
    protect: Option<(bool, Task)>,
    /// Protection that the node wants.
    protection: bool,
    leaving: Option<Task>,
    released: Option<Task>,
    terminate: Option<Task>,
    launches: Launches,
    began: Instant,
    lead: Option<Duration>,
    reported: Option<Reason>,
    notice_at: Instant,
    describe_at: Instant,
    describe_failed: bool,
    notice_failed: bool,
}

impl Worker {
    fn new(
        clock: Arc<dyn Clock>,
        fleet: Box<dyn Fleet>,
        answers: Sender<FleetReply>,
        launch_timeout: Duration,
    ) -> Worker {
        let now = clock.now();
        let timeout_ns = u64::try_from(launch_timeout.as_nanos()).unwrap_or(u64::MAX);
        Worker {
            launches: Launches::new(&fleet.identity().instance, timeout_ns),
            began: now,
            notice_at: now.checked_add(fleet.notice_every()).unwrap_or(now),
            clock,
            fleet,
            answers,
            counters: Arc::default(),
            ready: None,
            demand: None,
            protect: None,
            protection: false,
            leaving: None,
            released: None,
            terminate: None,
            refusal: None,
            replace: Vec::new(),
            lead: None,
            reported: None,
            describe_at: now,
            describe_failed: false,
            notice_failed: false,
        }
    }

    fn deadline(&self) -> Instant {
        let tasks = [
            self.ready.as_ref(),
            self.demand.as_ref().map(|(_, task)| task),
            self.protect.as_ref().map(|(_, task)| task),
            self.leaving.as_ref(),
            self.released.as_ref(),
            self.terminate.as_ref(),
        ];
        let tasks = tasks.into_iter().flatten().map(Task::at);
        let replacing = self.replace.iter().map(|(_, task)| task.at());
        tasks.chain(replacing).chain([self.notice_at, self.describe_at]).min().unwrap_or(self.describe_at)
    }

    fn take(&mut self, request: FleetRequest) {
        match request {
            FleetRequest::Ready => {
                self.ready = Some(self.task("cannot report to the fleet that this node is a standby"))
            }
            FleetRequest::AtLeast(demand) => {
                self.counters.requested.add();
                match &mut self.demand {
                    Some((pending, _)) => pending.renew(demand),
                    None => self.demand = Some((PendingDemand::new(demand), self.task(CAPACITY))),
                }
            }
            FleetRequest::AtMost(instances) => {
                if let Some((pending, _)) = &mut self.demand {
                    pending.at_most(instances);
                }
            }
            FleetRequest::Joined(instances) => {
                let watched = self.launches.watches();
                self.launches.joined(instances);
                if self.launches.watches() && !watched {
                    self.describe_at = self.clock.now();
                }
            }
            FleetRequest::Protect(on) => {
                self.protection = on;
                self.protect = Some((on, self.task(PROTECTION)));
            }
            FleetRequest::Leaving => {
                self.leaving = Some(self.task("cannot report to the fleet that this node is draining"))
            }
            FleetRequest::Released => {
                self.released = Some(self.task("cannot report to the fleet that this node may be terminated"))
            }
            FleetRequest::DayEnd => {
                self.demand = None;
                self.launches.forget();
            }
            FleetRequest::Terminate => {
                self.demand = None;
                self.launches.forget();
                self.terminate = Some(self.task("cannot request this node's termination"));
            }
        }
    }

    /// Makes a task that is due at once.
    fn task(&self, failed_action: &'static str) -> Task {
        Task::new(failed_action, self.clock.now())
    }

    fn reply(&self, answer: FleetReply) -> Result<(), Disconnected> {
        self.answers.send(answer).map_err(|_| Disconnected)
    }

    /// Does everything that is due.
    fn work(&mut self) -> Result<(), Disconnected> {
        self.heed()?;
        if let Some(task) = Task::take_due(&mut self.ready, self.clock.now()) {
            let result = self.fleet.ready();
            self.ready = self.settle(task, result).err();
            if self.ready.is_none() {
                // This node's own lead time is known now.
                self.describe_at = self.clock.now();
            }
        }
        if let Some(task) = Task::take_due(&mut self.leaving, self.clock.now()) {
            let result = match self.fleet.leaving() {
                // The back end has no such call, or does not know this instance.
                Err(FleetError::Refused(_)) => Ok(false),
                result => result,
            };
            match self.settle(task, result) {
                Ok(replaced) => self.reply(FleetReply::Leaving { replaced })?,
                Err(task) => self.leaving = Some(task),
            }
        }
        if let Some(task) = Task::take_due(&mut self.released, self.clock.now()) {
            let result = self.fleet.released();
            self.released = self.settle(task, result).err();
            if self.released.is_none() {
                self.reply(FleetReply::Released)?;
            }
        }
        if let Some((on, task)) = Task::take_due_with(&mut self.protect, self.clock.now()) {
            let result = self.fleet.protect(on);
            self.protect = self.settle(task, result).err().map(|task| (on, task));
        }
        if let Some((demand, task)) = Task::take_due_with(&mut self.demand, self.clock.now()) {
            self.scale(demand, task)?;
        }
        if let Some((instance, task)) = Task::take_due_of(&mut self.replace, self.clock.now()) {
            let result = self.fleet.replace(&instance);
            match self.settle(task, result) {
                Ok(()) => self.counters.replaced.add(),
                Err(task) => self.replace.push((instance, task)),
            }
        }
        if let Some(task) = Task::take_due(&mut self.terminate, self.clock.now()) {
            self.terminate(task)?;
        }
        self.describe_if_due()
    }

    /// Returns the result, or the task for a retry.
    fn settle<T>(&self, mut task: Task, result: Result<T, FleetError>) -> Result<T, Task> {
        match result {
            Ok(value) => {
                task.succeeded();
                Ok(value)
            }
            Err(error) => {
                self.counters.count(&error);
                task.failed(&error, fastrand::f64(), self.clock.now());
                Err(task)
            }
        }
    }

    /// Checks whether this instance is about to be ended.
    fn heed(&mut self) -> Result<(), Disconnected> {
        let now = self.clock.now();
        if now < self.notice_at {
            return Ok(());
        }
        self.notice_at = now.checked_add(self.fleet.notice_every()).unwrap_or(now);
        let notice = match self.fleet.notice() {
            Ok(notice) => notice,
            Err(error) => {
                if !std::mem::replace(&mut self.notice_failed, true) {
                    tracing::warn!(%error, "cannot find out whether the fleet is about to terminate this node");
                }
                return Ok(());
            }
        };
        self.notice_failed = false;
        let Some(notice) = notice.filter(|notice| self.reported != Some(notice.reason)) else { return Ok(()) };
        self.reported = Some(notice.reason);
        tracing::warn!("the fleet is about to terminate this node: {}", notice.reason.name());
        let by = notice.left.and_then(|left| now.checked_add(left));
        self.reply(FleetReply::Leave { by, reason: notice.reason })
    }

    fn scale(&mut self, mut demand: PendingDemand, task: Task) -> Result<(), Disconnected> {
        let requested = demand.instances(self.clock.now(), |demand| demand.of(self.fleet.as_mut()));
        let failures = task.failures();
        points::reach(Point::FleetBeforeCall);
        let result = requested.clone().and_then(|requested| self.fleet.at_least(requested));
        let answer = match self.settle(task, result) {
            Ok(Capacity::Granted { desired }) if !self.fleet.exists() => {
                let reason = format!(
                    "no fleet: start another node (elastick rdb). The queue needs {desired} in all; without a standby at the \
                     roll threshold, later updates cannot be queried until a node joins"
                );
                if self.refusal.replace(reason.clone()).as_ref() != Some(&reason) {
                    tracing::warn!("{reason}");
                }
                ScaleAnswer::Granted
            }
            Ok(Capacity::Granted { desired }) => {
                tracing::info!("requested a successor from the fleet: {desired} nodes desired");
                self.refusal = None;
                self.launches.granted(requested.unwrap_or(desired));
                self.counters.granted.add();
                ScaleAnswer::Granted
            }
            Ok(Capacity::Refused { desired, reason }) => {
                if self.refusal.replace(reason.clone()).as_ref() != Some(&reason) {
                    tracing::warn!(%reason, "the fleet stays at {desired} nodes");
                }
                self.counters.refused.add();
                ScaleAnswer::AtMaximum { instances: desired }
            }
            Err(task) => {
                // Retried here; a repeated request of the policy merges with it.
                self.demand = Some((demand, task));
                if failures > 0 {
                    return Ok(());
                }
                self.counters.refused.add();
                return self.reply(FleetReply::Scaled(ScaleAnswer::Refused));
            }
        };
        self.describe_at = self.clock.now();
        self.reply(FleetReply::Scaled(answer))
    }

    fn terminate(&mut self, task: Task) -> Result<(), Disconnected> {
        let refused = |error: &FleetError| match error {
            FleetError::Refused(reason) => Some(reason.clone()),
            _ => None,
        };
        match self.fleet.terminate_me() {
            Ok(()) => self.reply(FleetReply::Terminated),
            Err(error) => match refused(&error) {
                Some(reason) => {
                    tracing::info!(%reason, "the fleet keeps this node");
                    self.reply(FleetReply::TerminateRefused)
                }
                None if task.age(self.clock.now()) > TERMINATE_WITHIN => {
                    tracing::warn!(%error, "this node keeps running: it could not be terminated");
                    self.reply(FleetReply::TerminateRefused)
                }
                None => {
                    self.terminate = self.settle(task, Err::<(), _>(error)).err();
                    Ok(())
                }
            },
        }
    }

    /// Describes the group when that is due.
    fn describe_if_due(&mut self) -> Result<(), Disconnected> {
        if self.clock.now() < self.describe_at {
            return Ok(());
        }
        let result = self.describe();
        // Jitter: nodes that started together describe at different times.
        let pause = match self.launches.expects() || self.demand.is_some() {
            true => DESCRIBE_SOON.min(self.fleet.describe_every()),
            false => self.fleet.describe_every(),
        };
        let now = self.clock.now();
        self.describe_at = now.checked_add(pause.mul_f64(0.75 + fastrand::f64() / 2.0)).unwrap_or(now);
        result
    }

    fn describe(&mut self) -> Result<(), Disconnected> {
        let group = match self.fleet.describe() {
            Ok(group) => group,
            Err(error) => {
                self.counters.count(&error);
                if !std::mem::replace(&mut self.describe_failed, true) {
                    tracing::warn!(%error, "cannot describe the fleet's group");
                }
                return Ok(());
            }
        };
        self.describe_failed = false;
        self.described(&group)
    }

    fn described(&mut self, group: &Description) -> Result<(), Disconnected> {
        self.counters.described(group);
        let now_ns = u64::try_from(self.clock.since(self.began).as_nanos()).unwrap_or(u64::MAX);
        let own = &self.fleet.identity().instance;
        let own = group.members.iter().find(|member| member.instance == *own && member.stage == Stage::InService);
        // Protection outlives the process: a restarted node may hold nothing and still be protected.
        if self.protect.is_none() && own.is_some_and(|own| own.protected != self.protection) {
            self.protect = Some((self.protection, self.task(PROTECTION)));
        }
        // Without a fleet nobody launches the others, and no process is late.
        if self.fleet.exists() {
            for fault in self.launches.check(group, now_ns) {
                self.react(fault)?;
            }
        }
        let Some(lead) = group.lead_time.filter(|lead| self.lead != Some(*lead)) else { return Ok(()) };
        self.lead = Some(lead);
        match i64::try_from(lead.as_nanos()) {
            Ok(lead_ns) => self.reply(FleetReply::LeadTime { lead_ns }),
            Err(_) => Ok(()),
        }
    }

    /// Reacts to a problem of the group.
    fn react(&mut self, fault: LaunchFault) -> Result<(), Disconnected> {
        match fault {
            LaunchFault::Late { instance, waited_ns } => {
                let waited = Duration::from_nanos(waited_ns).as_secs();
                tracing::warn!("replacing {instance}: launched {waited} s ago, it has not joined the queue");
                self.counters.late.add();
                self.replace.push((instance.clone(), self.task("cannot replace the instance that never joined")));
                self.reply(FleetReply::Late { instance })
            }
            LaunchFault::Missing { instances, desired } => {
                let reason = self.fleet.why_missing().ok().flatten();
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                tracing::warn!(
                    "the fleet has {instances} of {desired} instances and is not launching the others{reason}"
                );
                self.counters.late.add();
                Ok(())
            }
            LaunchFault::SetBack { desired, granted } => {
                tracing::warn!(
                    "the fleet's desired capacity is back at {desired} after it granted {granted}: requesting again"
                );
                if self.demand.is_none() {
                    self.demand = Some((PendingDemand::again(granted), self.task(CAPACITY)));
                }
                Ok(())
            }
        }
    }
}
