//! Amends of a table by column or by row.

use super::{nothing_of, set_item};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::verbs::find;
use columns::table::symbol::text;
use columns::table::{Dict, Table, Value};

/// Returns the table with a column or a row replaced.
pub(super) fn set_in_table(context: &mut Context, mut t: Table, key: &Value, new: Value) -> Result<Value, QError> {
    t.sorted = false;
    match key {
        Value::Sym(name) => {
            let rows = t.count();
            let column = match new {
                list @ (Value::Vector(_) | Value::Table(_)) => list,
                scalar => Value::collapse(vec![scalar; rows]),
            };
            let column = column.into_vector().ok_or(QError::named("type"))?;
            if column.len() != rows && !t.columns.is_empty() {
                return Err(QError::named("length"));
            }
            match limits::place(&t.names, *name)?.and_then(|at| t.columns.get_mut(at)) {
                Some(old) => *old = column,
                None => {
                    t.names.push(*name);
                    t.columns.push(column);
                }
            }
            Ok(Value::table(t))
        }
        row => {
            if matches!(new, Value::Vector(_)) && new.count() != t.columns.len() {
                return Err(QError::named("length"));
            }
            if let Value::Dict(d) = &new {
                has_no_other_columns(&t, d)?;
            }
            for (i, column) in t.columns.iter_mut().enumerate() {
                let name = t.names.get(i).copied().unwrap_or_default();
                let item = match &new {
                    Value::Dict(d) => match find::position(&d.keys, &Value::Sym(name))? {
                        Some(at) => d.values.at(at),
                        None => continue,
                    },
                    list @ Value::Vector(_) => list.at(i),
                    Value::Null => nothing_of(column),
                    atom if atom.is_atom() => atom.clone(),
                    _ => return Err(QError::named("type")),
                };
                let changed = set_item(context, column.clone(), row, item)?;
                *column = changed.into_vector().ok_or(QError::named("type"))?;
            }
            Ok(Value::table(t))
        }
    }
}

/// A record that replaces a row may leave out columns, whose cells stay, but has no others: their values would be lost.
fn has_no_other_columns(t: &Table, record: &Dict) -> Result<(), QError> {
    let names = record.keys.as_symbols().ok_or(QError::named("type"))?;
    match names.iter().find(|name| !t.names.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let name = String::from_utf8_lossy(text(*name)).into_owned();
            Err(QError::with("mismatch", format!("the table has no column {name}")))
        }
    }
}
