//! The tickerplant.

pub mod core;
pub mod day;
pub mod feed;
pub mod filter;
pub mod lane;
