//! `#`, `_`, `cut` and `sublist`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::index;
use crate::verbs::on_disk::held;
use crate::verbs::shape::long;
use columns::kernel::blocks;
use columns::sys::shared::Held;
use columns::table::symbol::text;
use columns::table::{Attr, Dict, Items, Table, Value, Vector};

/// `x#y`.
pub(crate) fn take(context: &mut Context, x: Value, y: Value) -> Result {
    let y = held(context, y)?;
    match (&x, &y) {
        (Value::Sym(name), _) if !matches!(y, Value::Dict(_) | Value::Table(_)) || is_attribute(text(*name)) => {
            crate::verbs::attributes::set_attribute(text(*name), y)
        }
        (_, Value::Table(t)) if x.as_symbols().is_some() => {
            let names = x.as_symbols().unwrap_or_default();
            let columns: std::result::Result<Vec<Vector>, QError> =
                names.iter().map(|n| index::column(t, *n).cloned()).collect();
            Ok(Value::table(Table::new(names.to_vec(), columns?)))
        }
        (Value::Table(keys), Value::Dict(d)) if d.keyed().is_some() => {
            // As with a dictionary, a missing key has null values.
            let (own, values) = d.keyed().ok_or_else(type_error)?;
            let rows = crate::verbs::find::table_positions(context, own, keys)?;
            let columns: std::result::Result<Vec<Vector>, QError> =
                own.names.iter().map(|n| index::column(keys, *n).cloned()).collect();
            let keys = Table::new(own.names.clone(), columns?);
            Ok(Value::dict(Value::table(keys), Value::table(values.rows(&rows))))
        }
        (Value::Table(_), Value::Dict(d)) if !matches!(d.keys, Value::Table(_)) => Err(type_error()),
        (_, Value::Dict(_)) if !matches!(x, Value::Long(_) | Value::Int(_) | Value::Short(_)) => {
            let chosen = if x.is_scalar() { x.clone().enlist() } else { x.clone() };
            let values = index::one(context, &y, &chosen)?;
            Ok(Value::dict(chosen, values))
        }
        (Value::Vector(shape), _) => reshape(context, shape, &y),
        _ => take_count(context, long(&x)?, &y),
    }
}

fn is_attribute(name: &[u8]) -> bool {
    matches!(name, b"s" | b"u" | b"p" | b"g" | b"")
}

fn take_count(context: &mut Context, n: i64, y: &Value) -> Result {
    // A null dimension is maximal.
    let n = if n == i64::MIN { i64::try_from(list_count(y)).unwrap_or(i64::MAX) } else { n };
    let size = usize::try_from(n.unsigned_abs()).map_err(|_| QError::named("limit"))?;
    if y.is_scalar() {
        let item = y.to_items();
        context.reserve_items(size, item.held_bytes())?;
        return Ok(item.filled(size).into());
    }
    let wide = match y {
        Value::Vector(v) => v.items.held_bytes().checked_div(v.len()).unwrap_or(8),
        _ => size_of::<Value>(),
    };
    if size > y.count() {
        // Space for the result and for its row numbers, 8 bytes each.
        context.reserve_items(size, wide.saturating_add(8))?;
    }
    let count = y.count();
    if let Value::Dict(d) = y {
        return Ok(Value::dict(take_count(context, n, &d.keys)?, take_count(context, n, &d.values)?));
    }
    if size <= count {
        return Ok(if n >= 0 { part(y, 0, size) } else { part(y, count - size, count) });
    }
    if count == 0 {
        return Ok(y.gather(&vec![-1i64; size]));
    }
    // Past the end it starts again; with a negative count the last item stays last.
    let skip = if n < 0 { (count - size % count) % count } else { 0 };
    let rows: Vec<i64> = blocks::numbers(0..size, |i| ((i + skip) % count) as i64);
    Ok(y.gather(&rows))
}

fn reshape(context: &mut Context, shape: &Vector, y: &Value) -> Result {
    let dims = crate::verbs::convert::rows(&shape.items).ok_or_else(type_error)?;
    if let [one] = dims[..] {
        return take_count(context, one, y);
    }
    let count = list_count(y);
    if dims.contains(&i64::MIN) {
        return match dims[..] {
            [i64::MIN, wide] if wide > 0 => {
                let rows = (count as i64).div_euclid(wide) + i64::from((count as i64) % wide != 0);
                partial_shape(context, &[rows, wide], &list_of(y))
            }
            [rows, i64::MIN] if rows > 0 => in_rows(context, rows, &list_of(y)),
            _ => Err(QError::named("domain")),
        };
    }
    // As in kdb+, a matrix without rows is no value.
    if let [0, _] = dims[..] {
        return Err(QError::named("length"));
    }
    // Only the last of three or more dimensions may be 0.
    let is_outer_empty = matches!(&dims[..], [outer @ .., _] if outer.len() > 1 && outer.contains(&0));
    if dims.iter().any(|d| *d < 0) || is_outer_empty {
        return Err(QError::named("domain"));
    }
    let total = product(&dims)?;
    let flat = take_count(context, total, y)?;
    partial_shape(context, &dims, &flat)
}

/// Items of a list. Those of a general list become a vector or a table where they can, and so do the cells of a table's columns.
fn part(y: &Value, from: usize, to: usize) -> Value {
    match y.cut(from, to) {
        Value::Dict(d) => {
            let (keys, values) = (narrowed(d.keys.clone()), narrowed(d.values.clone()));
            Value::Dict(Held::new(Dict { sorted: d.sorted, keys, values }))
        }
        kept => narrowed(kept),
    }
}

fn narrowed(y: Value) -> Value {
    if let Value::Table(t) = &y {
        let narrowed = |column: &Vector| match &column.items {
            Items::List(cells) if cells.first().is_some_and(Value::is_atom) => {
                narrowed(column.clone().into()).into_vector().unwrap_or_else(|| column.clone())
            }
            _ => column.clone(),
        };
        return Value::table(t.map(narrowed));
    }
    let Value::Vector(Vector { items: Items::List(list), .. }) = &y else { return y };
    let Some(first) = list.first().filter(|first| first.is_atom() || matches!(first, Value::Dict(_))) else { return y };
    if list.iter().any(|item| item.type_number() != first.type_number()) {
        return y;
    }
    Value::collapse(list.to_vec())
}

/// Number of items; 1 for an atom or a function.
fn list_count(y: &Value) -> usize {
    if y.is_scalar() { 1 } else { y.count() }
}

fn list_of(y: &Value) -> Value {
    if y.is_scalar() { y.clone().enlist() } else { y.clone() }
}

/// `n 0N#y`: cuts into `n` rows of nearly equal length, the longer ones last.
fn in_rows(context: &mut Context, rows: i64, y: &Value) -> Result {
    let (count, rows) = (y.count(), usize::try_from(rows).map_err(|_| QError::named("limit"))?);
    context.reserve_items(rows, size_of::<Value>())?;
    // In 128 bits: the product of two lengths can overflow 64.
    let start = |i: usize| (i as u128 * count as u128 / rows.max(1) as u128) as usize;
    let mut out = limits::list(rows)?;
    for i in 0..rows {
        context.tick()?;
        out.push(y.cut(start(i), start(i + 1)));
    }
    Ok(Value::list(out))
}

/// Number of items in an array of these dimensions.
fn product(dims: &[i64]) -> std::result::Result<i64, QError> {
    dims.iter().try_fold(1i64, |all, d| all.checked_mul((*d).max(0))).ok_or(QError::named("limit"))
}

fn partial_shape(context: &mut Context, dims: &[i64], flat: &Value) -> Result {
    context.enter()?;
    let (Some(rows), Some(rest)) = (dims.first(), dims.get(1..)) else { return Ok(flat.clone()) };
    if rest.is_empty() {
        return Ok(flat.clone());
    }
    let each = usize::try_from(product(rest)?).unwrap_or(0);
    let rows = usize::try_from(*rows).unwrap_or(0);
    context.reserve_items(rows, size_of::<Value>())?;
    let mut out = limits::list(rows)?;
    for i in 0..rows {
        context.tick()?;
        let part = flat.cut(i.saturating_mul(each), (i + 1).saturating_mul(each));
        out.push(partial_shape(context, rest, &part)?);
    }
    Ok(Value::list(out))
}

/// `x _ y`.
pub(crate) fn drop(context: &mut Context, x: Value, y: Value) -> Result {
    let y = held(context, y)?;
    match (&x, &y) {
        (_, Value::Dict(d)) if !matches!(x, Value::Long(_) | Value::Int(_)) => {
            let gone = if x.is_scalar() { x.clone().enlist() } else { x.clone() };
            let gone = match (&d.keys, gone) {
                (Value::Table(keys), key @ Value::Vector(_)) => {
                    Value::table(crate::verbs::rows::row_table(keys, &key)?)
                }
                (_, gone) => gone,
            };
            let gone = match gone {
                Value::Dict(d) if d.keyed().is_none() => d.values.clone(),
                gone => gone,
            };
            // By position: a key may occur more than once, each time with its own value.
            let rows = crate::verbs::sets::rows(context, &d.keys, &gone, false)?;
            Ok(Value::dict(d.keys.gather(&rows), d.values.gather(&rows)))
        }
        (_, Value::Table(_)) if matches!(x, Value::Sym(_)) => Err(type_error()),
        (_, Value::Table(t)) if x.as_symbols().is_some() => {
            let gone = x.as_symbols().unwrap_or_default();
            let mut out = Table::new(Vec::new(), Vec::new());
            for (name, column) in t.names.iter().zip(&t.columns) {
                if limits::place(gone, *name)?.is_none() {
                    out.names.push(*name);
                    out.columns.push(column.clone());
                }
            }
            Ok(Value::table(out))
        }
        (Value::Dict(_), _) if y.is_scalar() => drop(context, y.enlist(), x),
        (Value::Vector(_) | Value::Table(_), _) if y.is_scalar() => {
            let at = usize::try_from(long(&y)?).ok().filter(|a| *a < x.count());
            let Some(at) = at else { return Ok(x) };
            limits::room_for::<i64>(x.count().saturating_mul(2))?;
            let rows: Vec<i64> = blocks::kept(0..x.count(), |i| (i != at).then_some(i as i64));
            Ok(narrowed(x.gather(&rows)))
        }
        (Value::Vector(at), _) => cut_at(context, at, &y),
        _ => {
            let n = long(&x)?;
            let count = y.count();
            if y.is_scalar() {
                return Err(type_error());
            }
            let size = usize::try_from(n.unsigned_abs()).unwrap_or(count).min(count);
            let mut kept = if n >= 0 { part(&y, size, count) } else { part(&y, 0, count - size) };
            // As in kdb+ 4.1, items dropped at the end leave no attribute.
            if let (true, Value::Vector(kept)) = (n < 0, &mut kept) {
                kept.attr = Attr::None;
            }
            Ok(kept)
        }
    }
}

fn cut_at(context: &mut Context, at: &Vector, y: &Value) -> Result {
    let starts = crate::verbs::convert::rows(&at.items).ok_or_else(type_error)?;
    let count = y.count();
    let mut out = limits::list(starts.len())?;
    for (i, start) in starts.iter().enumerate() {
        context.tick()?;
        let end = starts.get(i + 1).copied().unwrap_or(count as i64);
        if *start < 0 || end < *start {
            return Err(QError::named("domain"));
        }
        out.push(part(y, (*start as usize).min(count), (end as usize).min(count)));
    }
    Ok(Value::list(out))
}

/// `x cut y`: pieces of `x` items, or `_` if `x` is a list.
pub(crate) fn cut(context: &mut Context, x: Value, y: Value) -> Result {
    if let Value::Vector(_) = x {
        return drop(context, x, y);
    }
    let size = usize::try_from(long(&x)?).ok().filter(|s| *s > 0).ok_or(QError::named("domain"))?;
    if y.is_scalar() {
        return Err(type_error());
    }
    let count = y.count();
    let mut out = limits::list(count.div_ceil(size))?;
    let mut at = 0;
    while at < count {
        context.tick()?;
        out.push(part(&y, at, at.saturating_add(size).min(count)));
        at = at.saturating_add(size);
    }
    Ok(Value::list(out))
}

/// `x sublist y`: at most `x` items, or `(start;count)`.
pub(crate) fn sublist(context: &mut Context, x: Value, y: Value) -> Result {
    let count = y.count();
    if let Value::Vector(v) = &x {
        // A start before the first item indexes: those places are null.
        let bounds = crate::verbs::convert::rows(&v.items).ok_or_else(type_error)?;
        if let [start @ i64::MIN..0, size, ..] = bounds[..] {
            let size = size.min((count as i64).saturating_sub(start)).max(0);
            context.reserve_items(usize::try_from(size).unwrap_or(usize::MAX), 8)?;
            let places: Vec<i64> = blocks::numbers(0..size as usize, |i| start.saturating_add(i as i64));
            return Ok(y.gather(&places));
        }
        let chosen = sublist_range(&x, count)?;
        return Ok(part(&y, chosen.start, chosen.end));
    }
    let size = long(&x)?;
    if y.is_scalar() && size != 0 {
        return Ok(y);
    }
    take_count(context, size.clamp(-(count as i64), count as i64), &y)
}

/// Range of the `count` items that `x sublist` keeps.
pub(crate) fn sublist_range(x: &Value, count: usize) -> std::result::Result<std::ops::Range<usize>, QError> {
    if let Value::Vector(v) = x {
        let bounds = crate::verbs::convert::rows(&v.items).ok_or_else(type_error)?;
        let [start, size, ..] = bounds[..] else { return Err(QError::named("length")) };
        let start = usize::try_from(start).map_err(|_| QError::named("domain"))?.min(count);
        let size = usize::try_from(size).unwrap_or(0);
        return Ok(start..start.saturating_add(size).min(count));
    }
    let n = long(x)?;
    let most = usize::try_from(n.unsigned_abs()).unwrap_or(count).min(count);
    Ok(if n < 0 { count - most..count } else { 0..most })
}
