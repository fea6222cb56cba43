//! Loops over slices, where queries on large tables spend their time. Independent of values, tables and q.

pub mod asof;
pub mod blocks;
pub mod codes;
pub mod digest;
pub mod index;
pub mod keys;
pub mod merge;
pub mod num;
pub mod partial;
pub mod sym;
pub mod windows;
pub mod zip;

#[cfg(test)]
mod tests;
