//! Simulated days: the production code on virtual time, with a disk, network, fleet and clocks that fail as real ones do, and an auditor
//! with its own records. `model` checks every order of events up to a bound. Design and use: `sim/README.md`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

mod ahead;
mod audit;
mod chaos;
mod clients;
mod clock;
mod cloud;
mod contest;
pub mod copies;
mod day;
mod disk;
mod feeds;
mod hosts;
mod launches;
pub mod lease;
mod line;
mod links;
mod mistakes;
pub mod model;
mod mounts;
pub mod mutants;
mod node;
mod numbered;
mod plan;
#[cfg(test)]
mod planted;
mod process;
mod progress;
mod proofs;
mod reading;
mod report;
mod rng;
mod run;
#[cfg(test)]
mod schema_kills;
mod schemas;
mod servers;
mod sleep;
mod takeover;
#[cfg(test)]
mod tests;
mod tick;
mod trace;
mod transitions;
mod world;

pub use plan::Faults;
pub use report::Report;
pub use run::{Cluster, Failure, Options, Progress, run, run_seed};
