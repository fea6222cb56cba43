//! Locks (`flock`) so that one process at a time extends `sym` (`.Q.en`) or a splayed table. Locked is the `sym` file or the table's `.d`; while the
//! table is created and has no `.d` yet, the file `.appending-lock` in its directory.

use super::refused;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Time between two attempts to lock the file.
const PAUSE: Duration = Duration::from_millis(2);

/// Opens a file and locks it until it is dropped; waits while another process has the lock. With `creates`, a missing file is created.
///
/// # Errors
/// The operating system's, and `stop` if the evaluation is to end.
pub(super) fn exclusive(context: &mut Context, path: &Path, creates: bool) -> Result<File, QError> {
    loop {
        let file = opened(path, creates).map_err(|e| refused(path, &e))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return Ok(file),
            // While we waited the file was replaced or removed; or another process still has the lock.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            // The file system has no locks, as NFS may.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
        context.check()?;
        thread::sleep(PAUSE);
    }
}

/// NFS locks only files that are open for writing; elsewhere one that may only be read is locked as well.
fn opened(path: &Path, creates: bool) -> std::io::Result<File> {
    match OpenOptions::new().read(true).write(true).create(creates).truncate(false).open(path) {
        Err(e) if e.kind() == ErrorKind::PermissionDenied && !creates => File::open(path),
        done => done,
    }
}

/// Whether a path still names an open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
