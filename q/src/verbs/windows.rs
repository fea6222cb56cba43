//! `wj` and `wj1`: aggregates over windows around each row.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::above::Evaluate;
use crate::verbs::asof::{ByKey, in_place};
use crate::verbs::matches::{order, partition_point};
use crate::verbs::tables::flat;
use crate::verbs::{aggregate, index};
use columns::table::{Items, Raw, Value, Vector};
use std::cmp::Ordering;
use std::convert::Infallible;

/// The first of ascending rows for which `before` does not hold, searched from `hint`, since windows advance in small
/// steps.
fn bound<E>(
    rows: &[u32],
    hint: usize,
    before: impl Fn(u32) -> std::result::Result<bool, E>,
) -> std::result::Result<usize, E> {
    let holds = |at: usize| rows.get(at).map_or(Ok(false), |row| before(*row));
    let hint = hint.min(rows.len());
    if hint > 0 && !holds(hint - 1)? {
        return partition_point(rows, |row| before(*row));
    }
    let mut step = 1;
    while holds(hint + step - 1)? {
        step *= 2;
    }
    let from = hint + step / 2;
    let rest = rows.get(from..(hint + step).min(rows.len())).unwrap_or_default();
    Ok(from + partition_point(rest, |row| before(*row))?)
}

/// Returns the window of each row of the left table, as positions among the rows of its key.
fn bounds(
    context: &mut Context,
    by_key: &ByKey,
    times: &Vector,
    starts: &Value,
    ends: &Value,
    prevailing: bool,
) -> std::result::Result<Vec<(usize, usize)>, QError> {
    let count = by_key.at.len();
    let number = times.items.type_number();
    let longs = |items: &Items| {
        let whole = matches!(items.raw(), Raw::I64(_) | Raw::I32(_) | Raw::I16(_));
        if whole && items.type_number() == number { crate::verbs::arith::longs(items, number).ok() } else { None }
    };
    let fast = longs(&times.items).zip(longs(&starts.to_items()).zip(longs(&ends.to_items())));
    let mut hints = vec![(0, 0); by_key.members.len()];
    let mut out = Vec::with_capacity(count);
    for i in 0..count {
        context.tick()?;
        let rows = by_key.rows(i);
        let mut none = (0, 0);
        let key = by_key.at.get(i).and_then(|at| usize::try_from(*at).ok());
        let hint = key.and_then(|key| hints.get_mut(key)).unwrap_or(&mut none);
        match &fast {
            Some((times, (starts, ends))) => {
                let at = |row: u32| times.get(row as usize).copied().unwrap_or(i64::MAX);
                let [start, end] = [starts, ends].map(|side| side.get(i).copied().unwrap_or(i64::MIN));
                let is_before = |row| Ok::<_, Infallible>(at(row) < start || prevailing && at(row) == start);
                let Ok(from) = bound(rows, hint.0, is_before);
                let Ok(to) = bound(rows, hint.1, |row| Ok::<_, Infallible>(at(row) <= end));
                *hint = (from, to);
            }
            None => {
                let at = |row: u32| times.items.get(row as usize);
                let (start, end) = (starts.at(i), ends.at(i));
                let is_before = |order: Ordering| order.is_lt() || prevailing && order.is_eq();
                let from = bound(rows, 0, |row| order(&at(row), &start).map(is_before))?;
                *hint = (from, bound(rows, 0, |row| order(&at(row), &end).map(Ordering::is_le))?);
            }
        }
        // The prevailing row is the last one at or before the start.
        let from = if prevailing { hint.0.saturating_sub(1) } else { hint.0 };
        out.push((from, hint.1.max(from)));
    }
    Ok(out)
}

/// `wj[w;c;t;(q;(f;c);…)]`: aggregates of `q` in windows around each row; `prevailing` adds the row that is current at the
/// window's start.
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
    let by_key = ByKey::of(context, keys, &a, &q)?;
    let bounds = bounds(context, &by_key, index::column(&q, *time)?, &starts, &ends, prevailing)?;
    let mut out = (*a).clone();
    for part in spec.items().iter().skip(1) {
        let [f, read @ ..] = &part.items()[..] else { return Err(type_error()) };
        let read = Value::collapse(read.to_vec());
        let read = read.as_symbols().ok_or_else(type_error)?;
        let column_name = *read.last().ok_or_else(type_error)?;
        let columns: std::result::Result<Vec<&Vector>, QError> =
            read.iter().map(|name| index::column(&q, *name)).collect();
        let columns = columns?;
        let one = columns.len() == 1;
        let aggregate = aggregate::of(f).filter(|aggregate| one && aggregate.arity() == 1 && aggregate.reads());
        // Items contiguous by key, so that a window is a slice.
        let mut held: Vec<Option<Vec<Items>>> = vec![None; by_key.members.len()];
        let mut results = Vec::with_capacity(a.count());
        for (i, (from, to)) in bounds.iter().enumerate() {
            context.tick()?;
            let key = by_key.at.get(i).and_then(|at| usize::try_from(*at).ok()).and_then(|key| held.get_mut(key));
            let gathered = || columns.iter().map(|c| c.items.gather(by_key.rows(i))).collect::<Vec<Items>>();
            let window: Vec<Items> = match key {
                Some(key) => key.get_or_insert_with(gathered).iter().map(|items| items.cut(*from, *to)).collect(),
                None => columns.iter().map(|c| c.items.cut(0, 0)).collect(),
            };
            let result = match aggregate {
                Some(aggregate) => aggregate::whole(&context.allowance, aggregate, &window)?,
                None => None,
            };
            results.push(match result {
                Some(result) => result,
                None => context.apply(f, window.into_iter().map(Value::from).collect())?,
            });
        }
        let result = Value::collapse(results).into_vector().ok_or_else(type_error)?;
        match limits::place(&out.names, column_name)?.and_then(|at| out.columns.get_mut(at)) {
            Some(old) => *old = result,
            None => {
                out.names.push(column_name);
                out.columns.push(result);
            }
        }
    }
    in_place(context, &t, Value::table(out))
}

/// `wj`: windows include the row that is current at their start.
pub(crate) fn wj(context: &mut Context, arguments: Vec<Value>) -> Result {
    window_join(context, arguments, true)
}

/// `wj1`: windows include only rows within their bounds.
pub(crate) fn wj1(context: &mut Context, arguments: Vec<Value>) -> Result {
    window_join(context, arguments, false)
}
