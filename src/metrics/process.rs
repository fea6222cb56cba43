//! Metrics that every process of elastick has.

use super::counts;
use super::snapshot::Snapshot;
use super::table::Id;
use crate::sys::process;
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

/// Cargo features of this binary, in alphabetical order.
const FEATURES: &str = if cfg!(feature = "aws") { "aws" } else { "" };

/// Writes process figures, build information and process-wide counters.
pub fn put(snapshot: &mut Snapshot) {
    snapshot.add(Id::BuildInfo, &[env!("CARGO_PKG_VERSION"), FEATURES], true);
    let figures = Figures::read();
    snapshot.set(Id::StartTime, figures.map(|figures| figures.start_time_seconds));
    snapshot.set(Id::CpuSeconds, figures.map(|figures| figures.cpu_seconds));
    snapshot.set(Id::ResidentBytes, figures.map(|figures| figures.resident_bytes));
    snapshot.set(Id::OpenFds, process::open_fds().ok());
    snapshot.set(Id::MaxFds, process::max_fds());
    counts::put(snapshot);
}

/// Memory, CPU time and start time of this process.
#[derive(Clone, Copy, Debug)]
struct Figures {
    resident_bytes: u64,
    /// User and system time of all threads.
    cpu_seconds: f64,
    /// Since 1970.
    start_time_seconds: u64,
}

impl Figures {
    fn read() -> Option<Figures> {
        let own = sysinfo::get_current_pid().ok()?;
        let wanted = ProcessRefreshKind::nothing().with_memory().with_cpu().without_tasks();
        let mut system = System::new().ok()?;
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, wanted);
        let process = system.process(own)?;
        Some(Figures {
            resident_bytes: process.memory(),
            cpu_seconds: process.accumulated_cpu_time() as f64 / 1000.0,
            start_time_seconds: process.start_time(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_figures() {
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 30 {}
        let figures = Figures::read().expect("figures");
        assert!(figures.resident_bytes > 1 << 20 && figures.start_time_seconds > 1_000_000_000, "{figures:?}");
        assert!(figures.cpu_seconds > 0.0 && figures.cpu_seconds < 1e6, "{figures:?}");
    }
}
