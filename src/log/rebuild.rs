//! Making the side file of a log anew.

use super::blocks::{covers, known_damage};
use super::error::LogError;
use super::file::LogFile;
use super::index::{BlockBuilder, SideFile, SideWriter};
use super::lock::lock_log;
use super::name::side_path;
use super::open::FIRST;
use super::reader::check_head;
use super::scan::{DamagedRange, Found, Scanner};
use proto::Limits;
use std::fs::OpenOptions;
use std::path::Path;

/// What a new side file covers.
#[derive(Debug)]
pub struct Rebuilt {
    pub blocks: u64,
    pub updates: u64,
    /// Blocks that are marked.
    pub damage: Vec<DamagedRange>,
}

/// Writes the side file of a log that nobody writes to. Blocks that do not agree with the side file before are kept, marked as damaged.
/// Returns blocks and updates covered, and the blocks that are marked.
///
/// # Errors
/// `Held` if a tickerplant has the log open, `Damaged` at the first damage: what lies behind it cannot be counted.
pub fn rebuild(
    path: &Path,
    limits: Limits,
    chunk_bytes: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Rebuilt, LogError> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(LogError::io(path, "open"))?;
    lock_log(&file, path)?;
    check_head(&file, path)?;
    let size = file.size_bytes().map_err(LogError::io(path, "read"))?;
    let before = SideFile::open(&side_path(path));
    let damage = known_damage(&file, path, before.as_ref())?;
    let head = before.as_ref().map(SideFile::head).unwrap_or_default();
    // Opened before anything is cut off: nothing of it is needed any more.
    drop(before);
    let mut side = SideWriter::open(&side_path(path), 0, head)?;
    let mut builder = BlockBuilder::new(FIRST, head.epoch);
    let mut scanner = Scanner::new(&file, path, FIRST, None, limits, chunk_bytes);
    let mut blocks: u64 = 0;
    let end = loop {
        match scanner.next()? {
            Found::Record { at, bytes } => {
                let is_damaged = covers(&damage, at.offset_bytes, bytes.len());
                for entry in builder.add_marked(bytes, is_damaged).iter().flatten() {
                    side.push(entry);
                    blocks = blocks.saturating_add(1);
                    progress(at.offset_bytes, size);
                }
            }
            Found::End { at } | Found::Torn { at, .. } => break at,
            Found::Damage(range) => {
                side.flush();
                return Err(LogError::Damaged { path: path.to_path_buf(), damage: Box::new(range) });
            }
        }
    };
    if let Some(entry) = builder.close() {
        side.push(&entry);
        blocks = blocks.saturating_add(1);
    }
    side.finish()?;
    progress(size, size);
    Ok(Rebuilt { blocks, updates: end.index, damage })
}
