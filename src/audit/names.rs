//! Names of the files of an audit log: that of each process, and those of rotated files.

use crate::sys::fs::directory_of;
use std::io;
use std::path::{Path, PathBuf};

/// What a path may contain in place of the process's name, so that processes which share a configuration file have a file each.
pub(super) const PLACEHOLDER: &str = "{process}";

/// Characters of the time in the name of a rotated file: `20261124T035510.123456789Z`.
const STAMP_LENGTH: usize = 26;

/// Returns the path of a process's file: the placeholder becomes the process's name, as its records have it, with `-` for every character but
/// ASCII letters, digits, `.`, `_` and `-`.
pub(super) fn path_of(path: &Path, process: &str) -> PathBuf {
    // An option's value is text, hence UTF-8.
    path.to_str().map_or_else(|| path.to_path_buf(), |text| PathBuf::from(text.replace(PLACEHOLDER, &plain(process))))
}

/// Returns a process's name as it is in the names of files.
pub(super) fn plain(process: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    process.chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}

/// Returns the rotated files of an audit log, the oldest first.
///
/// # Errors
/// The directory cannot be read.
pub fn rotated(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(own) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory_of(path))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.and_then(before_rotation) == Some(own) {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the name that a rotated file had before; `None` for the name of any other file.
pub(super) fn before_rotation(name: &str) -> Option<&str> {
    let (before, stamp) = name.split_at_checked(name.len().checked_sub(STAMP_LENGTH)?)?;
    let is_stamp = stamp.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'T' | b'.' | b'Z'));
    before.strip_suffix('.').filter(|_| is_stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_share_an_option_have_a_file_each() {
        let path = |process| path_of(Path::new("/logs/audit-{process}.jsonl"), process);
        assert_eq!(path("tick sym"), Path::new("/logs/audit-tick-sym.jsonl"));
        assert_eq!(path("rdb rdb-00c0fe-2"), Path::new("/logs/audit-rdb-rdb-00c0fe-2.jsonl"));
        assert_eq!(path("rdb ../a\0é"), Path::new("/logs/audit-rdb-..-a--.jsonl"));
        assert_eq!(path_of(Path::new("/logs/audit"), "tick sym"), Path::new("/logs/audit"));
    }
}
