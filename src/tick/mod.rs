//! The tickerplant.

pub mod core;
pub mod day;
