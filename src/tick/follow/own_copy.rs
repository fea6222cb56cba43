//! The own copy of the log, by the name that the record of a lease has for it.

use super::serve::Place;
use crate::env::{Disk, Open};
use crate::lease::OwnCopy;
use crate::log::{self, LogError, LogOptions};
use std::path::{Path, PathBuf};

/// Returns the path of the file with the copy's number.
fn path(dir: &Path, src: &str) -> PathBuf {
    dir.join(format!("{src}.copy"))
}

/// Reads the number of the directory's copy, or draws one. Its name also has the address at which the process is reached, so that a copied
/// directory does not pass for the one that it was copied from. The directory is locked.
///
/// # Errors
/// The system's; a file that has no number.
pub fn own_copy(options: &LogOptions, address: &str) -> Result<OwnCopy, LogError> {
    let LogOptions { env, dir, src, .. } = options;
    let path = path(dir, src);
    let number = match read(&*env.disk, &path)? {
        Some(number) => number,
        None => {
            let number = env.disk.draw();
            log::replace(&*env.disk, &path, format!("{number:016x}\n").as_bytes())
                .map_err(LogError::io(&path, "write"))?;
            number
        }
    };
    let place = Place { dir: dir.clone(), src: src.clone() };
    let is_empty = place.dates(&*env.disk).map_err(LogError::io(dir, "list"))?.is_empty();
    Ok(OwnCopy { name: format!("{address}/{number:016x}"), is_empty })
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Option<u64>, LogError> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io(path, "open")(error)),
    };
    let bytes = log::whole(&*file).map_err(LogError::io(path, "read"))?;
    let text = String::from_utf8_lossy(&bytes);
    let number = u64::from_str_radix(text.trim_ascii(), 16).map_err(|_| {
        let why = "it has no number of 16 hexadecimal digits: without the file the copy gets another number, and has to be copied up to date";
        LogError::io(path, "read")(std::io::Error::other(why))
    })?;
    Ok(Some(number))
}
