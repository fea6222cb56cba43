//! Tables on disk read in parts: some columns, and of these some rows.

use super::stored_rows::StoredRows;
use super::{column_names, grow, head, layout, lengths, lists, name_path};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::gather;
use crate::runtime::host::Made;
use crate::runtime::values::type_error;
use columns::table::{Items, Sym, Table, Value, Vector};
use std::path::{Path, PathBuf};

type Held<T> = std::result::Result<T, QError>;

/// A splayed table, or a table of one partition, of which a query reads some columns and rows.
pub(crate) struct Part {
    from: From,
    names: Vec<Sym>,
    /// The partition field and its value, a column of every row.
    field: Option<(Sym, Value)>,
}

enum From {
    Folder(PathBuf),
    /// The table that replaces one missing from a partition.
    Memory(Table),
}

/// Rows of a part, ascending, and what the part had when they were chosen.
pub(crate) struct Chosen<'a> {
    pub rows: &'a [u32],
    /// Rows of the part.
    pub count: usize,
    /// A column of which all these rows were read.
    pub read: Option<Sym>,
}

impl Part {
    /// The splayed table in a directory. `names`: its columns, or those wanted of them; `None` for all that it has.
    pub fn splayed(context: &mut Context, folder: PathBuf, names: Option<Vec<Sym>>) -> Held<Part> {
        let names = match names {
            Some(names) => names,
            None => column_names(context, &folder)?,
        };
        Ok(Part { from: From::Folder(folder), names, field: None })
    }

    /// A table that takes the place of a missing partition. Its column of the partition field is not that of a partition.
    pub fn in_memory(table: Table, field: Sym) -> Part {
        let all = table.names.into_iter().zip(table.columns);
        let (names, columns) = all.filter(|(name, _)| *name != field).unzip();
        let table = Table::new(names, columns);
        Part { names: table.names.clone(), from: From::Memory(table), field: None }
    }

    /// The part with the partition field before its columns, unless it has a column of this name.
    pub fn with_field(self, field: Sym, value: Value) -> Part {
        let field = if self.names.contains(&field) { None } else { Some((field, value)) };
        Part { field, ..self }
    }

    pub fn names(&self) -> &[Sym] {
        &self.names
    }

    /// The partition field.
    pub fn field(&self) -> Option<Sym> {
        self.field.as_ref().map(|(field, _)| *field)
    }

    /// Names of the columns, in their order.
    pub fn into_names(self) -> Vec<Sym> {
        self.names
    }

    fn has_field(&self, names: &[Sym]) -> bool {
        self.field().is_some_and(|field| names.contains(&field))
    }

    fn add_field(&self, table: &mut Table, rows: usize) {
        if let Some((field, value)) = &self.field {
            table.names.insert(0, *field);
            table.columns.insert(0, value.to_items().filled(rows).into());
        }
    }

    /// Returns all rows of the columns in `needed` (`None` for all of them), and the number of rows.
    ///
    /// # Errors
    /// `length` for columns that differ in length; those of reading.
    pub fn columns(&self, context: &mut Context, needed: Option<&[Sym]>) -> Held<(Table, usize)> {
        context.tick()?;
        let (mut table, rows) = match &self.from {
            From::Memory(table) => {
                let all = table.names.iter().copied().zip(table.columns.iter().cloned());
                let (names, columns) = all.filter(|(name, _)| needed.is_none_or(|n| n.contains(name))).unzip();
                (Table::new(names, columns), table.count())
            }
            From::Folder(folder) => self.stored(context, folder, needed)?,
        };
        if table.columns.iter().any(|c| c.len() != rows) {
            return Err(QError::named("length"));
        }
        // It alone says how many rows there are where no column is needed.
        if table.columns.is_empty() || needed.is_none_or(|needed| self.has_field(needed)) {
            self.add_field(&mut table, rows);
        }
        Ok((table, rows))
    }

    /// Returns the number of rows.
    ///
    /// # Errors
    /// Those of reading.
    pub fn count(&self, context: &mut Context) -> Held<usize> {
        Ok(self.columns(context, Some(&[]))?.1)
    }

    fn stored(&self, context: &mut Context, folder: &Path, needed: Option<&[Sym]>) -> Held<(Table, usize)> {
        let mut wanted: Vec<Sym> =
            self.names.iter().copied().filter(|n| needed.is_none_or(|w| w.contains(n))).collect();
        // A query that needs no column still needs the number of rows: the head of one column has it, or else the column is read.
        if wanted.is_empty() {
            let Some(first) = self.names.first() else { return Ok((Table::new(Vec::new(), Vec::new()), 0)) };
            if !grow::is_appending(folder)
                && let Some(count) = lists::count(context, &name_path(folder, *first))?
            {
                return Ok((Table::new(Vec::new(), Vec::new()), count));
            }
            wanted.push(*first);
        }
        let mut columns = Vec::with_capacity(wanted.len());
        for column in &wanted {
            let column = layout::read_column(context, &name_path(folder, *column))?;
            columns.push(column.into_vector().ok_or_else(type_error)?);
        }
        let mut table = Table::new(wanted, columns);
        lengths::even(context, folder, &mut table)?;
        let rows = table.count();
        Ok((allowed(context, table)?, rows))
    }

    /// Returns the chosen rows of the columns in `needed`.
    ///
    /// # Errors
    /// `length` for a column with another number of rows; those of reading.
    pub fn rows(&self, context: &mut Context, needed: &[Sym], chosen: &Chosen) -> Held<Table> {
        context.tick()?;
        let wanted: Vec<Sym> = self.names.iter().copied().filter(|name| needed.contains(name)).collect();
        let mut columns = Vec::with_capacity(wanted.len());
        for name in &wanted {
            let items = match &self.from {
                From::Memory(table) => {
                    let column = table.column(*name).ok_or_else(type_error)?;
                    gather::items(&context.allowance, &column.items, chosen.rows)?
                }
                From::Folder(folder) => self.column_rows(context, folder, *name, chosen)?,
            };
            columns.push(items.into());
        }
        let mut table = allowed(context, Table::new(wanted, columns))?;
        if self.has_field(needed) {
            self.add_field(&mut table, chosen.rows.len());
        }
        Ok(table)
    }

    /// Returns the first rows, at most so many, of the columns in `needed` (`None` for all), with the attributes of whole columns.
    ///
    /// # Errors
    /// `length` for a column with fewer rows; those of reading.
    pub fn first(&self, context: &mut Context, needed: Option<&[Sym]>, most: usize) -> Held<Table> {
        let folder = match &self.from {
            From::Folder(folder) => folder,
            From::Memory(table) => {
                let rows = table.count().min(most);
                let mut table = table.map(|c| Vector { attr: c.attr, ..c.cut(0, rows) });
                self.add_field(&mut table, rows);
                return Ok(table);
            }
        };
        let rows = self.count(context)?.min(most);
        let mut columns = Vec::new();
        let is_needed = |name: &&Sym| needed.is_none_or(|needed| needed.contains(name));
        let names: Vec<Sym> = self.names.iter().filter(is_needed).copied().collect();
        for name in &names {
            let column = beginning(context, &name_path(folder, *name), rows)?;
            if column.len() < rows {
                return Err(QError::named("length"));
            }
            columns.push(column);
        }
        let mut table = allowed(context, Table::new(names, columns))?;
        self.add_field(&mut table, rows);
        Ok(table)
    }

    /// The chosen items of a column.
    fn column_rows(&self, context: &mut Context, folder: &Path, name: Sym, chosen: &Chosen) -> Held<Items> {
        let path = name_path(folder, name);
        let (found, items) = picked(context, &path, chosen.rows)?;
        let read = chosen.read.or(self.names.first().copied()).unwrap_or(name);
        let has_grown = |context: &mut Context| -> Held<bool> {
            let read = name_path(folder, read);
            Ok(match StoredRows::open(context, &read)? {
                Some(read) => read.count() >= found,
                None => layout::read_column(context, &read)?.count() >= found,
            })
        };
        // While rows are appended, some columns have them already.
        let count = chosen.count;
        if found < count || found > count && !grow::is_appending(folder) && !has_grown(context)? {
            let reason = format!("{} has {found} rows, other columns {count}", path.display());
            return Err(QError::with("length", reason));
        }
        Ok(items)
    }
}

/// Items of a column at these rows, as far as it has them, and the number of items that it has.
fn picked(context: &mut Context, path: &Path, rows: &[u32]) -> Held<(usize, Items)> {
    let end = rows.last().map_or(0, |last| (*last as usize).saturating_add(1));
    let stored = StoredRows::open(context, path).map_err(|error| head::located(path, error))?;
    if let Some(stored) = stored.filter(|stored| end <= stored.count()) {
        let found = stored.count();
        return Ok((found, stored.pick(context, rows).map_err(|error| head::located(path, error))?));
    }
    if let Some((found, Vector { items, .. })) = lists::rows(context, path, rows)? {
        return Ok((found, items));
    }
    let all = layout::read_column(context, path)?.into_vector().ok_or_else(type_error)?;
    if end > all.len() {
        return Ok((all.len(), all.items.cut(0, 0)));
    }
    Ok((all.len(), gather::items(&context.allowance, &all.items, rows)?))
}

/// The first items of a column, as far as there are so many, with the attribute of the whole column.
fn beginning(context: &mut Context, path: &Path, rows: usize) -> Held<Vector> {
    let stored = StoredRows::open(context, path).map_err(|error| head::located(path, error))?;
    if let Some(stored) = stored.filter(|stored| rows <= stored.count()) {
        let attr = stored.attr();
        let items = stored.read(context, 0..rows).map_err(|error| head::located(path, error))?.items;
        return Ok(Vector { attr, items });
    }
    let first: Vec<u32> = (0..u32::try_from(rows).unwrap_or(u32::MAX)).collect();
    if let Some((_, items)) = lists::rows(context, path, &first)? {
        return Ok(items);
    }
    let all = layout::read_column(context, path)?.into_vector().ok_or_else(type_error)?;
    Ok(Vector { attr: all.attr, ..all.cut(0, rows.min(all.len())) })
}

/// A table that was read from files. What is in a list may be a function, which not every evaluation may take from a file.
fn allowed(context: &Context, table: Table) -> Held<Table> {
    for column in &table.columns {
        if let Vector { items: Items::List(_), .. } = column {
            context.host.makes_code(Made::Value(&Value::Vector(column.clone())))?;
        }
    }
    Ok(table)
}

/// The splayed table that a query is over: of the path of its directory, or of a table on disk that is no partitioned one. `None` for anything else.
pub(crate) fn splayed_of(context: &mut Context, x: &Value) -> Held<Option<Part>> {
    let (place, names) = match crate::verbs::on_disk::described(context, x) {
        Some((names, place)) => (place, Some(names)),
        None => match x {
            Value::Sym(place) => (*place, None),
            _ => return Ok(None),
        },
    };
    if !crate::runtime::paths::is_path(place) {
        return Ok(None);
    }
    let folder = super::path(context, &Value::Sym(place))?;
    if !folder.join(".d").is_file() {
        return Ok(None);
    }
    Part::splayed(context, folder, names).map(Some)
}
