//! A node of the elastic real-time database.

pub mod capacity;
pub mod ingest;
pub mod intake;
pub mod messages;
pub mod meter;
pub mod options;
pub mod policy;
pub mod shared;
pub mod update;
pub mod windows;
