//! elastick: a kdb+-compatible tickerplant whose real-time database is an elastic queue of small servers.

#![deny(unsafe_code)]

pub mod cli;
pub mod config;
pub mod defect;
pub mod feed;
pub mod fleet;
#[allow(unsafe_code)]
pub mod kernel;
pub mod lease;
pub mod log;
pub mod metrics;
pub mod monitor;
pub mod net;
pub mod points;
pub mod q;
pub mod queue;
pub mod rdb;
pub mod sim;
#[allow(unsafe_code)]
pub mod sys;
pub mod table;
pub mod tick;
