//! Making the side file of a log anew.

use super::error::LogError;
use super::file::LogFile;
use super::index::{BlockBuilder, SideWriter};
use super::lock::lock_log;
use super::name::side_path;
use super::open::FIRST;
use super::reader::check_head;
use super::scan::{Found, Scanner};
use proto::Limits;
use std::fs::OpenOptions;
use std::path::Path;

/// Writes the side file of a log that nobody writes to. Answers blocks and updates covered.
///
/// # Errors
/// `Held` if a tickerplant has the log open, `Damaged` at the first damage: what lies behind it cannot be counted.
pub fn rebuild(
    path: &Path,
    limits: Limits,
    chunk_bytes: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(u64, u64), LogError> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(LogError::io(path, "open"))?;
    lock_log(&file, path)?;
    check_head(&file, path)?;
    let size = file.size_bytes().map_err(LogError::io(path, "read"))?;
    let mut side = SideWriter::open(&side_path(path), 0)?;
    let mut builder = BlockBuilder::new(FIRST, 0);
    let mut scanner = Scanner::new(&file, path, FIRST, None, limits, chunk_bytes);
    let mut blocks: u64 = 0;
    let end = loop {
        match scanner.next()? {
            Found::Record { at, bytes } => {
                if let Some(entry) = builder.add(bytes, 1) {
                    side.push(&entry);
                    blocks = blocks.saturating_add(1);
                    progress(at.offset_bytes, size);
                }
            }
            Found::End { at } | Found::Torn { at, .. } => break at,
            Found::Damage(damage) => {
                side.flush();
                return Err(LogError::Damaged { path: path.to_path_buf(), damage: Box::new(damage) });
            }
        }
    };
    if let Some(entry) = builder.close() {
        side.push(&entry);
        blocks = blocks.saturating_add(1);
    }
    side.finish()?;
    progress(size, size);
    Ok((blocks, end.index))
}
