//! The simulated fleet: production's scaling-group rules behind calls that may be slow, be throttled or lose their response, and a provider
//! that launches late, never, or one instance too many.

use super::mutants::node as mutants;
use super::mutants::sleep::is_forgotten;
use super::rng::Rng;
use elastick::fleet::group::{Action, Group, GroupEvent, Instance, Rules};
use elastick::fleet::{Capacity, Description, Fleet, FleetError, Identity, Member, Notice, Reason};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An order of the group to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Launch(Instance),
    Stop(Instance),
    Kill(Instance),
}

/// A request of a node to its fleet, whatever the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    AtLeast(u32),
    /// Terminate this instance and launch another in its place.
    Replace(u64),
}

/// Active faults of the fleet.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloudFaults {
    /// Percentage of calls that are throttled.
    pub busy_percent: u64,
    /// Percentage of calls whose response is lost, whether they were carried out or not.
    pub unsure_percent: u64,
    /// The group may not grow.
    pub at_maximum: bool,
}

/// State of the simulated fleet: one group, its faults and its pending orders.
#[derive(Debug)]
pub struct Cloud {
    rng: Rng,
    now_ns: u64,
    pub group: Group,
    name: String,
    orders: Vec<Order>,
    pub faults: CloudFaults,
    /// Announced interruptions by instance, with the time when the server goes.
    interrupted: BTreeMap<u64, u64>,
    requests: Vec<Asked>,
    /// Draining instances that were notified of a replacement.
    replaced: Vec<Instance>,
    pub counts: CloudCounts,
}

/// Counts of fleet faults that took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloudCounts {
    pub busy: u64,
    pub unsure: u64,
    pub at_maximum: u64,
}

/// The fleet, shared by its API calls and the simulated environment (`World`).
#[derive(Clone, Debug)]
pub struct SharedCloud(Arc<Mutex<Cloud>>);

impl SharedCloud {
    pub fn new(rng: Rng, name: &str, rules: Rules) -> SharedCloud {
        SharedCloud(Arc::new(Mutex::new(Cloud {
            rng,
            now_ns: 0,
            group: Group::new(rules),
            name: name.to_string(),
            orders: Vec::new(),
            faults: CloudFaults::default(),
            interrupted: BTreeMap::new(),
            requests: Vec::new(),
            replaced: Vec::new(),
            counts: CloudCounts::default(),
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Cloud> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the fleet's API as one instance sees it.
    pub fn of(&self, instance: Instance) -> Box<dyn Fleet> {
        let group = self.lock().name.clone();
        let identity = Identity { instance: format!("{group}-{}", instance.0), group };
        Box::new(OwnFleet { cloud: self.clone(), instance, identity, failures: 0 })
    }
}

impl Cloud {
    pub fn set_now(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Handles an event of the group. Its orders are kept until [`Cloud::take_orders`].
    pub fn step(&mut self, event: GroupEvent) -> (Option<Capacity>, Result<(), String>) {
        let (mut capacity, mut answer) = (None, Ok(()));
        for action in self.group.step(event, self.now_ns) {
            match action {
                Action::Launch(instance) => self.orders.push(Order::Launch(instance)),
                Action::Stop(instance) => self.orders.push(Order::Stop(instance)),
                Action::Kill(instance) => self.orders.push(Order::Kill(instance)),
                Action::Capacity(reply) => capacity = Some(reply),
                Action::Answer(reply) => answer = reply,
            }
        }
        (capacity, answer)
    }

    /// Handles an event whose result is not needed.
    pub fn tell(&mut self, event: GroupEvent) {
        drop(self.step(event));
    }

    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// Returns whether the fleet has confirmed to an instance that it will be replaced.
    pub fn confirmed_replacement(&self, instance: &[u8]) -> bool {
        self.replaced.iter().any(|own| format!("{}-{}", self.name, own.0).as_bytes() == instance)
    }

    pub fn take_requests(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.requests)
    }

    /// Announces that a server will be taken back.
    pub fn interrupt(&mut self, instance: Instance, at_ns: u64) {
        self.interrupted.insert(instance.0, at_ns);
    }

    fn call<T>(
        &mut self,
        call: &'static str,
        carry_out: impl FnOnce(&mut Cloud) -> Result<T, FleetError>,
    ) -> Result<T, FleetError> {
        if self.rng.percent(self.faults.busy_percent) {
            self.counts.busy = self.counts.busy.saturating_add(1);
            return Err(FleetError::Busy { call, reason: "throttled".to_string() });
        }
        let unsure = self.rng.percent(self.faults.unsure_percent);
        let lost_before = self.rng.percent(50);
        if unsure {
            self.counts.unsure = self.counts.unsure.saturating_add(1);
            if !lost_before {
                drop(carry_out(self));
            }
            return Err(FleetError::Unsure { call, reason: "no answer".to_string() });
        }
        carry_out(self)
    }

    fn refused<T>(&mut self, event: GroupEvent, done: T) -> Result<T, FleetError> {
        self.step(event).1.map(|()| done).map_err(FleetError::Refused)
    }
}

/// The fleet's API for one instance.
struct OwnFleet {
    cloud: SharedCloud,
    instance: Instance,
    identity: Identity,
    /// Requests in a row that have failed.
    failures: u32,
}

impl OwnFleet {
    fn simple(&self, call: &'static str, event: GroupEvent) -> Result<(), FleetError> {
        self.cloud.lock().call(call, |cloud| cloud.refused(event, ()))
    }
}

impl Fleet for OwnFleet {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn describe(&mut self) -> Result<Description, FleetError> {
        let group = self.identity.group.clone();
        self.cloud.lock().call("Describe", |cloud| {
            let member = |slot: &elastick::fleet::group::Slot| Member {
                instance: format!("{group}-{}", slot.instance.0),
                stage: slot.stage(),
                process: None,
                age: Duration::from_nanos(cloud.now_ns.saturating_sub(slot.requested_ns)),
                lead_time: slot.lead_ns.map(Duration::from_nanos),
                protected: slot.protected,
            };
            let rules = *cloud.group.rules();
            Ok(Description {
                group: group.clone(),
                min: rules.min,
                desired: cloud.group.desired(),
                max: rules.max,
                lead_time: cloud.group.last_lead_ns().map(Duration::from_nanos),
                members: cloud.group.slots().iter().map(member).collect(),
            })
        })
    }

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        if is_forgotten(self.instance) {
            return Ok(Capacity::Granted { desired });
        }
        let desired = mutants::requested(desired, self.failures);
        let mut cloud = self.cloud.lock();
        cloud.requests.push(Asked::AtLeast(desired));
        let result = cloud.call("SetDesiredCapacity", |cloud| {
            if cloud.faults.at_maximum && desired > cloud.group.desired() {
                cloud.counts.at_maximum = cloud.counts.at_maximum.saturating_add(1);
                return Ok(Capacity::Refused { desired: cloud.group.desired(), reason: "at its maximum".to_string() });
            }
            let (capacity, _) = cloud.step(GroupEvent::AtLeast(desired));
            if let Some(Capacity::Refused { .. }) = capacity {
                cloud.counts.at_maximum = cloud.counts.at_maximum.saturating_add(1);
            }
            capacity.ok_or_else(|| FleetError::Protocol("no answer".to_string()))
        });
        self.failures = if result.is_err() { self.failures.saturating_add(1) } else { 0 };
        result
    }

    fn ready(&mut self) -> Result<(), FleetError> {
        self.simple("Ready", GroupEvent::Ready(self.instance))
    }

    fn protect(&mut self, on: bool) -> Result<(), FleetError> {
        self.simple("Protect", GroupEvent::Protect(self.instance, on))
    }

    fn notice(&mut self) -> Result<Option<Notice>, FleetError> {
        let cloud = self.cloud.lock();
        let interrupted = cloud.interrupted.get(&self.instance.0);
        if let Some(at_ns) = interrupted {
            let left = Some(Duration::from_nanos(at_ns.saturating_sub(cloud.now_ns)));
            return Ok(Some(Notice { reason: Reason::SpotInterruption, left }));
        }
        let slot = cloud.group.slots().iter().find(|slot| slot.instance == self.instance);
        Ok(slot.and_then(|slot| slot.notice(cloud.now_ns)))
    }

    fn released(&mut self) -> Result<(), FleetError> {
        self.simple("Released", GroupEvent::Released(self.instance))
    }

    fn leaving(&mut self) -> Result<bool, FleetError> {
        self.simple("Leaving", GroupEvent::Leaving(self.instance))?;
        self.cloud.lock().replaced.push(self.instance);
        Ok(true)
    }

    fn replace(&mut self, instance: &str) -> Result<(), FleetError> {
        let number = instance.rsplit('-').next().and_then(|number| number.parse().ok()).map(Instance);
        let instance = number.ok_or_else(|| FleetError::Refused(format!("there is no instance {instance}")))?;
        self.cloud.lock().requests.push(Asked::Replace(instance.0));
        self.simple("Replace", GroupEvent::Replace(instance))
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        self.simple("Terminate", GroupEvent::Terminate(self.instance))
    }
}
