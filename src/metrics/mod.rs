//! Metrics: one [`table`] that defines each metric once, snapshots of their values, and Prometheus text.
//!
//! A process fills a [`Snapshot`] on request, from numbers that it keeps anyway; nothing is counted per row. Events that occur in many
//! places, such as rejections by limits, are counted in [`counts`].

pub mod bugs;
pub mod counts;
pub mod health;
pub mod list;
pub mod periods;
pub mod process;
pub mod prometheus;
pub mod snapshot;
pub mod table;
pub mod tap;

pub use counts::{count, count_times, refused, refused_by, refused_times};
pub use health::{Health, HealthWatch};
pub use snapshot::Snapshot;
pub use table::{Id, Kind, Metric, Of, Process, Unit};
pub use tap::{SnapshotRequest, Tap};
