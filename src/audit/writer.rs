//! The thread that writes the records.

use super::file::AuditFile;
use super::queue::{Next, Queue};
use super::record::{self, Call, Entry, Who};
use crate::metrics::{self, Id};
use crate::sys::stack;
use signal_hook::consts::SIGHUP;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Records written at once.
const MAX_BATCH: usize = 256;
/// Interval at which an idle writer looks whether the file was moved, and between two attempts to write.
const EVERY: Duration = Duration::from_secs(1);

/// Numbers the records of this process.
struct Writer {
    queue: Arc<Queue>,
    file: AuditFile,
    process: String,
    /// Number of the next record.
    next: u64,
}

/// Starts the thread.
///
/// # Errors
/// The file cannot be written, or the system has no thread left.
pub(super) fn start(queue: Arc<Queue>, file: AuditFile, process: String) -> io::Result<()> {
    // logrotate's signal: the writer looks at the path anyway, but without a handler it would end the process.
    signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
    let mut writer = Writer { queue, file, process, next: 1 };
    writer.queue.push_anyway(Entry::new(Who::default(), Call::named("start")));
    stack::thread("audit".to_string()).spawn(move || {
        writer.run();
        writer.queue.end_of_writer();
    })?;
    Ok(())
}

impl Writer {
    fn run(&mut self) {
        loop {
            let result = match self.queue.next(MAX_BATCH, EVERY) {
                Next::Write(entries) => self.write(&entries),
                Next::Idle => self.look(),
                Next::End => {
                    let stop = [Entry::new(Who::default(), Call::named("stop"))];
                    if let Err(error) = self.write(&stop) {
                        self.report(&error);
                    }
                    return;
                }
            };
            if let Err(error) = result {
                self.report(&error);
                if !self.queue.pause(EVERY) {
                    return;
                }
            }
        }
    }

    fn write(&mut self, entries: &[Entry]) -> io::Result<()> {
        let (mut lines, mut number) = (String::new(), self.next);
        for entry in entries {
            record::put(entry, number, &self.process, &mut lines);
            number = number.saturating_add(1);
        }
        let was_troubled = self.queue.trouble().is_some();
        self.file.append(lines.as_bytes())?;
        self.next = number;
        self.queue.written(entries.len());
        metrics::count_times(Id::AuditRecords, entries.len() as u64);
        if was_troubled {
            tracing::info!("the audit log is written again");
        }
        Ok(())
    }

    fn look(&mut self) -> io::Result<()> {
        self.file.look_at_path()?;
        // A full disk shows at the next write only.
        if self.queue.trouble().is_some() {
            self.queue.is_well();
        }
        Ok(())
    }

    fn report(&self, error: &io::Error) {
        metrics::count(Id::AuditWriteErrors);
        if self.queue.failed(format!("the audit log cannot be written: {error}")) {
            tracing::error!(%error, "the audit log cannot be written; records wait in memory (--limit-audit-queue)");
        }
    }
}
