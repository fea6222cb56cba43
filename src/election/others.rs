//! What a passive process says of another one's lease: that it lasts long, or that both processes have one address.

use crate::config::lease::MAX_DURATION;
use crate::lease::{Lease, OwnerName, RecordVersion, Standing, address_of};
use std::time::Duration;

/// Renewals after which an owner with the own address is another process: a process before this one may have left one on its way.
const RENEWALS: u32 = 2;

/// The owner's record as it was last looked at.
#[derive(Debug, Default)]
pub(super) struct Others {
    seen: Option<(OwnerName, RecordVersion)>,
    renewals: u32,
}

impl Others {
    /// Looks at the record again. Returns the lease's duration if it is longer than one of ours may be, and whether a process with the own address
    /// renews it.
    pub fn look(&mut self, lease: &Lease) -> (Option<Duration>, bool) {
        let record = lease.seen().map(|(record, _)| record);
        let Some(record) = record.filter(|record| lease.standing() == Standing::Passive && !record.is_released) else {
            *self = Others::default();
            return (None, false);
        };
        match &self.seen {
            Some((owner, version)) if *owner == record.owner => {
                self.renewals = self.renewals.saturating_add(u32::from(*version != record.version))
            }
            _ => self.renewals = 0,
        }
        self.seen = Some((record.owner.clone(), record.version.clone()));
        let is_same_address = address_of(&record.owner) == address_of(lease.name());
        let lasts = Duration::from_nanos(record.lease_ns);
        ((lasts > MAX_DURATION).then_some(lasts), is_same_address && self.renewals >= RENEWALS)
    }
}
