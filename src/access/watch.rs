//! Reads a users file again when it changes, and on SIGHUP.

use super::file::FileError;
use crate::metrics::{self, Id};
use crate::sys::stack;
use signal_hook::consts::SIGHUP;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Interval at which the file is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// What shows that a file is another: an editor replaces it, `cp` writes into it.
type Version = (u64, i64, i64, u64);

fn version(path: &Path) -> Option<Version> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size()))
}

/// Starts the thread. It reads each new version of the file, sends the result, wakes the event loop, and ends when nobody takes results.
///
/// # Errors
/// The system has no thread left, or rejects the signal's handler.
pub(super) fn start<T: Send + 'static>(
    path: PathBuf,
    read: impl Fn() -> Result<T, FileError> + Send + 'static,
    wake: Box<dyn Fn() + Send>,
) -> io::Result<Receiver<T>> {
    let requested: Arc<AtomicBool> = Arc::default();
    signal_hook::flag::register(SIGHUP, Arc::clone(&requested))?;
    let (changed, results) = channel();
    let mut seen = version(&path);
    let watch = move || {
        loop {
            std::thread::sleep(EVERY);
            let now = version(&path);
            if !requested.swap(false, Ordering::SeqCst) && now == seen {
                continue;
            }
            seen = now;
            match read().map(|result| changed.send(result)) {
                Ok(Ok(())) => wake(),
                Ok(Err(_)) => return,
                Err(error) => {
                    metrics::count(Id::UsersReloadFailures);
                    tracing::error!(%error, "the users as last read stay in force");
                }
            }
        }
    };
    stack::thread("users".to_string()).spawn(watch)?;
    Ok(results)
}
