//! What any process of elastick tells of itself.

use super::counts;
use super::snapshot::Snapshot;
use super::table::Id;
use crate::sys::process;

/// Cargo features that this binary was built with, in alphabetical order.
const FEATURES: &str = if cfg!(feature = "aws") { "aws" } else { "" };

/// Process figures, build, and what is counted for the whole process.
pub fn put(snapshot: &mut Snapshot) {
    snapshot.add(Id::BuildInfo, &[env!("CARGO_PKG_VERSION"), FEATURES], true);
    let figures = process::figures().ok();
    snapshot.set(Id::StartTime, figures.map(|figures| figures.start_time_seconds));
    snapshot.set(Id::CpuSeconds, figures.map(|figures| figures.cpu_seconds));
    snapshot.set(Id::ResidentBytes, figures.map(|figures| figures.resident_bytes));
    snapshot.set(Id::OpenFds, process::open_fds().ok());
    snapshot.set(Id::MaxFds, process::max_fds());
    counts::put(snapshot);
}
