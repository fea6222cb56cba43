//! Comparison of windows with the log on a thread of its own, and the retries for a log that cannot be read.

use crate::env::Env;
use crate::log::Waker;
use crate::tick::core::schema::Current;
use crate::tick::verify::{self, Done, Job};
use crate::tick::worker::Worker;
use std::io;
use std::time::{Duration, Instant};

/// Maximum number of jobs that wait to be retried.
const MAX_RETRIES: usize = 4096;

/// Jobs to retry, with their retry time.
struct Retries<J>(Vec<(Instant, J)>);

impl<J> Retries<J> {
    /// Keeps a job, unless too many are kept.
    fn retry_later(&mut self, at: Instant, job: J) {
        if self.0.len() < MAX_RETRIES {
            self.0.push((at, job));
        }
    }

    /// Takes the jobs whose time has come.
    fn due(&mut self, now: Instant) -> impl Iterator<Item = J> {
        self.0.extract_if(.., move |(at, _)| *at <= now).map(|(_, job)| job)
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.iter().map(|(at, _)| *at).min()
    }
}

/// The verification thread and its jobs to retry.
pub(super) struct Verification {
    worker: Worker<Job, Done>,
    retries: Retries<Job>,
}

impl Verification {
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        env: &Env,
        tables: Current,
        limits: proto::Limits,
        chunk_bytes: usize,
        waker: Waker,
    ) -> io::Result<Verification> {
        let worker = verify::start(env, tables, limits, chunk_bytes, waker)?;
        Ok(Verification { worker, retries: Retries(Vec::new()) })
    }

    pub fn submit(&self, job: Job) {
        self.worker.submit(job);
    }

    /// Retries a job, whose log could not be read, `pause` after `now`.
    pub fn retry_later(&mut self, now: Instant, pause: Duration, job: Job) {
        self.retries.retry_later(now.checked_add(pause).unwrap_or(now), job);
    }

    /// Submits the jobs whose retry time has come.
    pub fn retry(&mut self, now: Instant) {
        self.retries.due(now).for_each(|job| {
            self.worker.submit(job);
        });
    }

    /// Returns the next retry time.
    pub fn deadline(&self) -> Option<Instant> {
        self.retries.deadline()
    }

    /// Number of jobs to retry.
    pub fn retry_count(&self) -> usize {
        self.retries.0.len()
    }

    pub fn result(&self) -> Option<Done> {
        self.worker.result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_was_put_off_is_due_once_at_its_time() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut retries = Retries(Vec::new());
        retries.retry_later(now + second * 2, "b");
        retries.retry_later(now + second, "a");
        assert_eq!(retries.deadline(), Some(now + second));
        assert_eq!(retries.due(now).count(), 0);
        assert_eq!(retries.due(now + second).collect::<Vec<_>>(), ["a"]);
        assert_eq!((retries.due(now + second * 9).count(), retries.deadline()), (1, None));
    }

    #[test]
    fn jobs_beyond_the_limit_are_not_kept() {
        let mut retries = Retries(Vec::new());
        (0..MAX_RETRIES + 5).for_each(|job| retries.retry_later(Instant::now(), job));
        assert_eq!(retries.0.len(), MAX_RETRIES);
    }
}
