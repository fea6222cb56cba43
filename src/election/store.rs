//! A store of leases.

use crate::lease::{LeaseRecord, LeaseWrite, Written};
use std::time::Duration;

/// Why a store has not carried out a call, in words for an operator that stay the same from attempt to attempt. A write may have been applied
/// all the same, or may be applied later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Repeating the call does not help: the table, the item or the URL is not one for a lease.
    #[error("{0}")]
    Unfit(String),
    /// The store was not reached, has not answered in time, or rejects the credentials.
    #[error("{0}")]
    Failed(String),
}

/// Keeps one record. Calls block, for no longer than `within`, and are made by one thread.
pub trait Store: Send {
    /// Reads the record as every write answered so far has left it; `None` if there is none.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn read(&mut self, within: Duration) -> Result<Option<LeaseRecord>, StoreError>;

    /// Applies a write if its condition holds, whole or not at all. In Swift ([`super::swift`]) another write may come between the check and the write:
    /// that store is only for tickerplants that the log fences.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn write(&mut self, write: &LeaseWrite, within: Duration) -> Result<Written, StoreError>;
}
