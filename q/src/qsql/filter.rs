//! Evaluates where-clauses to row selections: by an index if the host has one, else over the rows selected so far.

use super::compile::blocks;
use super::{Selected, within};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::runtime::sections;
use crate::runtime::values::truth;
use crate::syntax::ast::{Kind, Node};
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::arith;
use columns::kernel::partial::section_rows;
use columns::table::symbol::text;
use columns::table::{Attr, Items, Sym, Table, Value, Vector};
use std::ops::Range;
use std::sync::Arc;

/// A clause over fewer rows is evaluated on one thread: splitting it would cost more than it saves.
const MANY_ROWS: usize = 1 << 17;

/// Rows per block of a clause.
const BLOCK_ROWS: usize = 1 << 13;

pub(crate) fn filter(context: &mut Context, table: Arc<Table>, filters: &[Node], frame: &mut Frame) -> Walk<Selected> {
    let mut rows: Option<Arc<Vec<u32>>> = None;
    for clause in filters {
        context.check()?;
        if rows.is_none()
            && let Some(found) = indexed(context, &table, clause, frame)?
        {
            rows = Some(Arc::new(found));
            continue;
        }
        let count = rows.as_ref().map_or(table.count(), |r| r.len());
        if count >= MANY_ROWS {
            let so_far = Selected { table: Arc::clone(&table), rows: rows.clone() };
            if let Some(found) = by_blocks(context, clause, &so_far, frame)? {
                rows = Some(Arc::new(found));
                continue;
            }
        }
        let holds = within(context, &table, rows.as_ref(), |c| c.node(clause, frame))?;
        rows = Some(Arc::new(keep(&holds, rows.as_deref(), count)?));
    }
    Ok(Selected { table, rows })
}

/// Evaluates a row-wise clause block by block on all threads and returns the matching rows; `None` if it is not row-wise.
fn by_blocks(context: &mut Context, clause: &Node, so_far: &Selected, frame: &mut Frame) -> Walk<Option<Vec<u32>>> {
    let Some(expression) = blocks(context, clause, so_far, frame)? else { return Ok(None) };
    // The evaluator reports errors, with their position.
    let Ok(Items::Bool(_)) = expression.block(0..0) else { return Ok(None) };
    if expression.is_atom() {
        return Ok(None);
    }
    let section = |range: Range<usize>| -> Result<Vec<u32>, QError> {
        let mut found = Vec::new();
        for start in range.clone().step_by(BLOCK_ROWS) {
            let block = start..(start + BLOCK_ROWS).min(range.end);
            let Items::Bool(bits) = expression.block(block.clone())? else { return Err(QError::named("type")) };
            let rows = so_far.rows.as_deref().map(|rows| rows.get(block.clone()).unwrap_or_default());
            found.reserve(bits.iter().map(|bit| usize::from(*bit)).sum());
            match rows {
                Some(rows) => {
                    found.extend(rows.iter().zip(bits.iter()).filter(|(_, bit)| **bit != 0).map(|(row, _)| row))
                }
                None => {
                    let numbers = block.zip(bits.iter()).filter(|(_, bit)| **bit != 0);
                    found.extend(numbers.map(|(row, _)| row as u32));
                }
            }
        }
        Ok(found)
    };
    let allowance = context.allowance.again();
    let parts = sections::map(&allowance, so_far.count(), section_rows(1), section)?;
    let total = parts.iter().map(Vec::len).sum::<usize>();
    allowance.reserve(total.saturating_mul(4))?;
    let mut all = Vec::with_capacity(total);
    parts.iter().for_each(|part| all.extend_from_slice(part));
    Ok(Some(all))
}

/// Returns the rows that match a first clause `column=symbol` or `column in symbols` from the column's index; `None` without one.
fn indexed(context: &mut Context, table: &Table, clause: &Node, frame: &mut Frame) -> Walk<Option<Vec<u32>>> {
    /// For more symbols a scan is as fast.
    const MAX: usize = 64;
    let Kind::Apply(f, arguments) = &clause.kind else { return Ok(None) };
    let (Kind::Const(f), [Some(x), Some(y)]) = (&f.kind, arguments.as_slice()) else { return Ok(None) };
    let Kind::Column(name, _) = &x.kind else { return Ok(None) };
    let Some(Vector { attr: Attr::Grouped, items: Items::Sym(column) }) = table.column(*name) else { return Ok(None) };
    let operand = match &y.kind {
        Kind::Const(value) => value.clone(),
        Kind::Local(_) | Kind::Global(_) | Kind::Name(_) => context.node(y, frame)?,
        Kind::Column(name, outer) if table.column(*name).is_none() => match outer.kind {
            Kind::Local(_) | Kind::Global(_) | Kind::Name(_) if text(*name) != b"i" => context.node(outer, frame)?,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let symbols = match (&operand, prims::is_glyph(f, "="), prims::name_of(f)) {
        (Value::Sym(symbol), true, _) | (Value::Sym(symbol), _, Some("in")) => vec![*symbol],
        (operand, false, Some("in")) => match operand.as_symbols() {
            Some(symbols) if symbols.len() <= MAX => symbols.to_vec(),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let mut found = Vec::new();
    let mut seen: Vec<Sym> = Vec::new();
    for symbol in symbols {
        if seen.contains(&symbol) {
            continue;
        }
        let Some(rows) = context.host.rows_of(column, symbol) else { return Ok(None) };
        found.extend(rows);
        seen.push(symbol);
    }
    Ok(Some(if seen.len() > 1 { ascending(&found, column.len()) } else { found }))
}

/// Sorts row numbers below `count` and removes duplicates.
fn ascending(rows: &[u32], count: usize) -> Vec<u32> {
    let mut marks = vec![0u64; count.div_ceil(64)];
    for row in rows {
        if let Some(word) = marks.get_mut(*row as usize / 64) {
            *word |= 1 << (row % 64);
        }
    }
    let mut out = Vec::with_capacity(rows.len());
    for (mut word, base) in marks.into_iter().zip((0u32..).step_by(64)) {
        while word != 0 {
            out.push(base + word.trailing_zeros());
            word &= word - 1;
        }
    }
    out
}

/// Returns the rows for which a clause's result is true.
fn keep(holds: &Value, rows: Option<&Vec<u32>>, count: usize) -> Result<Vec<u32>, QError> {
    let row = |i: usize| rows.map_or(i as u32, |r| r.get(i).copied().unwrap_or(0));
    match holds {
        Value::Vector(Vector { items: Items::Bool(bits), .. }) => {
            if bits.len() != count {
                return Err(QError::named("length"));
            }
            let total = bits.iter().map(|b| usize::from(*b)).sum();
            let mut out = Vec::with_capacity(total);
            for (i, bit) in bits.iter().enumerate() {
                if *bit != 0 {
                    out.push(row(i));
                }
            }
            Ok(out)
        }
        // `x~/:()` has no item to say its type.
        Value::Vector(Vector { items: Items::List(l), .. }) if l.is_empty() && count == 0 => Ok(Vec::new()),
        Value::Vector(v) => {
            let bits = arith::longs(&v.items, 7).map_err(|_| QError::named("type"))?;
            if bits.len() != count {
                return Err(QError::named("length"));
            }
            Ok(bits.iter().enumerate().filter(|(_, b)| **b != 0).map(|(i, _)| row(i)).collect())
        }
        atom => Ok(if truth(atom)? { (0..count).map(row).collect() } else { Vec::new() }),
    }
}
