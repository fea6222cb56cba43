//! Joins of tables: by key, union and equi-join.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::runtime::{gather, limits};
use crate::verbs::find;
use crate::verbs::format::is_blank;
use crate::verbs::given::other_columns;
use crate::verbs::rows::key_by;
use crate::verbs::tables::flat;
use columns::kernel::blocks;
use columns::table::{Items, Sym, Table, Value, Vector};

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

/// Whether `x^y` takes the item of `x` where this is the one of `y`. A cell that is a list counts as a whole.
fn is_filled(item: &Value) -> bool {
    match item {
        Value::Char(c) => *c == b' ',
        Value::Guid(g) => *g == [0; 16],
        other => is_blank(other),
    }
}

/// Returns `t` with the columns of `other` at `rows`; a row past the end keeps the old value, or null in a new column.
pub(crate) fn overlay(
    context: &Context,
    t: &Table,
    other: &Table,
    rows: &[u32],
    fill: bool,
) -> std::result::Result<Table, QError> {
    let mut out = Table { sorted: false, ..t.clone() };
    let count = other.count() as u32;
    for (name, column) in other.names.iter().zip(&other.columns) {
        let new = gather::items(&context.allowance, &column.items, rows)?;
        match limits::place(&out.names, *name)?.and_then(|at| out.columns.get_mut(at)) {
            Some(old) if rows.is_empty() => *old = new.into(),
            Some(old) => {
                let nulls = match fill {
                    true => blocks::numbers(0..new.len(), |i| is_filled(&new.get(i))),
                    false => vec![false; new.len()],
                };
                let own = t.count() as i64;
                let mut next = 0;
                let pick: Vec<i64> = blocks::both(rows, &nulls, |row, null| {
                    let i = next;
                    next += 1;
                    if *row < count && !null { own + i } else { i }
                });
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

/// Positions as `u32` row numbers; out-of-range becomes `u32::MAX` and gathers as null.
fn row_numbers(positions: &[i64]) -> Vec<u32> {
    blocks::map(positions, |at| u32::try_from(*at).unwrap_or(u32::MAX))
}

/// Returns for each row of `t` the matching row of the keyed table `y`, or a number out of range if none matches. If `y` is sorted, it is a step
/// function: the last row whose key is not greater matches.
fn partners(context: &mut Context, y: &Value, t: &Table) -> std::result::Result<Vec<i64>, QError> {
    let (k, _) = keyed(y)?;
    if !matches!(y, Value::Dict(d) if d.sorted) {
        return find::table_positions(context, k, t);
    }
    let column = |name: &Sym| t.column(*name).cloned().ok_or_else(|| other_columns(&k.names, &t.names));
    let sought = k.names.iter().map(column).collect::<std::result::Result<Vec<Vector>, QError>>()?;
    let sought = Value::table(Table::new(k.names.clone(), sought));
    let rows = crate::verbs::sets::bin(context, Value::table(k.clone()), sought)?;
    rows.as_vector().and_then(|rows| crate::verbs::convert::rows(&rows.items)).ok_or_else(type_error)
}

fn left_join(context: &mut Context, x: &Value, y: &Value, fill: bool) -> Result {
    let (t, keys) = flat(context, x)?;
    if matches!(y, Value::Vector(Vector { items: Items::List(l), .. }) if l.is_empty()) {
        return key_by(keys, &t);
    }
    let (_, v) = keyed(y)?;
    let rows = partners(context, y, &t)?;
    key_by(keys, &overlay(context, &t, v, &row_numbers(&rows), fill)?)
}

/// `x lj y`.
pub(crate) fn lj(context: &mut Context, x: Value, y: Value) -> Result {
    left_join(context, &x, &y, false)
}

/// `x ljf y`: nulls of `y` keep the value of `x`.
pub(crate) fn ljf(context: &mut Context, x: Value, y: Value) -> Result {
    left_join(context, &x, &y, true)
}

/// `x ij y`: only rows with a match.
pub(crate) fn ij(context: &mut Context, x: Value, y: Value) -> Result {
    inner_join(context, &x, &y, false)
}

/// `x ijf y`: nulls of `y` keep the value of `x`.
pub(crate) fn ijf(context: &mut Context, x: Value, y: Value) -> Result {
    inner_join(context, &x, &y, true)
}

fn inner_join(context: &mut Context, x: &Value, y: &Value, fill: bool) -> Result {
    let (t, keys) = flat(context, x)?;
    let (k, v) = keyed(y)?;
    let rows = find::table_positions(context, k, &t)?;
    let n = k.count() as i64;
    let kept: Vec<u32> = blocks::kept(0..rows.len(), |i| rows.get(i).filter(|r| **r < n).map(|_| i as u32));
    let partners: Vec<i64> = blocks::kept(0..rows.len(), |i| rows.get(i).copied().filter(|r| *r < n));
    key_by(keys, &overlay(context, &t.rows(&kept), v, &row_numbers(&partners), fill)?)
}

/// `x pj y`: columns of the same name are added.
pub(crate) fn pj(context: &mut Context, x: Value, y: Value) -> Result {
    use crate::runtime::op::Op;
    use crate::verbs::arith::atomic;
    use columns::kernel::zip::Arithmetic;
    let (t, keys) = flat(context, &x)?;
    let (_, v) = keyed(&y)?;
    let rows = partners(context, &y, &t)?;
    let mut out = Table { sorted: false, ..(*t).clone() };
    for (name, column) in v.names.iter().zip(&v.columns) {
        let new: Value = column.items.gather(&rows).into();
        let zero = Value::from_long(column.items.type_number(), 0);
        let new = atomic(context, Op::Fill, &zero, &new)?;
        match limits::place(&out.names, *name)?.and_then(|at| out.columns.get_mut(at)) {
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
pub(crate) fn uj(context: &mut Context, x: Value, y: Value) -> Result {
    union_join(context, &x, &y, false)
}

/// `x ujf y`: nulls of `y` keep the value of `x`.
pub(crate) fn ujf(context: &mut Context, x: Value, y: Value) -> Result {
    union_join(context, &x, &y, true)
}

fn union_join(context: &mut Context, x: &Value, y: &Value, fill: bool) -> Result {
    if x.is_nothing() {
        return Ok(y.clone());
    }
    if y.is_nothing() && !fill {
        return Ok(x.clone());
    }
    if let (Value::Dict(_), Value::Dict(_)) = (x, y) {
        let (xk, xv) = keyed(x)?;
        let (yk, yv) = keyed(y)?;
        let keys = crate::verbs::sets::union(context, Value::table(xk.clone()), Value::table(yk.clone()))?;
        let all = table(&keys)?;
        let (left, right) = (find::table_positions(context, xk, all)?, find::table_positions(context, yk, all)?);
        let values = overlay(context, &xv.rows(&left), yv, &row_numbers(&right), fill)?;
        return Ok(Value::dict(keys.clone(), Value::table(values)));
    }
    if let (Value::Table(_), Value::Dict(keyed)) | (Value::Dict(keyed), Value::Table(_)) = (x, y)
        && keyed.keyed().is_some()
    {
        return Err(QError::with("nyi", "uj of a table with keys and one without"));
    }
    let (a, _) = flat(context, x)?;
    let (b, _) = flat(context, y)?;
    let mut out = Table::new(Vec::new(), Vec::new());
    let mut names = a.names.clone();
    for name in &b.names {
        if limits::place(&a.names, *name)?.is_none() {
            names.push(*name);
        }
    }
    for name in names {
        let side = |t: &Table, other: &Table| match t.column(name) {
            Some(column) => column.items.clone(),
            None => other.column(name).map_or(Items::empty_of(0), |c| c.items.gather(&vec![-1i64; t.count()])),
        };
        // A column search stopped by a limit reports "no such column"; turn that into the limit's error.
        limits::settle()?;
        let joined = side(&a, &b).join(&side(&b, &a));
        out.names.push(name);
        out.columns.push(joined.into());
    }
    Ok(Value::table(out))
}

/// `ej[c;x;y]`: every pair of rows with equal values in the columns `c`.
pub(crate) fn ej(context: &mut Context, arguments: Vec<Value>) -> Result {
    let [c, x, y] = <[Value; 3]>::try_from(arguments).map_err(|_| QError::named("rank"))?;
    let names = c.as_symbols().ok_or_else(type_error)?;
    let (a, _) = flat(context, &x)?;
    let (b, _) = flat(context, &y)?;
    let keys = crate::verbs::tables::first_columns(&b, names)?;
    let keys = Table::new(names.to_vec(), keys.columns.into_iter().take(names.len()).collect());
    let groups = find::row_groups(&keys.columns)?;
    let members = groups.members();
    let at = find::table_positions(context, &keys.rows(&groups.firsts), &a)?;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (i, group) in at.iter().enumerate() {
        context.tick()?;
        for row in members.get(*group as usize).map(Vec::as_slice).unwrap_or_default() {
            left.push(i as u32);
            right.push(*row);
        }
    }
    Ok(Value::table(overlay(context, &a.rows(&left), &b, &right, false)?))
}
