//! Watches the fulfilment of requests: instances that never join the queue, capacity that stays unfilled, and capacity
//! lowered by a concurrent request. Pure.

use crate::fleet::Description;
use std::collections::{BTreeMap, BTreeSet};

/// A problem of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchFault {
    /// An instance has been present too long without joining: replace it.
    Late { instance: String, waited_ns: u64 },
    /// The group has had fewer instances than desired for too long: launches fail.
    Missing { instances: u32, desired: u32 },
    /// The capacity is lower again than granted: repeat the request.
    SetBack { desired: u32, granted: u32 },
}

/// Instances missing for the launch timeout divided by this are reported.
const MISSING_PART: u64 = 4;

/// Watch over one group by one node.
#[derive(Clone, Debug)]
pub struct Launches {
    timeout_ns: u64,
    own: String,
    /// Instances with a node in the queue; empty while unknown.
    joined: BTreeSet<String>,
    /// Instances that ever had a node in the queue, and so are never late.
    known: BTreeSet<String>,
    /// When each instance was first seen without having joined.
    since_ns: BTreeMap<String, u64>,
    replaced: BTreeSet<String>,
    missing_since_ns: Option<u64>,
    missing_reported: bool,
    /// Granted capacity until the group has reached it, and the number of instances at the last check.
    granted: Option<(u32, u32)>,
}

impl Launches {
    /// `own` is this instance; `timeout_ns` the time that an instance has to join.
    pub fn new(own: &str, timeout_ns: u64) -> Launches {
        Launches {
            timeout_ns,
            own: own.to_string(),
            joined: BTreeSet::new(),
            known: BTreeSet::new(),
            since_ns: BTreeMap::new(),
            replaced: BTreeSet::new(),
            missing_since_ns: None,
            missing_reported: false,
            granted: None,
        }
    }

    /// Records the joined instances, as reported by the tickerplant; empty while it is unreachable.
    pub fn joined(&mut self, instances: impl IntoIterator<Item = String>) {
        self.joined = instances.into_iter().collect();
        self.known.extend(self.joined.iter().cloned());
        if self.joined.is_empty() {
            // No instance can join without a tickerplant: timeouts start again afterwards.
            self.since_ns.clear();
        }
    }

    /// Returns whether the joined instances are known.
    pub fn watches(&self) -> bool {
        !self.joined.is_empty()
    }

    /// Records granted capacity.
    pub fn granted(&mut self, desired: u32) {
        self.granted = Some((desired, 0));
    }

    /// Drops the granted capacity: after the end of the day, fewer instances are intended.
    pub fn forget(&mut self) {
        self.granted = None;
    }

    /// Returns whether a change of the group is expected, so that it should be described again soon.
    pub fn expects(&self) -> bool {
        self.granted.is_some() || !self.since_ns.is_empty() || self.missing_since_ns.is_some()
    }

    /// Compares the group with what is expected of it.
    pub fn check(&mut self, group: &Description, now_ns: u64) -> Vec<LaunchFault> {
        let mut faults = self.late(group, now_ns);
        let instances = group.members.iter().filter(|member| member.counts()).count();
        let instances = u32::try_from(instances).unwrap_or(u32::MAX);
        faults.extend(self.missing(instances, group.desired, now_ns));
        if let Some((granted, had)) = self.granted.take() {
            if instances < had || instances >= granted {
                // Fulfilled; or instances have ended and taken their capacity with them.
            } else if group.desired < granted {
                faults.push(LaunchFault::SetBack { desired: group.desired, granted });
            } else {
                self.granted = Some((granted, instances));
            }
        }
        faults
    }

    fn late(&mut self, group: &Description, now_ns: u64) -> Vec<LaunchFault> {
        let present: BTreeSet<&str> = group.members.iter().map(|member| member.instance.as_str()).collect();
        self.since_ns.retain(|instance, _| present.contains(instance.as_str()));
        self.known.retain(|instance| present.contains(instance.as_str()));
        self.replaced.retain(|instance| present.contains(instance.as_str()));
        // A list without this node is outdated or of another group.
        if !self.joined.contains(&self.own) {
            return Vec::new();
        }
        let mut late = Vec::new();
        for member in group.members.iter().filter(|member| member.counts()) {
            let instance = &member.instance;
            if self.known.contains(instance) || self.replaced.contains(instance) {
                self.since_ns.remove(instance);
                continue;
            }
            let since_ns = *self.since_ns.entry(instance.clone()).or_insert(now_ns);
            let waited_ns = now_ns.saturating_sub(since_ns);
            if waited_ns >= self.timeout_ns {
                self.since_ns.remove(instance);
                self.replaced.insert(instance.clone());
                late.push(LaunchFault::Late { instance: instance.clone(), waited_ns });
            }
        }
        late
    }

    fn missing(&mut self, instances: u32, desired: u32, now_ns: u64) -> Option<LaunchFault> {
        if instances >= desired {
            self.missing_since_ns = None;
            self.missing_reported = false;
            return None;
        }
        let since_ns = *self.missing_since_ns.get_or_insert(now_ns);
        if self.missing_reported || now_ns.saturating_sub(since_ns) < self.timeout_ns / MISSING_PART {
            return None;
        }
        self.missing_reported = true;
        Some(LaunchFault::Missing { instances, desired })
    }
}
