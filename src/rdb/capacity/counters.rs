//! Counters of fleet requests and their results, for the node's metrics.

use crate::fleet::{Description, FleetError};
use std::sync::atomic::{AtomicU64, Ordering};

/// A monotonic counter.
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

/// A gauge; `None` before the first description of the group.
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

/// Written by the fleet thread, read by the metrics page.
#[derive(Debug, Default)]
pub struct CapacityCounters {
    /// Requests for a successor.
    pub requested: Count,
    pub granted: Count,
    /// Requests that the fleet rejected or that did not reach it.
    pub refused: Count,
    /// Launched instances that never joined.
    pub late: Count,
    /// Late instances that were replaced.
    pub replaced: Count,
    /// Throttled calls.
    pub throttled: Count,
    /// Calls that failed in any other way.
    pub api_errors: Count,
    /// Desired and maximum capacity of the group as last described.
    pub desired: Seen,
    pub max: Seen,
    /// Instances that count towards the desired capacity.
    pub instances: Seen,
}

impl CapacityCounters {
    pub(super) fn count(&self, error: &FleetError) {
        match error {
            FleetError::Busy { .. } => self.throttled.add(),
            _ => self.api_errors.add(),
        }
    }

    pub(super) fn described(&self, group: &Description) {
        self.desired.set(group.desired);
        self.max.set(group.max);
        let counting = group.members.iter().filter(|member| member.counts()).count();
        self.instances.set(u32::try_from(counting).unwrap_or(u32::MAX));
    }
}
