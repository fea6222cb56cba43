//! New rows made to fit a table: their columns in its order, missing ones as nulls, types checked, symbols enumerated.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::type_error;
use crate::verbs::cast;
use crate::verbs::given::{other_columns, other_type};
use crate::verbs::rows::{row_table, unkey};
use columns::kernel::num::Num;
use columns::sys::shared::Nests;
use columns::table::{Items, Sym, Table, Value, Vector};
use proto::types;
use std::sync::Arc;

/// Rows that fit a table.
pub(crate) struct Fitting {
    pub rows: Table,
    /// Columns that the rows have been given with; `None` if all.
    given: Option<Vec<Sym>>,
}

impl Fitting {
    /// Rows with all columns of the table, in its order and of its types.
    pub fn whole(rows: Table) -> Fitting {
        Fitting { rows, given: None }
    }

    /// Whether a column's items come from the rows rather than being nulls for a column that they lack.
    pub fn is_given(&self, name: Sym) -> bool {
        self.given.as_ref().is_none_or(|given| given.contains(&name))
    }
}

/// Returns new rows for `x`, a table with or without keys. If `widens`, rows may lack columns, and may be a list of records.
///
/// # Errors
/// `mismatch`, `length`, `type`; `cast` for an item that is not in the domain of its column; `step` for a sorted dictionary.
pub(crate) fn fitting(
    context: &mut Context,
    x: &Value,
    rows: &Value,
    widens: bool,
) -> std::result::Result<Fitting, QError> {
    // As in kdb+, the first rows of an upsert decide the types: TorQ's timers have int keys and long numbers, its log table an int column.
    // Integers take the width of their column: k4unit, with which TorQ is tested, inserts records with longs into columns of ints.
    let is_table = matches!(rows, Value::Table(_)) || matches!(rows, Value::Dict(d) if d.keyed().is_some());
    let accepts = match widens && x.count() == 0 {
        true if !is_table => Accepts::Any,
        any => Accepts::Integers { any },
    };
    let (whole, rows) = match x {
        Value::Table(t) if widens && is_keyed(rows) => return Err(keyed_rows(t, rows)),
        Value::Table(t) => (Arc::clone(t), rows.clone()),
        Value::Dict(d) if d.sorted => return Err(QError::named("step")),
        Value::Dict(d) if d.keyed().is_some() => {
            let Value::Table(whole) = unkey(x)? else { return Err(type_error()) };
            if let Some((keys, _)) = d.keyed() {
                has_keys(keys, rows)?;
            }
            let flat = match rows {
                Value::Dict(r) if r.keyed().is_some() => unkey(rows)?,
                other => other.clone(),
            };
            (whole, flat)
        }
        _ => return Err(type_error()),
    };
    let wide = if widens { widened(&whole, &rows)? } else { None };
    let given = match (&wide, &rows) {
        (Some(_), Value::Table(given)) => Some(given.names.clone()),
        (Some(_), Value::Dict(given)) => given.keys.as_symbols().map(<[Sym]>::to_vec),
        _ => None,
    };
    let new = conform_to(&whole, wide.as_ref().unwrap_or(&rows), accepts)?;
    let rows = retagged(context, &whole, new)?;
    limits::shallow(rows.depth())?;
    Ok(Fitting { rows, given })
}

/// Checks that new rows of a keyed table have its key columns. Other columns may be missing.
///
/// # Errors
/// `mismatch` for a keyed table; the name of the column for others.
fn has_keys(keys: &Table, rows: &Value) -> std::result::Result<(), QError> {
    let lacks = |given: &[Sym]| keys.names.iter().find(|name| !given.contains(name)).copied();
    let missing = match rows {
        Value::Dict(d) => match (d.keyed(), &d.keys) {
            (Some((given, _)), _) => match lacks(&given.names) {
                Some(_) => return Err(QError::with("mismatch", "the key columns differ")),
                None => None,
            },
            (None, names) => names.as_symbols().filter(|names| !names.is_empty()).and_then(lacks),
        },
        Value::Table(given) => lacks(&given.names),
        _ => None,
    };
    missing.map_or(Ok(()), |name| Err(QError::no_column(columns::table::symbol::text(name))))
}

/// Returns new rows as a table that fits `t`, with types checked; an untyped empty column accepts any type, one of integers those of another width.
pub(crate) fn conform(t: &Table, rows: &Value) -> std::result::Result<Table, QError> {
    conform_to(t, rows, Accepts::Integers { any: false })
}

/// Types of new rows that a typed column accepts beside its own.
#[derive(Clone, Copy, PartialEq)]
enum Accepts {
    /// Integers of another width; all others too if `any`.
    Integers {
        any: bool,
    },
    Any,
}

impl Accepts {
    fn takes(self, old: i8, new: i8) -> bool {
        match self {
            Accepts::Integers { any } => any || is_integer(old) && is_integer(new),
            Accepts::Any => true,
        }
    }
}

fn is_integer(t: i8) -> bool {
    (types::SHORT..=types::LONG).contains(&t)
}

/// As [`conform`], but accepts other types too. An enumerated column still accepts symbols only, and a foreign key the keys of its table.
fn conform_to(t: &Table, rows: &Value, accepts: Accepts) -> std::result::Result<Table, QError> {
    let mut new = match rows {
        Value::Table(new) => {
            if new.names.len() != t.names.len() {
                return Err(other_columns(&t.names, &new.names));
            }
            let mut out = Table::new(t.names.clone(), Vec::new());
            for name in &t.names {
                out.columns.push(new.column(*name).ok_or_else(|| other_columns(&t.names, &new.names))?.clone());
            }
            out
        }
        Value::Dict(d) if d.keyed().is_some() => {
            let Value::Table(flat) = unkey(rows)? else { return Err(type_error()) };
            return conform_to(t, &Value::Table(flat), accepts);
        }
        row => row_table(t, row)?,
    };
    for ((name, old), new) in t.names.iter().zip(&t.columns).zip(&new.columns) {
        let (a, b) = (old.items.type_number(), new.items.type_number());
        let symbols = matches!((a, b), (20, 11) | (11, 20));
        let other = accepts.takes(a, b) && crate::runtime::values::domain_of_items(&old.items).is_none();
        // A foreign key column takes keys of any type here; `retagged` looks them up, and signals 'cast for one that the key table lacks.
        let keys = matches!(old.items, Items::Link(..));
        let is_same = a == b || a == 0 || (b == 0 && new.is_empty());
        if !is_same && !symbols && !keys && !other {
            return Err(other_type(*name, &old.items, &new.items));
        }
    }
    if matches!(accepts, Accepts::Integers { .. }) {
        narrow(t, &mut new)?;
    }
    Ok(new)
}

/// Returns the infinity of an integer type as a number.
fn greatest(t: i8) -> i64 {
    match t {
        types::SHORT => i64::from(i16::MAX),
        types::INT => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}

/// Gives integer columns the width that they have in `t`.
///
/// # Errors
/// `type` if a value does not fit into it.
fn narrow(t: &Table, new: &mut Table) -> std::result::Result<(), QError> {
    for ((name, old), column) in t.names.iter().zip(&t.columns).zip(&mut new.columns) {
        match of_width(old.items.type_number(), &column.items)? {
            Width::Same => {}
            Width::Changed(items) => *column = items.into(),
            Width::TooSmall => return Err(other_type(*name, &old.items, &column.items)),
        }
    }
    Ok(())
}

/// Integers for a column of integers of another width.
pub(crate) enum Width {
    /// Both are of one type, or one of them is not of integers.
    Same,
    Changed(Items),
    /// One does not fit: 70000 into a column of shorts.
    TooSmall,
}

/// Gives integers the width of type `to`.
pub(crate) fn of_width(to: i8, items: &Items) -> std::result::Result<Width, QError> {
    let from = items.type_number();
    if from == to || !is_integer(from) || !is_integer(to) {
        return Ok(Width::Same);
    }
    let Items::Long(longs) = cast::to_type(types::LONG, items)? else { return Err(type_error()) };
    let fits = |long: &i64| *long == i64::NULL || long.abs() == greatest(from) || long.abs() <= greatest(to);
    // A cast would make infinities of the others.
    if !longs.iter().all(fits) {
        return Ok(Width::TooSmall);
    }
    cast::to_type(to, items).map(Width::Changed)
}

/// Enumerates the new rows' items where `t`'s column is enumerated.
fn retagged(context: &mut Context, t: &Table, mut new: Table) -> std::result::Result<Table, QError> {
    for (old, column) in t.columns.iter().zip(&mut new.columns) {
        if let Some(domain) = crate::runtime::values::domain_of_items(&old.items)
            && crate::runtime::values::domain_of_items(&column.items).is_none()
        {
            let tagged = crate::verbs::enums::enumerate(context, domain, column.clone().into())?;
            *column = tagged.into_vector().ok_or_else(type_error)?;
        }
    }
    Ok(new)
}

pub(crate) fn is_keyed(x: &Value) -> bool {
    matches!(x, Value::Dict(d) if d.keyed().is_some())
}

/// `'mismatch` of a keyed table that is joined to a plain one: it is a dictionary, whose keys are no column names.
pub(crate) fn keyed_rows(t: &Table, rows: &Value) -> QError {
    let own = |x: &Value| matches!(unkey(x), Ok(Value::Table(new)) if new.names.iter().all(|n| t.column(*n).is_some()));
    match (own(rows), unkey(rows)) {
        (false, Ok(Value::Table(new))) => other_columns(&t.names, &new.names),
        _ => QError::with("mismatch", "the table has no keys, and the new rows have; 0! removes them"),
    }
}

/// Completes rows that lack some of the table's columns with nulls; turns a list of records into a table.
pub(crate) fn widened(t: &Table, rows: &Value) -> std::result::Result<Option<Value>, QError> {
    let given = match rows {
        Value::Table(new) => (**new).clone(),
        Value::Dict(d)
            if d.keyed().is_none() && matches!(&d.keys, Value::Vector(v) if matches!(v.items, Items::Sym(_))) =>
        {
            let names = d.keys.as_symbols().ok_or_else(type_error)?.to_vec();
            let columns = d.values.items().into_iter().map(|v| match v {
                atom if atom.is_scalar() => Vector::from(atom.to_items()),
                list => Items::List(vec![list].into()).into(),
            });
            Table::new(names, columns.collect())
        }
        Value::Vector(Vector { items: Items::List(l), .. })
            if !l.is_empty()
                && l.iter().all(|r| matches!(r, Value::Vector(_)) && r.count() == t.names.len())
                && (l.len() != t.names.len() || rows_fit(t, rows)) =>
        {
            return crate::verbs::rows::flip_list(rows.clone()).map(Some);
        }
        _ => return Ok(None),
    };
    for name in &given.names {
        if crate::runtime::limits::place(&t.names, *name)?.is_none() {
            return Err(other_columns(&t.names, &given.names));
        }
    }
    if given.names.len() == t.names.len() {
        return Ok(None);
    }
    let count = given.count();
    let mut out = Table::new(t.names.clone(), Vec::with_capacity(t.names.len()));
    for (name, column) in t.names.iter().zip(&t.columns) {
        out.columns.push(match given.column(*name) {
            Some(own) => own.clone(),
            None => column.items.gather(&vec![-1i64; count]).into(),
        });
    }
    Ok(Some(Value::table(out)))
}

/// Whether every list is a record of the table, judging by item types.
fn rows_fit(t: &Table, rows: &Value) -> bool {
    crate::verbs::rows::flip_list(rows.clone()).is_ok_and(|columns| fits_columns(t, &columns.items()))
}

/// Whether the lists are columns of the table, judging by types.
fn fits_columns(t: &Table, lists: &[Value]) -> bool {
    t.columns.iter().zip(lists).all(|(c, l)| {
        let own = c.items.type_number();
        own == types::LIST || own == l.type_number() || (own == types::ENUM && l.type_number() == types::SYMBOL)
    })
}
