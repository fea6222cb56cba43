//! A node (`elastick rdb`): one real-time database process of a queue. See `README.md` beside this file.

mod asker;
pub mod capacity;
pub mod day_end;
pub mod deadline_lock;
pub mod effects;
mod entitled;
pub mod figures;
pub mod globals;
pub mod host;
pub mod ingest;
pub mod intake;
pub mod job_queue;
pub mod meter;
pub mod node;
pub mod options;
pub mod outlet;
pub mod policy;
pub mod pool;
pub mod printer;
pub mod report;
pub mod scope;
pub mod service;
pub mod shared;
pub mod update;
pub mod windows;
