//! Files that appends to a splayed table create beside its columns, and that an interrupted one leaves.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File in the directory of a splayed table while rows are appended: how many rows the table had before. kdb+ does not read it, because `.d` does
/// not name it.
const APPENDING: &str = ".appending";

/// Prefix of temporary files, which take the place of a column's files once they are whole. No column may have such a name.
const NEW: &str = ".appending-";

/// Locked while a splayed table is created.
const LOCK: &str = ".appending-lock";

/// The file that counts the rows of a splayed table before an append.
pub(super) fn note(folder: &Path) -> PathBuf {
    folder.join(APPENDING)
}

/// The file that is to replace this one.
pub(super) fn new_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(NEW);
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// The file that is locked while a splayed table is created.
pub(super) fn lock_of(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

/// Whether a file name is one of these. `key` and `load` leave them out, and no column may be named so.
pub(super) fn is_own(name: &OsStr) -> bool {
    name == APPENDING || name.as_bytes().starts_with(NEW.as_bytes())
}

/// Removes a directory in which there is nothing, or only these files, which `key` does not show.
///
/// # Errors
/// The operating system's.
pub(super) fn remove_folder(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
            let mut own = Vec::new();
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                if !is_own(&entry.file_name()) {
                    return Err(error);
                }
                own.push(entry.path());
            }
            own.iter().try_for_each(std::fs::remove_file)?;
            std::fs::remove_dir(folder)
        }
        done => done,
    }
}

/// Rows that the splayed table in a directory had before the append under way, or the interrupted one.
pub(super) fn noted_rows(folder: &Path) -> Option<u64> {
    std::fs::read_to_string(note(folder)).ok()?.trim().parse().ok()
}
