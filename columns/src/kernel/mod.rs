//! Loops over vectors: what queries on big tables spend their time in. Knows no values, no tables, no q.

pub mod asof;
pub mod codes;
pub mod digest;
pub mod keys;
pub mod merge;
pub mod num;
pub mod partial;
pub mod sym;
pub mod windows;
pub mod zip;

#[cfg(test)]
mod tests;
