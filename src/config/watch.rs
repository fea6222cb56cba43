//! Files that are read again when they change, and on SIGHUP.

use crate::sys::stack;
use signal_hook::consts::SIGHUP;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What differs between two versions of a file: an editor replaces it, `cp` writes into it.
type Version = Option<(u64, u64, i64, i64)>;

fn version(path: &Path) -> Version {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

/// Starts a thread with this name, which calls `changed` when one of `files` has another version than `interval` ago, and on SIGHUP. It
/// ends when `changed` breaks.
///
/// # Errors
/// The operating system's, if no thread can be started or the signal cannot be handled.
pub fn watch(
    name: &'static str,
    interval: Duration,
    files: impl Fn() -> Vec<PathBuf> + Send + 'static,
    mut changed: impl FnMut() -> ControlFlow<()> + Send + 'static,
) -> io::Result<()> {
    let (mut signals, on_signal) = UnixStream::pair()?;
    on_signal.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGHUP, on_signal)?;
    signals.set_read_timeout(Some(interval))?;
    let versions = move || files().iter().map(|path| version(path)).collect::<Vec<_>>();
    let mut seen = versions();
    stack::thread(name.to_string()).spawn(move || {
        loop {
            let is_requested = match signals.read(&mut [0; 64]) {
                Ok(read) => read > 0,
                Err(error) if is_timeout(&error) => false,
                Err(error) => {
                    tracing::warn!(%error, "cannot wait for SIGHUP: changed files ({name}) will need a restart");
                    return;
                }
            };
            let now = versions();
            if (is_requested || now != seen) && changed().is_break() {
                return;
            }
            seen = now;
        }
    })?;
    Ok(())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
