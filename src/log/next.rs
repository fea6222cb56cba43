//! The log of the next day.
//!
//! A start goes on with the newest log. If a full disk stopped a roll after the new log had its name, a start would leave behind what the day went
//! on to log in the old one. The file therefore gets its name last, and from then on nothing is appended to the log before it.

use super::error::LogError;
use super::name::next_path;
use crate::env::Disk;
use std::io;
use std::path::{Path, PathBuf};

/// Returns where to create the log `path`, free of what a roll that failed has left there.
///
/// # Errors
/// The system's.
pub(super) fn place(disk: &dyn Disk, (dir, src): (&Path, &str), path: &Path) -> Result<PathBuf, LogError> {
    let at = next_path(dir, src);
    match disk.remove(&at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LogError::io(path, "create")(error)),
        _ => Ok(at),
    }
}

/// Gives the file `at` the name `path`, unless another tickerplant has made a log of that name meanwhile.
///
/// # Errors
/// The system's. The inner ones are those after which the log is there under its name.
pub(super) fn name(disk: &dyn Disk, at: &Path, path: &Path) -> Result<Result<(), LogError>, LogError> {
    disk.rename_new(at, path).map_err(LogError::io(path, "create"))?;
    Ok(disk.sync_directory_of(path).map_err(LogError::io(path, "create")))
}
