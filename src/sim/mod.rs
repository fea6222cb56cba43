//! Simulated days: the production code in a world of virtual time, with a disk, a network, a fleet and clocks that fail as real
//! ones do, and an auditor who keeps books of his own. How it is built, and how to go on: `src/sim/README.md`.

mod ahead;
mod audit;
mod chaos;
mod clients;
mod cloud;
mod day;
mod disk;
mod feeds;
mod hosts;
mod line;
mod links;
mod mistakes;
pub mod model;
mod mounts;
mod node;
mod plan;
#[cfg(test)]
mod planted;
mod proofs;
mod report;
mod rng;
mod run;
mod schemas;
mod servers;
mod takeover;
#[cfg(test)]
mod tests;
mod tick;
mod trace;
mod transitions;
mod world;

pub use plan::Faults;
pub use report::Report;
pub use run::{Failure, Options, Progress, run, run_seed};
