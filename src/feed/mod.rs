//! The simulated market, and playing logs back: what `elastick feed` sends and how it keeps account of it.
//!
//! [`curve`], [`pace`], [`universe`], [`shape`] and [`market`] are pure: the same options make the same bytes.

pub mod curve;
pub mod market;
pub mod pace;
pub mod shape;
pub mod universe;
