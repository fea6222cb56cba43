//! Rebuilds the side file of a log.

use super::blocks::{covers, damaged};
use super::error::LogError;
use super::index::{BlockBuilder, SideFile, SideWriter};
use super::lock::lock_log;
use super::name::side_path;
use super::open::FIRST;
use super::reader::check_head;
use super::scan::{DamagedRange, Found, Scanner};
use crate::env::{LogFile, SystemDisk};
use proto::Limits;
use std::fs::OpenOptions;
use std::path::Path;

/// Result of rebuilding a side file.
#[derive(Debug)]
pub struct Rebuilt {
    pub blocks: u64,
    pub updates: u64,
    /// Blocks marked as damaged.
    pub damage: Vec<DamagedRange>,
}

/// Writes a new side file for a log without a writer. Blocks that disagree with the old side file are kept and marked as damaged.
///
/// # Errors
/// `Held` if a tickerplant has the log open, `Damaged` at the first damage: updates after it cannot be counted.
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
    let before = SideFile::open(&SystemDisk, &side_path(path));
    let damage = damaged(&file, path, before.as_ref(), true, &mut |_| {})?;
    let head = before.as_ref().map(SideFile::head).unwrap_or_default();
    drop(before);
    // Written after the whole log was read: if that fails, the old side file is needed to locate the damage.
    let mut entries = Vec::new();
    let mut builder = BlockBuilder::new(FIRST, head.epoch);
    let mut scanner = Scanner::new(&file, path, FIRST, None, limits, chunk_bytes);
    let end = loop {
        match scanner.next()? {
            Found::Record { at, bytes } => {
                let is_damaged = covers(&damage, at.offset_bytes, bytes.len());
                let before = entries.len();
                entries.extend(builder.add_marked(bytes, is_damaged).into_iter().flatten());
                if entries.len() > before {
                    progress(at.offset_bytes, size);
                }
            }
            Found::End { at } | Found::Torn { at, .. } => break at,
            Found::Damage(range) => {
                return Err(LogError::Damaged { path: path.to_path_buf(), damage: Box::new(range) });
            }
        }
    };
    entries.extend(builder.close());
    let mut side = SideWriter::open(&SystemDisk, &side_path(path), 0, head)?;
    entries.iter().for_each(|entry| side.push(entry));
    side.finish()?;
    progress(size, size);
    Ok(Rebuilt { blocks: entries.len() as u64, updates: end.index, damage })
}
