//! Examines a whole log: its contents, its damage, and whether its side file is usable.

use super::blocks;
use super::error::LogError;
use super::index::SideFile;
use super::name::side_path;
use super::open::FIRST;
use super::proof::columns_of;
use super::reader::{check_head, walked_parts};
use super::record::FaultKind;
use super::scan::{DamagedRange, Found, Scanner};
use super::show;
use crate::env::{LogFile, SystemDisk};
use proto::{Limits, View};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Summary of one table in a log.
#[derive(Clone, Debug, Default)]
pub struct TableSummary {
    pub updates: u64,
    pub rows: u64,
    pub bytes: u64,
    /// First item of the first column of the first update, in q notation.
    pub first: String,
    /// Last item of the first column of the last update.
    pub last: String,
}

/// State of the side file relative to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideState {
    Missing,
    /// Not a side file that this version can read.
    Foreign,
    /// Covers the first `records` of the log; `checked` if its checksums were compared with the log.
    Covers {
        blocks: u64,
        records: u64,
        checked: bool,
    },
}

/// Contents of a log.
#[derive(Clone, Debug)]
pub struct Survey {
    pub path: PathBuf,
    pub bytes: u64,
    /// Records of any kind, as `-11!` counts them.
    pub records: u64,
    /// Records that are no update: sequence numbers of publishers, schema changes, messages that are not a function call with a table.
    pub other_records: u64,
    pub tables: BTreeMap<Vec<u8>, TableSummary>,
    pub damage: Vec<DamagedRange>,
    /// Offset and length of an unfinished record at the end.
    pub torn: Option<(u64, u64)>,
    pub side: SideState,
}

impl Survey {
    /// Number of updates.
    pub fn updates(&self) -> u64 {
        self.records.saturating_sub(self.other_records)
    }

    /// Whether every byte can be read and matches the checksums, if there are any.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.torn.is_none()
    }
}

/// Reads a whole log; `checksums` also compares each block with the side file. `progress` receives the bytes read and the total.
pub fn survey(
    path: &Path,
    limits: Limits,
    chunk_bytes: usize,
    checksums: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Survey, LogError> {
    let file = File::open(path).map_err(LogError::io(path, "open"))?;
    check_head(&file, path)?;
    let bytes = file.size_bytes().map_err(LogError::io(path, "read"))?;
    let side = SideFile::open(&SystemDisk, &side_path(path));
    let mut survey = Survey {
        path: path.to_path_buf(),
        bytes,
        records: 0,
        other_records: 0,
        tables: BTreeMap::new(),
        damage: Vec::new(),
        torn: None,
        side: SideState::Missing,
    };
    let mut blocks: u64 = 0;
    survey.damage = blocks::damaged(&file, path, side.as_ref(), checksums, &mut |offset_bytes| {
        blocks = blocks.wrapping_add(1);
        if checksums && blocks.is_multiple_of(1024) {
            progress(offset_bytes, bytes);
        }
    })?;
    let unreadable = survey.damage.len();
    let mut scanner = Scanner::new(&file, path, FIRST, side.as_ref(), limits, chunk_bytes);
    let mut last_told = 0;
    // Position of each table's last update; it is formatted once, at the end.
    let mut lasts = BTreeMap::new();
    loop {
        match scanner.next()? {
            Found::Record { at, bytes: record } => {
                survey.records = survey.records.saturating_add(1);
                let last = (at.offset_bytes, record.len());
                take_in(&mut survey, &mut lasts, record, last);
                if at.offset_bytes.saturating_sub(last_told) >= 64 << 20 {
                    last_told = at.offset_bytes;
                    progress(last_told, bytes);
                }
            }
            Found::Damage(damage) => survey.damage.push(damage),
            Found::Torn { at, bytes } => {
                survey.torn = Some((at.offset_bytes, bytes));
                break;
            }
            Found::End { .. } => break,
        }
    }
    for (table, summary) in &mut survey.tables {
        if let Some((offset_bytes, length)) = lasts.get(table) {
            let mut record = vec![0; *length];
            super::file::read_full(&file, &mut record, *offset_bytes).map_err(LogError::io(path, "read"))?;
            summary.last = walked_parts(&record).map(|record| edge(&record.columns, true)).unwrap_or_default();
        }
    }
    progress(bytes, bytes);
    // Report a damaged range rather than its block, unless a repair kept that block.
    let (blocks, ranges) = survey.damage.split_at(unreadable.min(survey.damage.len()));
    let overlaps = |block: &DamagedRange| {
        matches!(block.fault.kind, FaultKind::Checksum | FaultKind::Unchecked)
            && ranges.iter().any(|range| range.first_byte < block.last_byte && block.first_byte < range.last_byte)
    };
    let mut damage: Vec<_> = blocks.iter().filter(|block| !overlaps(block)).chain(ranges).cloned().collect();
    damage.sort_by_key(|range| range.first_byte);
    survey.damage = damage;
    survey.side = match &side {
        Some(side) => SideState::Covers {
            blocks: side.entries(),
            records: side.end().map_or(0, |end| end.index),
            checked: checksums,
        },
        None if side_path(path).exists() => SideState::Foreign,
        None => SideState::Missing,
    };
    Ok(survey)
}

fn take_in(survey: &mut Survey, lasts: &mut BTreeMap<Vec<u8>, (u64, usize)>, bytes: &[u8], last: (u64, usize)) {
    let Some(record) = walked_parts(bytes) else {
        survey.other_records = survey.other_records.saturating_add(1);
        return;
    };
    let (_, rows) = columns_of(&record.columns);
    let summary = match survey.tables.get_mut(record.table) {
        Some(summary) => summary,
        None => {
            let first = edge(&record.columns, false);
            survey.tables.entry(record.table.to_vec()).or_insert(TableSummary { first, ..TableSummary::default() })
        }
    };
    summary.updates = summary.updates.saturating_add(1);
    summary.rows = summary.rows.saturating_add(rows);
    summary.bytes = summary.bytes.saturating_add(bytes.len() as u64);
    match lasts.get_mut(record.table) {
        Some(place) => *place = last,
        None => _ = lasts.insert(record.table.to_vec(), last),
    }
}

/// Returns the first or last item of the first column.
fn edge(data: &View<'_>, last: bool) -> String {
    let columns = data.table().map(|table| table.columns).or_else(|| data.list());
    let mut out = String::new();
    if let Some(first) = columns.and_then(|columns| columns.iter().next()) {
        show::item(&first, if last { first.count().saturating_sub(1) } else { 0 }, &mut out);
    }
    out
}
