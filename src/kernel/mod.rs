//! Loops over vectors: what queries on big tables spend their time in. Knows no values, no tables, no q.

pub mod sym;
