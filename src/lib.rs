//! elastick: a kdb+-compatible tickerplant whose real-time database is an elastic queue of small servers.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

#[cfg(all(feature = "points", not(debug_assertions)))]
compile_error!("the feature `points` stops and kills processes on request: no release may have it");

pub use columns::{kernel, sys, table};
pub use q;

pub mod access;
pub mod audit;
pub mod cli;
pub mod config;
pub mod election;
pub mod env;
pub mod feed;
pub mod fleet;
pub mod lease;
pub mod log;
pub mod metrics;
pub mod monitor;
pub mod net;
pub mod plan;
pub mod points;
pub mod protocol;
pub mod queue;
pub mod rdb;
pub mod tick;
