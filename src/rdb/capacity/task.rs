//! A fleet call that is retried until it succeeds.

use crate::fleet::FleetError;
use crate::fleet::back_off::BackOff;
use std::time::{Duration, Instant};

/// First and longest ceiling of the pauses between attempts.
const FIRST_NS: u64 = 500_000_000;
const MAX_NS: u64 = 20_000_000_000;

/// A task, due at [`Task::at`]. Logs an error when it differs from the last one.
pub(super) struct Task {
    /// Text of the log line before the error.
    failed_action: &'static str,
    began: Instant,
    at: Instant,
    back_off: BackOff,
    logged: Option<Box<FleetError>>,
}

impl Task {
    /// A new task is due at once.
    pub fn new(failed_action: &'static str, now: Instant) -> Task {
        Task { failed_action, began: now, at: now, back_off: BackOff::new(FIRST_NS, MAX_NS), logged: None }
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    pub fn failures(&self) -> u32 {
        self.back_off.failures()
    }

    /// Takes the task out if it is due.
    pub fn take_due(task: &mut Option<Task>, now: Instant) -> Option<Task> {
        task.take_if(|task| task.at <= now)
    }

    /// Takes the task and its argument out if it is due.
    pub fn take_due_with<T>(task: &mut Option<(T, Task)>, now: Instant) -> Option<(T, Task)> {
        task.take_if(|(_, task)| task.at <= now)
    }

    /// Takes one due task with its argument out of the list.
    pub fn take_due_of<T>(tasks: &mut Vec<(T, Task)>, now: Instant) -> Option<(T, Task)> {
        let due = tasks.iter().position(|(_, task)| task.at <= now)?;
        Some(tasks.swap_remove(due))
    }

    /// Logs the success if failures were logged before.
    pub fn succeeded(&self) {
        if self.logged.is_some() {
            tracing::info!("succeeded after {} failures: {}", self.failures(), self.failed_action);
        }
    }

    /// Schedules a retry; `chance` is a random number from 0 to 1.
    pub fn failed(&mut self, error: &FleetError, chance: f64, now: Instant) {
        if self.logged.as_deref() != Some(error) {
            tracing::warn!(%error, "{}; retrying", self.failed_action);
            self.logged = Some(Box::new(error.clone()));
        }
        let pause = Duration::from_nanos(self.back_off.pause_ns(chance));
        self.at = now.checked_add(pause).unwrap_or(now);
    }
}
