//! The tables of a node: growing columns that one thread fills and any number of queries read.
//!
//! An update is taken whole or not at all: its columns are written behind the published rows, and one count per table
//! is raised when all are in. A query takes a [`Tables`] and the counts; what it then reads never changes, moves or
//! goes away before it is done.

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

/// Why an update was not taken. Nothing of it is in the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{}: no such table", String::from_utf8_lossy(.0))]
    NoTable(Vec<u8>),
    #[error("length: table {table} has {expected} columns, the update has {found}")]
    Columns { table: String, expected: usize, found: usize },
    #[error("table {table}, column {column}: {error}")]
    Column { table: String, column: String, error: ColumnError },
}

impl Refused {
    /// No room is left, for rows or for symbols: the update is good, this node is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Refused::Column { error: ColumnError::Full { .. } | ColumnError::Symbols { .. }, .. })
    }

    /// An empty table has no room for the update either.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Refused::Column { error: ColumnError::Full { capacity, wanted }, .. } if wanted > capacity)
    }

    /// The process has no room for more symbols.
    pub fn is_full_of_symbols(&self) -> bool {
        matches!(self, Refused::Column { error: ColumnError::Symbols { .. }, .. })
    }
}

/// One table: the writing end.
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

    /// The same rows with columns more at the end, which are as long already.
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

    /// `fills`: columns that are missing at the end are filled with nulls.
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

/// What the store holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub column_bytes: usize,
    pub index_bytes: usize,
    /// The process's symbol table and the cache in front of it.
    pub symbol_bytes: usize,
}

impl Usage {
    pub fn total_bytes(&self) -> usize {
        self.column_bytes.saturating_add(self.index_bytes).saturating_add(self.symbol_bytes)
    }
}

/// Address space for all columns together; what a process has on 64-bit machines, divided by four.
const ADDRESS_BYTES: usize = 1 << 45;

/// Address space of a column that stays empty.
const EMPTY_BYTES: usize = 4096;

/// All tables of a node: the writing end, one thread's.
#[derive(Debug)]
pub struct Store {
    budget_bytes: usize,
    /// Address space of one column.
    column_bytes: usize,
    tables: Vec<Filling>,
    cache: SymbolCache,
    /// Whether the process's symbols count.
    counts_symbols: bool,
    /// Updates with fewer columns are of before columns were added: those are filled with nulls.
    fills: bool,
    shared: SharedTables,
    /// Queries see empty tables.
    hidden: bool,
    /// How often what queries see was changed other than by new rows.
    changes: u64,
}

/// Where queries find the current tables.
#[derive(Clone, Debug, Default)]
pub struct SharedTables {
    current: Arc<RwLock<Arc<Tables>>>,
}

impl SharedTables {
    /// The tables as they are now. Held as long as the query runs.
    pub fn current(&self) -> Arc<Tables> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store {
    /// A store without tables. Each column of a table gets address space for `budget_bytes`, or less if there are very many.
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

    /// A store of a simulated world: the process's symbols, which all nodes share and other worlds have made, count in none.
    pub fn of_world(budget_bytes: usize) -> Store {
        Store { counts_symbols: false, ..Store::new(budget_bytes) }
    }

    /// What queries hold.
    pub fn shared(&self) -> SharedTables {
        self.shared.clone()
    }

    /// Defines the tables, empty. Rows of earlier ones are forgotten.
    ///
    /// # Errors
    /// No address space.
    pub fn define(&mut self, schemas: impl IntoIterator<Item = Schema>) -> io::Result<()> {
        let schemas: Vec<Schema> = schemas.into_iter().collect();
        let columns: usize = schemas.iter().map(|schema| schema.columns.len()).sum();
        // A list column has two ranges.
        self.column_bytes = self.budget_bytes.min(ADDRESS_BYTES / columns.max(1) / 2);
        let reserve = |schema| Filling::reserve(Arc::new(schema), self.column_bytes);
        let empty = schemas.into_iter().map(reserve).collect::<io::Result<Vec<Filling>>>()?;
        self.replace(empty)
    }

    /// Whether columns missing at an update's end are filled with nulls. Only where every update was checked against the schema of
    /// its time.
    pub fn set_fills(&mut self, fills: bool) {
        self.fills = fills;
    }

    /// Defines the tables anew and keeps the rows, with nulls in columns added at the end. False, with nothing changed, where a
    /// table that has rows is gone or other than that.
    ///
    /// # Errors
    /// No address space or no room for the nulls; the store is as before.
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
                // Each with columns to be added was found above.
                (Err(_), None) => {}
            }
        }
        self.share()?;
        Ok(true)
    }

    /// Whether queries see the rows, or empty tables. All tables change at once; a query that has begun goes on with what it saw.
    ///
    /// # Errors
    /// No address space.
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

    /// How often what queries see was changed other than by new rows; [`Tables::changes`] says it of what a query holds.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The schemas in order of definition.
    pub fn schemas(&self) -> impl Iterator<Item = &Schema> {
        self.tables.iter().map(|table| &*table.schema)
    }

    /// The place of a table, for [`Store::append`].
    pub fn table(&self, name: &[u8]) -> Option<usize> {
        self.tables.iter().position(|table| symbol::text(table.schema.name) == name)
    }

    /// Takes one update: `count` columns, the objects of a list of columns (or of a row of atoms) one after the other,
    /// little-endian. Answers how many rows it had.
    ///
    /// # Errors
    /// [`Refused`]; the store is as before.
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

    /// Rows of each table, in order of definition.
    pub fn rows(&self) -> Vec<usize> {
        self.tables.iter().map(Filling::rows).collect()
    }

    /// Forgets all rows and gives their memory back, at once or when the last query that reads them is done.
    ///
    /// # Errors
    /// No address space.
    pub fn clear(&mut self) -> io::Result<()> {
        let reserve = |table: &Filling| Filling::reserve(Arc::clone(&table.schema), self.column_bytes);
        let empty = self.tables.iter().map(reserve).collect::<io::Result<Vec<Filling>>>()?;
        self.replace(empty)
    }

    /// Forgets some rows of each table, keeping the order of the others: `cuts` holds a range of rows per table, in
    /// order of definition.
    ///
    /// # Errors
    /// No address space; the store is as before.
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

    /// Bytes held by columns, indexes and symbols.
    pub fn usage(&self) -> Usage {
        let symbols = if self.counts_symbols { symbol::usage().1 } else { 0 };
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

/// Rows of nulls that are written in one go.
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

/// The kernel takes its time to take large ranges back: whoever fills the tables need not wait for that, nor queries for the state
/// that goes with the new ones.
fn release(tables: Vec<Filling>) {
    const LARGE_BYTES: usize = 1 << 20;
    if tables.iter().map(Filling::column_bytes).sum::<usize>() < LARGE_BYTES {
        return drop(tables);
    }
    // Without a thread the closure is dropped here, and the tables with it.
    let _ = crate::sys::stack::thread("release".into()).spawn(move || drop(tables));
}

fn text(symbol: Sym) -> String {
    String::from_utf8_lossy(symbol::text(symbol)).into_owned()
}

/// The tables that a query reads.
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

    /// The store's [`Store::changes`] when these were its tables.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// One table: the reading end.
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

    /// Rows published so far.
    pub fn rows(&self) -> usize {
        self.rows.load(Ordering::Acquire)
    }

    /// The first `rows` rows (or as many as are published) as a table, without a copy; keyed if the schema is.
    pub fn snapshot(&self, rows: usize) -> Value {
        let rows = rows.min(self.rows());
        let columns = self.columns.iter().zip(&self.schema.columns).map(|(column, schema)| {
            // A schema may promise what arriving rows do not keep; only the grouped index is kept up.
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

    /// The index of a column of this table, found by the column itself: a query holds vectors, not names.
    pub fn index_of(&self, column: &Shared<Sym>) -> Option<&GroupedReader> {
        self.grouped.iter().find_map(|(at, index)| match self.columns.get(*at)?.items(1) {
            Items::Sym(own) if own.as_ptr() == column.as_ptr() => Some(index),
            _ => None,
        })
    }
}
