//! A node of the elastic real-time database.

pub mod policy;
