//! What a store holds under a lease's key, and the writes that change it.

use super::copies::Copies;
use super::epoch::Epoch;

/// Name of a process that may own the lease; another one at each start of the process.
pub type OwnerName = String;

/// Version of a record: another text at each write, never used twice.
pub type RecordVersion = String;

/// The record as a read found it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRecord {
    pub owner: OwnerName,
    pub version: RecordVersion,
    /// Duration that the owner has promised to renew within. A store that keeps coarser units rounds up.
    pub lease_ns: u64,
    /// The owner has given the lease back.
    pub is_released: bool,
    /// Process for which a released lease is kept for one duration.
    pub successor: Option<OwnerName>,
    /// Number of the lease, [`Epoch`] 0 if another kind of client has written the record without one.
    pub epoch: Epoch,
    /// Copies of the log that have every acknowledged update; none where there is one log.
    pub copies: Copies,
    /// An operator has paused take-overs: only a process at the owner's address may take the lease, or a named successor.
    pub is_paused: bool,
}

/// A conditional write. A store applies it whole or not at all. `copies` are those that the record names from then on; `None` leaves them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseWrite {
    /// If there is no record: makes one.
    Create { version: RecordVersion, epoch: Epoch, copies: Option<Copies> },
    /// If the record has the version `from`, and is released if `was_released` says so: makes the writer its owner, under the new epoch.
    Take { from: RecordVersion, was_released: bool, version: RecordVersion, epoch: Epoch, copies: Option<Copies> },
    /// Condition: the record has the version `from`, is the writer's own, and is not released. Replaces the version, and the copies.
    Renew { from: RecordVersion, version: RecordVersion, copies: Option<Copies> },
    /// Condition as of `Renew`. Marks the record as released, for a successor if one is named.
    Release { from: RecordVersion, successor: Option<OwnerName>, copies: Option<Copies> },
    /// Condition: the record has the version `from`, and is released. Names these copies; for operators.
    Name { from: RecordVersion, copies: Copies },
    /// If there is a record: pauses take-overs, or ends that. Leaves the version, so it changes nothing for the owner.
    Pause(bool),
}

impl LeaseWrite {
    /// Copies that the record names from then on; `None` if the write leaves them.
    pub fn copies(&self) -> Option<&Copies> {
        match self {
            LeaseWrite::Create { copies, .. }
            | LeaseWrite::Take { copies, .. }
            | LeaseWrite::Renew { copies, .. }
            | LeaseWrite::Release { copies, .. } => copies.as_ref(),
            LeaseWrite::Name { copies, .. } => Some(copies),
            LeaseWrite::Pause(_) => None,
        }
    }
}
