//! Joins of tables: by key, by key and time, side by side.

use super::context::Context;
use super::error::QError;
use super::find;
use super::index;
use super::matches::order;
use super::shape::{Result, type_error};
use super::tables::{flat, key_by};
use crate::table::{Items, Sym, Table, Value, Vector};
use std::cmp::Ordering;

fn table(x: &Value) -> std::result::Result<&Table, QError> {
    if let Value::Table(t) = x { Ok(t) } else { Err(type_error()) }
}

/// Keys and values of a keyed table.
fn keyed(x: &Value) -> std::result::Result<(&Table, &Table), QError> {
    match x {
        Value::Dict(d) => d.keyed().ok_or_else(type_error),
        _ => Err(type_error()),
    }
}

/// `t` with the columns of `other` at `rows`; where a row is past the end, the old value, or null for a new column.
fn overlay(t: &Table, other: &Table, rows: &[i64], fill: bool) -> std::result::Result<Table, QError> {
    let mut out = t.clone();
    let count = other.count() as i64;
    for (name, column) in other.names.iter().zip(&other.columns) {
        let new = column.items.gather(rows);
        match out.names.iter().position(|n| n == name).and_then(|at| out.columns.get_mut(at)) {
            Some(old) => {
                let nulls = if fill {
                    (0..new.len()).map(|i| super::format::cell(&new.get(i), 7).is_empty()).collect()
                } else {
                    vec![false; new.len()]
                };
                let own = t.count() as i64;
                let pick: Vec<i64> = rows
                    .iter()
                    .zip(&nulls)
                    .enumerate()
                    .map(|(i, (row, null))| if (0..count).contains(row) && !null { own + i as i64 } else { i as i64 })
                    .collect();
                *old = old.items.clone().join(&new).gather(&pick).into();
            }
            None => {
                out.names.push(*name);
                out.columns.push(new.into());
            }
        }
    }
    Ok(out)
}

fn left_join(context: &mut Context, x: &Value, y: &Value, fill: bool) -> Result {
    let (t, keys) = flat(context, x)?;
    let (k, v) = keyed(y)?;
    let rows = find::table_positions(context, k, &t)?;
    key_by(keys, &overlay(&t, v, &rows, fill)?)
}

/// `x lj y`.
pub(super) fn lj(context: &mut Context, x: Value, y: Value) -> Result {
    left_join(context, &x, &y, false)
}

/// `x ljf y`: nulls of `y` leave `x` as it is.
pub(super) fn ljf(context: &mut Context, x: Value, y: Value) -> Result {
    left_join(context, &x, &y, true)
}

/// `x ij y`: only rows with a partner.
pub(super) fn ij(context: &mut Context, x: Value, y: Value) -> Result {
    inner_join(context, &x, &y, false)
}

/// `x ijf y`: nulls of `y` leave `x` as it is.
pub(super) fn ijf(context: &mut Context, x: Value, y: Value) -> Result {
    inner_join(context, &x, &y, true)
}

fn inner_join(context: &mut Context, x: &Value, y: &Value, fill: bool) -> Result {
    let (t, keys) = flat(context, x)?;
    let (k, v) = keyed(y)?;
    let rows = find::table_positions(context, k, &t)?;
    let n = k.count() as i64;
    let kept: Vec<i64> = rows.iter().enumerate().filter(|(_, r)| **r < n).map(|(i, _)| i as i64).collect();
    let partners: Vec<i64> = rows.iter().filter(|r| **r < n).copied().collect();
    key_by(keys, &overlay(&t.rows(&kept), v, &partners, fill)?)
}

/// `x pj y`: columns of the same name are added.
pub(super) fn pj(context: &mut Context, x: Value, y: Value) -> Result {
    use super::arith::{Op, atomic};
    use crate::kernel::zip::Arithmetic;
    let (t, keys) = flat(context, &x)?;
    let (k, v) = keyed(&y)?;
    let rows = find::table_positions(context, k, &t)?;
    let mut out = (*t).clone();
    for (name, column) in v.names.iter().zip(&v.columns) {
        let new: Value = column.items.gather(&rows).into();
        let zero = Value::from_long(column.items.type_number(), 0);
        let new = atomic(context, Op::Fill, &zero, &new)?;
        match out.names.iter().position(|n| n == name).and_then(|at| out.columns.get_mut(at)) {
            Some(old) => {
                let sum = atomic(context, Op::Arithmetic(Arithmetic::Add), &old.clone().into(), &new)?;
                *old = sum.into_vector().ok_or_else(type_error)?;
            }
            None => {
                out.names.push(*name);
                out.columns.push(new.into_vector().ok_or_else(type_error)?);
            }
        }
    }
    key_by(keys, &out)
}

/// `x uj y`: rows and columns of both.
pub(super) fn uj(context: &mut Context, x: Value, y: Value) -> Result {
    union_join(context, &x, &y, false)
}

/// `x ujf y`: nulls of `y` leave `x` as it is.
pub(super) fn ujf(context: &mut Context, x: Value, y: Value) -> Result {
    union_join(context, &x, &y, true)
}

fn union_join(context: &mut Context, x: &Value, y: &Value, fill: bool) -> Result {
    if let (Value::Dict(_), Value::Dict(_)) = (x, y) {
        let (xk, xv) = keyed(x)?;
        let (yk, yv) = keyed(y)?;
        let keys = super::sets::union(context, Value::table(xk.clone()), Value::table(yk.clone()))?;
        let all = table(&keys)?;
        let (left, right) = (find::table_positions(context, xk, all)?, find::table_positions(context, yk, all)?);
        let values = overlay(&xv.rows(&left), yv, &right, fill)?;
        return Ok(Value::dict(keys.clone(), Value::table(values)));
    }
    let (a, _) = flat(context, x)?;
    let (b, _) = flat(context, y)?;
    let mut out = Table::new(Vec::new(), Vec::new());
    let mut names = a.names.clone();
    names.extend(b.names.iter().filter(|n| !a.names.contains(n)));
    for name in names {
        let side = |t: &Table, other: &Table| match t.column(name) {
            Some(column) => column.items.clone(),
            None => other.column(name).map_or(Items::empty_of(0), |c| c.items.gather(&vec![-1i64; t.count()])),
        };
        let joined = side(&a, &b).join(&side(&b, &a));
        out.names.push(name);
        out.columns.push(joined.into());
    }
    Ok(Value::table(out))
}

/// `ej[c;x;y]`: every pair of rows that agree in the columns `c`.
pub(super) fn ej(context: &mut Context, arguments: Vec<Value>) -> Result {
    let [c, x, y] = <[Value; 3]>::try_from(arguments).map_err(|_| QError::named("rank"))?;
    let names = c.as_symbols().ok_or_else(type_error)?;
    let (a, _) = flat(context, &x)?;
    let (b, _) = flat(context, &y)?;
    let keys = super::tables::first_columns(&b, names)?;
    let keys = Table::new(names.to_vec(), keys.columns.into_iter().take(names.len()).collect());
    let groups = find::row_groups(&keys.columns);
    let members = groups.members();
    let at = find::table_positions(context, &keys.rows(&groups.firsts), &a)?;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (i, group) in at.iter().enumerate() {
        context.tick()?;
        for row in members.get(*group as usize).map(Vec::as_slice).unwrap_or_default() {
            left.push(i as i64);
            right.push(i64::from(*row));
        }
    }
    Ok(Value::table(overlay(&a.rows(&left), &b, &right, false)?))
}

/// For each row of `x` the last row of `y` with the same keys and a time not after it; -1 where there is none.
fn as_of(context: &mut Context, names: &[Sym], x: &Table, y: &Table) -> std::result::Result<Vec<i64>, QError> {
    let (time, keys) = names.split_last().ok_or(QError::named("length"))?;
    let (x_time, y_time) = (index::column(x, *time)?, index::column(y, *time)?);
    let mut wanted = Table::new(keys.to_vec(), Vec::new());
    let mut have = Table::new(keys.to_vec(), Vec::new());
    for name in keys {
        wanted.columns.push(index::column(x, *name)?.clone());
        have.columns.push(index::column(y, *name)?.clone());
    }
    let all: Vec<u32> = (0..y.count() as u32).collect();
    let (members, at) = if keys.is_empty() {
        (vec![all], vec![0; x.count()])
    } else {
        let groups = find::row_groups(&have.columns);
        let at = find::table_positions(context, &have.rows(&groups.firsts), &wanted)?;
        (groups.members(), at)
    };
    let longs = |v: &Vector| super::arith::longs(&v.items, v.items.type_number()).ok();
    let same_type = x_time.items.type_number() == y_time.items.type_number();
    let fast = if same_type { longs(x_time).zip(longs(y_time)) } else { None };
    let mut out = Vec::with_capacity(x.count());
    for (i, group) in at.iter().enumerate() {
        context.tick()?;
        let rows = usize::try_from(*group).ok().and_then(|g| members.get(g)).map(Vec::as_slice).unwrap_or_default();
        let before = match &fast {
            Some((x, y)) => {
                let limit = x.get(i).copied().unwrap_or(i64::MIN);
                rows.partition_point(|r| y.get(*r as usize).is_some_and(|t| *t <= limit))
            }
            None => {
                let limit = x_time.items.get(i);
                rows.partition_point(|r| order(&y_time.items.get(*r as usize), &limit) != Ordering::Greater)
            }
        };
        out.push(before.checked_sub(1).and_then(|b| rows.get(b)).map_or(-1, |r| i64::from(*r)));
    }
    Ok(out)
}

fn as_of_join(context: &mut Context, arguments: Vec<Value>, own_time: bool, fill: bool) -> Result {
    let [c, x, y] = <[Value; 3]>::try_from(arguments).map_err(|_| QError::named("rank"))?;
    let names = c.as_symbols().ok_or_else(type_error)?;
    let (a, keys) = flat(context, &x)?;
    let (b, _) = flat(context, &y)?;
    let rows = as_of(context, names, &a, &b)?;
    let mut right = (*b).clone();
    let dropped: Vec<Sym> =
        if own_time { names.iter().take(names.len().saturating_sub(1)).copied().collect() } else { names.to_vec() };
    let kept: Vec<usize> =
        (0..right.names.len()).filter(|i| right.names.get(*i).is_some_and(|n| !dropped.contains(n))).collect();
    right.columns = kept.iter().filter_map(|i| b.columns.get(*i).cloned()).collect();
    right.names = kept.iter().filter_map(|i| b.names.get(*i).copied()).collect();
    key_by(keys, &overlay(&a, &right, &rows, fill)?)
}

pub(super) fn aj(context: &mut Context, arguments: Vec<Value>) -> Result {
    as_of_join(context, arguments, false, false)
}

pub(super) fn aj0(context: &mut Context, arguments: Vec<Value>) -> Result {
    as_of_join(context, arguments, true, false)
}

pub(super) fn ajf0(context: &mut Context, arguments: Vec<Value>) -> Result {
    as_of_join(context, arguments, true, true)
}

pub(super) fn ajf(context: &mut Context, arguments: Vec<Value>) -> Result {
    as_of_join(context, arguments, false, true)
}

/// `x asof y`: the last row of `x` as of a dictionary or a table.
pub(super) fn asof(context: &mut Context, x: Value, y: Value) -> Result {
    let (t, _) = flat(context, &x)?;
    match &y {
        Value::Dict(d) if d.keyed().is_none() => {
            let one = super::tables::from_columns(&crate::table::Dict::new(
                d.keys.clone(),
                Value::list(d.values.items().into_iter().map(Value::enlist).collect()),
            ))?;
            let found = asof(context, x, one)?;
            Ok(found.at(0))
        }
        Value::Table(wanted) => {
            let rows = as_of(context, &wanted.names, wanted, &t)?;
            let mut rest = t.rows(&rows);
            let keep: Vec<usize> = (0..rest.names.len())
                .filter(|i| rest.names.get(*i).is_some_and(|n| !wanted.names.contains(n)))
                .collect();
            rest.columns = keep.iter().filter_map(|i| rest.columns.get(*i).cloned()).collect();
            rest.names = keep.iter().filter_map(|i| rest.names.get(*i).copied()).collect();
            Ok(Value::table(rest))
        }
        _ => Err(type_error()),
    }
}

/// `wj[w;c;t;(q;(f;c);…)]`: aggregates of `q` in windows around each row; with the row that prevails at its start.
fn window_join(context: &mut Context, arguments: Vec<Value>, prevailing: bool) -> Result {
    let [w, c, t, spec] = <[Value; 4]>::try_from(arguments).map_err(|_| QError::named("rank"))?;
    let names = c.as_symbols().ok_or_else(type_error)?;
    let (a, _) = flat(context, &t)?;
    let (q, _) = flat(context, &spec.at(0))?;
    let (time, keys) = names.split_last().ok_or(QError::named("length"))?;
    let (starts, ends) = (w.at(0), w.at(1));
    if starts.count() != a.count() || ends.count() != a.count() {
        return Err(QError::named("length"));
    }
    let mut have = Table::new(keys.to_vec(), Vec::new());
    let mut wanted = Table::new(keys.to_vec(), Vec::new());
    for name in keys {
        have.columns.push(index::column(&q, *name)?.clone());
        wanted.columns.push(index::column(&a, *name)?.clone());
    }
    let groups = find::row_groups(&have.columns);
    let members = if keys.is_empty() { vec![(0..q.count() as u32).collect()] } else { groups.members() };
    let at = if keys.is_empty() {
        vec![0; a.count()]
    } else {
        find::table_positions(context, &have.rows(&groups.firsts), &wanted)?
    };
    let times = index::column(&q, *time)?.clone();
    let mut out = (*a).clone();
    for part in spec.items().iter().skip(1) {
        let (f, Value::Sym(column_name)) = (part.at(0), part.at(1)) else { return Err(type_error()) };
        let column = index::column(&q, column_name)?.clone();
        let mut results = Vec::with_capacity(a.count());
        for (i, group) in at.iter().enumerate() {
            context.tick()?;
            let rows: &[u32] =
                usize::try_from(*group).ok().and_then(|g| members.get(g)).map(Vec::as_slice).unwrap_or_default();
            let (start, end) = (starts.at(i), ends.at(i));
            let time_of = |r: &u32| times.items.get(*r as usize);
            let mut from = rows.partition_point(|r| order(&time_of(r), &start) == Ordering::Less);
            let to = rows.partition_point(|r| order(&time_of(r), &end) != Ordering::Greater);
            let exact = rows.get(from).is_some_and(|r| order(&time_of(r), &start) == Ordering::Equal);
            if prevailing && from > 0 && !exact {
                from -= 1;
            }
            let window = column.items.gather(rows.get(from..to.max(from)).unwrap_or_default());
            results.push(context.call1(&f, window.into())?);
        }
        let result = Value::collapse(results).into_vector().ok_or_else(type_error)?;
        match out.names.iter().position(|n| *n == column_name).and_then(|at| out.columns.get_mut(at)) {
            Some(old) => *old = result,
            None => {
                out.names.push(column_name);
                out.columns.push(result);
            }
        }
    }
    Ok(Value::table(out))
}

pub(super) fn wj(context: &mut Context, arguments: Vec<Value>) -> Result {
    window_join(context, arguments, true)
}

pub(super) fn wj1(context: &mut Context, arguments: Vec<Value>) -> Result {
    window_join(context, arguments, false)
}
