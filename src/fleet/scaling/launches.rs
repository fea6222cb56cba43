//! Watching that what was asked for comes: instances that never join the queue, capacity that is never filled, and a
//! capacity that someone has set back. Pure.

use crate::fleet::Description;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// An instance has been there for too long without joining: it is to be replaced.
    Late { instance: String, waited_ns: u64 },
    /// The group has had fewer instances than desired for too long: they cannot be launched.
    Missing { instances: u32, desired: u32 },
    /// The capacity is lower again than was granted: to be asked for again.
    SetBack { desired: u32, granted: u32 },
}

/// Part of the time to join after which an instance that is not even there is missed.
const MISSING_PART: u64 = 4;

/// Watches one group from one node.
#[derive(Clone, Debug)]
pub struct Launches {
    timeout_ns: u64,
    own: String,
    /// Instances that have a node in the queue; empty while that is not known.
    joined: BTreeSet<String>,
    /// All that ever had one: such a one is not late, whatever became of it.
    known: BTreeSet<String>,
    /// Since when an instance has been seen without having joined.
    since_ns: BTreeMap<String, u64>,
    replaced: BTreeSet<String>,
    missing_since_ns: Option<u64>,
    missing_told: bool,
    /// What was granted, until the group has had so many instances; and how many it has had since.
    granted: Option<(u32, u32)>,
}

impl Launches {
    /// An instance has `timeout_ns` to join; `own` is this one.
    pub fn new(own: &str, timeout_ns: u64) -> Launches {
        Launches {
            timeout_ns,
            own: own.to_string(),
            joined: BTreeSet::new(),
            known: BTreeSet::new(),
            since_ns: BTreeMap::new(),
            replaced: BTreeSet::new(),
            missing_since_ns: None,
            missing_told: false,
            granted: None,
        }
    }

    /// Who has joined, as the tickerplant says; empty while it cannot be asked.
    pub fn joined(&mut self, instances: impl IntoIterator<Item = String>) {
        self.joined = instances.into_iter().collect();
        self.known.extend(self.joined.iter().cloned());
        if self.joined.is_empty() {
            // Nobody's time runs while nobody can join.
            self.since_ns.clear();
        }
    }

    /// Whether it is known who has joined.
    pub fn watches(&self) -> bool {
        !self.joined.is_empty()
    }

    /// The group has granted so many instances.
    pub fn granted(&mut self, desired: u32) {
        self.granted = Some((desired, 0));
    }

    /// The day is over: fewer instances are as wanted.
    pub fn forget(&mut self) {
        self.granted = None;
    }

    /// Whether something is expected of the group, so that it is worth looking soon again.
    pub fn expects(&self) -> bool {
        self.granted.is_some() || !self.since_ns.is_empty() || self.missing_since_ns.is_some()
    }

    /// Looks at the group as it is now.
    pub fn look(&mut self, group: &Description, now_ns: u64) -> Vec<Trouble> {
        let mut troubles = self.late(group, now_ns);
        let instances = group.members.iter().filter(|member| member.counts()).count();
        let instances = u32::try_from(instances).unwrap_or(u32::MAX);
        troubles.extend(self.missing(instances, group.desired, now_ns));
        if let Some((granted, had)) = self.granted.take() {
            if instances < had || instances >= granted {
                // Filled; or instances have gone, and the capacity with them.
            } else if group.desired < granted {
                troubles.push(Trouble::SetBack { desired: group.desired, granted });
            } else {
                self.granted = Some((granted, instances));
            }
        }
        troubles
    }

    fn late(&mut self, group: &Description, now_ns: u64) -> Vec<Trouble> {
        let present: BTreeSet<&str> = group.members.iter().map(|member| member.instance.as_str()).collect();
        self.since_ns.retain(|instance, _| present.contains(instance.as_str()));
        self.known.retain(|instance| present.contains(instance.as_str()));
        self.replaced.retain(|instance| present.contains(instance.as_str()));
        // A list without this node is of another time, or of another group.
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
                late.push(Trouble::Late { instance: instance.clone(), waited_ns });
            }
        }
        late
    }

    fn missing(&mut self, instances: u32, desired: u32, now_ns: u64) -> Option<Trouble> {
        if instances >= desired {
            self.missing_since_ns = None;
            self.missing_told = false;
            return None;
        }
        let since_ns = *self.missing_since_ns.get_or_insert(now_ns);
        if self.missing_told || now_ns.saturating_sub(since_ns) < self.timeout_ns / MISSING_PART {
            return None;
        }
        self.missing_told = true;
        Some(Trouble::Missing { instances, desired })
    }
}
