//! As-of joins: `aj` and its variants, `asof`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits::Allowance;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::runtime::{limits, sections};
use crate::verbs::above::Evaluate;
use crate::verbs::convert::order_floats;
use crate::verbs::joins::overlay;
use crate::verbs::matches::{order, partition_point};
use crate::verbs::rows::key_by;
use crate::verbs::tables::flat;
use crate::verbs::{find, index};
use columns::kernel::asof::{NONE, Side, Stretch, close, stretch};
use columns::kernel::blocks;
use columns::kernel::num::Int;
use columns::kernel::partial::section_rows;
use columns::table::{Attr, Items, Raw, Sym, Table, Value, Vector, symbol};
use proto::types;
use std::cmp::Ordering;

/// Rows of the right table by key, in order within each key; and for each row of the left the index of its key, past the
/// end if the right table lacks it.
pub(crate) struct ByKey {
    pub members: Vec<Vec<u32>>,
    pub at: Vec<i64>,
}

impl ByKey {
    /// Groups the rows of `right` by the columns `keys`, and looks up each row of `left`.
    pub fn of(context: &mut Context, keys: &[Sym], left: &Table, right: &Table) -> std::result::Result<ByKey, QError> {
        let mut sought = Table::new(keys.to_vec(), Vec::new());
        let mut have = Table::new(keys.to_vec(), Vec::new());
        for name in keys {
            sought.columns.push(index::column(left, *name)?.clone());
            have.columns.push(index::column(right, *name)?.clone());
        }
        if keys.is_empty() {
            return Ok(ByKey { members: vec![(0..right.count() as u32).collect()], at: vec![0; left.count()] });
        }
        context.reserve_items(right.count(), 8)?;
        let groups = find::row_groups(&have.columns)?;
        let at = find::table_positions(context, &have.rows(&groups.firsts), &sought)?;
        Ok(ByKey { members: groups.members(), at })
    }

    /// The rows of the right table with the key of a row of the left.
    pub fn rows(&self, left: usize) -> &[u32] {
        let key = self.at.get(left).and_then(|at| usize::try_from(*at).ok());
        key.and_then(|key| self.members.get(key)).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Merge join of two tables sorted by time, with one key, in sections; `is_sorted` if the right one is known to be. `Ok(None)` if the times
/// do not ascend.
fn in_order<T: Int>(
    allowance: &Allowance,
    left: Side<'_, Sym, T>,
    right: Side<'_, Sym, T>,
    is_sorted: bool,
) -> std::result::Result<Option<Vec<u32>>, QError> {
    // The sections below read no row after the last time of the left table. In a parted table, whose times ascend within each symbol only,
    // such a row may be the one sought.
    if !is_sorted && !blocks::is_sorted(right.times, |a, b| a <= b) {
        return Ok(None);
    }
    let places = symbol::usage().symbols as usize + 1;
    let place = |key: Sym| key.0 as usize;
    let (rows, size) = (left.times.len(), section_rows(places));
    allowance.reserve(rows.saturating_mul(8))?;
    // A section's share of the right table ends with the last time of its rows on the left; the last section reads only
    // what it needs.
    let until = |row: usize| match row.checked_sub(1).and_then(|last| left.times.get(last)) {
        Some(time) => right.times.partition_point(|own| own <= time),
        None => 0,
    };
    let one = |range: std::ops::Range<usize>| {
        let (from, to) = (until(range.start), until(range.end));
        let keys = (left.keys.get(range.clone()), right.keys.get(from..to));
        let times = (left.times.get(range), right.times.get(from..to));
        Ok(match (keys, times) {
            ((Some(l), Some(r)), (Some(lt), Some(rt))) => {
                stretch(Side { keys: l, times: lt }, Side { keys: r, times: rt }, from as u32, places, place)
            }
            _ => Stretch::default(),
        })
    };
    let mut before = Vec::new();
    let mut out = Vec::with_capacity(rows);
    let mut from = 0;
    for mut one in sections::map(allowance, rows, size, one)? {
        let keys = left.keys.get(from..).unwrap_or_default();
        let bound = from.checked_sub(1).and_then(|last| left.times.get(last)).zip(left.times.get(from));
        if !one.ascending || bound.is_some_and(|(a, b)| a > b) {
            return Ok(None);
        }
        close(&mut one, &mut before, keys, place);
        from += one.found.len();
        out.append(&mut one.found);
    }
    Ok(Some(out))
}

/// As [`in_order`], if the types of keys and times are supported.
fn by_symbol(
    context: &Context,
    keys: &[Sym],
    left: (&Table, &Vector),
    right: (&Table, &Vector),
) -> std::result::Result<Option<Vec<u32>>, QError> {
    let [key] = keys else { return Ok(None) };
    let (Items::Sym(x), Items::Sym(y)) = (&index::column(left.0, *key)?.items, &index::column(right.0, *key)?.items)
    else {
        return Ok(None);
    };
    // Every section keeps the last row of each symbol in the process, so many symbols make it slow.
    if symbol::usage().symbols > 1 << 20 || left.1.items.type_number() != right.1.items.type_number() {
        return Ok(None);
    }
    let is_sorted = right.1.attr == Attr::Sorted;
    match (left.1.items.raw(), right.1.items.raw()) {
        (Raw::I64(a), Raw::I64(b)) => {
            in_order(&context.allowance, Side { keys: x, times: a }, Side { keys: y, times: b }, is_sorted)
        }
        (Raw::I32(a), Raw::I32(b)) => {
            in_order(&context.allowance, Side { keys: x, times: a }, Side { keys: y, times: b }, is_sorted)
        }
        _ => Ok(None),
    }
}

/// The time columns of both tables of an as-of join, converted to one type so that they are compared fast.
enum Times {
    Longs(Vec<i64>, Vec<i64>),
    Floats(Vec<f64>, Vec<f64>),
    /// Compared as values.
    Others,
}

impl Times {
    /// # Errors
    /// `type` for points in time of two types, whose numbers do not compare: minutes and milliseconds.
    fn of(name: Sym, x: &Vector, y: &Vector) -> std::result::Result<Times, QError> {
        let (a, b) = (x.items.type_number(), y.items.type_number());
        let is_temporal = |number: i8| (types::TIMESTAMP..=types::TIME).contains(&number);
        if a != b && is_temporal(a) && is_temporal(b) {
            let name = symbol::text(name).escape_ascii();
            return Err(QError::with("type", format!("column {name} has another type in each table")));
        }
        let longs = |v: &Vector| crate::verbs::arith::longs(&v.items, v.items.type_number()).ok();
        Ok(match (x.items.raw(), y.items.raw()) {
            _ if a != b => Times::Others,
            (Raw::F64(x), Raw::F64(y)) => Times::Floats(x.to_vec(), y.to_vec()),
            (Raw::F32(_) | Raw::Sym(_) | Raw::List(_) | Raw::Guid(_), _) => Times::Others,
            _ => longs(x).zip(longs(y)).map_or(Times::Others, |(x, y)| Times::Longs(x, y)),
        })
    }
}

/// Returns for each row of `x` the last row of `y` with the same keys and a time not after it; [`NONE`] without one.
fn as_of(context: &mut Context, names: &[Sym], x: &Table, y: &Table) -> std::result::Result<Vec<u32>, QError> {
    let (time, keys) = names.split_last().ok_or(QError::named("length"))?;
    let (x_time, y_time) = (index::column(x, *time)?, index::column(y, *time)?);
    if y.count() >= NONE as usize {
        return Err(QError::with("limit", "more than 4294967294 rows"));
    }
    if let Some(rows) = by_symbol(context, keys, (x, x_time), (y, y_time))? {
        return Ok(rows);
    }
    let by_key = ByKey::of(context, keys, x, y)?;
    let times = Times::of(*time, x_time, y_time)?;
    let mut out = Vec::with_capacity(x.count());
    for i in 0..x.count() {
        context.tick()?;
        let rows = by_key.rows(i);
        let before = match &times {
            Times::Longs(x, y) => {
                let limit = x.get(i).copied().unwrap_or(i64::MIN);
                rows.partition_point(|r| y.get(*r as usize).is_some_and(|t| *t <= limit))
            }
            Times::Floats(x, y) => {
                let limit = x.get(i).copied().unwrap_or(f64::NAN);
                rows.partition_point(|r| y.get(*r as usize).is_some_and(|t| order_floats(t, &limit).is_le()))
            }
            Times::Others => {
                let limit = x_time.items.get(i);
                partition_point(rows, |r| order(&y_time.items.get(*r as usize), &limit).map(Ordering::is_le))?
            }
        };
        out.push(before.checked_sub(1).and_then(|b| rows.get(b)).copied().unwrap_or(NONE));
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
    let joined = key_by(keys, &overlay(context, &a, &right, &rows, fill)?)?;
    in_place(context, &x, joined)
}

/// Assigns the joined table to the global if the table was given by name.
pub(crate) fn in_place(context: &mut Context, named: &Value, joined: Value) -> Result {
    let Value::Sym(name) = named else { return Ok(joined) };
    let full = crate::verbs::tables::located(context, *name)?;
    context.set_global(full, joined)?;
    Ok(named.clone())
}

/// `aj[c;x;y]`: as-of join that keeps the time of `x`.
pub(crate) fn aj(context: &mut Context, arguments: Vec<Value>) -> Result {
    as_of_join(context, arguments, false, false)
}

/// `aj0`: as [`aj`], with the time of `y`.
pub(crate) fn aj0(context: &mut Context, arguments: Vec<Value>) -> Result {
    as_of_join(context, arguments, true, false)
}

/// `ajf0`: as [`aj0`]; nulls of `y` keep the value of `x`.
pub(crate) fn ajf0(context: &mut Context, arguments: Vec<Value>) -> Result {
    as_of_join(context, arguments, true, true)
}

/// `ajf`: as [`aj`]; nulls of `y` keep the value of `x`.
pub(crate) fn ajf(context: &mut Context, arguments: Vec<Value>) -> Result {
    as_of_join(context, arguments, false, true)
}

/// `x asof y`: the last row of `x` as of a dictionary or of a table's rows.
pub(crate) fn asof(context: &mut Context, x: Value, y: Value) -> Result {
    let (t, _) = flat(context, &x)?;
    match &y {
        Value::Dict(d) if d.keyed().is_none() => {
            let one = crate::verbs::rows::from_columns(&columns::table::Dict::new(
                d.keys.clone(),
                Value::list(d.values.items().into_iter().map(Value::enlist).collect()),
            ))?;
            let found = asof(context, x, one)?;
            Ok(found.at(0))
        }
        Value::Table(sought) => {
            let rows = as_of(context, &sought.names, sought, &t)?;
            let mut rest = t.rows(&rows);
            let mut keep = Vec::new();
            for (i, name) in rest.names.iter().enumerate() {
                if limits::place(&sought.names, *name)?.is_none() {
                    keep.push(i);
                }
            }
            rest.columns = keep.iter().filter_map(|i| rest.columns.get(*i).cloned()).collect();
            rest.names = keep.iter().filter_map(|i| rest.names.get(*i).copied()).collect();
            Ok(Value::table(rest))
        }
        _ => Err(type_error()),
    }
}
