//! Simulated market and log replay: what `elastick feed` sends, and the audit of what was accepted.
//!
//! [`curve`], [`pace`], [`universe`], [`shape`], [`market`], [`update`] and [`doubt`] are pure: the same options give the same bytes.

pub mod curve;
pub mod doubt;
pub mod ledger;
pub mod market;
pub mod pace;
pub mod publisher;
pub mod replay;
pub mod run;
pub mod shape;
pub mod trouble;
pub mod universe;
pub mod update;
