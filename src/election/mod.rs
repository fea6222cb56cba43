//! Holds the lease by which one of several tickerplants is active: a thread drives the pure core ([`crate::lease`]) against a store.
//!
//! [`Election`] is the handle of the process; [`Tenure`] is what other threads read. `README.md` of `crate::lease` has the rules.

mod caller;
mod driver;
#[cfg(feature = "aws")]
pub mod dynamodb;
mod input;
mod others;
pub mod owner;
mod store;
pub mod swift;
mod tenure;

#[cfg(test)]
mod set_clock;
#[cfg(test)]
mod tests;

pub use driver::{Election, ElectionOptions};
pub use store::{Store, StoreError};
pub use tenure::{Ends, Tenure, View, Waker};
