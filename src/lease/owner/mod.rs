//! Leases of owners: one per process that holds windows, which says that the process is there. Pure. Nothing is elected by such a lease, and no write
//! depends on it: it is what `elastick gc` compares with the queue. `docs/owners.md` has the rules.

mod keeping;
mod observer;

#[cfg(test)]
mod tests;

pub use keeping::{OwnerAction, OwnerEvent, OwnerLease, OwnerWindows};
pub use observer::{Liveness, Observer, StoredLease};
