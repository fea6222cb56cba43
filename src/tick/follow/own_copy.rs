//! The own copy of the log: by which name the record of a lease has it, and whether it is one of another tickerplant's log.

use super::serve::Place;
use crate::env::{Disk, Open};
use crate::lease::OwnCopy;
use crate::log::{self, LogError, LogOptions};
use crate::queue::Date;
use crate::tick::clock::civil_date;
use std::io;
use std::path::{Path, PathBuf};

/// Second line of the file, once its directory has followed another one.
const FOLLOWER: &str = "follower";

/// What the file of a copy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    number: u64,
    is_followers: bool,
}

impl Kept {
    fn encode(self) -> String {
        let Kept { number, is_followers } = self;
        format!("{number:016x}\n{}", if is_followers { format!("{FOLLOWER}\n") } else { String::new() })
    }

    fn decode(text: &str) -> Option<Kept> {
        let mut lines = text.lines();
        let number = u64::from_str_radix(lines.next()?.trim(), 16).ok()?;
        let is_followers = match lines.next().map(str::trim) {
            None | Some("") => false,
            Some(FOLLOWER) => true,
            Some(_) => return None,
        };
        Some(Kept { number, is_followers })
    }
}

fn path(dir: &Path, src: &str) -> PathBuf {
    dir.join(format!("{src}.copy"))
}

/// Reads the number of the directory's copy, or draws one. Its name also has the address at which the process is reached, so that a copied
/// directory does not pass for the one that it was copied from. The directory is locked.
///
/// # Errors
/// The system's; a file that is none of a copy.
pub fn own_copy(options: &LogOptions, address: &str) -> Result<OwnCopy, LogError> {
    let LogOptions { env, dir, src, .. } = options;
    let path = path(dir, src);
    let place = Place { dir: dir.clone(), src: src.clone() };
    let dates = place.dates(&*env.disk).map_err(LogError::io(dir, "list"))?;
    let is_empty = dates.is_empty();
    let newest = dates.last().map(|date| log::log_path(dir, src, civil_date(Date(*date))));
    let gone = newest.as_deref().map(|newest| log::synced_and_gone(&*env.disk, newest)).transpose()?.flatten();
    if let (Some((bytes, synced)), Some(newest)) = (gone, &newest) {
        tracing::error!(
            "{} has {bytes} bytes, and {synced} were synced: another program truncated it, or its disk lost them. It counts as another copy, which has to \
             catch up before it may take over",
            newest.display()
        );
    }
    let kept = match read(&*env.disk, &path)? {
        Some(kept) if !is_empty && gone.is_none() => kept,
        // Without its logs it is not the copy that had the number.
        _ => {
            let kept = Kept { number: env.disk.draw(), is_followers: false };
            write(&*env.disk, &path, kept)?;
            kept
        }
    };
    let Kept { number, is_followers } = kept;
    Ok(OwnCopy { name: format!("{address}/{number:016x}"), is_empty, is_followers })
}

/// The directory follows another one from now on, or is led by its own process. Writes only a change, and nothing for a directory that is led and
/// has no file. The directory is locked.
///
/// # Errors
/// As [`own_copy`].
pub fn mark(options: &LogOptions, is_followers: bool) -> Result<(), LogError> {
    let LogOptions { env, dir, src, .. } = options;
    let path = path(dir, src);
    match read(&*env.disk, &path)? {
        Some(kept) if kept.is_followers != is_followers => write(&*env.disk, &path, Kept { is_followers, ..kept }),
        None if is_followers => write(&*env.disk, &path, Kept { number: env.disk.draw(), is_followers }),
        _ => Ok(()),
    }
}

fn write(disk: &dyn Disk, path: &Path, kept: Kept) -> Result<(), LogError> {
    log::replace(disk, path, kept.encode().as_bytes()).map_err(LogError::io(path, "write"))
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Kept>, LogError> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io(path, "open")(error)),
    };
    let bytes = log::whole(&*file).map_err(LogError::io(path, "read"))?;
    let kept = Kept::decode(&String::from_utf8_lossy(&bytes)).ok_or_else(|| {
        let why = "its first line is no number of 16 hexadecimal digits: remove it, and the copy gets another number and has to catch up first";
        LogError::io(path, "read")(io::Error::other(why))
    })?;
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_is_written() {
        for is_followers in [false, true] {
            let kept = Kept { number: 0x1f, is_followers };
            assert_eq!(Kept::decode(&kept.encode()), Some(kept));
        }
        for text in ["", "zz\n", "1f\nleader\n", "11111111111111111\n"] {
            assert_eq!(Kept::decode(text), None, "{text}");
        }
    }
}
