//! Leases of owners in a store: who holds windows is there as long as its lease exists (`crate::lease::owner`).
//!
//! [`OwnerStore`] is what a store must do. It need not be able to elect: there is one lease per owner, and nobody competes for it.

mod directory;
mod keeper;
mod stall;
mod swift;
mod table;

use super::store::StoreError;
use crate::lease::owner::StoredLease;
use std::time::Duration;

pub use directory::Directory;
pub use keeper::{Keeper, Standing, Watch};
pub use stall::StallDetector;
pub use swift::Swift;
pub use table::Table;

/// Outcome of a renewal that the store has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    Done,
    /// There is no lease any more.
    Gone,
}

/// Keeps leases by the names of their owners, which are letters and digits. Calls block, for no longer than `within`.
pub trait OwnerStore: Send {
    /// Creates the owner's lease. One that has expired is created again.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn acquire(&mut self, owner: &str, within: Duration) -> Result<(), StoreError>;

    /// Prolongs the owner's lease by a whole expire window from now.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn renew(&mut self, owner: &str, within: Duration) -> Result<Renewed, StoreError>;

    /// Ends the lease.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn release(&mut self, owner: &str, within: Duration) -> Result<(), StoreError>;

    /// Returns what the store has under the name. An error never means that the lease is gone.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn look(&mut self, owner: &str, within: Duration) -> Result<StoredLease, StoreError>;
}
