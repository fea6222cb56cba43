//! The schema that a day's log was written with: `DIR/SRCdate.schema`, and the check of the tickerplant's schema against it.
//!
//! A log has no column names, and its records keep the columns they were logged with. During a day a table may only grow columns
//! at its end: its older records are filled with nulls wherever they are read. Any other change of a table that has records today
//! is refused, because those records could be queried nowhere.

use super::core::older::older;
use super::core::schema::{TableSpec, Tables};
use super::messages::put_empty_table;
use super::verify::is_acceptable;
use crate::log::{self, LogError, LogReader, disk};
use crate::sys::clock;
use crate::table::schema::Schema;
use crate::table::{symbol, wire};
use proto::log::Record;
use proto::{Endian, Limits, View, Writer};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A kdb+ file: `get` reads it as a dictionary of empty tables.
const FILE_HEAD: &[u8] = &[0xff, 0x01];

/// Bytes of records that are looked at in one go.
const CHUNK_BYTES: usize = 1 << 20;

/// Why the day's log cannot be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum LoggedSchemaError {
    #[error(
        "the schema does not fit the records of {log}: {change}. During a day a table may only grow columns at its end. \
         Nothing was changed: start with the schema as it was until the day has ended, or with a new log directory"
    )]
    Refused { log: PathBuf, change: String },
    #[error(transparent)]
    Log(#[from] LogError),
}

/// How a log is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub limits: Limits,
    pub chunk_bytes: usize,
    /// Updates in the log.
    pub tip: u64,
}

/// Where the schema of a log stands.
pub fn schema_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".schema");
    PathBuf::from(name)
}

/// Checks the tables against what the log was written with, and notes them as the log's. A schema file that is missing or damaged
/// is replaced by what the last record of each table says: names of columns are not known then, only types.
///
/// # Errors
/// A change that the log's records do not allow, in words; the log cannot be read.
pub fn adopt(log: &Path, tables: &Tables, reading: Reading) -> Result<(), LoggedSchemaError> {
    let path = schema_path(log);
    let change = match read(&path, &reading.limits) {
        Ok(Some(before)) => {
            let changes: BTreeMap<Vec<u8>, String> = before
                .iter()
                .filter_map(|before| Some((symbol::text(before.name).to_vec(), change_of(before, tables)?)))
                .collect();
            if changes.is_empty() { None } else { first_recorded(log, reading, &changes)? }
        }
        Ok(None) => unfit_record(log, tables, reading)?,
        Err(error) => {
            ::log::warn!("{}: {error}; the log's records are looked at instead", path.display());
            unfit_record(log, tables, reading)?
        }
    };
    let written = match change {
        Some(change) => return Err(LoggedSchemaError::Refused { log: log.to_path_buf(), change }),
        None => write(log, tables),
    };
    // The records tell nearly as much at the next start.
    if let Err(error) = written {
        ::log::error!("{} cannot be written: {error}", path.display());
    }
    Ok(())
}

/// What of a table is other than before, and more than columns added at its end.
fn change_of(before: &Schema, tables: &Tables) -> Option<String> {
    let name = symbol::text(before.name);
    let table = name.escape_ascii();
    let Some((_, now)) = tables.find(name) else { return Some(format!("table {table} is not there any more")) };
    let column = |schema: &Schema, at: usize| {
        let column = schema.columns.get(at)?;
        Some(format!("{} of type {}", symbol::text(column.name).escape_ascii(), proto::types::name(column.ty)))
    };
    let differs = |at: &usize| {
        let of = |schema: &Schema| schema.columns.get(*at).map(|column| (column.name, column.ty));
        of(before) != of(&now.schema)
    };
    if let Some(at) = (0..before.columns.len()).find(differs) {
        let was = column(before, at).unwrap_or_default();
        let is = column(&now.schema, at).map_or("missing".to_string(), |is| format!("now {is}"));
        return Some(format!("column {} of table {table} was {was}, and is {is}", at.saturating_add(1)));
    }
    (before.keys != now.schema.keys).then(|| format!("table {table} has other keys"))
}

/// Calls `look` with each record of the log.
fn each_record(
    log: &Path,
    reading: Reading,
    mut look: impl FnMut(u64, &Record<'_>) -> ControlFlow<()>,
) -> Result<(), LogError> {
    if reading.tip == 0 {
        return Ok(());
    }
    let mut reader = LogReader::open(log, reading.limits, reading.chunk_bytes)?;
    reader.replay(0..reading.tip, CHUNK_BYTES, clock::now(), |chunk| {
        let mut records = chunk.records().filter_map(|(index, record)| Some((index, record?)));
        records.try_for_each(|(index, record)| look(index, &record))
    })?;
    Ok(())
}

/// The change of the first changed table that has a record in the log.
fn first_recorded(
    log: &Path,
    reading: Reading,
    changes: &BTreeMap<Vec<u8>, String>,
) -> Result<Option<String>, LogError> {
    let mut found = None;
    each_record(log, reading, |_, record| {
        found = changes.get(record.table).cloned();
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Where the last record of a table does not fit the table, or there is no such table: which.
fn unfit_record(log: &Path, tables: &Tables, reading: Reading) -> Result<Option<String>, LogError> {
    let mut unfit: BTreeMap<Vec<u8>, Option<u64>> = BTreeMap::new();
    each_record(log, reading, |index, record| {
        let fits = fits(tables, record);
        match unfit.get_mut(record.table) {
            Some(last) => *last = (!fits).then_some(index),
            None => drop(unfit.insert(record.table.to_vec(), (!fits).then_some(index))),
        }
        ControlFlow::Continue(())
    })?;
    Ok(unfit.into_iter().find_map(|(table, index)| {
        let what = if tables.find(&table).is_some() { "has other columns than table" } else { "is of a missing table" };
        Some(format!("record {} {what} {}", index?, table.escape_ascii()))
    }))
}

/// Whether nodes can take a record.
fn fits(tables: &Tables, record: &Record<'_>) -> bool {
    let is_older = |spec: &TableSpec| older(spec, record).is_some();
    tables.find(record.table).is_some_and(|(_, spec)| is_older(spec)) || is_acceptable(tables, record)
}

fn encode(tables: &Tables) -> Result<Vec<u8>, proto::EncodeError> {
    let mut bytes = FILE_HEAD.to_vec();
    let mut writer = Writer::new(&mut bytes);
    writer.dict_head();
    writer.symbols(tables.iter().map(|spec| &spec.name));
    writer.list_head(tables.len());
    tables.iter().for_each(|spec| put_empty_table(&mut writer, spec));
    writer.finish()?;
    Ok(bytes)
}

fn decode(bytes: &[u8], limits: &Limits) -> Option<Vec<Schema>> {
    let (view, _) = View::parse(bytes.strip_prefix(FILE_HEAD)?, Endian::Little, limits).ok()?;
    let dict = view.dict()?;
    let names = dict.keys.vector()?;
    let tables = dict.values.list()?;
    names
        .symbols()
        .zip(tables.iter())
        .map(|(name, table)| Schema::of(symbol::intern(name).ok()?, &wire::data(&table).ok()?))
        .collect()
}

/// The schemas in a file; `None` where there is none.
fn read(path: &Path, limits: &Limits) -> io::Result<Option<Vec<Schema>>> {
    let file = match disk::open(path, disk::Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = log::whole(&*file)?;
    decode(&bytes, limits).map(Some).ok_or_else(|| io::Error::other("not a dictionary of tables"))
}

/// Notes the tables as those of a log, whole or not at all.
///
/// # Errors
/// The file system's.
fn write(log: &Path, tables: &Tables) -> io::Result<()> {
    let path = schema_path(log);
    let bytes = encode(tables).map_err(io::Error::other)?;
    let is_written =
        disk::open(&path, disk::Open::Read).and_then(|file| log::whole(&*file)).is_ok_and(|old| old == bytes);
    if is_written {
        return Ok(());
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let file = disk::open(&new, disk::Open::Create)?;
    file.truncate(0)?;
    log::write_all(&*file, &bytes, 0)?;
    file.sync_all()?;
    disk::rename(&new, &path)?;
    disk::sync_directory_of(&path)
}
