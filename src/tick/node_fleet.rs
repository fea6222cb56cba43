//! Requests the first nodes of queues without nodes: the fleet thread of a tickerplant.
//!
//! The queue decides when and how many ([`crate::queue::Action::Request`]) and repeats its requests until a node has joined. A failed call is
//! retried with growing pauses. The log has a line when the outcome changes, not one per attempt.

#[cfg(test)]
mod tests;

use crate::env::Env;
use crate::env::task::{Due, Running, Task};
use crate::fleet::back_off::BackOff;
use crate::fleet::{Capacity, Fleet};
use crate::sys::clock::Clock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Upper bounds of the first and of any pause between attempts.
const PAUSE_FIRST_NS: u64 = 500_000_000;
const MAX_PAUSE_NS: u64 = 20_000_000_000;

/// Counters and figures of the thread.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that the fleet has granted, and those that failed or were rejected.
    pub granted: AtomicU64,
    pub failed: AtomicU64,
    /// Longest lead time of the groups as last described, nanoseconds; 0 if unknown.
    lead_ns: AtomicU64,
}

impl Counters {
    /// Returns the measured lead time of the slowest group.
    pub fn lead(&self) -> Option<Duration> {
        let ns = self.lead_ns.load(Ordering::Relaxed);
        (ns > 0).then_some(Duration::from_nanos(ns))
    }
}

/// Handle of the thread. It ends when this is dropped.
pub struct NodeFleet {
    requests: Sender<Request>,
    pub counters: Arc<Counters>,
    /// Lead time until one was measured.
    expected_lead: Duration,
    _running: Box<dyn Running>,
}

/// At least so many instances in a group.
struct Request {
    group: Vec<u8>,
    desired: u32,
}

/// Groups of a fleet by name, each with the back end that changes it.
pub type Groups = Vec<(String, Box<dyn Fleet>)>;

impl NodeFleet {
    /// Starts the thread. `expected_lead`: the lead time until one was measured.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(env: &Env, groups: Groups, expected_lead: Duration) -> io::Result<NodeFleet> {
        let (requests, received) = channel();
        let counters = Arc::<Counters>::default();
        let calls = Calls::new(Arc::clone(&env.clock), groups, received, Arc::clone(&counters));
        let running = env.spawner.spawn("fleet", Box::new(calls))?;
        Ok(NodeFleet { requests, counters, expected_lead, _running: running })
    }

    /// Returns the lead time as measured, else as expected.
    pub fn lead(&self) -> Duration {
        self.counters.lead().unwrap_or(self.expected_lead)
    }

    /// Requests at least `desired` instances in all for a group. Does not wait for the fleet.
    pub fn request(&self, group: &[u8], desired: usize) {
        let desired = u32::try_from(desired).unwrap_or(u32::MAX);
        if self.requests.send(Request { group: group.to_vec(), desired }).is_err() {
            tracing::error!("the fleet thread has ended: no node is requested");
        }
    }
}

/// A group, and what is to be requested of it.
struct Group {
    name: String,
    fleet: Box<dyn Fleet>,
    pending: Option<(u32, Instant)>,
    /// When to describe it next, for its lead time.
    describe_at: Instant,
    back_off: BackOff,
    /// The outcome as last logged.
    logged: Option<String>,
    lead: Option<Duration>,
}

/// The work of the thread.
struct Calls {
    clock: Arc<dyn Clock>,
    groups: Vec<Group>,
    received: Receiver<Request>,
    counters: Arc<Counters>,
}

impl Calls {
    fn new(clock: Arc<dyn Clock>, groups: Groups, received: Receiver<Request>, counters: Arc<Counters>) -> Calls {
        let now = clock.now();
        let group = |(name, fleet)| Group {
            name,
            fleet,
            pending: None,
            describe_at: now,
            back_off: BackOff::new(PAUSE_FIRST_NS, MAX_PAUSE_NS),
            logged: None,
            lead: None,
        };
        Calls { clock, groups: groups.into_iter().map(group).collect(), received, counters }
    }

    fn next_at(&self) -> Option<Instant> {
        let requests = self.groups.iter().filter_map(|group| Some(group.pending?.1));
        requests.chain(self.groups.iter().map(|group| group.describe_at)).min()
    }

    fn take(&mut self, request: Request) {
        let now = self.clock.now();
        if let Some(group) = self.groups.iter_mut().find(|group| group.name.as_bytes() == request.group) {
            // The latest number counts; a retry keeps its pause.
            let at = group.pending.map_or(now, |(_, at)| at);
            group.pending = Some((request.desired, at));
        }
    }
}

impl Task for Calls {
    fn wait(&mut self) -> bool {
        let received = match self.next_at() {
            Some(at) => self.received.recv_timeout(at.saturating_duration_since(self.clock.now())),
            None => self.received.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(request) => {
                self.take(request);
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    fn due(&mut self) -> Due {
        while let Ok(request) = self.received.try_recv() {
            self.take(request);
        }
        match self.next_at() {
            Some(at) if at <= self.clock.now() => Due::Now,
            Some(at) => Due::At(at),
            None => Due::Later,
        }
    }

    fn work(&mut self) {
        let now = self.clock.now();
        for group in &mut self.groups {
            if let Some((desired, _)) = group.pending.filter(|(_, at)| *at <= now) {
                group.request(desired, &self.counters, &*self.clock);
            }
            if group.describe_at <= now {
                group.describe(now);
            }
        }
        let lead = self.groups.iter().filter_map(|group| group.lead).max().unwrap_or_default();
        self.counters.lead_ns.store(u64::try_from(lead.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Group {
    fn request(&mut self, desired: u32, counters: &Counters, clock: &dyn Clock) {
        let name = &self.name;
        let result = self.fleet.at_least(desired);
        let (counter, outcome) = match &result {
            Ok(Capacity::Granted { desired: all }) => {
                (&counters.granted, format!("requested nodes of group {name}: {all} desired"))
            }
            Ok(Capacity::Refused { desired: all, reason }) => {
                (&counters.failed, format!("group {name} stays at {all} nodes: {reason}"))
            }
            Err(error) => (&counters.failed, format!("cannot request nodes of group {name}: {error}")),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let is_granted = matches!(result, Ok(Capacity::Granted { .. }));
        if self.logged.as_ref() != Some(&outcome) {
            match is_granted {
                true => tracing::info!("{outcome}"),
                false => tracing::warn!("{outcome}"),
            }
            self.logged = Some(outcome);
        }
        self.pending = match result {
            Err(error) if error.may_pass() => {
                let pause = Duration::from_nanos(self.back_off.pause_ns(fastrand::f64()));
                clock.now().checked_add(pause).map(|at| (desired, at))
            }
            // The queue repeats the request if no node comes.
            _ => {
                self.back_off = BackOff::new(PAUSE_FIRST_NS, MAX_PAUSE_NS);
                None
            }
        };
    }

    fn describe(&mut self, now: Instant) {
        let pause = self.fleet.describe_every();
        self.describe_at = now.checked_add(pause).unwrap_or(now);
        if let Ok(described) = self.fleet.describe() {
            self.lead = described.lead_time.or(self.lead);
        }
    }
}
