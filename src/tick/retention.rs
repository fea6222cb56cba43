//! Deletes the logs of past days (`--keep-days`), on a thread of its own: a large file may take the file system seconds to delete.

use crate::env::task::{Due, Running, Task};
use crate::env::{Disk, Env};
use crate::log::days::days;
use crate::log::retention::{Fate, delete, fates};
use jiff::civil::Date;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

/// Retention of one source's logs. It ends when this is dropped.
pub struct Retention {
    dates: Sender<Date>,
    counts: Arc<Counts>,
    _running: Box<dyn Running>,
}

#[derive(Default)]
struct Counts {
    deleted: AtomicU64,
    held: AtomicU64,
}

impl Retention {
    /// Starts the thread for the logs `src` in `dir`, which are kept for `keep` days.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(env: &Env, dir: PathBuf, src: String, keep: u32) -> io::Result<Retention> {
        let (dates, due) = mpsc::channel();
        let counts = Arc::<Counts>::default();
        let disk = Arc::clone(&env.disk);
        let sweep = Sweep { disk, dir, src, keep, dates: due, next: None, counts: Arc::clone(&counts) };
        Ok(Retention { dates, counts, _running: env.spawner.spawn("retention", Box::new(sweep))? })
    }

    /// Deletes what is due on the day that has begun.
    pub fn begin(&self, date: Date) {
        // The thread lives as long as this.
        let _ = self.dates.send(date);
    }

    /// Days deleted since the start.
    pub fn deleted(&self) -> u64 {
        self.counts.deleted.load(Ordering::Relaxed)
    }

    /// Days that are due, and kept because their logs are not known to be whole.
    pub fn held(&self) -> u64 {
        self.counts.held.load(Ordering::Relaxed)
    }
}

struct Sweep {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    src: String,
    keep: u32,
    dates: Receiver<Date>,
    next: Option<Date>,
    counts: Arc<Counts>,
}

impl Task for Sweep {
    fn wait(&mut self) -> bool {
        self.next = self.dates.recv().ok();
        self.next.is_some()
    }

    fn due(&mut self) -> Due {
        self.next = self.next.or_else(|| self.dates.try_recv().ok());
        if self.next.is_some() { Due::Now } else { Due::Later }
    }

    fn work(&mut self) {
        let Some(today) = self.next.take() else { return };
        let found = match days(&*self.disk, &self.dir, Some(&self.src)) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "cannot list the logs for --keep-days");
                return;
            }
        };
        let mut held: u64 = 0;
        for (day, fate) in found.iter().zip(fates(&found, today, self.keep, false)) {
            let (path, keep_days) = (day.log.display(), self.keep);
            match fate {
                Fate::Until(_) | Fate::Newest => {}
                Fate::Held(state) => {
                    held = held.saturating_add(1);
                    tracing::warn!(%path, keep_days, "a log past --keep-days is kept, because it is not known to be whole ({state}): verify or repair it with `elastick log`, or delete it with `elastick log prune --force`");
                }
                Fate::Delete => match delete(&*self.disk, day) {
                    Ok(()) => {
                        self.counts.deleted.fetch_add(1, Ordering::Relaxed);
                        tracing::info!(%path, keep_days, files = day.files.len(), bytes = day.bytes(), "deleted a day past --keep-days");
                    }
                    Err(error) => tracing::warn!(%error, "cannot delete a day past --keep-days"),
                },
            }
        }
        self.counts.held.store(held, Ordering::Relaxed);
    }

    fn yields(&self) -> bool {
        true
    }
}
