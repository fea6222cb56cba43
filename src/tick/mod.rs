//! The tickerplant.

pub mod clock;
pub mod core;
pub mod day;
pub mod feed;
pub mod filter;
pub mod lane;
pub mod merge;
pub mod quarantine;
pub mod subscriptions;
