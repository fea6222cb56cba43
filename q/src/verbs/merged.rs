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
use std::collections::HashMap;
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

/// `a+b`, `a=b`, `a^b`, … of keyed tables whose value columns differ in name or order; `None` if they do not.
///
/// `([k:`x`y]u:1 2)+([k:`y`z]w:10 20)` has the columns u and w. A column of both tables is computed key by key. One that only `a` has keeps its values;
/// at a key that only `b` has, its missing value counts as 0 in arithmetic, and as null in `^` and in comparisons.
pub(super) fn by_names(context: &mut Context, op: Op, a: &Dict, b: &Dict) -> Result<Option<Value>, QError> {
    let (Some((_, x)), Some((_, y))) = (a.keyed(), b.keyed()) else { return Ok(None) };
    if x.names == y.names {
        return Ok(None);
    }
    let places = |t: &Table| t.names.iter().copied().zip(0usize..).collect::<HashMap<Sym, usize>>();
    limits::room_for::<[(Sym, usize); 2]>(x.names.len().saturating_add(y.names.len()))?;
    let (in_x, in_y) = (places(x), places(y));
    let of = |keys: &Value, t: &Table, places: &[usize]| -> Dict {
        let names = places.iter().filter_map(|at| t.names.get(*at).copied()).collect();
        let columns = places.iter().filter_map(|at| t.columns.get(*at).cloned()).collect();
        Dict { sorted: false, keys: keys.clone(), values: Value::table(Table::new(names, columns)) }
    };
    let shared: Vec<(usize, usize)> =
        x.names.iter().zip(0usize..).filter_map(|(name, at)| Some((at, *in_y.get(name)?))).collect();
    let (own, other): (Vec<usize>, Vec<usize>) = shared.iter().copied().unzip();
    let keys = sets::union(context, a.keys.clone(), b.keys.clone())?;
    let both = match shared.is_empty() {
        true => None,
        false => Some(dictionaries(context, op, &of(&a.keys, x, &own), &of(&b.keys, y, &other))?),
    };
    let mut computed = match &both {
        Some(Value::Dict(both)) => both.keyed().map_or(&[][..], |(_, t)| &t.columns[..]).iter(),
        _ => [].iter(),
    };
    let (left, right) = (find::all(context, &a.keys, &keys)?, find::all(context, &b.keys, &keys)?);
    let names: Vec<Sym> =
        x.names.iter().chain(y.names.iter().filter(|name| !in_x.contains_key(name))).copied().collect();
    let mut columns = Vec::with_capacity(names.len());
    for name in &names {
        limits::pace()?;
        let column = |t: &Table, at: Option<&usize>| at.and_then(|at| t.columns.get(*at)).cloned();
        let column = match (column(x, in_x.get(name)), column(y, in_y.get(name))) {
            (Some(_), Some(_)) => computed.next().cloned(),
            (Some(own), None) => alone(context, op, without_gaps(op, &own, &left), false)?.into_vector(),
            (None, Some(own)) => alone(context, op, without_gaps(op, &own, &right), true)?.into_vector(),
            (None, None) => None,
        };
        columns.push(column.ok_or(QError::named("type"))?);
    }
    limits::settle()?;
    Ok(Some(Value::dict(keys, Value::table(Table::new(names, columns)))))
}

/// Items of a column at these rows. For rows out of range it is zero in arithmetic, if the type has a zero, otherwise null.
fn without_gaps(op: Op, column: &Vector, rows: &[i64]) -> Value {
    let items = column.items.plain();
    let has_zero = !matches!(items, Items::List(_) | Items::Sym(_) | Items::Char(_) | Items::Guid(_));
    if !matches!(op, Op::Arithmetic(_) | Op::Divide) || !has_zero {
        return items.gather(rows).into();
    }
    let zero = Value::from_long(items.type_number(), 0).to_items();
    let last = column.len() as i64;
    let rows: Vec<i64> = rows.iter().map(|row| if *row >= 0 && *row < last { *row } else { last }).collect();
    items.join(&zero).gather(&rows).into()
}
