//! The shape of a day as a tickerplant log has it: bytes and rows by the times of its updates.

use super::CliError;
use super::section::{Section, Table};
use crate::env::Env;
use crate::log::moment::moment_of;
use crate::log::{LogReader, Next};
use crate::monitor::text;
use crate::plan::shape::Shape;
use proto::time::DAY_NS;
use proto::{Limits, View};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 4 << 20;
/// Most tables that are counted by name.
const MAX_TABLES: usize = 1000;
const MINUTE_NS: i64 = 60_000_000_000;

/// What a table has in the log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableVolume {
    pub table: String,
    pub updates: u64,
    pub rows: u64,
    pub bytes: u64,
    /// Of the busiest minute.
    pub most_rows_per_s: f64,
    pub most_bytes_per_s: f64,
}

/// Counts of a table in the present minute.
#[derive(Default)]
struct Minute {
    at: usize,
    rows: u64,
    bytes: u64,
}

/// What a log has.
pub struct LogVolume {
    pub shape: Shape,
    pub tables: Vec<TableVolume>,
    /// Updates of each minute, with those without a time.
    pub updates: Vec<u64>,
    /// Updates without a time: they count in the minute of the one before.
    pub untimed: u64,
}

/// Rows of an update's columns.
fn rows(columns: &View<'_>) -> u64 {
    let list = columns.table().map(|table| table.columns).or_else(|| columns.list());
    let first = list.and_then(|list| list.iter().next());
    first.map_or(0, |first| if first.type_code() < 0 { 1 } else { first.count() as u64 })
}

impl TableVolume {
    /// Ends a minute of this table.
    fn ends(&mut self, minute: &Minute) {
        self.most_rows_per_s = self.most_rows_per_s.max(minute.rows as f64 / 60.0);
        self.most_bytes_per_s = self.most_bytes_per_s.max(minute.bytes as f64 / 60.0);
    }
}

/// Reads a whole log.
///
/// # Errors
/// It cannot be read, or no update begins with a time.
pub fn volume(path: &Path) -> Result<LogVolume, CliError> {
    let failed = CliError::Failed;
    let mut reader = LogReader::open(&Env::system(), path, Limits::default(), CHUNK_BYTES).map_err(CliError::failed)?;
    let mut minutes = vec![0u64; Shape::MINUTES];
    let mut updates = vec![0u64; Shape::MINUTES];
    let mut tables: BTreeMap<Vec<u8>, (TableVolume, Minute)> = BTreeMap::new();
    let (mut now, mut untimed) = (None, 0u64);
    while let Next::Chunk(chunk) = reader.next_chunk(CHUNK_BYTES, u64::MAX).map_err(CliError::failed)? {
        for (_, record) in chunk.records() {
            let Some(record) = record.filter(|record| !record.is_schema()) else { continue };
            let moment = moment_of(&record.columns).map(|moment| moment.nanoseconds().rem_euclid(DAY_NS) / MINUTE_NS);
            match moment.and_then(|minute| usize::try_from(minute).ok()) {
                Some(minute) => now = Some(minute),
                None => untimed = untimed.saturating_add(1),
            }
            let minute = now.unwrap_or(0);
            let (bytes, rows) = (record.bytes.len() as u64, rows(&record.columns));
            if let Some(slot) = minutes.get_mut(minute) {
                *slot = slot.saturating_add(bytes);
            }
            if let Some(slot) = updates.get_mut(minute) {
                *slot = slot.saturating_add(1);
            }
            if !tables.contains_key(record.table) && tables.len() >= MAX_TABLES {
                return Err(failed(format!("{}: more than {MAX_TABLES} tables", path.display())));
            }
            let (table, of_minute) = tables.entry(record.table.to_vec()).or_default();
            if of_minute.at != minute {
                table.ends(of_minute);
                *of_minute = Minute { at: minute, ..Minute::default() };
            }
            (of_minute.rows, of_minute.bytes) =
                (of_minute.rows.saturating_add(rows), of_minute.bytes.saturating_add(bytes));
            table.updates = table.updates.saturating_add(1);
            table.rows = table.rows.saturating_add(rows);
            table.bytes = table.bytes.saturating_add(bytes);
        }
    }
    if now.is_none() {
        return Err(failed(format!("{}: no update begins with a time, so its day has no shape", path.display())));
    }
    let named = |(name, (mut table, minute)): (Vec<u8>, (TableVolume, Minute))| {
        table.ends(&minute);
        TableVolume { table: String::from_utf8_lossy(&name).into_owned(), ..table }
    };
    let shape = Shape::new(&minutes).map_err(|error| failed(format!("{}: {error}", path.display())))?;
    Ok(LogVolume { shape, tables: tables.into_iter().map(named).collect(), updates, untimed })
}

/// Shows what the log has.
pub fn section(path: &Path, of: &LogVolume) -> Section {
    let cells = |table: &TableVolume| {
        vec![
            table.table.clone(),
            text::thousands(table.updates),
            text::thousands(table.rows),
            text::bytes(table.bytes),
            text::thousands(table.most_rows_per_s.round() as u64),
            format!("{}/s", text::bytes(table.most_bytes_per_s as u64)),
        ]
    };
    let names = ["table", "updates", "rows", "bytes", "most rows/s", "most bytes/s"];
    let mut notes = vec!["Bytes as in the log; the most of a second are those of the busiest minute.".to_string()];
    if of.untimed > 0 {
        notes.push(format!(
            "{} updates begin with no time: they count in the minute of the update before.",
            text::thousands(of.untimed)
        ));
    }
    Section {
        title: format!("The day of {}", path.display()),
        tables: vec![Table::new(&names, of.tables.iter().map(cells).collect())],
        notes,
        plots: Vec::new(),
    }
}
