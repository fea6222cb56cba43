//! Extracts a part of a log as a log: a range of updates, of some or all tables. Joins logs to one.

use super::error::LogError;
use super::reader::{LogReader, walked_parts};
use proto::log::FILE_HEAD;
use std::io::{self, Write};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;

/// What was written of one or several logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub updates: u64,
    /// Logs that end in an unfinished record, which was left out, with its range of bytes.
    pub unfinished: Vec<(PathBuf, Range<u64>)>,
}

/// Writes a log with the updates of `window` that belong to `tables` (all if empty).
///
/// The window ends early where the log does.
///
/// # Errors
/// The log cannot be read, or the new one cannot be written.
pub fn slice(
    reader: &mut LogReader,
    window: Range<u64>,
    tables: &[Vec<u8>],
    chunk_bytes: usize,
    out: &mut dyn Write,
) -> Result<Copied, SliceError> {
    let mut copied = Copied::default();
    out.write_all(&FILE_HEAD)?;
    copy(reader, window, tables, chunk_bytes, out, &mut copied)?;
    out.flush()?;
    Ok(copied)
}

/// Writes a log with the updates of several, one log after the other.
///
/// # Errors
/// `Repeated` if two are the same file, or one is a copy of the other or of its beginning: its updates would be in the new log twice. A log
/// cannot be read, or the new one cannot be written.
pub fn join(readers: &mut [LogReader], chunk_bytes: usize, out: &mut dyn Write) -> Result<Copied, SliceError> {
    different(readers)?;
    let mut copied = Copied::default();
    out.write_all(&FILE_HEAD)?;
    for reader in readers {
        copy(reader, 0..u64::MAX, &[], chunk_bytes, out, &mut copied)?;
    }
    out.flush()?;
    Ok(copied)
}

/// Checks that logs have different updates.
///
/// # Errors
/// As [`join`].
pub fn different(readers: &[LogReader]) -> Result<(), SliceError> {
    for (at, second) in readers.iter().enumerate() {
        for first in readers.iter().take(at) {
            if first.repeats(second)? {
                return Err(SliceError::Repeated {
                    first: first.path().to_path_buf(),
                    second: second.path().to_path_buf(),
                });
            }
        }
    }
    Ok(())
}

fn copy(
    reader: &mut LogReader,
    window: Range<u64>,
    tables: &[Vec<u8>],
    chunk_bytes: usize,
    out: &mut dyn Write,
    copied: &mut Copied,
) -> Result<(), SliceError> {
    let mut failed = Ok(());
    let is_selected = |bytes: &[u8]| {
        tables.is_empty()
            || walked_parts(bytes).is_some_and(|record| tables.iter().any(|table| table.as_slice() == record.table))
    };
    // Take only what is there already: the deadline is now.
    let now = reader.now();
    let read = reader.replay(window, chunk_bytes, now, |chunk| {
        for (_, bytes) in chunk.iter().filter(|(_, bytes)| is_selected(bytes)) {
            failed = out.write_all(bytes);
            if failed.is_err() {
                return ControlFlow::Break(());
            }
            copied.updates = copied.updates.saturating_add(1);
        }
        ControlFlow::Continue(())
    });
    failed?;
    match read {
        Ok(_) => {}
        Err(LogError::NotReached { .. }) => {
            copied.unfinished.extend(reader.unfinished().map(|range| (reader.path().to_path_buf(), range)));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Error of reading the log or of writing the slice.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(
        "{} and {} are the same log, or one is a copy of the other or of its beginning: each update would be in the new log twice",
        first.display(), second.display()
    )]
    Repeated { first: PathBuf, second: PathBuf },
    #[error("cannot write the slice: {0}")]
    Output(#[from] io::Error),
}
