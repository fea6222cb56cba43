//! What the fleet was asked and what came of it, for the node's metrics.

use crate::fleet::{Description, FleetError};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that is none before the first look at the group.
#[derive(Debug)]
pub struct Seen(AtomicU64);

impl Default for Seen {
    fn default() -> Seen {
        Seen(AtomicU64::new(u64::MAX))
    }
}

impl Seen {
    fn set(&self, value: u32) {
        self.0.store(u64::from(value), Ordering::Relaxed);
    }

    pub fn get(&self) -> Option<u32> {
        u32::try_from(self.0.load(Ordering::Relaxed)).ok()
    }
}

/// Written by the thread that talks to the fleet, read by whoever publishes.
#[derive(Debug, Default)]
pub struct CapacityCounters {
    /// Requests of the node for a successor.
    pub asked: Count,
    pub granted: Count,
    /// Requests that the fleet did not grant, or could not be asked.
    pub refused: Count,
    /// Launched instances that never joined.
    pub late: Count,
    /// Those of them that were replaced.
    pub replaced: Count,
    /// Calls that the fleet put off.
    pub throttled: Count,
    /// Calls that failed in any other way.
    pub api_errors: Count,
    /// The group as last seen.
    pub desired: Seen,
    pub max: Seen,
    /// Instances that the desired capacity counts.
    pub instances: Seen,
}

impl CapacityCounters {
    pub(super) fn count(&self, error: &FleetError) {
        match error {
            FleetError::Busy { .. } => self.throttled.add(),
            _ => self.api_errors.add(),
        }
    }

    pub(super) fn saw(&self, group: &Description) {
        self.desired.set(group.desired);
        self.max.set(group.max);
        let counting = group.members.iter().filter(|member| member.counts()).count();
        self.instances.set(u32::try_from(counting).unwrap_or(u32::MAX));
    }
}
