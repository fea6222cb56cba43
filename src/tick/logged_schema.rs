//! Schema with which a day's log was written, `DIR/SRCdate.schema`, and the check of the tickerplant's schema against it.
//!
//! A change without a restart (`.u.schema`) is recorded there before it is logged, with the names of the changed tables. At a start its
//! columns are added to a table of the schema file that lacks them.
//!
//! A log has no column names, and its records keep the columns with which they were logged. During a day a table may only grow columns at
//! its end; readers fill its older records with nulls. Any other change of a table with records today is rejected, because those records
//! could not be queried anywhere.

use super::core::older::older;
use super::core::schema::{TableSpec, Tables};
use super::verify::is_acceptable;
use crate::env::{Disk, Env, Open};
use crate::log::{self, LogError, LogReader};
use crate::protocol::tables::put_empty;
use crate::table::schema::Schema;
use crate::table::{symbol, wire};
use proto::log::Record;
use proto::{Endian, Limits, View, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// First bytes of a kdb+ file: `get` reads it as a dictionary of empty tables.
const FILE_HEAD: &[u8] = &[0xff, 0x01];

/// Bytes of records read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Why the day's log cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum LoggedSchemaError {
    #[error(
        "the schema does not match the records of {log}: {change}. During a day, columns can only be added at the \
         end of a table. Nothing was changed: restore the previous schema until the day has ended, or use a new \
         log directory"
    )]
    Refused { log: PathBuf, change: String },
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Key under which a schema file records the tables changed by `.u.schema`.
const CHANGED: &[u8] = b".u.schema";

/// Tables changed by `.u.schema`, whose new columns are not in the schema file.
pub type Changed = BTreeSet<Vec<u8>>;

/// Tables of a day.
#[derive(Clone, Debug)]
pub struct Adopted {
    pub tables: Arc<Tables>,
    pub changed: Changed,
}

/// Content of a schema file beside a log.
struct Noted {
    schemas: Vec<Schema>,
    changed: Changed,
}

impl Noted {
    /// Tables that `.u.schema` has changed.
    fn changes(&self) -> Vec<Schema> {
        self.schemas.iter().filter(|schema| self.changed.contains(symbol::text(schema.name))).cloned().collect()
    }
}

/// Parameters for reading a log.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub limits: Limits,
    pub chunk_bytes: usize,
    /// Number of updates in the log.
    pub tip: u64,
}

/// Path of the schema of a log.
pub fn schema_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".schema");
    PathBuf::from(name)
}

/// Checks the tables against the recorded schema of the log and records them as the log's. Columns added by `.u.schema` during the day
/// count, even if the schema file lacks them. A missing or damaged record of the schema is replaced by what the log's records show: types
/// only, no column names, except those of columns added by `.u.schema`.
///
/// # Errors
/// A change that the log's records do not allow, described; the log cannot be read.
pub fn adopt(env: &Env, log: &Path, adopted: &Adopted, reading: Reading) -> Result<Adopted, LoggedSchemaError> {
    let adopted = check(env, log, adopted, reading)?;
    // Does not stop the start: the next one derives nearly as much from the records.
    if let Err(error) = write(&*env.disk, log, &adopted) {
        let path = schema_path(log);
        tracing::error!(path = %path.display(), %error, "cannot write the day's schema");
    }
    Ok(adopted)
}

/// Describes in what the tables of a process that may go on with this log, which another one writes, differ from those that are recorded beside it, also
/// for tables without updates so far. `None` if they are the same, or none are recorded.
pub fn difference(disk: &dyn Disk, log: &Path, tables: &Arc<Tables>, limits: &Limits) -> Option<String> {
    let noted = read(disk, &schema_path(log), limits).ok().flatten()?;
    let adopted = with_changes(&Adopted { tables: Arc::clone(tables), changed: Changed::new() }, &noted.changes());
    noted.schemas.iter().find_map(|before| change_of(before, &adopted.tables))
}

fn check(env: &Env, log: &Path, adopted: &Adopted, reading: Reading) -> Result<Adopted, LoggedSchemaError> {
    let path = schema_path(log);
    let noted = read(&*env.disk, &path, &reading.limits).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), "{error}; reading the log's records instead");
        None
    });
    let is_noted = noted.is_some();
    let noted = match noted {
        Some(noted) => noted,
        None => Noted { schemas: Vec::new(), changed: Changed::new() },
    };
    let changes: Vec<Schema> = match is_noted {
        true => noted.changes(),
        false => logged_changes(env, log, reading)?,
    };
    let adopted = with_changes(adopted, &changes);
    let tables = &adopted.tables;
    let change = if is_noted {
        let changes: BTreeMap<Vec<u8>, String> = noted
            .schemas
            .iter()
            .filter_map(|before| Some((symbol::text(before.name).to_vec(), change_of(before, tables)?)))
            .collect();
        if changes.is_empty() { None } else { first_recorded(env, log, reading, &changes)? }
    } else {
        unfit_record(env, log, tables, reading)?
    };
    match change {
        Some(change) => Err(LoggedSchemaError::Refused { log: log.to_path_buf(), change }),
        None => Ok(adopted),
    }
}

/// Returns the tables with the columns that `.u.schema` added during a day that has ended: nothing is rejected, because its log is not
/// continued.
pub fn go_on_from(disk: &dyn Disk, log: &Path, adopted: &Adopted, limits: &Limits) -> Adopted {
    match read(disk, &schema_path(log), limits) {
        Ok(Some(Noted { schemas, changed })) => {
            let changes: Vec<Schema> =
                schemas.into_iter().filter(|schema| changed.contains(symbol::text(schema.name))).collect();
            with_changes(adopted, &changes)
        }
        Ok(None) => adopted.clone(),
        Err(error) => {
            tracing::warn!(path = %schema_path(log).display(), "{error}; using the tables of the schema file");
            adopted.clone()
        }
    }
}

/// Returns the tables with the columns that `.u.schema` added. A schema file that has them, or others in their place, takes precedence.
fn with_changes(adopted: &Adopted, changes: &[Schema]) -> Adopted {
    let mut adopted = adopted.clone();
    for change in changes {
        let name = symbol::text(change.name);
        let Some((_, own)) = adopted.tables.find(name) else { continue };
        if !own.schema.is_extended_by(change) || change.is_extended_by(&own.schema) {
            continue;
        }
        let (added, table) = (names_after(change, own.columns.len()), name.escape_ascii());
        match adopted.tables.with(change) {
            Ok(Some(tables)) => {
                tracing::warn!(
                    "table {table} has columns that .u.schema added during the day and that are not in the schema \
                     file: {added}. They are kept; add them to the schema file"
                );
                adopted.tables = Arc::new(tables);
                adopted.changed.insert(name.to_vec());
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%table, %error, "keeping the table of the schema file"),
        }
    }
    adopted
}

/// Names of the columns after the first `columns`, for display.
fn names_after(schema: &Schema, columns: usize) -> String {
    let names = schema.columns.iter().skip(columns).map(|column| symbol::text(column.name).escape_ascii().to_string());
    names.collect::<Vec<_>>().join(" ")
}

/// Returns the schema changes recorded in a log, in order.
fn logged_changes(env: &Env, log: &Path, reading: Reading) -> Result<Vec<Schema>, LogError> {
    let mut changes = Vec::new();
    each_record(env, log, reading, |_, record| {
        if record.is_schema() {
            let name = symbol::intern(record.table).ok();
            let schema = name.and_then(|name| Schema::of(name, &wire::data(&record.columns).ok()?));
            changes.extend(schema);
        }
        ControlFlow::Continue(())
    })?;
    Ok(changes)
}

/// Describes how a table changed by more than columns added at its end; `None` if it did not.
pub(super) fn change_of(before: &Schema, tables: &Tables) -> Option<String> {
    let name = symbol::text(before.name);
    let table = name.escape_ascii();
    let Some((_, now)) = tables.find(name) else { return Some(format!("table {table} is missing")) };
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
        return Some(format!("column {} of table {table} was {was}, {is}", at.saturating_add(1)));
    }
    (before.keys != now.schema.keys).then(|| format!("table {table} has other keys"))
}

/// Calls `visit` for each record of the log.
fn each_record(
    env: &Env,
    log: &Path,
    reading: Reading,
    mut visit: impl FnMut(u64, &Record<'_>) -> ControlFlow<()>,
) -> Result<(), LogError> {
    if reading.tip == 0 {
        return Ok(());
    }
    let mut reader = LogReader::open(env, log, reading.limits, reading.chunk_bytes)?;
    reader.replay(0..reading.tip, CHUNK_BYTES, env.clock.now(), |chunk| {
        let mut records = chunk.records().filter_map(|(index, record)| Some((index, record?)));
        records.try_for_each(|(index, record)| visit(index, &record))
    })?;
    Ok(())
}

/// Returns the change of the first changed table that has a record in the log.
fn first_recorded(
    env: &Env,
    log: &Path,
    reading: Reading,
    changes: &BTreeMap<Vec<u8>, String>,
) -> Result<Option<String>, LogError> {
    let mut found = None;
    each_record(env, log, reading, |_, record| {
        found = changes.get(record.table).filter(|_| !record.is_schema()).cloned();
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Describes the first table, or missing table, whose last record does not fit; `None` if all fit.
fn unfit_record(env: &Env, log: &Path, tables: &Tables, reading: Reading) -> Result<Option<String>, LogError> {
    let mut unfit: BTreeMap<Vec<u8>, Option<u64>> = BTreeMap::new();
    each_record(env, log, reading, |index, record| {
        if record.is_schema() {
            return ControlFlow::Continue(());
        }
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

/// Whether nodes accept a record.
fn fits(tables: &Tables, record: &Record<'_>) -> bool {
    let is_older = |spec: &TableSpec| older(spec, record).is_some();
    tables.find(record.table).is_some_and(|(_, spec)| is_older(spec)) || is_acceptable(tables, record)
}

fn encode(adopted: &Adopted) -> Result<Vec<u8>, proto::EncodeError> {
    let Adopted { tables, changed } = adopted;
    let mut bytes = FILE_HEAD.to_vec();
    let mut writer = Writer::new(&mut bytes);
    let of_changes = (!changed.is_empty()).then_some(CHANGED);
    writer.dict_head();
    let names: Vec<&[u8]> = tables.iter().map(|spec| spec.name.as_slice()).chain(of_changes).collect();
    writer.symbols(&names);
    writer.list_head(names.len());
    tables.iter().for_each(|spec| put_empty(&mut writer, &spec.schema));
    if of_changes.is_some() {
        writer.symbols(changed);
    }
    writer.finish()?;
    Ok(bytes)
}

fn decode(bytes: &[u8], limits: &Limits) -> Option<Noted> {
    let (view, _) = View::parse(bytes.strip_prefix(FILE_HEAD)?, Endian::Little, limits).ok()?;
    let dict = view.dict()?;
    let names = dict.keys.vector()?;
    let mut noted = Noted { schemas: Vec::new(), changed: Changed::new() };
    for (name, value) in names.symbols().zip(dict.values.list()?.iter()) {
        if name == CHANGED {
            noted.changed = value.vector()?.symbols().map(<[u8]>::to_vec).collect();
        } else {
            noted.schemas.push(Schema::of(symbol::intern(name).ok()?, &wire::data(&value).ok()?)?);
        }
    }
    Some(noted)
}

/// Reads the schema beside a log; `None` if there is no file.
fn read(disk: &dyn Disk, path: &Path, limits: &Limits) -> io::Result<Option<Noted>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = log::whole(&*file)?;
    decode(&bytes, limits).map(Some).ok_or_else(|| io::Error::other("not a dictionary of tables"))
}

/// Records the tables as those of a log, atomically.
///
/// # Errors
/// Those of the file system.
pub(super) fn write(disk: &dyn Disk, log: &Path, adopted: &Adopted) -> io::Result<()> {
    let path = schema_path(log);
    let bytes = encode(adopted).map_err(io::Error::other)?;
    let is_written = disk.open(&path, Open::Read).and_then(|file| log::whole(&*file)).is_ok_and(|old| old == bytes);
    if is_written {
        return Ok(());
    }
    log::replace(disk, &path, &bytes)
}
