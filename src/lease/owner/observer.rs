//! The observer's side: whether the lease of an owner exists.

/// What a store has under an owner's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoredLease {
    /// No lease, or one that has been given back or has ended by the store's own clock.
    Absent,
    /// A lease that the store itself ends when its time is over.
    Kept,
    /// A record that the store keeps for ever: it is over once it has not changed for this long.
    Recorded { version: String, lasts_ns: u64 },
}

/// Whether an owner is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Liveness {
    Alive,
    Gone,
    /// Look again, by this time at the latest.
    Unknown {
        until_ns: u64,
    },
}

/// Looks at one lease, by the observer's own monotonic clock: clocks of different hosts are never compared.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    /// Version that was seen first, and when.
    first: Option<(String, u64)>,
}

impl Observer {
    /// Takes in an answer of the store; `now_ns` is the time after the call.
    pub fn look(&mut self, stored: StoredLease, now_ns: u64) -> Liveness {
        match stored {
            StoredLease::Absent => Liveness::Gone,
            StoredLease::Kept => Liveness::Alive,
            StoredLease::Recorded { version, lasts_ns } => match &self.first {
                None => {
                    self.first = Some((version, now_ns));
                    Liveness::Unknown { until_ns: now_ns.saturating_add(lasts_ns) }
                }
                Some((before, _)) if *before != version => Liveness::Alive,
                Some((_, since_ns)) => match since_ns.saturating_add(lasts_ns) {
                    until_ns if until_ns <= now_ns => Liveness::Gone,
                    until_ns => Liveness::Unknown { until_ns },
                },
            },
        }
    }
}
