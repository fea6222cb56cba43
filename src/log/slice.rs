//! Extracts a part of a log as a log: a range of updates, of some or all tables.

use super::error::LogError;
use super::reader::{LogReader, walked_parts};
use proto::log::FILE_HEAD;
use std::io::{self, Write};
use std::ops::{ControlFlow, Range};

/// Writes a log with the updates of `window` that belong to `tables` (all if empty). Returns how many.
///
/// The window ends early where the log does.
pub fn slice(
    reader: &mut LogReader,
    window: Range<u64>,
    tables: &[Vec<u8>],
    chunk_bytes: usize,
    out: &mut dyn Write,
) -> Result<u64, SliceError> {
    out.write_all(&FILE_HEAD)?;
    let mut updates: u64 = 0;
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
            updates = updates.saturating_add(1);
        }
        ControlFlow::Continue(())
    });
    failed?;
    match read {
        Ok(_) | Err(LogError::NotReached { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    out.flush()?;
    Ok(updates)
}

/// Error of reading the log or of writing the slice.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("cannot write the slice: {0}")]
    Output(#[from] io::Error),
}
