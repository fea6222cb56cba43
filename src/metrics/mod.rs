//! What can be watched: one [`table`] that defines every metric once, snapshots of their values, and Prometheus text.
//!
//! A process fills a [`Snapshot`] when someone asks for one, from plain numbers that it keeps anyway; nothing is counted for
//! each row. What happens in many places is counted in [`counts`]: what limits refused, for one.

pub mod counts;
pub mod list;
pub mod periods;
pub mod process;
pub mod prometheus;
pub mod snapshot;
pub mod table;
pub mod tap;

pub use counts::{count, refused, refused_by, refused_times};
pub use snapshot::Snapshot;
pub use table::{Id, Kind, Metric, Of, Process, Unit};
pub use tap::{Request, Tap};
