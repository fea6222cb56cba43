//! Tables made from rows, from columns and from other tables, plain and keyed.

use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::{Result, type_error};
use crate::verbs::given::{other_columns, other_width};
use crate::verbs::matches::same;
use columns::table::{Attr, Dict, Items, Table, Value, Vector};
use proto::types;
use std::sync::Arc;

/// The table with a dictionary's columns; atoms are repeated.
pub(crate) fn from_columns(d: &Dict) -> Result {
    let names = d.keys.as_symbols().ok_or_else(type_error)?.to_vec();
    let mut values = d.values.items();
    let of_rows = keys_of_dictionaries(values.iter_mut())?;
    let rows = values.iter().find(|v| !v.is_scalar()).map(Value::count).ok_or(QError::named("rank"))?;
    let mut columns = Vec::with_capacity(values.len());
    for value in values {
        let column = if value.is_scalar() { Value::collapse(vec![value; rows]) } else { value };
        let column = column.into_vector().ok_or_else(type_error)?;
        if column.len() != rows {
            return Err(QError::named("length"));
        }
        columns.push(column);
    }
    let table = Value::table(Table::new(names, columns));
    Ok(match of_rows {
        Some(keys) => Value::dict(keys, table),
        None => table,
    })
}

/// Replaces each column that is a dictionary by its values, and returns the keys of the first one: `([]n:d)` is the dictionary of its rows, so that
/// a keyed table at `([]n:d)` is a dictionary with the keys of `d`.
///
/// # Errors
/// `mismatch` if two columns are dictionaries whose keys differ.
pub(crate) fn keys_of_dictionaries<'a>(
    values: impl Iterator<Item = &'a mut Value>,
) -> std::result::Result<Option<Value>, QError> {
    let mut keys: Option<Value> = None;
    for value in values {
        if let Value::Dict(d) = value
            && d.keyed().is_none()
        {
            match &keys {
                Some(keys) if !same(keys, &d.keys)? => {
                    return Err(QError::with("mismatch", "the dictionaries among the columns have other keys"));
                }
                Some(_) => {}
                None => keys = Some(d.keys.clone()),
            }
            *value = d.values.clone();
        }
    }
    Ok(keys)
}

/// The columns of `a`, then those of `b`; of a name in both, the column of `b`: what joining the rows pairwise leaves of tables without rows.
pub(crate) fn beside(a: &Table, b: &Table) -> Table {
    let mut all = Table::new(a.names.clone(), a.columns.clone());
    for (name, column) in b.names.iter().zip(&b.columns) {
        match all.names.iter().position(|n| n == name).and_then(|at| all.columns.get_mut(at)) {
            Some(own) => *own = column.clone(),
            None => {
                all.names.push(*name);
                all.columns.push(column.clone());
            }
        }
    }
    all
}

/// The table with its first `keys` columns as keys.
pub(crate) fn key_by(keys: usize, t: &Table) -> Result {
    if keys == 0 {
        return Ok(Value::table(t.clone()));
    }
    if keys >= t.columns.len() {
        return Err(QError::named("length"));
    }
    let mut names = t.names.clone();
    let mut columns = t.columns.clone();
    let (value_names, value_columns) = (names.split_off(keys), columns.split_off(keys));
    Ok(Value::dict(Value::table(Table::new(names, columns)), Value::table(Table::new(value_names, value_columns))))
}

/// A keyed table as a plain one.
pub(crate) fn unkey(x: &Value) -> Result {
    match x {
        Value::Table(_) => Ok(x.clone()),
        Value::Dict(d) => {
            let (k, v) = d.keyed().ok_or_else(type_error)?;
            let mut out = k.clone();
            out.names.extend_from_slice(&v.names);
            out.columns.extend_from_slice(&v.columns);
            out.sorted = false;
            Ok(Value::table(out))
        }
        _ => Err(type_error()),
    }
}

/// Whether a simple list, such as text, is one item of the only key column, which holds nothing but lists.
pub(crate) fn is_item_of_lists(keys: &Table, values: &Value) -> bool {
    let is_simple = matches!(values, Value::Vector(v) if !matches!(v.items, Items::List(_)));
    let holds_lists = |column: &Vector| match &column.items {
        Items::List(items) => items.iter().all(|item| !item.is_scalar()),
        _ => false,
    };
    is_simple && matches!(&keys.columns[..], [column] if holds_lists(column))
}

/// One or more rows, given as a dictionary or a list, as a table like `t`.
pub(crate) fn row_table(t: &Table, row: &Value) -> std::result::Result<Table, QError> {
    let values: Vec<Value> = match row {
        Value::Dict(d) => {
            let names = d.keys.as_symbols().ok_or_else(type_error)?;
            let mut out = Vec::with_capacity(t.names.len());
            for name in &t.names {
                let at = limits::place(names, *name)?.ok_or_else(|| other_columns(&t.names, names))?;
                out.push(d.values.at(at));
            }
            if names.len() != t.names.len() {
                return Err(other_columns(&t.names, names));
            }
            out
        }
        list => list.items(),
    };
    if values.len() != t.names.len() {
        return Err(other_width(t.names.len(), values.len()));
    }
    // Atoms make one row; lists make as many rows as they have items. A column of lists takes a list as one item.
    let one_row = values.first().is_some_and(Value::is_scalar);
    let nested = |i: usize| match t.columns.get(i).map(|column| &column.items) {
        Some(Items::List(l)) => one_row || l.first().is_some_and(|v| !v.is_scalar()),
        _ => false,
    };
    // One vector in a list is a column of one row also beside atoms, as in (`a;enlist"text"); one general list in a list is an item. Beside a dictionary,
    // which is no column, nothing is: in TorQ's table of log files a row has a dictionary, and a list of one table's name or of several.
    let may_be_column = !one_row || !values.iter().any(|v| matches!(v, Value::Dict(_)));
    let holds_one_vector = |v: &Value| v.count() == 1 && !v.at(0).is_scalar() && v.at(0).type_number() != types::LIST;
    let is_column = |v: &Value| may_be_column && v.type_number() == types::LIST && (!one_row || holds_one_vector(v));
    let is_batch = |(i, v): (usize, &Value)| !v.is_scalar() && (!nested(i) || is_column(v));
    let mut lengths = values.iter().filter(|v| !v.is_scalar()).map(Value::count);
    // Beside an atom, lists of several lengths are items of one row: TorQ's table of subscribers holds conditions and columns.
    let first = lengths.next();
    let is_even = !one_row || lengths.all(|length| Some(length) == first);
    let many = is_even && !matches!(row, Value::Dict(_)) && values.iter().enumerate().any(is_batch);
    let rows = if many { values.iter().find(|v| !v.is_scalar()).map_or(1, Value::count) } else { 1 };
    let mut columns = Vec::with_capacity(values.len());
    for value in values {
        let column = match (many, value.is_scalar()) {
            // Like dictionaries in a list are a table: here one of each row.
            (true, false) if matches!(&value, Value::Table(t) if !one_row && t.count() == rows) => {
                Items::List(value.items().into()).into()
            }
            (true, false) => value,
            (true, true) => Value::collapse(vec![value; rows]),
            // `Value::collapse` would make a table of a list with one dictionary. The column must hold the dictionary itself.
            (false, _) if matches!(value, Value::Dict(_)) => Items::List(vec![value].into()).into(),
            (false, _) => Value::collapse(vec![value]),
        };
        let column = match column {
            Value::Vector(v) => v,
            other => Items::List(vec![other].into()).into(),
        };
        if column.len() != rows {
            return Err(QError::named("length"));
        }
        columns.push(column);
    }
    Ok(Table::new(t.names.clone(), columns))
}

/// Checks the memory that [`join_tables`] needs.
pub(crate) fn room_for_rows(a: &Arc<Table>, b: &Table) -> std::result::Result<(), QError> {
    let bytes = |t: &Table| t.columns.iter().map(|c| c.items.held_bytes()).fold(0, usize::saturating_add);
    // Shared columns are copied.
    let copied = if Arc::strong_count(a) > 1 { bytes(a) } else { 0 };
    limits::room(bytes(b).saturating_add(copied))
}

/// Appends the rows of `b` to those of `a`; the columns must be the same.
pub(crate) fn join_tables(a: Arc<Table>, b: &Table) -> Result {
    room_for_rows(&a, b)?;
    let is_same = a.names.len() == b.names.len() && a.names.iter().all(|name| b.column(*name).is_some());
    if !a.columns.is_empty() && !is_same {
        return Err(other_columns(&a.names, &b.names));
    }
    Ok(Value::table(joined(a, b)))
}

/// As [`join_tables`], for rows that are known to fit.
pub(crate) fn joined(a: Arc<Table>, b: &Table) -> Table {
    let mut a = Arc::unwrap_or_clone(a);
    if a.columns.is_empty() {
        return b.clone();
    }
    for (name, column) in a.names.iter().zip(&mut a.columns) {
        let Some(more) = b.column(*name) else { continue };
        let own = std::mem::replace(&mut column.items, Items::List(Default::default()));
        column.items = own.join(&more.items);
        column.attr = Attr::None;
    }
    a.sorted = false;
    a
}

pub(crate) fn flip_list(x: Value) -> Result {
    // A simple vector cannot be flipped.
    if matches!(&x, Value::Vector(v) if !matches!(v.items, Items::List(_)) && !v.is_empty()) {
        return Err(QError::named("rank"));
    }
    let rows = limits::items(&x)?;
    if x.is_nothing() {
        return Ok(x);
    }
    if rows.iter().all(Value::is_scalar) {
        return Err(QError::named("rank"));
    }
    let mut wide = None;
    for row in rows.iter().filter(|r| !r.is_scalar()) {
        if *wide.get_or_insert(row.count()) != row.count() {
            return Err(QError::named("length"));
        }
    }
    let wide = wide.unwrap_or(0);
    let mut out = limits::list(wide)?;
    for i in 0..wide {
        limits::step()?;
        out.push(Value::collapse(limits::collected(rows.iter().map(|r| r.at(i)))?));
    }
    Ok(Value::list(out))
}

/// A dictionary as a row of a table; a new one may lack names, where it is null, or have them in another order. Returns `None` if it is no row.
///
/// # Errors
/// `mismatch` for a new row with a name that is no column.
pub(crate) fn row_like(rows: &Table, row: &Dict, is_new: bool) -> std::result::Result<Option<Value>, QError> {
    let (None, Some(names)) = (row.keyed(), row.keys.as_symbols()) else { return Ok(None) };
    if names == &rows.names[..] {
        return Ok(Some(Value::dict(row.keys.clone(), row.values.clone())));
    }
    // An existing record may be replaced by one with other names: the values are then a list of records, no table.
    if !is_new {
        return Ok(None);
    }
    if let Some(other) = names.iter().find(|name| !rows.names.contains(name)) {
        let other = columns::table::symbol::text(*other).escape_ascii();
        return Err(QError::with("mismatch", format!("{other} is no key of the other values")));
    }
    let cells = rows.names.iter().zip(&rows.columns).map(|(name, column)| {
        let at = names.iter().position(|own| own == name);
        at.map_or_else(|| column.items.missing(), |at| row.values.at(at))
    });
    Ok(Some(Value::dict(Value::symbols(rows.names.clone()), Value::collapse(cells.collect()))))
}
