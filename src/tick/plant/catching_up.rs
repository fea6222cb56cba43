//! Reads of the log for subscribers in catch-up: the thread that reads, and the logs that it may still need.

use crate::log::{LogSource, Waker};
use crate::net::ConnId;
use crate::tick::catchup::{self, Done, Job, Part, Setup};
use crate::tick::feed::ReadJob;
use crate::tick::worker::Worker;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// How long a log that another thread writes may take to show accepted updates.
const VISIBLE_WITHIN: Duration = Duration::from_secs(10);

/// Logs by the feed's day number.
#[derive(Default)]
struct Logs(BTreeMap<u32, LogSource>);

impl Logs {
    fn forget_before(&mut self, oldest_day: u32) {
        self.0.retain(|day, _| *day >= oldest_day);
    }
}

/// The catch-up thread and its logs.
pub(super) struct CatchUp {
    worker: Worker<Job<ConnId>, Option<Done<ConnId>>>,
    logs: Logs,
    /// A catch-up reader has the log open; close it once no subscriber is in catch-up.
    is_reading: bool,
}

impl CatchUp {
    /// Starts the thread; `log`: the log of the feed's first day.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(setup: Setup, waker: Waker, log: Option<LogSource>) -> io::Result<CatchUp> {
        let logs = Logs(log.into_iter().map(|log| (0, log)).collect());
        Ok(CatchUp { worker: catchup::start(setup, waker)?, logs, is_reading: false })
    }

    /// Adds the log of a new day.
    pub fn add(&mut self, day: u32, log: LogSource) {
        self.logs.0.insert(day, log);
    }

    /// Forgets logs that no subscriber needs any more.
    pub fn forget_before(&mut self, oldest_day: u32) {
        self.logs.forget_before(oldest_day);
    }

    /// Returns the log of one of the feed's days.
    pub fn log_of(&self, day: u32) -> Option<LogSource> {
        self.logs.0.get(&day).cloned()
    }

    /// Reads a part of a log; `writes_behind`: another thread writes it.
    pub fn read(&mut self, read: ReadJob<ConnId>, log: LogSource, writes_behind: bool) {
        self.is_reading = true;
        let visible_within = if writes_behind { VISIBLE_WITHIN } else { Duration::ZERO };
        self.worker.submit(Job::Read(Part { read, log, visible_within }));
    }

    /// Closes the logs once no subscriber is in catch-up.
    pub fn close_unused(&mut self, behind: usize) {
        if self.is_reading && behind == 0 {
            self.is_reading = false;
            self.worker.submit(Job::CloseLog);
        }
    }

    /// Returns what was read, if anything.
    pub fn result(&self) -> Option<Done<ConnId>> {
        std::iter::from_fn(|| self.worker.result()).flatten().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn logs_are_kept_from_the_oldest_day_that_a_subscriber_reads() {
        let source = |day| LogSource::at(PathBuf::from(format!("/logs/sym{day}")));
        let mut logs = Logs((0..4).map(|day| (day, source(day))).collect());
        logs.forget_before(2);
        assert_eq!(logs.0.keys().copied().collect::<Vec<_>>(), [2, 3]);
    }
}
