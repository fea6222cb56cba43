//! The tables of a node: growing columns with one writer and any number of readers.
//!
//! An update is stored whole or not at all: the writer appends its columns behind the published rows and then raises one count
//! per table. A query takes the [`Tables`] and the counts; what it reads never changes, moves or is freed before it ends.

use super::column::{Column, ColumnError, ColumnReader, Rows, SymbolCache, rows_of};
use super::grouped::{Grouped, GroupedReader};
use super::nulls::append_nulls;
use super::schema::{Schema, width};
use super::symbol;
use super::value::{Table, Value};
use super::vector::{Attr, Items, Vector};
use crate::kernel::sym::Sym;
use crate::sys::shared::Shared;
use proto::types;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

#[cfg(test)]
mod tests;

/// Reason why an update was rejected. Nothing of a rejected update is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{}: no such table", String::from_utf8_lossy(.0))]
    NoTable(Vec<u8>),
    #[error("length: table {table} has {expected} columns, got {found}")]
    Columns { table: String, expected: usize, found: usize },
    #[error("table {table}, column {column}: {error}")]
    Column { table: String, column: String, error: ColumnError },
}

impl Refused {
    /// No room is left for rows or symbols: the update is valid, this node is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Refused::Column { error: ColumnError::Full { .. } | ColumnError::Symbols(_), .. })
    }

    /// Even an empty table has no room for the update.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Refused::Column { error: ColumnError::Full { capacity, wanted }, .. } if wanted > capacity)
    }

    /// The process's symbol table is full.
    pub fn is_full_of_symbols(&self) -> bool {
        matches!(self, Refused::Column { error: ColumnError::Symbols(_), .. })
    }
}

/// Write handle of one table.
#[derive(Debug)]
struct Filling {
    schema: Arc<Schema>,
    columns: Vec<Column>,
    grouped: Vec<(usize, Grouped)>,
    rows: Arc<AtomicUsize>,
    reader: Arc<TableReader>,
}

impl Filling {
    fn reserve(schema: Arc<Schema>, column_bytes: usize) -> io::Result<Filling> {
        let reserve = |ty| Column::reserve(ty, column_bytes);
        let columns = schema.columns.iter().map(|column| reserve(column.ty)).collect::<io::Result<Vec<Column>>>()?;
        let is_grouped = |column: usize| {
            schema.columns.get(column).is_some_and(|c| c.attr == Attr::Grouped && c.ty == types::SYMBOL)
        };
        let index = |column| (column, Grouped::new(column_bytes / width(types::SYMBOL).max(1)));
        let grouped: Vec<(usize, Grouped)> =
            (0..columns.len()).filter(|column| is_grouped(*column)).map(index).collect();
        let rows = Arc::new(AtomicUsize::new(0));
        let reader = Arc::new(TableReader {
            schema: Arc::clone(&schema),
            columns: columns.iter().map(Column::reader).collect(),
            grouped: grouped.iter().map(|(column, index)| (*column, index.reader())).collect(),
            rows: Arc::clone(&rows),
        });
        Ok(Filling { schema, columns, grouped, rows, reader })
    }

    fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// Returns the table with columns added at the end, which already have as many rows.
    fn extended(self, schema: Schema, added: Vec<Column>, column_bytes: usize) -> Filling {
        let schema = Arc::new(schema);
        let Filling { mut columns, mut grouped, rows, .. } = self;
        let before = columns.len();
        columns.extend(added);
        for (at, column) in schema.columns.iter().enumerate().skip(before) {
            if column.attr == Attr::Grouped && column.ty == types::SYMBOL {
                let mut index = Grouped::new(column_bytes / width(types::SYMBOL).max(1));
                let reader = columns.get(at).map(Column::reader);
                if let Some(Items::Sym(symbols)) = reader.map(|reader| reader.items(rows.load(Ordering::Relaxed))) {
                    index.extend(&symbols);
                }
                grouped.push((at, index));
            }
        }
        let reader = Arc::new(TableReader {
            schema: Arc::clone(&schema),
            columns: columns.iter().map(Column::reader).collect(),
            grouped: grouped.iter().map(|(column, index)| (*column, index.reader())).collect(),
            rows: Arc::clone(&rows),
        });
        Filling { schema, columns, grouped, rows, reader }
    }

    /// With `fills`, columns missing at the end of the update are filled with nulls.
    fn write(&mut self, cache: &mut SymbolCache, count: usize, objects: &[u8], fills: bool) -> Result<usize, Refused> {
        let schema = &self.schema;
        if count != self.columns.len() && !(fills && (1..self.columns.len()).contains(&count)) {
            let (table, expected) = (text(schema.name), self.columns.len());
            return Err(Refused::Columns { table, expected, found: count });
        }
        let refused = |column: Sym, error| Refused::Column { table: text(schema.name), column: text(column), error };
        let name_of_first = schema.columns.first().map_or(Sym::NULL, |column| column.name);
        let rows = rows_of(objects).map_err(|error| refused(name_of_first, error))?;
        let mut rest = objects;
        for (column, to) in self.columns.iter_mut().zip(&schema.columns).take(count) {
            let used = column.append_wire(cache, rest, rows).map_err(|error| refused(to.name, error))?;
            rest = rest.get(used..).unwrap_or_default();
        }
        if !rest.is_empty() {
            return Err(refused(schema.columns.last().map_or(Sym::NULL, |column| column.name), ColumnError::Malformed));
        }
        for (column, to) in self.columns.iter_mut().zip(&schema.columns).skip(count) {
            append_null_rows(column, cache, to.ty, rows.count()).map_err(|error| refused(to.name, error))?;
        }
        Ok(rows.count())
    }

    fn publish(&mut self, new_rows: usize) {
        for column in &mut self.columns {
            column.publish();
        }
        let rows = self.rows() + new_rows;
        self.rows.store(rows, Ordering::Release);
        for (column, index) in &mut self.grouped {
            if index.lags(rows)
                && let Some(Items::Sym(symbols)) = self.reader.columns.get(*column).map(|column| column.items(rows))
            {
                index.extend(&symbols);
            }
        }
    }

    fn rewind(&mut self) {
        for column in &mut self.columns {
            column.rewind();
        }
    }

    fn column_bytes(&self) -> usize {
        self.columns.iter().map(Column::used_bytes).sum()
    }

    fn index_bytes(&self) -> usize {
        self.grouped.iter().map(|(_, index)| index.used_bytes()).sum()
    }
}

/// Memory use of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub column_bytes: usize,
    pub index_bytes: usize,
    /// The process's symbol table, and the cache in front of it.
    pub symbol_bytes: usize,
}

impl Usage {
    pub fn total_bytes(&self) -> usize {
        self.column_bytes.saturating_add(self.index_bytes).saturating_add(self.symbol_bytes)
    }
}

/// Address space for all columns together: a quarter of the address space of a process on 64-bit machines.
const ADDRESS_BYTES: usize = 1 << 45;

/// Address space of a column that stays empty.
const EMPTY_BYTES: usize = 4096;

/// All tables of a node: the write handle, owned by one thread.
#[derive(Debug)]
pub struct Store {
    budget_bytes: usize,
    /// Address space of one column.
    column_bytes: usize,
    tables: Vec<Filling>,
    cache: SymbolCache,
    /// Whether the process's symbol table counts as memory of the store.
    counts_symbols: bool,
    /// Whether to fill missing columns with nulls: updates with fewer columns predate columns that were added later.
    fills: bool,
    shared: SharedTables,
    /// Whether queries see empty tables.
    hidden: bool,
    /// Generation: bumped by define, extend, clear, cut and hide, not by appends.
    changes: u64,
}

/// The current tables, shared with queries.
#[derive(Clone, Debug, Default)]
pub struct SharedTables {
    current: Arc<RwLock<Arc<Tables>>>,
}

impl SharedTables {
    /// Returns the tables as they are now. A query holds them as long as it runs.
    pub fn current(&self) -> Arc<Tables> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store {
    /// Makes a store without tables. Each column gets address space for `budget_bytes`, less if there are very many columns.
    pub fn new(budget_bytes: usize) -> Store {
        Store {
            budget_bytes,
            column_bytes: budget_bytes,
            tables: Vec::new(),
            cache: SymbolCache::default(),
            counts_symbols: true,
            fills: false,
            shared: SharedTables::default(),
            hidden: false,
            changes: 0,
        }
    }

    /// Makes a store for a simulated environment: it does not count the process's symbols, which all simulated nodes share.
    pub fn of_world(budget_bytes: usize) -> Store {
        Store { counts_symbols: false, ..Store::new(budget_bytes) }
    }

    /// Returns the handle through which queries find the current tables.
    pub fn shared(&self) -> SharedTables {
        self.shared.clone()
    }

    /// Defines the tables, empty. Drops all rows of earlier ones.
    ///
    /// # Errors
    /// There is no address space.
    pub fn define(&mut self, schemas: impl IntoIterator<Item = Schema>) -> io::Result<()> {
        let schemas: Vec<Schema> = schemas.into_iter().collect();
        let columns: usize = schemas.iter().map(|schema| schema.columns.len()).sum();
        // A list column has two ranges.
        self.column_bytes = self.budget_bytes.min(ADDRESS_BYTES / columns.max(1) / 2);
        let reserve = |schema| Filling::reserve(Arc::new(schema), self.column_bytes);
        let empty = schemas.into_iter().map(reserve).collect::<io::Result<Vec<Filling>>>()?;
        self.replace(empty)
    }

    /// Sets whether columns missing at the end of an update are filled with nulls. Correct only if every update was
    /// checked against the schema of its time.
    pub fn set_fills(&mut self, fills: bool) {
        self.fills = fills;
    }

    /// Redefines the tables and keeps their rows, with nulls in columns added at the end. Returns false, with nothing
    /// changed, if a table with rows is missing from `schemas` or changed in another way.
    ///
    /// # Errors
    /// There is no address space, or no room for the nulls; the store is unchanged.
    pub fn extend(&mut self, schemas: &[Schema]) -> io::Result<bool> {
        let has_rows = |table: &Filling| table.rows() > 0;
        let fits = |table: &Filling| {
            schemas.iter().any(|new| new.name == table.schema.name && table.schema.is_extended_by(new))
        };
        if !self.tables.iter().filter(|table| has_rows(table)).all(fits) {
            return Ok(false);
        }
        let column_bytes = self.column_bytes;
        let mut made: Vec<Result<Filling, Vec<Column>>> = Vec::new();
        for new in schemas {
            let old = self.tables.iter().find(|table| table.schema.name == new.name && has_rows(table));
            made.push(match old {
                None => Ok(Filling::reserve(Arc::new(new.clone()), column_bytes)?),
                Some(old) => Err(new
                    .columns
                    .iter()
                    .skip(old.columns.len())
                    .map(|column| null_column(column.ty, old.rows(), column_bytes, &mut self.cache))
                    .collect::<io::Result<Vec<Column>>>()?),
            });
        }
        let mut old = std::mem::take(&mut self.tables);
        for (new, made) in schemas.iter().zip(made) {
            let at = old.iter().position(|table| table.schema.name == new.name);
            match (made, at.map(|at| old.swap_remove(at))) {
                (Ok(filling), _) => self.tables.push(filling),
                (Err(added), Some(table)) => self.tables.push(table.extended(new.clone(), added, column_bytes)),
                // Unreachable: columns are added only to tables found above.
                (Err(_), None) => {}
            }
        }
        self.share()?;
        Ok(true)
    }

    /// Sets whether queries see the rows or empty tables. All tables change at once; running queries keep what they saw.
    ///
    /// # Errors
    /// There is no address space.
    pub fn set_hidden(&mut self, hidden: bool) -> io::Result<()> {
        if self.hidden == hidden {
            return Ok(());
        }
        self.hidden = hidden;
        self.share()
    }

    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Returns the generation: bumped by define, extend, clear, cut and hide, not by appends. [`Tables::changes`]
    /// returns that of a query's tables.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the schemas in order of definition.
    pub fn schemas(&self) -> impl Iterator<Item = &Schema> {
        self.tables.iter().map(|table| &*table.schema)
    }

    /// Returns the index of a table, for [`Store::append`].
    pub fn table(&self, name: &[u8]) -> Option<usize> {
        self.tables.iter().position(|table| symbol::text(table.schema.name) == name)
    }

    /// Appends one update: `count` columns, given as the little-endian objects of a list of columns (or of a row of
    /// atoms) one after the other. Returns its number of rows.
    ///
    /// # Errors
    /// [`Refused`]; the store is unchanged.
    pub fn append(&mut self, table: usize, count: usize, objects: &[u8]) -> Result<usize, Refused> {
        let filling = self.tables.get_mut(table).ok_or_else(|| Refused::NoTable(table.to_string().into_bytes()))?;
        match filling.write(&mut self.cache, count, objects, self.fills) {
            Ok(rows) => {
                filling.publish(rows);
                Ok(rows)
            }
            Err(refused) => {
                filling.rewind();
                Err(refused)
            }
        }
    }

    /// Returns the number of rows of each table, in order of definition.
    pub fn rows(&self) -> Vec<usize> {
        self.tables.iter().map(Filling::rows).collect()
    }

    /// Removes all rows. Their memory is freed at once, or when the last query that reads them ends.
    ///
    /// # Errors
    /// There is no address space.
    pub fn clear(&mut self) -> io::Result<()> {
        let reserve = |table: &Filling| Filling::reserve(Arc::clone(&table.schema), self.column_bytes);
        let empty = self.tables.iter().map(reserve).collect::<io::Result<Vec<Filling>>>()?;
        self.replace(empty)
    }

    /// Removes a range of rows from each table and keeps the order of the others: `cuts` holds one range per table, in order of definition.
    ///
    /// # Errors
    /// There is no address space; the store is unchanged.
    pub fn cut(&mut self, cuts: &[Range<usize>]) -> io::Result<()> {
        let column_bytes = self.column_bytes;
        let mut old = Vec::new();
        for (table, cut) in self.tables.iter_mut().zip(cuts).filter(|(_, cut)| !cut.is_empty()) {
            let rows = table.rows();
            let mut kept = Filling::reserve(Arc::clone(&table.schema), column_bytes)?;
            let ranges = [0..cut.start.min(rows), cut.end.min(rows)..rows];
            for (to, from) in kept.columns.iter_mut().zip(&table.reader.columns) {
                for range in ranges.clone() {
                    to.copy(from, range).map_err(|_| io::ErrorKind::OutOfMemory)?;
                }
            }
            kept.publish(ranges.iter().map(Range::len).sum());
            old.push(std::mem::replace(table, kept));
        }
        self.share()?;
        release(old);
        Ok(())
    }

    /// Returns the bytes held by columns, indexes and symbols.
    pub fn usage(&self) -> Usage {
        let symbols = if self.counts_symbols { symbol::usage().own_bytes() } else { 0 };
        Usage {
            column_bytes: self.tables.iter().map(Filling::column_bytes).sum(),
            index_bytes: self.tables.iter().map(Filling::index_bytes).sum(),
            symbol_bytes: usize::try_from(symbols).unwrap_or(usize::MAX).saturating_add(self.cache.used_bytes()),
        }
    }

    fn replace(&mut self, tables: Vec<Filling>) -> io::Result<()> {
        let old = std::mem::replace(&mut self.tables, tables);
        self.share()?;
        release(old);
        Ok(())
    }

    fn share(&mut self) -> io::Result<()> {
        let tables = match self.hidden {
            false => self.tables.iter().map(|table| Arc::clone(&table.reader)).collect(),
            true => {
                let empty = |table: &Filling| Ok(Filling::reserve(Arc::clone(&table.schema), EMPTY_BYTES)?.reader);
                self.tables.iter().map(empty).collect::<io::Result<_>>()?
            }
        };
        self.changes = self.changes.wrapping_add(1);
        let tables = Arc::new(Tables { tables, changes: self.changes });
        *self.shared.current.write().unwrap_or_else(PoisonError::into_inner) = tables;
        Ok(())
    }
}

/// Rows of nulls that are written at once.
const NULLS_AT_ONCE: usize = 1 << 16;

fn append_null_rows(column: &mut Column, cache: &mut SymbolCache, ty: i8, rows: usize) -> Result<(), ColumnError> {
    let (mut left, mut object) = (rows, Vec::new());
    while left > 0 {
        let some = left.min(NULLS_AT_ONCE);
        object.clear();
        append_nulls(ty, some, &mut object);
        column.append_wire(cache, &object, Rows::Many(some))?;
        left = left.saturating_sub(some);
    }
    Ok(())
}

fn null_column(ty: i8, rows: usize, column_bytes: usize, cache: &mut SymbolCache) -> io::Result<Column> {
    let mut column = Column::reserve(ty, column_bytes)?;
    append_null_rows(&mut column, cache, ty, rows).map_err(|_| io::ErrorKind::OutOfMemory)?;
    column.publish();
    Ok(column)
}

/// Drops large tables on a thread of their own: unmapping large ranges takes long, and must delay neither the writer
/// nor the queries that wait for the new state.
fn release(tables: Vec<Filling>) {
    const LARGE_BYTES: usize = 1 << 20;
    if tables.iter().map(Filling::column_bytes).sum::<usize>() < LARGE_BYTES {
        return drop(tables);
    }
    // If the thread cannot start, the closure and its tables are dropped here.
    let _ = crate::sys::stack::thread("release".into()).spawn(move || drop(tables));
}

fn text(symbol: Sym) -> String {
    String::from_utf8_lossy(symbol::text(symbol)).into_owned()
}

/// Tables that a query reads.
#[derive(Debug, Default)]
pub struct Tables {
    tables: Vec<Arc<TableReader>>,
    changes: u64,
}

impl Tables {
    pub fn get(&self, name: Sym) -> Option<&Arc<TableReader>> {
        self.tables.iter().find(|table| table.schema.name == name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<TableReader>> {
        self.tables.iter()
    }

    /// Returns the [`Store::changes`] that these tables belong to.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// Read handle of one table.
#[derive(Debug)]
pub struct TableReader {
    schema: Arc<Schema>,
    columns: Vec<ColumnReader>,
    grouped: Vec<(usize, GroupedReader)>,
    rows: Arc<AtomicUsize>,
}

impl TableReader {
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the number of published rows.
    pub fn rows(&self) -> usize {
        self.rows.load(Ordering::Acquire)
    }

    /// Returns the first `rows` rows, or all published ones if they are fewer, as a table without a copy; keyed if the schema is.
    pub fn snapshot(&self, rows: usize) -> Value {
        let rows = rows.min(self.rows());
        let columns = self.columns.iter().zip(&self.schema.columns).map(|(column, schema)| {
            // Arriving rows may break other attributes of the schema; only the grouped index is maintained.
            let attr = if schema.attr == Attr::Grouped { Attr::Grouped } else { Attr::None };
            (schema.name, Vector { attr, items: column.items(rows) })
        });
        let (names, columns): (Vec<Sym>, Vec<Vector>) = columns.unzip();
        let keys = self.schema.keys;
        match (names.split_at_checked(keys), columns.split_at_checked(keys)) {
            (Some((key_names, names)), Some((key_columns, columns))) if keys > 0 => {
                let table = |names: &[Sym], columns: &[Vector]| {
                    Value::Table(Arc::new(Table { sorted: false, names: names.to_vec(), columns: columns.to_vec() }))
                };
                let (keys, values) = (table(key_names, key_columns), table(names, columns));
                Value::Dict(crate::sys::shared::Held::new(super::value::Dict { sorted: false, keys, values }))
            }
            _ => Value::Table(Arc::new(Table { sorted: false, names, columns })),
        }
    }

    /// Returns the index of a column of this table. The column's memory identifies it: a query holds vectors, not names.
    pub fn index_of(&self, column: &Shared<Sym>) -> Option<&GroupedReader> {
        self.grouped.iter().find_map(|(at, index)| match self.columns.get(*at)?.items(1) {
            Items::Sym(own) if own.as_ptr() == column.as_ptr() => Some(index),
            _ => None,
        })
    }
}
