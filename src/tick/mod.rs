//! The tickerplant.

pub mod day;
