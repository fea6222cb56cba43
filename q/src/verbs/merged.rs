//! Arithmetic of two dictionaries or keyed tables column by column instead of key by key, if their values have the same types.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::op::Op;
use crate::verbs::arith::{alone, atomic, columns};
use crate::verbs::find;
use crate::verbs::fit::Fitting;
use crate::verbs::shape::join;
use columns::table::{Attr, Dict, Items, Table, Value, Vector};
use std::sync::Arc;

/// Whether both are vectors of one simple type, or tables of the same columns of such.
fn are_alike(x: &Value, y: &Value) -> bool {
    let of_one_type = |x: &Vector, y: &Vector| {
        let is_simple = !matches!(x.items, Items::List(_) | Items::Enum(..) | Items::Link(..));
        is_simple && x.items.type_number() == y.items.type_number() && !y.items.is_enumerated()
    };
    match (x, y) {
        (Value::Vector(x), Value::Vector(y)) => of_one_type(x, y),
        (Value::Table(x), Value::Table(y)) => {
            x.names == y.names && x.columns.iter().zip(&y.columns).all(|(x, y)| of_one_type(x, y))
        }
        _ => false,
    }
}

/// The rows of a keyed table that has the columns and types of another one; `None` if it has not, or if a unique column might refuse them.
pub(super) fn rows_alike(a: &Dict, b: &Dict) -> Option<Fitting> {
    let ((_, values), (new_keys, new_values)) = (a.keyed()?, b.keyed()?);
    let is_unique = |column: &Vector| column.attr == Attr::Unique;
    if a.sorted
        || !are_alike(&a.keys, &b.keys)
        || !are_alike(&a.values, &b.values)
        || values.columns.iter().any(is_unique)
    {
        return None;
    }
    let names = [&new_keys.names[..], &new_values.names[..]].concat();
    Some(Fitting::whole(Table::new(names, [&new_keys.columns[..], &new_values.columns[..]].concat())))
}

fn are_distinct(keys: &Value) -> Result<bool, QError> {
    Ok(find::groups_of(keys)?.firsts.len() == keys.count())
}

/// `x` without attributes, with items replaced by those of `new`, which is alike: each row by the next of `new`.
fn replaced(x: &Value, rows: &[i64], new: &Value) -> Option<Value> {
    let rows: Vec<(usize, usize)> =
        rows.iter().zip(0..).filter_map(|(to, from)| Some(((*to).try_into().ok()?, from))).collect();
    let put = |x: &Vector, new: &Vector| {
        let mut items = x.items.clone();
        items.put(&rows, &new.items);
        Vector { attr: Attr::None, items }
    };
    match (x, new) {
        (Value::Vector(x), Value::Vector(new)) => Some(put(x, new).into()),
        (Value::Table(x), Value::Table(new)) => {
            let columns = x.columns.iter().zip(&new.columns).map(|(x, new)| put(x, new)).collect();
            Some(Value::Table(Arc::new(Table::new(x.names.clone(), columns))))
        }
        _ => None,
    }
}

/// The result for the keys of both; `None` where it must be computed value by value: keys that are repeated, values of other types, or a result
/// of another type.
pub(super) fn by_columns(context: &mut Context, op: Op, a: &Dict, b: &Dict) -> Result<Option<Value>, QError> {
    if matches!(op, Op::Compare(_))
        || a.sorted
        || b.sorted
        || !are_alike(&a.keys, &b.keys)
        || !are_alike(&a.values, &b.values)
    {
        return Ok(None);
    }
    if a.keys.count() == 0 || b.keys.count() == 0 || !are_distinct(&a.keys)? || !are_distinct(&b.keys)? {
        return Ok(None);
    }
    let (mut rows, mut others, mut new) = (Vec::new(), Vec::new(), Vec::new());
    let count = a.keys.count() as i64;
    limits::room_for::<[i64; 2]>(b.keys.count())?;
    for (at, row) in find::all(context, &a.keys, &b.keys)?.into_iter().zip(0i64..) {
        if at < count {
            rows.push(at);
            others.push(row);
        } else {
            new.push(row);
        }
    }
    let (own, both) = (a.values.gather(&rows), b.values.gather(&others));
    let both = if rows.is_empty() { own } else { atomic(context, op, &own, &both)? };
    let added = match b.values.gather(&new) {
        Value::Table(t) => columns(&t, |_, column| alone(context, op, column.clone(), true))?,
        values => alone(context, op, values, true)?,
    };
    if !are_alike(&both, &a.values) || !are_alike(&added, &a.values) {
        return Ok(None);
    }
    limits::settle()?;
    let Some(values) = replaced(&a.values, &rows, &both) else { return Ok(None) };
    if new.is_empty() {
        return Ok(Some(Value::dict(a.keys.clone(), values)));
    }
    let keys = join(context, a.keys.clone(), b.keys.gather(&new))?;
    Ok(Some(Value::dict(keys, join(context, values, added)?)))
}
