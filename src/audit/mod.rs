//! The audit log: who logged in, asked and changed what, one JSON object per line.
//!
//! Threads that execute calls put records into a bounded queue; a thread of its own writes them. A call never waits for the file.

mod ended;
mod file;
mod names;
mod queue;
mod record;
mod show;
mod sums;
mod writer;

pub use names::rotated;
pub use queue::Ticket;
pub use record::{Call, Entry, Published, Shown, Who, readable};
pub use show::Showing;
pub use sums::Sums;

use crate::config::{AuditQueries, Limits};
use crate::metrics::Health;
use crate::q::QError;
use queue::Queue;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of the audit log.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// `{process}` in it stands for the process's name.
    pub path: PathBuf,
    pub queries: AuditQueries,
    /// Size at which the file is rotated; 0 for never.
    pub max_bytes: u64,
    /// Rotated files to keep, and as many files of ended processes; 0 for all.
    pub keep: usize,
    /// Execute nothing that cannot be recorded.
    pub is_required: bool,
}

/// The audit log of a process, if it has one; cheap to clone.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Queue>>);

impl Audit {
    /// Opens the file and starts the thread. `process` is named in every record.
    ///
    /// # Errors
    /// The file cannot be opened, or the system has no thread left.
    pub fn start(options: &AuditOptions, process: String, limits: &Limits) -> io::Result<Audit> {
        let path = names::path_of(&options.path, &process);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("--audit, {}: {error}", path.display()));
        let file = file::AuditFile::open(path.clone(), options.max_bytes, options.keep).map_err(named)?;
        let file = file.with_siblings(ended::Siblings::of(&options.path, &process));
        let queue = Arc::new(Queue::new(options, limits));
        writer::start(Arc::clone(&queue), file, process)?;
        Ok(Audit(Some(queue)))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// How queries are recorded; `None` without an audit log.
    pub fn showing(&self) -> Option<Showing> {
        self.0.as_ref().map(|queue| queue.showing)
    }

    /// Begins a call, whose record is written when the ticket ends. Without an audit log there is no ticket.
    ///
    /// # Errors
    /// With `--audit-required`: its record could not be written. Nothing may be executed then.
    pub fn begin(&self, who: impl FnOnce() -> Who, call: impl FnOnce() -> Call) -> Result<Option<Ticket>, QError> {
        let Some(queue) = &self.0 else { return Ok(None) };
        queue.reserve()?;
        Ok(Some(Ticket::new(Arc::clone(queue), Entry::new(who(), call()))))
    }

    /// Records what has happened already. Over the limit of the queue it is dropped and counted.
    pub fn record(&self, entry: impl FnOnce() -> Entry) {
        if let Some(queue) = &self.0 {
            queue.push(entry());
        }
    }

    /// Records what [`Audit::admits`] has just allowed, or sums of a connection's events: as [`Audit::record`], but with `--audit-required` also
    /// over the limit. Each connection that was admitted adds few of these.
    pub fn record_admitted(&self, entry: impl FnOnce() -> Entry) {
        if let Some(queue) = &self.0 {
            queue.push_admitted(entry());
        }
    }

    /// Whether records that can wait elsewhere should: nothing can be written, or too many wait.
    pub fn is_congested(&self) -> bool {
        self.0.as_ref().is_some_and(|queue| queue.is_congested())
    }

    /// Whether calls may be executed.
    ///
    /// # Errors
    /// With `--audit-required`: nothing can be recorded at the moment.
    pub fn admits(&self) -> Result<(), QError> {
        self.0.as_ref().map_or(Ok(()), |queue| queue.admits())
    }

    /// Returns why records cannot be written at the moment.
    pub fn trouble(&self) -> Option<String> {
        self.0.as_ref()?.trouble()
    }

    /// Adds what is wrong with the audit log to a health report.
    pub fn add_health(&self, health: &mut Health) {
        health.degrade_if("audit", self.trouble());
    }

    /// Number of records that wait to be written; `None` without an audit log.
    pub fn waiting(&self) -> Option<u64> {
        self.0.as_ref().map(|queue| queue.waiting())
    }

    /// Writes what waits, for a few seconds at most, and ends the thread.
    pub fn close(&self) {
        if let Some(queue) = &self.0 {
            queue.close();
        }
    }
}
