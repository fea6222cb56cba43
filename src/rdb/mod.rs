//! A node of the elastic real-time database.

pub mod intake;
pub mod policy;
pub mod update;
pub mod windows;
