//! Durations of a lease, and the rules between them.

use std::time::Duration;

/// Clocks may run apart by one part in this many: an owner counts its lease as shorter by that part.
const DRIFT_PARTS: u64 = 6;

/// Durations of a lease. All are measured on the own monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How long others must see an unchanged record before they may take the lease.
    pub lease_ns: u64,
    /// Interval between renewals of the active process.
    pub heartbeat_ns: u64,
    /// Interval between reads of a passive process.
    pub poll_ns: u64,
    /// Pause before a failed call is repeated.
    pub retry_ns: u64,
    /// Go on after the end of the lease while the store does not answer. Only for processes that are fenced by the log itself, too.
    pub holds_without_store: bool,
}

/// Rejected durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    #[error(
        "a lease of {lease:?} is shorter than twice its heartbeat of {heartbeat:?}: there would be no time to repeat a lost renewal"
    )]
    Short { lease: Duration, heartbeat: Duration },
    #[error("a heartbeat of {0:?} is too short: the shortest is 10 ms")]
    Heartbeat(Duration),
}

impl Terms {
    /// Shortest heartbeat.
    pub const HEARTBEAT_MIN_NS: u64 = 10_000_000;

    /// Returns the terms of a lease; a passive process reads twice per heartbeat, and a failed call is repeated after a quarter.
    ///
    /// # Errors
    /// A lease shorter than twice its heartbeat, or a heartbeat under 10 ms.
    pub fn new(lease: Duration, heartbeat: Duration) -> Result<Terms, TermsError> {
        let [lease_ns, heartbeat_ns] =
            [lease, heartbeat].map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if heartbeat_ns < Terms::HEARTBEAT_MIN_NS {
            return Err(TermsError::Heartbeat(heartbeat));
        }
        if heartbeat_ns.checked_mul(2).is_none_or(|least_ns| lease_ns < least_ns) {
            return Err(TermsError::Short { lease, heartbeat });
        }
        Ok(Terms {
            lease_ns,
            heartbeat_ns,
            poll_ns: heartbeat_ns / 2,
            retry_ns: heartbeat_ns / 4,
            holds_without_store: false,
        })
    }

    /// How long the owner counts on its lease after it sent a renewal: less than others wait, so that their clocks may run faster than its
    /// own by a fifth.
    pub fn usable_ns(&self) -> u64 {
        self.lease_ns.saturating_sub(self.lease_ns / DRIFT_PARTS)
    }

    /// Time since the last renewal from which the owner is in the danger zone: the lease may end before a renewal succeeds.
    pub fn danger_ns(&self) -> u64 {
        self.usable_ns().saturating_add(self.heartbeat_ns) / 2
    }
}
