//! Names of a day's files: `DIR/SRCyyyy.mm.dd` and what stands beside it.

use super::disk;
use jiff::civil::Date;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of `yyyy.mm.dd`.
const DATE_BYTES: usize = 10;

/// The log of a day.
pub fn log_path(dir: &Path, src: &str, date: Date) -> PathBuf {
    dir.join(format!("{src}{:04}.{:02}.{:02}", date.year(), date.month(), date.day()))
}

/// The side file of a log.
pub fn side_path(log: &Path) -> PathBuf {
    beside(log, ".index")
}

/// The queue's journal of a log.
pub fn queue_path(log: &Path) -> PathBuf {
    beside(log, ".queue")
}

/// The log that a side file is of, if its name is one.
pub(super) fn log_of_side(side: &Path) -> Option<PathBuf> {
    let name = side.file_name()?.to_str()?.strip_suffix(".index")?;
    Some(side.with_file_name(name))
}

/// The lock of all logs of a source in a directory.
pub(crate) fn lock_path(dir: &Path, src: &str) -> PathBuf {
    dir.join(format!("{src}.lock"))
}

/// The log's name with something after it.
pub(crate) fn beside(log: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(log);
    name.push(ending);
    PathBuf::from(name)
}

/// The text of the log's handle as kdb+ has it in `.u.L`: a colon and the path.
pub fn handle(log: &Path) -> String {
    format!(":{}", log.display())
}

/// The date at the end of a log's name, if there is one.
pub fn date_of(log: &Path) -> Option<Date> {
    let name = log.file_name()?.to_str()?;
    let text = name.get(name.len().checked_sub(DATE_BYTES)?..)?;
    let mut parts = text.split('.');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
}

/// The logs of the days between those of two logs, in their order.
///
/// # Errors
/// Of listing the directory.
pub fn logs_between(first: &Path, last: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(from), Some(to)) = (date_of(first), date_of(last)) else { return Ok(Vec::new()) };
    let name = first.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let src = name.get(..name.len().saturating_sub(DATE_BYTES)).unwrap_or_default();
    let dir = first.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_between = |path: &PathBuf| {
        date_of(path).is_some_and(|date| from < date && date < to && *path == log_path(dir, src, date))
    };
    let mut logs: Vec<PathBuf> = disk::list(dir)?.into_iter().filter(is_between).collect();
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
