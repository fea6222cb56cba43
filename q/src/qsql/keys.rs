//! `by`: assigns rows to groups numbered in key order. Each key becomes a small number, its digit ([`codes`]); the digits of
//! several keys form one mixed-radix code, which addresses the group directly. Keys that do not fit are hashed.

use super::compile::row_wise;
use super::groups::Grouped;
use super::{Selected, evaluate};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::runtime::limits::Allowance;
use crate::runtime::op::Op;
use crate::runtime::sections;
use crate::syntax::ast::Node;
use crate::verbs::aggregate::Coder;
use crate::verbs::rowwise::RowWise;
use crate::verbs::{aggregate, find, sort};
use columns::kernel::keys::groups;
use columns::kernel::num::Num;
use columns::kernel::partial::To;
use columns::kernel::{codes, partial};
use columns::table::symbol::{self, text};
use columns::table::{Items, Raw, Sym, Value, Vector};
use proto::types;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows encoded per block.
const BLOCK_ROWS: usize = 1 << 13;

/// Codes address groups directly up to this many, or up to twice the number of rows if that is more, but at most `MAX_CODES`.
pub(super) const FEW_CODES: u64 = 1 << 16;
const MAX_CODES: u64 = 1 << 26;

/// How a key becomes a digit.
enum Coding {
    /// The symbol's id.
    Number,
    /// The rank among the values present.
    Places(Vec<u32>),
    /// The offset from the smallest value.
    Offset(i64),
    /// The number of its `xbar` bucket: items, width, first bucket.
    Bar(RowWise, i64, i64),
    /// Precomputed digit of each row.
    Made(Vec<u32>),
}

/// Maps digits back to key values.
enum Meaning {
    /// Symbols by id.
    Numbered,
    Listed(Items),
    /// Type, first value and step.
    Spaced(i8, i64, i64),
}

impl Meaning {
    fn items(&self, digits: &[u32]) -> Items {
        match self {
            Meaning::Numbered => Items::Sym(digits.iter().map(|d| Sym(*d)).collect()),
            Meaning::Listed(items) => items.gather(digits),
            Meaning::Spaced(number, first, step) => Items::from_longs(
                *number,
                digits.iter().map(|d| first.wrapping_add(step.wrapping_mul(i64::from(*d)))).collect(),
            ),
        }
    }
}

pub(super) struct Key {
    expression: RowWise,
    coding: Coding,
    meaning: Meaning,
    digits: u32,
}

/// Limit of digits of one key.
fn most_digits(rows: usize) -> u64 {
    FEW_CODES.max(rows as u64 * 2).min(MAX_CODES)
}

/// Calls `f` with each block of an expression's items, on all threads.
fn each_block<R: Send>(
    allowance: &Allowance,
    rows: usize,
    expression: &RowWise,
    start: impl Fn() -> R + Sync,
    f: impl Fn(&mut R, &Items) + Sync,
) -> Result<Vec<R>, QError> {
    let size = partial::section_rows(1);
    let section = |range: Range<usize>| {
        let mut state = start();
        for from in range.clone().step_by(BLOCK_ROWS) {
            f(&mut state, &expression.block(from..(from + BLOCK_ROWS).min(range.end))?);
        }
        Ok(state)
    };
    sections::map(allowance, rows, size, section)
}

/// Returns which of `limit` small keys are present.
fn present(allowance: &Allowance, rows: usize, expression: &RowWise, limit: usize) -> Result<Vec<u32>, QError> {
    let seen: Vec<AtomicBool> = (0..limit).map(|_| AtomicBool::new(false)).collect();
    let mark = |key: usize| {
        if let Some(seen) = seen.get(key)
            && !seen.load(Ordering::Relaxed)
        {
            seen.store(true, Ordering::Relaxed);
        }
    };
    each_block(
        allowance,
        rows,
        expression,
        || (),
        |(), items| match items.raw() {
            Raw::Sym(v) => v.iter().for_each(|s| mark(s.0 as usize)),
            Raw::U8(v) => v.iter().for_each(|b| mark(usize::from(*b))),
            _ => {}
        },
    )?;
    Ok(seen.iter().zip(0..).filter(|(seen, _)| seen.load(Ordering::Relaxed)).map(|(_, key)| key).collect())
}

/// Returns the rank of each key of a list.
pub(super) fn places(listed: &[u32], limit: usize) -> Vec<u32> {
    let mut places = vec![0; limit];
    for (place, key) in (0..).zip(listed) {
        if let Some(slot) = places.get_mut(*key as usize) {
            *slot = place;
        }
    }
    places
}

/// Returns minimum and maximum of an integer expression.
fn bounds(allowance: &Allowance, rows: usize, expression: &RowWise) -> Result<Option<(i64, i64)>, QError> {
    let wider = |a: Option<(i64, i64)>, b: Option<(i64, i64)>| match (a, b) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (a, b) => a.or(b),
    };
    let parts = each_block(
        allowance,
        rows,
        expression,
        || None,
        |state, items| {
            let own = match items.raw() {
                Raw::I64(v) => codes::bounds(v),
                Raw::I32(v) => codes::bounds(v),
                Raw::I16(v) => codes::bounds(v),
                _ => None,
            };
            *state = wider(*state, own);
        },
    )?;
    Ok(parts.into_iter().fold(None, wider))
}

/// Number of digits in a closed range; `None` if there are too many.
fn span(low: i64, high: i64, rows: usize) -> Option<u32> {
    let span = high.checked_sub(low)?.checked_add(1)?;
    u32::try_from(span).ok().filter(|s| u64::from(*s) <= most_digits(rows))
}

/// Returns items and width of an `xbar` with a positive integer width in the items' own unit.
fn bars(expression: &RowWise) -> Option<(&RowWise, i64)> {
    let RowWise::Apply(Op::Bar, width, items) = expression else { return None };
    let RowWise::Atom(width) = &**width else { return None };
    let items = &**items;
    let number = items.block(0..0).ok()?.type_number();
    let same_unit = matches!(
        (width.type_number(), number),
        (types::LONG, types::LONG)
            | (types::TIMESPAN, types::TIMESPAN | types::TIMESTAMP)
            | (types::BYTE..=types::LONG, types::TIMESTAMP | types::TIMESPAN)
    );
    let width = width.get(0).as_long().filter(|w| same_unit && *w > 0 && *w != i64::INFINITY)?;
    Some((items, width))
}

impl Key {
    /// Chooses the coding of a key; `alone` if it is the only one.
    fn of(allowance: &Allowance, rows: usize, expression: RowWise, alone: bool) -> Result<Key, QError> {
        let sample = expression.block(0..0)?;
        match &sample {
            Items::Sym(_) => {
                // The table covers all interned symbols; if the memory limit does not allow it, group by hash.
                let limit = symbol::usage().symbols as usize + 1;
                let fits = |bytes_each: usize| allowance.reserve(limit.saturating_mul(bytes_each)).is_ok();
                if alone && limit as u64 <= FEW_CODES && fits(size_of::<u64>()) {
                    let (coding, meaning) = (Coding::Number, Meaning::Numbered);
                    return Ok(Key { expression, coding, meaning, digits: limit as u32 });
                }
                if limit as u64 <= most_digits(rows).saturating_mul(2) && fits(size_of::<u64>()) {
                    let mut listed = present(allowance, rows, &expression, limit)?;
                    listed.sort_by_key(|id| text(Sym(*id)));
                    let meaning = Meaning::Listed(Items::Sym(listed.iter().map(|id| Sym(*id)).collect()));
                    let coding = Coding::Places(places(&listed, limit));
                    return Ok(Key { expression, coding, meaning, digits: listed.len() as u32 });
                }
            }
            Items::Bool(_) | Items::Byte(_) | Items::Char(_) => {
                let listed = present(allowance, rows, &expression, 256)?;
                let items = Items::from_longs(sample.type_number(), listed.iter().map(|b| i64::from(*b)).collect());
                let coding = Coding::Places(places(&listed, 256));
                let digits = listed.len() as u32;
                return Ok(Key { expression, coding, meaning: Meaning::Listed(items), digits });
            }
            Items::Link(..) => {}
            _ => match sample.raw() {
                Raw::I64(_) | Raw::I32(_) | Raw::I16(_) => {
                    return Key::of_integers(allowance, rows, expression, sample.type_number());
                }
                _ => {}
            },
        }
        Key::hashed(&expression.block(0..rows)?)
    }

    fn of_integers(allowance: &Allowance, rows: usize, expression: RowWise, number: i8) -> Result<Key, QError> {
        if let Some((items, width)) = bars(&expression) {
            let items = items.clone();
            // Times are usually sorted: assume that the first and last row bound the buckets; `Codes::exactly` handles other cases.
            let ends = items.at(&[0, rows.saturating_sub(1) as u32])?;
            if let Raw::I64([first, last]) = ends.raw()
                && !first.is_null()
                && first <= last
                && let (first, last) = (first.div_euclid(width), last.div_euclid(width))
                && let Some(digits) = span(first, last, rows)
                && let Some(start) = first.checked_mul(width)
            {
                let meaning = Meaning::Spaced(number, start, width);
                return Ok(Key { expression, coding: Coding::Bar(items, width, first), meaning, digits });
            }
        }
        Key::of_bounded(allowance, rows, expression, number)
    }

    /// Codes by offset from the minimum, or by bucket, if that leaves few enough digits; else by hash.
    fn of_bounded(allowance: &Allowance, rows: usize, expression: RowWise, number: i8) -> Result<Key, QError> {
        let Some((low, high)) = bounds(allowance, rows, &expression)? else {
            return Key::hashed(&expression.block(0..rows)?);
        };
        let barred = bars(&expression).map(|(items, width)| (items.clone(), width));
        if let Some((items, width)) = barred
            && !low.is_null()
            // The start of a bucket near the minimum of a long wraps around to within a width of the maximum: the buckets are then
            // not contiguous.
            && high.checked_add(width).is_some()
            && let (first, last) = (low.div_euclid(width), high.div_euclid(width))
            && let Some(digits) = span(first, last, rows)
        {
            let meaning = Meaning::Spaced(number, low, width);
            return Ok(Key { expression, coding: Coding::Bar(items, width, first), meaning, digits });
        }
        if let Some(digits) = span(low, high, rows) {
            let meaning = Meaning::Spaced(number, low, 1);
            return Ok(Key { expression, coding: Coding::Offset(low), meaning, digits });
        }
        Key::hashed(&expression.block(0..rows)?)
    }

    /// Codes any items, by hash.
    fn hashed(items: &Items) -> Result<Key, QError> {
        let groups = find::groups(items)?;
        let firsts = items.gather(&groups.firsts);
        let order = sort::rows_ascending(&firsts, false)?;
        let places = places(&order, order.len());
        let made = groups.ids.iter().map(|id| places.get(*id as usize).copied().unwrap_or(0)).collect();
        let (digits, listed) = (order.len() as u32, firsts.gather(&order));
        Ok(Key {
            expression: RowWise::of(items.clone()),
            coding: Coding::Made(made),
            meaning: Meaning::Listed(listed),
            digits,
        })
    }

    /// Appends the digits of a block of rows. Returns false if a key is outside the assumed range.
    fn append(&self, rows: Range<usize>, out: &mut [u32]) -> Result<bool, QError> {
        match &self.coding {
            Coding::Number => match self.expression.block(rows)?.raw() {
                Raw::Sym(v) => return Ok(codes::by_number(out, self.digits, v.iter().map(|s| s.0))),
                _ => return Ok(false),
            },
            Coding::Places(places) => match self.expression.block(rows)?.raw() {
                Raw::Sym(v) => codes::by_place(out, self.digits, v.iter().map(|s| s.0), places),
                Raw::U8(v) => codes::by_place(out, self.digits, v.iter().map(|b| u32::from(*b)), places),
                _ => return Ok(false),
            },
            Coding::Offset(base) => {
                return Ok(match self.expression.block(rows)?.raw() {
                    Raw::I64(v) => codes::by_offset(out, self.digits, v, *base),
                    Raw::I32(v) => codes::by_offset(out, self.digits, v, *base),
                    Raw::I16(v) => codes::by_offset(out, self.digits, v, *base),
                    _ => false,
                });
            }
            Coding::Bar(items, width, first) => match items.block(rows)?.raw() {
                Raw::I64(v) => return Ok(codes::by_bar(out, self.digits, v, *width, *first)),
                _ => return Ok(false),
            },
            Coding::Made(made) => {
                let made = made.get(rows).unwrap_or_default();
                let own: Vec<u32> = (0..self.digits).collect();
                codes::by_place(out, self.digits, made.iter().copied(), &own);
            }
        }
        Ok(true)
    }

    /// Returns the digit shared by all rows of a block, if that is cheap to see.
    fn one(&self, rows: Range<usize>) -> Result<Option<u32>, QError> {
        let Coding::Bar(items, width, first) = &self.coding else { return Ok(None) };
        Ok(match items.block(rows)?.raw() {
            Raw::I64(v) => codes::one_bar(self.digits, v, *width, *first),
            _ => None,
        })
    }

    /// Whether every digit occurs.
    fn is_dense(&self) -> bool {
        matches!(self.coding, Coding::Places(_) | Coding::Made(_))
    }
}

/// Returns the code of each row; `None` if a key is outside the assumed range.
fn coded(
    allowance: &Allowance,
    keys: &[Key],
    rows: usize,
    each: impl Fn(&[u32]) + Sync,
) -> Result<Option<Vec<u32>>, QError> {
    let mut ids = vec![0u32; rows];
    let outside = AtomicBool::new(false);
    sections::fill(allowance, &mut ids, partial::section_rows(1), |start, run| {
        for (block, from) in run.chunks_mut(BLOCK_ROWS).zip((start..).step_by(BLOCK_ROWS)) {
            if outside.load(Ordering::Relaxed) {
                return Ok(());
            }
            for key in keys {
                if !key.append(from..from + block.len(), block)? {
                    outside.store(true, Ordering::Relaxed);
                }
            }
            each(block);
        }
        Ok(())
    })?;
    Ok((!outside.into_inner()).then_some(ids))
}

/// Replaces codes by group numbers, which skip absent codes.
pub(super) fn renumber(allowance: &Allowance, ids: &mut [u32], places: &[u32]) -> Result<(), QError> {
    sections::fill(allowance, ids, partial::section_rows(1), |_, run| {
        for id in run {
            *id = places.get(*id as usize).copied().unwrap_or(0);
        }
        Ok(())
    })
}

/// Marks a code as present.
fn mark(seen: &[AtomicBool], code: usize) {
    if let Some(seen) = seen.get(code)
        && !seen.load(Ordering::Relaxed)
    {
        seen.store(true, Ordering::Relaxed);
    }
}

/// Directly addressed codes of rows, computed block by block on demand.
pub(super) struct Codes {
    keys: Vec<Key>,
    rows: usize,
    /// Number of possible codes.
    pub total: usize,
    /// Codes present in the rows visited so far; empty if all are present.
    seen: Vec<AtomicBool>,
    /// Whether a key was outside the assumed range.
    outside: AtomicBool,
}

impl Coder for Codes {
    fn groups<'s>(&self, rows: Range<usize>, scratch: &'s mut Vec<u32>) -> Result<To<'s>, QError> {
        if self.outside.load(Ordering::Relaxed) {
            return Ok(To::Each(&[]));
        }
        if let [key] = &self.keys[..]
            && let Some(code) = key.one(rows.clone())?
        {
            mark(&self.seen, code as usize);
            return Ok(To::One(code as usize));
        }
        scratch.clear();
        scratch.resize(rows.len(), 0);
        for key in &self.keys {
            if !key.append(rows.clone(), scratch)? {
                self.outside.store(true, Ordering::Relaxed);
                return Ok(To::Each(&[]));
            }
        }
        let to = aggregate::to(scratch);
        match to {
            To::One(code) => mark(&self.seen, code),
            To::Each(codes) if !self.seen.is_empty() => codes.iter().for_each(|code| mark(&self.seen, *code as usize)),
            To::Each(_) => {}
        }
        Ok(to)
    }
}

impl Codes {
    fn new(keys: Vec<Key>, rows: usize, total: u64) -> Result<Codes, QError> {
        let total = usize::try_from(total).map_err(|_| QError::named("limit"))?;
        let all_there = keys.len() == 1 && keys.iter().all(Key::is_dense);
        let seen = (0..if all_there { 0 } else { total }).map(|_| AtomicBool::new(false)).collect();
        Ok(Codes { keys, rows, total, seen, outside: AtomicBool::new(false) })
    }

    pub(super) fn is_outside(&self) -> bool {
        self.outside.load(Ordering::Relaxed)
    }

    /// Returns the codes present, in key order, after all rows were visited.
    pub(super) fn there(&self) -> Vec<u32> {
        if self.seen.is_empty() {
            return (0..self.total as u32).collect();
        }
        let is_seen = |(seen, _): &(&AtomicBool, u32)| seen.load(Ordering::Relaxed);
        let mut there: Vec<u32> = self.seen.iter().zip(0..).filter(is_seen).map(|(_, code)| code).collect();
        if let [Key { coding: Coding::Number, .. }] = &self.keys[..] {
            there.sort_by_key(|number| text(Sym(*number)));
        }
        there
    }

    /// Returns the key columns of some codes.
    pub(super) fn columns(&self, there: &[u32]) -> Vec<Vector> {
        let mut rest = there.to_vec();
        let mut columns = Vec::with_capacity(self.keys.len());
        for key in self.keys.iter().rev() {
            let radix = key.digits.max(1);
            let own: Vec<u32> = rest.iter().map(|code| code % radix).collect();
            rest.iter_mut().for_each(|code| *code /= radix);
            columns.push(key.meaning.items(&own).into());
        }
        columns.reverse();
        columns
    }

    /// Returns the code of each row; `None` if a key is outside the assumed range.
    pub(super) fn ids(&self, allowance: &Allowance) -> Result<Option<Vec<u32>>, QError> {
        allowance.reserve(self.rows.saturating_mul(4))?;
        coded(allowance, &self.keys, self.rows, |codes| codes.iter().for_each(|code| mark(&self.seen, *code as usize)))
    }

    /// Groups again, without the assumption that the first and last row bound the keys.
    pub(super) fn exactly(self, allowance: &Allowance) -> Result<Grouped, QError> {
        let mut exact = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            exact.push(match key.coding {
                Coding::Bar(..) => {
                    let number = key.expression.block(0..0)?.type_number();
                    Key::of_bounded(allowance, self.rows, key.expression, number)?
                }
                _ => key,
            });
        }
        grouped(allowance, exact, self.rows, true)?.settled(allowance)
    }
}

/// Groups by hash, key after key. Returns `None` if a key is outside its assumed range.
///
/// # Errors
/// Errors of the expressions; `stop` and `wsfull` at the limits.
fn hashed(allowance: &Allowance, keys: &[Key], rows: usize) -> Result<Option<Grouped>, QError> {
    let mut all: Option<(Vec<u32>, u32)> = None;
    let mut digits = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(own) = coded(allowance, std::slice::from_ref(key), rows, |_| ())? else { return Ok(None) };
        all = Some(match all {
            None => (own.clone(), key.digits),
            Some((ids, _)) => {
                let radix = u64::from(key.digits);
                let pairs: Vec<u64> =
                    ids.iter().zip(&own).map(|(a, b)| u64::from(*a) * radix + u64::from(*b)).collect();
                let together = groups(&pairs, find::room)?;
                let mut order: Vec<u32> = (0..together.firsts.len() as u32).collect();
                let pair = |g: &u32| together.firsts.get(*g as usize).and_then(|f| pairs.get(*f as usize));
                order.sort_by_key(pair);
                let places = places(&order, order.len());
                let mut ids = together.ids;
                renumber(allowance, &mut ids, &places)?;
                (ids, order.len() as u32)
            }
        });
        digits.push(own);
    }
    let (mut ids, total) = all.unwrap_or_default();
    let mut firsts = vec![u32::MAX; total as usize];
    for (id, row) in ids.iter().zip(0..) {
        if let Some(first @ &mut u32::MAX) = firsts.get_mut(*id as usize) {
            *first = row;
        }
    }
    // With a single key, some digits may be absent.
    let there: Vec<u32> = firsts.iter().zip(0..).filter(|(first, _)| **first != u32::MAX).map(|(_, id)| id).collect();
    if there.len() < firsts.len() {
        renumber(allowance, &mut ids, &places(&there, firsts.len()))?;
        firsts.retain(|first| *first != u32::MAX);
    }
    let column = |(key, own): (&Key, &Vec<u32>)| {
        let own: Vec<u32> = firsts.iter().map(|f| own.get(*f as usize).copied().unwrap_or(0)).collect();
        key.meaning.items(&own).into()
    };
    let columns = keys.iter().zip(&digits).map(column).collect();
    Ok(Some(Grouped::made(ids, there.len(), columns)))
}

/// Groups by these keys, by direct address if possible. If a key proves to be outside its assumed range, the codings are made
/// exact and the rows grouped again.
fn grouped(allowance: &Allowance, keys: Vec<Key>, rows: usize, is_exact: bool) -> Result<Grouped, QError> {
    let total = keys.iter().try_fold(1u64, |total, key| total.checked_mul(u64::from(key.digits.max(1))));
    if let Some(total) = total.filter(|total| rows > 0 && *total <= most_digits(rows)) {
        return Ok(Grouped::of_codes(Codes::new(keys, rows, total)?));
    }
    match hashed(allowance, &keys, rows)? {
        Some(grouped) => Ok(grouped),
        None if is_exact => Err(QError::named("type")),
        None => Codes::new(keys, rows, 0)?.exactly(allowance),
    }
}

/// Groups the selected rows by these expressions.
pub(super) fn group(
    context: &mut Context,
    by: &[(Option<Sym>, Node)],
    selected: &Selected,
    frame: &mut Frame,
) -> Walk<Grouped> {
    let rows = selected.count();
    if by.is_empty() {
        return Ok(Grouped::made(vec![0; rows], rows.min(1), Vec::new()));
    }
    let allowance = &context.allowance.again();
    let mut keys = Vec::with_capacity(by.len());
    for field in by {
        let expression = match row_wise(context, &field.1, selected, frame)? {
            Some(expression) => expression,
            None => {
                let value = evaluate(context, std::slice::from_ref(field), selected, frame)?;
                let value = value.into_iter().next().unwrap_or(Value::Null);
                let column = if value.is_scalar() { Value::collapse(vec![value; rows]) } else { value };
                let column = column.into_vector().ok_or(QError::named("type"))?;
                if column.len() != rows {
                    return Err(QError::named("length").into());
                }
                RowWise::of(column.items)
            }
        };
        keys.push(Key::of(allowance, rows, expression, by.len() == 1)?);
    }
    Ok(grouped(allowance, keys, rows, false)?)
}
