//! Files that an evaluation may not reach: those outside of the working directory of a server started with `-u`, and those that
//! a server reads at its start.
//!
//! A path is checked part by part, just before it is used. A remote caller cannot exchange a part in between, because no function
//! of q makes a link; other processes with access to the directory are trusted.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use rustix::fs::{AtFlags, CWD, FileType, Stat, statat};
use std::path::{Component, Path, PathBuf};

fn outside(why: &str) -> QError {
    QError::with("access", why)
}

/// Rejects a path that leads a caller with access to the working directory only out of it: absolute paths, `..`, symbolic and
/// hard links, devices and pipes. A missing file is reported when it is opened.
///
/// # Errors
/// `access`, with the reason.
pub(crate) fn check(context: &Context, path: &Path) -> Result<(), QError> {
    if context.host.caller().is_kept_inside() { check_inside(path) } else { Ok(()) }
}

fn check_inside(path: &Path) -> Result<(), QError> {
    if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(outside("the file is outside the process's directory"));
    }
    let mut whole = PathBuf::new();
    for part in path.components() {
        whole.push(part);
        let Ok(found) = statat(CWD, &whole, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {}
            FileType::RegularFile if found.st_nlink <= 1 => {}
            FileType::RegularFile => {
                return Err(outside("the file has hard links, which may be outside the process's directory"));
            }
            FileType::Symlink => {
                return Err(outside("the path has a symbolic link, which may lead outside the process's directory"));
            }
            _ => return Err(outside("devices, pipes and sockets are not available here")),
        }
    }
    Ok(())
}

/// Called just before a file or directory is written, renamed or deleted.
///
/// # Errors
/// `access` for files that the process's start-up reads; those of [`crate::runtime::host::Host::alters`] and [`check`].
pub(crate) fn check_change(context: &Context, path: &Path) -> Result<(), QError> {
    check(context, path)?;
    if context.host.caller().remote && context.host.guarded().iter().any(|guarded| is_or_holds(path, guarded)) {
        return Err(outside("the process reads this file at its start: only its owner may change it"));
    }
    context.host.alters()
}

fn of(path: &Path) -> Option<Stat> {
    statat(CWD, path, AtFlags::empty()).ok()
}

/// Whether a path leads to this file, or to a directory around it.
fn is_or_holds(path: &Path, guarded: &Path) -> bool {
    match of(path) {
        Some(found) => {
            guarded.ancestors().filter_map(of).any(|stat| (stat.st_dev, stat.st_ino) == (found.st_dev, found.st_ino))
        }
        // A new file under the name of a removed one.
        None => std::path::absolute(path).is_ok_and(|path| path == guarded),
    }
}
