//! OpenStack Swift: a client of one container, and the lease of tickerplants in an object ([`SwiftStore`]).
//!
//! Swift has no create that only one of several clients wins, and no conditional `POST`. So a lease there says who is alive, and something else has to
//! decide who writes: the lock and the epoch of the log (`--lease-fence file:`). The leases of owners (`super::owner::Swift`) elect nobody.

pub mod client;
mod record;
mod store;

pub use store::SwiftStore;
