//! List functions: construction, join, `raze`, `where`, shifts, `fills`, `flip`, `cross`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::op::Op;
use crate::runtime::values::{Result, listed, type_error};
use crate::verbs::above::Stored;
use crate::verbs::on_disk::held;
use crate::verbs::rows::flip_list;
use crate::verbs::{entries, find, index, keyed, merged, sets};
use columns::kernel::blocks;
use columns::sys::budget::{self, BLOCK};
use columns::sys::shared::Held;
use columns::table::{Attr, Dict, Items, Raw, Sym, Table, Value, Vector};
use std::sync::Arc;

/// An integer atom as a long.
pub(crate) fn long(x: &Value) -> std::result::Result<i64, QError> {
    match x {
        Value::Float(_) | Value::Real(_) | Value::Char(_) => Err(type_error()),
        other => other.as_long().ok_or_else(type_error),
    }
}

pub(crate) fn til(context: &mut Context, x: Value) -> Result {
    let n = usize::try_from(long(&x)?).map_err(|_| QError::named("domain"))?;
    context.reserve_items(n, 8)?;
    Ok(Value::longs(blocks::numbers(0..n, |i| i as i64)))
}

pub(crate) fn count(context: &mut Context, x: Value) -> Result {
    if let Value::Func(_) = x
        && let Some(rows) = context.rows_on_disk(&x)?
    {
        return Ok(Value::Long(rows));
    }
    Ok(Value::Long(x.count() as i64))
}

pub(crate) fn first(context: &mut Context, x: Value) -> Result {
    Ok(held(context, x)?.at(0))
}

pub(crate) fn last(context: &mut Context, x: Value) -> Result {
    let x = held(context, x)?;
    Ok(x.at(x.count().wrapping_sub(1)))
}

pub(crate) fn enlist(_: &mut Context, items: Vec<Value>) -> Result {
    Ok(Value::collapse(items))
}

pub(crate) fn reverse(context: &mut Context, x: Value) -> Result {
    let x = held(context, x)?;
    if x.is_scalar() {
        return Ok(x);
    }
    let last = x.count().saturating_sub(1);
    let rows: Vec<i64> = blocks::numbers(0..x.count(), |i| (last - i) as i64);
    Ok(x.gather(&rows))
}

pub(crate) fn rotate(_: &mut Context, x: Value, y: Value) -> Result {
    let by = long(&x)?;
    let count = y.count() as i64;
    if y.is_scalar() {
        return Err(QError::named("rank"));
    }
    if let Value::Dict(_) = y {
        return Err(type_error());
    }
    if count == 0 {
        return Ok(y);
    }
    let rows: Vec<i64> = blocks::numbers(0..count as usize, |i| (i as i64 + by.rem_euclid(count)) % count);
    Ok(y.gather(&rows))
}

pub(crate) fn raze(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            let mut out: Option<Value> = None;
            let simple = l.iter().all(|v| matches!(v, Value::Vector(_)));
            if simple {
                let held = |v: &Value| if let Value::Vector(v) = v { v.items.held_bytes() } else { 0 };
                limits::room(blocks::fold(l, 0usize, |sum, v| sum.saturating_add(held(v))))?;
                let mut items = Items::List(Default::default());
                for v in l.iter() {
                    context.tick()?;
                    if let Value::Vector(v) = v
                        && !is_empty_list(v)
                    {
                        items = items.join(&v.items);
                    }
                }
                return Ok(items.into());
            }
            // Among tables `()` adds nothing: the branches of a condition that find nothing give it.
            let is_none = |v: &Value| matches!(v, Value::Vector(v) if is_empty_list(v));
            let are_tables = l.iter().all(|v| matches!(v, Value::Table(_)) || is_none(v));
            for v in l.iter().filter(|v| !are_tables || !is_none(v)) {
                out = Some(match out {
                    Some(before) => join_any(context, before, v.clone())?,
                    None => v.clone(),
                });
            }
            Ok(match out {
                Some(atom) if atom.is_scalar() => atom.enlist(),
                Some(all) => all,
                None => x,
            })
        }
        Value::Dict(d) => raze(context, d.values.clone()),
        // Rows joined as dictionaries: the last row wins.
        Value::Table(t) if t.count() > 0 => Ok(t.row(t.count() - 1)),
        atom if atom.is_scalar() => Ok(x.enlist()),
        _ => Ok(x),
    }
}

/// `()`, which has no type to give.
fn is_empty_list(v: &Vector) -> bool {
    matches!(&v.items, Items::List(items) if items.is_empty())
}

/// Joins two items of `raze`. Tables with other columns have nothing in common but that each is a list of rows; those with the same
/// columns in another order join as with `,`: a gateway merges an RDB's rows with an HDB's, whose first column `.Q.dpft` chose.
fn join_any(context: &mut Context, x: Value, y: Value) -> Result {
    let rows = |t: &Table| {
        limits::room_for::<Value>(t.count())?;
        let mut rows = Vec::with_capacity(t.count());
        for at in 0..t.count() {
            limits::step()?;
            rows.push(t.row(at));
        }
        Ok::<_, QError>(Value::list(rows))
    };
    match (&x, &y) {
        (Value::Table(a), Value::Table(b)) if !a.columns.is_empty() && !has_same_columns(a, b) => {
            let (a, b) = (rows(a)?, rows(b)?);
            join(context, a, b)
        }
        (Value::Vector(_), Value::Table(b)) => {
            let b = rows(b)?;
            join(context, x, b)
        }
        _ => join(context, x, y),
    }
}

/// Whether two tables have the same columns, in any order.
fn has_same_columns(a: &Table, b: &Table) -> bool {
    a.names == b.names || a.names.len() == b.names.len() && a.names.iter().all(|name| b.names.contains(name))
}

/// Checks the memory limit for the join of two lists.
fn room_to_join(x: &Items, y: &Items) -> std::result::Result<(), QError> {
    if x.type_number() == y.type_number() {
        return limits::room(x.held_bytes().saturating_add(y.held_bytes()));
    }
    limits::room_for::<Value>(x.len().saturating_add(y.len()))
}

/// `x,y`.
pub(crate) fn join(context: &mut Context, x: Value, y: Value) -> Result {
    context.check()?;
    Ok(match (x, y) {
        // A record appended to a keyed table.
        (Value::Dict(a), Value::Dict(b))
            if a.keyed().is_some() && b.keys.as_symbols().is_some_and(|names| !names.is_empty()) =>
        {
            let keys = a.keyed().map_or(0, |k| k.0.columns.len());
            let Value::Table(whole) = crate::verbs::rows::unkey(&Value::Dict(a.clone()))? else {
                return Err(type_error());
            };
            let row = crate::verbs::rows::row_table(&whole, &Value::Dict(b))?;
            let fits = |(own, new): (&Vector, &Vector)| {
                let number = own.items.plain().type_number();
                number == 0 || own.is_empty() || number == new.items.plain().type_number()
            };
            if !whole.columns.iter().zip(&row.columns).all(fits) {
                return Err(QError::with("type", "the record has other types than the columns"));
            }
            match crate::verbs::rows::key_by(keys, &row)? {
                Value::Dict(row) => join_dicts(context, a, &row)?,
                _ => return Err(type_error()),
            }
        }
        (Value::Dict(record), Value::Dict(table)) if is_key_of(&record, &table) => with_row(context, record, &table)?,
        (Value::Dict(a), Value::Dict(b)) => join_dicts(context, a, &b)?,
        (Value::Table(a), Value::Table(b)) => crate::verbs::rows::join_tables(a, &b)?,
        (Value::Table(a), Value::Dict(b)) => {
            if b.keyed().is_some() {
                return Err(type_error());
            }
            let row = crate::verbs::rows::row_table(&a, &Value::Dict(b))?;
            crate::verbs::rows::join_tables(a, &row)?
        }
        (Value::Dict(a), Value::Table(b)) if a.keyed().is_some() => {
            let keyed = crate::verbs::rows::key_by(a.keyed().map_or(0, |k| k.0.columns.len()), &b)?;
            match keyed {
                Value::Dict(b) => join_dicts(context, a, &b)?,
                _ => return Err(type_error()),
            }
        }
        (Value::Dict(a), Value::Table(b)) => {
            let row = crate::verbs::rows::row_table(&b, &Value::Dict(a))?;
            crate::verbs::rows::join_tables(Arc::new(row), &b)?
        }
        (Value::Vector(v), y) if matches!(&v.items, Items::List(l) if l.is_empty()) => {
            if y.is_scalar() {
                y.enlist()
            } else {
                y.unmapped()
            }
        }
        (x, Value::Vector(v)) if matches!(&v.items, Items::List(l) if l.is_empty()) => {
            if x.is_scalar() {
                x.enlist()
            } else {
                x.unmapped()
            }
        }
        (Value::Vector(x), Value::Vector(y)) => {
            let are_parted = x.attr == Attr::Parted && y.attr == Attr::Parted;
            room_to_join(&x.items, &y.items)?;
            let joined: Value = Vector { attr: Attr::None, items: x.items.join(&y.items) }.into();
            if are_parted { still_parted(joined)? } else { joined }
        }
        (Value::Vector(x), y) if y.is_atom() => {
            let y = y.to_items();
            room_to_join(&x.items, &y)?;
            x.items.join(&y).into()
        }
        (x, Value::Vector(y)) if x.is_atom() => {
            let x = x.to_items();
            room_to_join(&x, &y.items)?;
            x.join(&y.items).into()
        }
        (x, Value::Dict(d)) if d.keyed().is_none() && x.is_atom() => return Err(type_error()),
        (Value::Vector(v), Value::Dict(d)) if d.keyed().is_none() && !matches!(v.items, Items::List(_)) => {
            return Err(type_error());
        }
        (x, y) => {
            let mut all = if x.is_scalar() || matches!(x, Value::Dict(_)) { vec![x] } else { limits::items(&x)? };
            if y.is_scalar() || matches!(y, Value::Dict(_)) {
                all.push(y);
            } else {
                all.extend(limits::items(&y)?);
            }
            Value::collapse(all)
        }
    })
}

/// The join of two `` `p# `` lists. As in kdb+ 4.1 it keeps `` `p# `` if all equal items stand together: `` (`p#1 1 2),`p#2 3 `` does, `` (`p#1 2),`p#1 3 `` does not.
fn still_parted(joined: Value) -> Result {
    match crate::verbs::attributes::set_attribute(b"p", joined.clone()) {
        Err(error) if *error.name == *b"u-fail" => Ok(joined),
        parted => parted,
    }
}

/// Whether a dictionary, such as `` `k`v!(1;2) ``, has an entry for every key column of a keyed table.
fn is_key_of(record: &Dict, table: &Dict) -> bool {
    match (record.keyed(), table.keyed(), record.keys.as_symbols()) {
        (None, Some((keys, _)), Some(names)) => keys.names.iter().all(|name| names.contains(name)),
        _ => false,
    }
}

/// `record,keyed`: the record with the cells of its row in the keyed table, as `lj` joins each row; as it is where it has none.
fn with_row(context: &mut Context, record: Held<Dict>, table: &Dict) -> Result {
    let (Some((keys, rows)), Some(names)) = (table.keyed(), record.keys.as_symbols()) else { return Err(type_error()) };
    let place = |name: &Sym| names.iter().position(|own| own == name).map(|at| at as i64);
    let places: Vec<i64> = keys.names.iter().filter_map(place).collect();
    match find::row_of(keys, &record.values.gather(&places))? {
        Some(row) => match rows.row(row) {
            Value::Dict(cells) => join_dicts(context, record, &cells),
            _ => Err(type_error()),
        },
        None => Ok(Value::Dict(record)),
    }
}

/// The keys of both; of a common key the right value. The entries of `b` are put into `a` where they fit.
pub(crate) fn join_dicts(context: &mut Context, a: Held<Dict>, b: &Dict) -> Result {
    if let Some(new) = entries::fit(&a, b)? {
        let mut own = a.into_value();
        new.put(&mut own);
        return Ok(Value::Dict(own.into()));
    }
    if let Some(new) = merged::rows_alike(&a, b) {
        let mut own = a.into_value();
        keyed::put(&mut own, &new, true)?;
        return Ok(Value::Dict(own.into()));
    }
    // Keys that `a` repeats stay, as all its entries do.
    let are_alike = matches!((&a.keys, &b.keys), (Value::Vector(x), Value::Vector(y))
        if x.items.type_number() == y.items.type_number() && !x.items.is_enumerated());
    let (keys, mut rows) = if are_alike {
        let new = b.keys.gather(&sets::rows(context, &b.keys, &a.keys, false)?);
        let new = sets::distinct(context, new)?;
        let keys = join(context, a.keys.clone(), new)?;
        let rows = (0..keys.count() as i64).collect();
        (keys, rows)
    } else {
        let keys = sets::union(context, a.keys.clone(), b.keys.clone())?;
        let rows = find::all(context, &a.keys, &keys)?;
        (keys, rows)
    };
    let split = a.values.count() as i64;
    for (at, from) in find::all(context, &keys, &b.keys)?.into_iter().zip(split..) {
        if let Some(row) = usize::try_from(at).ok().and_then(|at| rows.get_mut(at)) {
            *row = from;
        }
    }
    let both = join(context, a.values.clone(), b.values.clone())?;
    Ok(Value::dict(keys, both.gather(&rows)))
}

/// `where`: indices repeated as often as the counts say.
pub(crate) fn where_(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Dict(d) => {
            let rows = where_(context, d.values.clone())?;
            index::one(context, &d.keys, &rows)
        }
        Value::Vector(v) => match v.items.raw() {
            Raw::U8(bits) if matches!(v.items, Items::Bool(_)) => {
                let count = blocks::fold(bits, 0usize, |count, b| count + usize::from(*b != 0));
                limits::room_for::<i64>(count)?;
                let mut out = Vec::with_capacity(count);
                for (start, block) in (0..).step_by(BLOCK).zip(bits.chunks(BLOCK)) {
                    if budget::spend(block.len()) {
                        break;
                    }
                    out.extend((start..).zip(block).filter(|(_, b)| **b != 0).map(|(i, _): (i64, _)| i));
                }
                Ok(Value::longs(out))
            }
            Raw::List([]) => Ok(Value::longs(Vec::new())),
            _ => {
                let counts = crate::verbs::convert::rows(&v.items).ok_or_else(type_error)?;
                let total: i64 = blocks::fold(&counts, 0, |sum: i64, c| sum.saturating_add((*c).max(0)));
                context.reserve_items(usize::try_from(total).unwrap_or(usize::MAX), 8)?;
                let mut out = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
                let mut spent = 0usize;
                for (i, count) in counts.iter().enumerate() {
                    let mut left = usize::try_from(*count).unwrap_or(0);
                    spent += left.saturating_add(1);
                    if spent >= BLOCK {
                        limits::check()?;
                        spent = 0;
                    }
                    while left > 0 {
                        let some = left.min(BLOCK);
                        if budget::spend(some) {
                            break;
                        }
                        out.extend(std::iter::repeat_n(i as i64, some));
                        left -= some;
                    }
                }
                Ok(Value::longs(out))
            }
        },
        _ => Err(type_error()),
    }
}

pub(crate) fn flip(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Table(t) => {
            let columns = t.columns.iter().cloned().map(Value::of_column).collect();
            Ok(Value::dict(Value::symbols(t.names.clone()), Value::list(columns)))
        }
        Value::Dict(d) => match (&d.keys, &d.values) {
            (Value::Vector(Vector { items: Items::Sym(names), .. }), Value::Sym(place)) => {
                Ok(crate::verbs::on_disk::on_disk(names.to_vec(), *place))
            }
            _ => crate::verbs::rows::from_columns(d),
        },
        Value::Func(f) => match &**f {
            columns::table::Function::OnDisk { columns, place } => Ok(Value::symbols_to(columns, *place)),
            _ => Err(QError::named("rank")),
        },
        Value::Vector(Vector { items: Items::List(rows), .. }) => {
            let widest = rows
                .iter()
                .find(|row| !row.is_scalar())
                .map_or((0, 0), |row| (row.count(), if row.as_text().is_some() { 1 } else { 8 }));
            context.reserve_items(x.count().saturating_mul(widest.0), widest.1)?;
            flip_list(x)
        }
        Value::Vector(v) if v.is_empty() => flip_list(x),
        _ => Err(QError::named("rank")),
    }
}

pub(crate) fn cross(context: &mut Context, x: Value, y: Value) -> Result {
    if let Value::Dict(d) = &x {
        let Value::Dict(e) = &y else { return Err(type_error()) };
        context.enter()?;
        let keys = cross(context, d.keys.clone(), e.keys.clone())?;
        return Ok(Value::dict(keys, cross(context, d.values.clone(), e.values.clone())?));
    }
    let (a, b) = (x.count(), y.count());
    context.reserve_items(a.saturating_mul(b), 48)?;
    let left: Vec<i64> = blocks::numbers(0..a * b, |i| (i / b.max(1)) as i64);
    let right: Vec<i64> = blocks::numbers(0..a * b, |i| (i % b.max(1)) as i64);
    let (x, y) = (listed(x).gather(&left), listed(y).gather(&right));
    if let (Value::Table(x), Value::Table(y)) = (&x, &y) {
        let mut out = (**x).clone();
        for (name, column) in y.names.iter().zip(&y.columns) {
            // As in a join of two rows, the right one's value counts.
            match out.names.iter().position(|n| n == name).and_then(|at| out.columns.get_mut(at)) {
                Some(own) => *own = column.clone(),
                None => {
                    out.names.push(*name);
                    out.columns.push(column.clone());
                }
            }
        }
        return Ok(Value::table(out));
    }
    let mut out = Vec::with_capacity(a * b);
    for i in 0..a * b {
        context.tick()?;
        out.push(join(context, x.at(i), y.at(i))?);
    }
    Ok(Value::list(out))
}

/// `next`, `prev` and `x xprev y`: shifts items by `by` positions and fills with nulls.
pub(crate) fn shift(by: i64, y: &Value) -> Result {
    if let Value::Dict(d) = y {
        let values = shift(by, &d.values)?;
        return Ok(Value::dict(d.keys.clone(), values));
    }
    if y.is_scalar() {
        return Err(QError::named("rank"));
    }
    let count = y.count() as i64;
    let row = |i: usize| (i as i64).checked_sub(by).filter(|r| (0..count).contains(r)).unwrap_or(-1);
    let rows: Vec<i64> = blocks::numbers(0..y.count(), row);
    Ok(y.gather(&rows))
}

pub(crate) fn prev(_: &mut Context, y: Value) -> Result {
    shift(1, &y)
}

pub(crate) fn next(_: &mut Context, y: Value) -> Result {
    shift(-1, &y)
}

pub(crate) fn xprev(_: &mut Context, x: Value, y: Value) -> Result {
    let by = long(&x)?;
    shift(by, &y)
}

/// `fills`: replaces nulls by the last item that was not null.
pub(crate) fn fills(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Dict(d) => {
            let values = fills(context, d.values.clone())?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        Value::Table(t) => {
            let mut columns = Vec::with_capacity(t.columns.len());
            for c in &t.columns {
                columns.push(fills(context, c.clone().into())?.into_vector().ok_or_else(type_error)?);
            }
            Ok(Value::table(Table::new(t.names.clone(), columns)))
        }
        // Rows that are lists are filled item by item.
        Value::Vector(Vector { items: Items::List(l), .. }) if l.iter().any(|row| !row.is_scalar()) => {
            let mut rows = limits::list(l.len())?;
            let mut above: Option<Value> = None;
            for row in l.iter() {
                context.tick()?;
                let filled = match above {
                    Some(above) => crate::verbs::arith::atomic(context, Op::Fill, &above, row)?,
                    None => row.clone(),
                };
                rows.push(filled.clone());
                above = Some(filled);
            }
            Ok(Value::collapse(rows))
        }
        Value::Vector(_) => {
            let nulls = crate::verbs::monads::null(context, x.clone())?;
            let mut at = -1;
            let rows: Vec<i64> = blocks::numbers(0..x.count(), |i| {
                if !matches!(nulls.at(i), Value::Bool(true)) || at < 0 {
                    at = i as i64;
                }
                at
            });
            Ok(x.gather(&rows))
        }
        _ => Ok(x),
    }
}

/// Applies a unary function of lists to each column of a table or to the values of a dictionary of lists.
pub(crate) fn by_column(context: &mut Context, t: &Table, f: impl Fn(&mut Context, Value) -> Result) -> Result {
    let mut names = Vec::with_capacity(t.names.len());
    let mut values = Vec::with_capacity(t.names.len());
    for (name, column) in t.names.iter().zip(&t.columns) {
        names.push(*name);
        values.push(f(context, column.clone().into())?);
    }
    Ok(Value::dict(Value::symbols(names), Value::collapse(values)))
}
