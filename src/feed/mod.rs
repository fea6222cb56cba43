//! The simulated market, and playing logs back: what `elastick feed` sends and how it keeps account of it.
//!
//! [`curve`], [`pace`], [`universe`], [`shape`], [`market`], [`update`] and [`doubt`] are pure: the same options make the
//! same bytes.

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
