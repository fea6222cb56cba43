//! Sorting: `iasc`, `asc`, `xasc`, `rank`, `xrank`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::above::{Evaluate, Stored};
use crate::verbs::attributes::mark_sorted;
use crate::verbs::convert::order_floats;
use crate::verbs::index;
use crate::verbs::matches::{order_bytes, order_mixed};
use crate::verbs::shape::long;
use columns::kernel::{blocks, merge};
use columns::sys::budget::{self, BLOCK};
use columns::table::symbol::text;
use columns::table::{Attr, Items, Raw, Sym, Table, Value, Vector};
use std::cmp::Ordering;

/// Returns the rows in sorted order; the sort is stable.
pub(crate) fn rows_ascending(items: &Items, descending: bool) -> std::result::Result<Vec<u32>, QError> {
    let mut rows = all_rows(items.len())?;
    sort_rows(&mut rows, items, descending)?;
    Ok(rows)
}

/// Row numbers 0 to `count` - 1. Also checks for the sort's scratch space.
fn all_rows(count: usize) -> std::result::Result<Vec<u32>, QError> {
    limits::check()?;
    limits::room_for::<u32>(count.saturating_mul(2))?;
    Ok(blocks::numbers(0..count, |row| row as u32))
}

fn sort_rows(rows: &mut [u32], items: &Items, descending: bool) -> std::result::Result<(), QError> {
    fn by<T>(rows: &mut [u32], v: &[T], descending: bool, cmp: impl Fn(&T, &T) -> Ordering) {
        let compare = |a: &u32, b: &u32| match (v.get(*a as usize), v.get(*b as usize)) {
            (Some(a), Some(b)) => {
                if descending {
                    cmp(b, a)
                } else {
                    cmp(a, b)
                }
            }
            _ => Ordering::Equal,
        };
        merge::standard(rows, compare);
    }
    match items.raw() {
        Raw::U8(v) => by(rows, v, descending, Ord::cmp),
        Raw::I16(v) => by(rows, v, descending, Ord::cmp),
        Raw::I32(v) => by(rows, v, descending, Ord::cmp),
        Raw::I64(v) => by(rows, v, descending, Ord::cmp),
        Raw::Guid(v) => by(rows, v, descending, Ord::cmp),
        Raw::F32(v) => by(rows, v, descending, |a, b| order_floats(&f64::from(*a), &f64::from(*b))),
        Raw::F64(v) => by(rows, v, descending, order_floats),
        Raw::Sym(v) => {
            // Ranks each distinct symbol's text once, then sorts rows by these small numbers.
            let groups = crate::verbs::find::groups(items)?;
            let mut order: Vec<u32> = (0..groups.firsts.len() as u32).collect();
            let name = |g: &u32| {
                groups.firsts.get(*g as usize).and_then(|f| v.get(*f as usize)).map_or(&b""[..], |s| text(*s))
            };
            merge::standard(&mut order, |a, b| name(a).cmp(name(b)));
            let mut places = vec![0u32; order.len()];
            for (place, group) in order.iter().enumerate() {
                if let Some(slot) = places.get_mut(*group as usize) {
                    *slot = place as u32;
                }
            }
            let ranks: Vec<u32> = blocks::map(&groups.ids, |g| places.get(*g as usize).copied().unwrap_or(0));
            by(rows, &ranks, descending, Ord::cmp);
        }
        Raw::List(v) if sort_texts(rows, v, descending)? => {}
        Raw::List(v) => {
            let compare = |a: u32, b: u32| match (v.get(a as usize), v.get(b as usize)) {
                (Some(a), Some(b)) => {
                    let (a, b) = if descending { (b, a) } else { (a, b) };
                    order_mixed(a, b)
                }
                _ => Ok(Ordering::Equal),
            };
            merge::sort(rows, compare)?;
        }
    }
    Ok(())
}

/// The first 8 bytes of a text as one number, so that most texts are ordered by comparing numbers. Shorter texts end in zero bytes, and `length` orders
/// "ab" before "ab\000"; it is 9 for all longer texts, which are compared in full if their first 8 bytes are equal.
#[derive(Clone, Copy)]
struct Head {
    bytes: u64,
    length: u8,
    row: u32,
}

const HEAD: usize = size_of::<u64>();

/// Sorts rows whose items are all texts; `false` if an item is no text. Each text is read once; comparing them
/// pairwise would read each some twenty times.
fn sort_texts(rows: &mut [u32], items: &[Value], descending: bool) -> std::result::Result<bool, QError> {
    let text = |row: u32| match items.get(row as usize) {
        Some(Value::Vector(Vector { items: Items::Char(text), .. })) => Some(&text[..]),
        _ => None,
    };
    limits::room_for::<Head>(rows.len().saturating_mul(2))?;
    let mut heads = Vec::with_capacity(rows.len());
    for row in &*rows {
        limits::step()?;
        let Some(text) = text(*row) else { return Ok(false) };
        let mut head = [0; HEAD];
        head.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        let length = text.len().min(HEAD + 1) as u8;
        heads.push(Head { bytes: u64::from_be_bytes(head), length, row: *row });
    }
    let ordered = |order: Ordering| if descending { order.reverse() } else { order };
    let by_head = |a: &Head, b: &Head| ordered((a.bytes, a.length).cmp(&(b.bytes, b.length)));
    merge::standard(&mut heads, by_head);
    for alike in heads.chunk_by_mut(|a, b| by_head(a, b).is_eq()) {
        if alike.len() > 1 && alike.first().is_some_and(|head| usize::from(head.length) > HEAD) {
            merge::sort(alike, |a, b| match (text(a.row), text(b.row)) {
                (Some(a), Some(b)) => order_bytes(a, b).map(ordered),
                _ => Ok(Ordering::Equal),
            })?;
        }
    }
    rows.iter_mut().zip(&heads).for_each(|(row, head)| *row = head.row);
    Ok(true)
}

/// Returns the rows of a table sorted by these columns, the first as the primary key.
pub(crate) fn rows_by_columns(
    columns: &[&Vector],
    count: usize,
    descending: bool,
) -> std::result::Result<Vec<u32>, QError> {
    let mut rows = all_rows(count)?;
    for column in columns.iter().rev() {
        sort_rows(&mut rows, &column.items, descending)?;
    }
    Ok(rows)
}

fn rows_of(x: &Value, descending: bool) -> std::result::Result<Vec<u32>, QError> {
    match x {
        Value::Vector(v) => rows_ascending(&v.items, descending),
        Value::Table(t) => rows_by_columns(&t.columns.iter().collect::<Vec<_>>(), t.count(), descending),
        Value::Dict(d) => match d.keyed() {
            Some((_, v)) => rows_by_columns(&v.columns.iter().collect::<Vec<_>>(), v.count(), descending),
            None => rows_of(&d.values, descending),
        },
        _ => Err(type_error()),
    }
}

fn grade(context: &mut Context, x: Value, descending: bool) -> Result {
    if x.is_scalar() {
        return Err(QError::named("rank"));
    }
    let rows = rows_of(&x, descending)?;
    match &x {
        Value::Dict(d) => index::one(context, &d.keys, &Value::longs(blocks::map(&rows, |row| i64::from(*row)))),
        _ => Ok(Value::longs(blocks::map(&rows, |row| i64::from(*row)))),
    }
}

pub(crate) fn iasc(context: &mut Context, x: Value) -> Result {
    grade(context, x, false)
}

pub(crate) fn idesc(context: &mut Context, x: Value) -> Result {
    grade(context, x, true)
}

pub(crate) fn asc(_: &mut Context, x: Value) -> Result {
    if x.is_scalar() {
        return Err(QError::named("rank"));
    }
    let rows = rows_of(&x, false)?;
    Ok(match x.gather(&rows) {
        Value::Dict(d) => Value::dict(d.keys.clone(), sorted(d.values.clone())),
        other => sorted(other),
    })
}

/// Marks what is in ascending order as sorted; a table by its first column.
fn sorted(x: Value) -> Value {
    match x {
        Value::Vector(v) if !matches!(v.items, Items::List(_)) || !v.is_empty() => {
            Vector { attr: Attr::Sorted, items: v.items }.into()
        }
        Value::Table(t) => {
            let mut t = (*t).clone();
            mark_sorted(&mut t);
            Value::table(t)
        }
        other => other,
    }
}

pub(crate) fn desc(_: &mut Context, x: Value) -> Result {
    if x.is_scalar() {
        return Err(QError::named("rank"));
    }
    Ok(x.gather(&rows_of(&x, true)?))
}

pub(crate) fn rank(context: &mut Context, x: Value) -> Result {
    if x.is_scalar() {
        return Err(QError::named("rank"));
    }
    let rows = rows_of(&x, false)?;
    let mut ranks = vec![0i64; rows.len()];
    for (place, row) in rows.iter().enumerate() {
        if place.is_multiple_of(BLOCK) && budget::spend(BLOCK) {
            break;
        }
        if let Some(rank) = ranks.get_mut(*row as usize) {
            *rank = place as i64;
        }
    }
    if let Value::Dict(_) = &x {
        let order = iasc(context, x)?;
        return iasc(context, order);
    }
    context.tick()?;
    Ok(Value::longs(ranks))
}

pub(crate) fn xrank(context: &mut Context, x: Value, y: Value) -> Result {
    let buckets = long(&x)?;
    let ranks = rank(context, y)?;
    let n = ranks.count() as i64;
    let bucket = |r: i64| if n == 0 { 0 } else { r.saturating_mul(buckets).div_euclid(n) };
    let ranks = crate::verbs::convert::rows(&ranks.to_items()).unwrap_or_default();
    Ok(Value::longs(blocks::map(&ranks, |rank| bucket(*rank))))
}

/// `` `a`b xasc t `` of a table or of a table's name.
fn by_names(context: &mut Context, x: Value, y: Value, descending: bool) -> Result {
    let names: Vec<Sym> = crate::verbs::tables::names(&x)?.to_vec();
    if names.is_empty() {
        return Ok(y);
    }
    if let Value::Sym(name) = y
        && crate::runtime::paths::is_path(name)
    {
        let table = context.stored(&y)?;
        if matches!(table, Value::Sym(_)) {
            return Err(type_error());
        }
        let sorted = by_names(context, x, table, descending)?;
        let folder = crate::runtime::paths::inside(name, Sym::NULL)?;
        context.store(Value::Sym(folder), &sorted)?;
        return Ok(y);
    }
    if let Value::Sym(name) = y {
        let table = crate::verbs::tables::of_name(context, name)?;
        let sorted = by_names(context, x, table, descending)?;
        let full = crate::verbs::tables::located(context, name)?;
        context.set_global(full, sorted)?;
        return Ok(Value::Sym(name));
    }
    let (flat, keys) = match &y {
        Value::Dict(d) => match d.keyed() {
            Some((k, _)) => (crate::verbs::rows::unkey(&y)?, k.columns.len()),
            None => return Err(type_error()),
        },
        _ => (y.clone(), 0),
    };
    let Value::Table(t) = &flat else { return Err(type_error()) };
    let columns: std::result::Result<Vec<&Vector>, QError> = names.iter().map(|n| index::column(t, *n)).collect();
    let rows = rows_by_columns(&columns?, t.count(), descending)?;
    let mut sorted: Table = t.rows(&rows);
    if !descending
        && let Some(first) = names.first()
        && let Some(at) = limits::place(&sorted.names, *first)?
        && let Some(column) = sorted.columns.get_mut(at)
    {
        column.attr = Attr::Sorted;
    }
    crate::verbs::rows::key_by(keys, &sorted)
}

pub(crate) fn xasc(context: &mut Context, x: Value, y: Value) -> Result {
    by_names(context, x, y, false)
}

pub(crate) fn xdesc(context: &mut Context, x: Value, y: Value) -> Result {
    by_names(context, x, y, true)
}
