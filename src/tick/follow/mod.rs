//! Tickerplants without a common disk: one copies the log of another one, update by update, and can take over with it.
//!
//! [`joining`], [`replicas`] and [`in_sync`] decide, and are pure: how a copy is taken up, when an update counts as copied, and which copies may take over. `serve` reads the log of the active
//! tickerplant for its followers. `copier` is the thread of a follower, and `service` what it answers to clients.

pub mod copier;
mod copy;
mod ended;
pub mod in_sync;
pub mod joining;
pub mod own_copy;
pub mod replicas;
pub mod serve;
pub mod service;
mod status;
mod stop;
