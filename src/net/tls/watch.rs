//! Reads certificates again when their files change, or on SIGHUP.

use super::process;
use crate::sys::stack;
use signal_hook::consts::SIGHUP;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How often the files are compared.
const INTERVAL: Duration = Duration::from_secs(2);

/// Identity and last change of a file.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Starts the thread that watches the files of the installed settings; SIGHUP makes it read them at once.
///
/// # Errors
/// The system's.
pub fn watch() -> io::Result<()> {
    let (mut hung_up, signalled) = UnixStream::pair()?;
    signalled.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGHUP, signalled)?;
    hung_up.set_read_timeout(Some(INTERVAL))?;
    let mut last = stamps();
    stack::thread("tls-files".into()).spawn(move || {
        loop {
            let mut bytes = [0; 64];
            let is_asked = match hung_up.read(&mut bytes) {
                Ok(read) => read > 0,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
                Err(error) => {
                    tracing::warn!(%error, "changed certificates will need a restart: cannot wait for SIGHUP");
                    return;
                }
            };
            let now = stamps();
            if (is_asked || now != last)
                && let Err(error) = process::reload()
            {
                tracing::warn!("the certificates stay as they were: {error}");
            }
            last = now;
        }
    })?;
    Ok(())
}

fn stamps() -> Vec<Stamp> {
    process::files().iter().map(|path| stamp(path)).collect()
}

fn stamp(path: &Path) -> Stamp {
    let file = fs::metadata(path).ok()?;
    Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}
