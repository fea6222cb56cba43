//! File names of a day: `DIR/SRCyyyy.mm.dd` and the files beside it.

use crate::env::Disk;
use crate::sys::fs::directory_of;
use jiff::civil::Date;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Length of `yyyy.mm.dd`.
const DATE_BYTES: usize = 10;

/// Path of a day's log.
pub fn log_path(dir: &Path, src: &str, date: Date) -> PathBuf {
    dir.join(format!("{src}{:04}.{:02}.{:02}", date.year(), date.month(), date.day()))
}

/// Path of a log's side file.
pub fn side_path(log: &Path) -> PathBuf {
    beside(log, ".index")
}

/// Path of the queue's journal for a log.
pub fn queue_path(log: &Path) -> PathBuf {
    beside(log, ".queue")
}

/// Returns the log's path, given that of its side file.
pub(super) fn log_of_side(side: &Path) -> Option<PathBuf> {
    let name = side.file_name()?.to_str()?.strip_suffix(".index")?;
    Some(side.with_file_name(name))
}

/// Path of the lock file for all logs of a source in a directory.
pub(crate) fn lock_path(dir: &Path, src: &str) -> PathBuf {
    dir.join(format!("{src}.lock"))
}

/// Path of the next day's log before it has its own name.
pub(super) fn next_path(dir: &Path, src: &str) -> PathBuf {
    dir.join(format!("{src}.next"))
}

/// The log's path with a suffix.
pub(crate) fn beside(log: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(log);
    name.push(ending);
    PathBuf::from(name)
}

/// The log's handle as text, as in kdb+'s `.u.L`: a colon and the path.
pub fn handle(log: &Path) -> String {
    format!(":{}", log.display())
}

/// Returns the date at the end of a log's name.
pub fn date_of(log: &Path) -> Option<Date> {
    let name = log.file_name()?.to_str()?;
    let text = name.get(name.len().checked_sub(DATE_BYTES)?..)?;
    let mut parts = text.split('.');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
}

/// Returns the logs dated strictly between two logs, in order.
///
/// # Errors
/// If the directory cannot be listed.
pub fn logs_between(disk: &dyn Disk, first: &Path, last: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(from), Some(to)) = (date_of(first), date_of(last)) else { return Ok(Vec::new()) };
    let between = logs_beside(disk, first)?.into_iter().filter(|(date, _)| from < *date && *date < to);
    Ok(between.map(|(_, path)| path).collect())
}

/// Returns the last log dated before this one.
///
/// # Errors
/// If the directory cannot be listed.
pub(super) fn log_before(disk: &dyn Disk, log: &Path) -> io::Result<Option<PathBuf>> {
    let Some(own) = date_of(log) else { return Ok(None) };
    Ok(logs_beside(disk, log)?.into_iter().rfind(|(date, _)| *date < own).map(|(_, path)| path))
}

/// Returns the logs of the same source in a log's directory, by date.
fn logs_beside(disk: &dyn Disk, log: &Path) -> io::Result<Vec<(Date, PathBuf)>> {
    let name = log.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let src = name.get(..name.len().saturating_sub(DATE_BYTES)).unwrap_or_default();
    logs_of(disk, directory_of(log), src)
}

/// Returns the logs of a source in a directory, by date.
///
/// # Errors
/// If the directory cannot be listed.
pub(super) fn logs_of(disk: &dyn Disk, dir: &Path, src: &str) -> io::Result<Vec<(Date, PathBuf)>> {
    let dated =
        |path: PathBuf| date_of(&path).filter(|date| path == log_path(dir, src, *date)).map(|date| (date, path));
    let mut logs: Vec<(Date, PathBuf)> = disk.list(dir)?.into_iter().filter_map(dated).collect();
    logs.sort();
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kdb_tick() {
        let date = Date::constant(2026, 11, 1);
        let path = log_path(Path::new("./data"), "sym", date);
        assert_eq!(path, Path::new("./data/sym2026.11.01"));
        assert_eq!(side_path(&path), Path::new("./data/sym2026.11.01.index"));
        assert_eq!(handle(&path), ":./data/sym2026.11.01");
        assert_eq!(date_of(&path), Some(date));
        assert_eq!(date_of(Path::new("sym")), None);
    }
}
