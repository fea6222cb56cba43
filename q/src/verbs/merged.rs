//! Arithmetic of two dictionaries or keyed tables column by column instead of key by key, if their values have the same types.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::op::Op;
use crate::verbs::arith::{alone, atomic, columns, dictionaries};
use crate::verbs::find;
use crate::verbs::fit::Fitting;
use crate::verbs::sets;
use crate::verbs::shape::join;
use columns::table::{Attr, Dict, Items, Sym, Table, Value, Vector};
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

/// Arithmetic of keyed tables with columns of other names or in another order; `None` if the columns are the same. Columns of both are computed as
/// those of keyed tables that have only them. A column of one side alone keeps its values, and has zero for keys that only the other side has.
pub(super) fn by_names(context: &mut Context, op: Op, a: &Dict, b: &Dict) -> Result<Option<Value>, QError> {
    let (Some((_, x)), Some((_, y))) = (a.keyed(), b.keyed()) else { return Ok(None) };
    if x.names == y.names {
        return Ok(None);
    }
    let mut names = x.names.clone();
    let mut shared: Vec<Sym> = Vec::new();
    for name in &y.names {
        let is_of_both = limits::place(&x.names, *name)?.is_some();
        if is_of_both { &mut shared } else { &mut names }.push(*name);
    }
    let keys = sets::union(context, a.keys.clone(), b.keys.clone())?;
    let (left, right) = (find::all(context, &a.keys, &keys)?, find::all(context, &b.keys, &keys)?);
    let of = |keys: &Value, t: &Table| -> Dict {
        let columns = shared.iter().filter_map(|name| t.column(*name).cloned()).collect();
        Dict { sorted: false, keys: keys.clone(), values: Value::table(Table::new(shared.clone(), columns)) }
    };
    let both = match shared.is_empty() {
        true => None,
        false => Some(dictionaries(context, op, &of(&a.keys, x), &of(&b.keys, y))?),
    };
    let mut columns = Vec::with_capacity(names.len());
    for name in &names {
        limits::pace()?;
        let column = match (&both, x.column(*name), y.column(*name)) {
            (Some(Value::Dict(both)), Some(_), Some(_)) => both.keyed().and_then(|(_, t)| t.column(*name)).cloned(),
            (_, Some(own), _) => alone(context, op, or_zero(own, &left), false)?.into_vector(),
            (_, None, Some(own)) => alone(context, op, or_zero(own, &right), true)?.into_vector(),
            _ => None,
        };
        columns.push(column.ok_or(QError::named("type"))?);
    }
    limits::settle()?;
    Ok(Some(Value::dict(keys, Value::table(Table::new(names, columns)))))
}

/// Items of a column at these rows, and zero for rows out of range; null if the type has no zero.
fn or_zero(column: &Vector, rows: &[i64]) -> Value {
    let zero = match column.items.type_number() {
        number if matches!(column.items, Items::List(_) | Items::Sym(_) | Items::Char(_) | Items::Guid(_)) => {
            Value::null_of(number)
        }
        _ if column.items.is_enumerated() => Value::Null,
        number => Value::from_long(number, 0),
    };
    if zero.type_number() >= 0 {
        return column.items.gather(rows).into();
    }
    let last = column.len() as i64;
    let rows: Vec<i64> = rows.iter().map(|row| if *row >= 0 && *row < last { *row } else { last }).collect();
    column.items.clone().join(&zero.to_items()).gather(&rows).into()
}
