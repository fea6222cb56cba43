//! The days of a log directory: the files of each, and what its side file says about its log.

use super::error::LogError;
use super::index::SideFile;
use super::name::{date_of, log_path, side_path};
use super::open::FIRST;
use super::reader::check_head;
use crate::env::{Disk, Open};
use jiff::civil::Date;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Endings of the files beside a log that an intact day has.
const SIDE: [&str; 3] = [".index", ".queue", ".schema"];
/// Endings of the files that a start or a repair of a damaged log leaves.
const DAMAGED: [&str; 3] = [".damaged", ".damaged.index", ".damaged.queue"];
const CUT: &str = ".cut-";

/// What is known of a day's log without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DayState {
    /// The side file covers every byte, and marks no block as damaged.
    Whole,
    /// There is a log, and no side file that can be read.
    Unchecked,
    /// So many bytes follow the last block of the side file: the log is being written, or was not closed.
    Unfinished(u64),
    /// The side file covers more updates than the log can hold.
    Shortened,
    /// The side file marks blocks as damaged, or cannot be read in places.
    Damaged,
    /// Bytes of the log were cut off or replaced; they are in the files beside it.
    Repaired,
    /// There are side files, and no log.
    Missing,
}

impl fmt::Display for DayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DayState::Whole => f.write_str("whole"),
            DayState::Unchecked => f.write_str("no side file"),
            DayState::Unfinished(bytes) => write!(f, "{bytes} bytes after the last block"),
            DayState::Shortened => f.write_str("shorter than its side file says"),
            DayState::Damaged => f.write_str("marked as damaged"),
            DayState::Repaired => f.write_str("repaired; the damaged bytes are beside it"),
            DayState::Missing => f.write_str("no log"),
        }
    }
}

/// One day of a source in a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    pub src: String,
    pub date: Date,
    /// Path of the log, also if it is missing.
    pub log: PathBuf,
    /// All files of the day, the log first, with their sizes.
    pub files: Vec<(PathBuf, u64)>,
    /// Records that the side file covers; `None` without one.
    pub records: Option<u64>,
    pub state: DayState,
}

impl Day {
    /// Size of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// Returns the days of a directory, by source and date; of one source, if it is given. Other files are left out.
///
/// # Errors
/// The directory or a file cannot be read.
pub fn days(disk: &dyn Disk, dir: &Path, src: Option<&str>) -> Result<Vec<Day>, LogError> {
    let mut files: BTreeMap<(String, Date), Vec<PathBuf>> = BTreeMap::new();
    for path in disk.list(dir).map_err(LogError::io(dir, "list"))? {
        let Some((of, date)) = day_of(dir, &path) else { continue };
        if src.is_none_or(|src| src == of) {
            files.entry((of, date)).or_default().push(path);
        }
    }
    let mut found = Vec::new();
    for ((src, date), paths) in files {
        found.extend(day(disk, log_path(dir, &src, date), src, date, paths)?);
    }
    Ok(found)
}

/// Returns source and date of a file of a day.
fn day_of(dir: &Path, path: &Path) -> Option<(String, Date)> {
    let name = path.file_name()?.to_str()?;
    let cut = name.rsplit_once(CUT).filter(|(_, offset)| is_cut_number(offset)).map(|(log, _)| log);
    let beside = DAMAGED.iter().chain(&SIDE).find_map(|ending| name.strip_suffix(ending));
    let log = cut.or(beside).unwrap_or(name);
    let date = date_of(Path::new(log))?;
    let src = log.get(..log.len().checked_sub("yyyy.mm.dd".len())?)?;
    // A file named like a date alone is no log.
    (!src.is_empty() && dir.join(log) == log_path(dir, src, date)).then(|| (src.to_string(), date))
}

/// Whether it is the offset in the name of a file of cut-off bytes, with a number behind it where that name was taken.
fn is_cut_number(text: &str) -> bool {
    let (offset, number) = text.split_once('-').unwrap_or((text, "0"));
    offset.parse::<u64>().is_ok() && number.parse::<u32>().is_ok()
}

/// Describes a day; `None` if its log is no log, as a directory of that name.
fn day(
    disk: &dyn Disk,
    log: PathBuf,
    src: String,
    date: Date,
    mut paths: Vec<PathBuf>,
) -> Result<Option<Day>, LogError> {
    paths.sort_by_key(|path| (*path != log, path.clone()));
    let mut files = Vec::new();
    for path in paths {
        match disk.open(&path, Open::Read).and_then(|file| file.size_bytes()) {
            Ok(bytes) => files.push((path, bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(LogError::io(&path, "read")(error)),
        }
    }
    let Some((first, bytes)) = files.first() else { return Ok(None) };
    let mut day = Day { src, date, log, files: Vec::new(), records: None, state: DayState::Missing };
    if *first == day.log {
        let file = disk.open(first, Open::Read).map_err(LogError::io(first, "open"))?;
        if check_head(&*file, first).is_err() {
            return Ok(None);
        }
        let side = SideFile::open(disk, &side_path(first));
        day.records = side.as_ref().map(|side| side.end().map_or(0, |end| end.index));
        let is_mended = |(path, _): &(PathBuf, u64)| {
            let name = path.to_string_lossy();
            name.contains(CUT) || DAMAGED.iter().any(|ending| name.ends_with(ending))
        };
        day.state = match side {
            _ if files.iter().any(is_mended) => DayState::Repaired,
            None => DayState::Unchecked,
            Some(side) => state_of(&side, *bytes),
        };
    }
    day.files = files;
    Ok(Some(day))
}

fn state_of(side: &SideFile, bytes: u64) -> DayState {
    let mut end = FIRST.offset_bytes;
    for at in 0..side.entries() {
        match side.entry(at) {
            Some(entry) if !entry.is_damaged && entry.offset_bytes == end => end = entry.end().offset_bytes,
            _ => return DayState::Damaged,
        }
    }
    match bytes.checked_sub(end) {
        Some(0) => DayState::Whole,
        Some(more) => DayState::Unfinished(more),
        None => DayState::Shortened,
    }
}
