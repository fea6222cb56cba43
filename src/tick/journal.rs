//! Journal of the queue, a file beside the log.

use crate::env::{Disk, LogFile, Open};
use crate::log::{self, write_at_point};
use crate::points::{self, Point};
use crate::queue::journal::{self, Record};
use crate::queue::{Date, Params, Queue};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Journal of a tickerplant's queue.
pub enum Journal {
    /// The tickerplant has no log.
    None,
    Open(JournalFile),
    /// The last record was not written; the next one starts with a snapshot of the queue.
    Failed,
    /// Another tickerplant owns it now.
    GivenUp,
}

impl Journal {
    /// Appends a record to the journal at this path. For a new day, and after a failed write, the journal starts with a snapshot of the
    /// queue instead. A failed write stops nothing: nodes report what they hold when they join.
    pub fn write(&mut self, disk: &dyn Disk, path: &Path, record: &Record, queue: &Queue) {
        let failed_before = matches!(self, Journal::Failed);
        // A record after a missing one would restore a wrong state.
        let journal = match std::mem::replace(self, Journal::Failed) {
            Journal::Open(mut journal) if journal.path() == path => journal.append(record).map(|()| journal),
            Journal::Open(_) | Journal::Failed => JournalFile::new(disk, path, queue),
            Journal::GivenUp => return *self = Journal::GivenUp,
            Journal::None => return *self = Journal::None,
        };
        match journal {
            Ok(journal) => {
                *self = Journal::Open(journal);
                if failed_before {
                    tracing::info!(path = %path.display(), "wrote the whole queue's journal again");
                }
            }
            Err(error) if !failed_before => tracing::error!(
                path = %path.display(), %error,
                "cannot write the queue's journal. Until this works again, a restart does not know this change and \
                 later ones; nodes will then report the windows that they hold"
            ),
            Err(_) => {}
        }
    }
}

/// Open journal; appends one line for each change of the queue.
pub struct JournalFile {
    file: Arc<dyn LogFile>,
    end_bytes: u64,
    path: PathBuf,
}

impl JournalFile {
    /// Opens or creates the journal of a day, locks it (so that a fenced tickerplant cannot write to it on a network file system), and
    /// restores the queue from it. An unusable journal is renamed, and the queue starts empty: nodes report what they hold when they
    /// join. Returns true if something was restored.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(disk: &dyn Disk, path: &Path, params: Params, date: Date) -> io::Result<(JournalFile, Queue, bool)> {
        let mut file = disk.open(path, Open::Create)?;
        file.try_lock()?;
        let bytes = log::whole(&*file)?;
        let read = journal::read(&bytes).and_then(|found| {
            let queue = if found.records.is_empty() {
                Queue::new(params.clone(), date)
            } else {
                Queue::restore(params.clone(), date, &found.records)?
            };
            Ok((queue, found))
        });
        let (queue, good_bytes, restored) = match read {
            Ok((queue, found)) => (queue, found.good_bytes, !found.records.is_empty()),
            Err(error) => {
                let aside = path.with_extension(format!("queue.bad.{}", bytes.len()));
                disk.rename(path, &aside)?;
                tracing::error!(path = %path.display(), "{error}; moved it to {}, starting with an empty queue", aside.display());
                file = disk.open(path, Open::New)?;
                file.try_lock()?;
                (Queue::new(params, date), 0, false)
            }
        };
        if good_bytes < bytes.len() as u64 && good_bytes > 0 {
            tracing::warn!(path = %path.display(), "ignoring a truncated last line");
        }
        file.truncate(good_bytes)?;
        points::reach(Point::JournalOpened);
        Ok((JournalFile { file, end_bytes: good_bytes, path: path.to_path_buf() }, queue, restored))
    }

    /// Creates a journal that starts with a snapshot of the queue.
    fn new(disk: &dyn Disk, path: &Path, queue: &Queue) -> io::Result<JournalFile> {
        let (mut journal, ..) = JournalFile::open(disk, path, Params::default(), queue.date())?;
        journal.append(&queue.snapshot())?;
        Ok(journal)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record, which survives a restart of this process.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let line = record.encode();
        points::reach(Point::JournalBeforeWrite);
        write_at_point(&*self.file, &line, self.end_bytes, Point::JournalHalfWritten)?;
        points::reach(Point::JournalWritten);
        self.end_bytes = self.end_bytes.saturating_add(line.len() as u64);
        Ok(())
    }
}
