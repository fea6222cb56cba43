//! Evaluates where-clauses to row selections: by what the attribute of a column gives, else over the rows selected so far.

use super::compile::blocks;
use super::indexed::indexed;
use super::{Selected, within};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::runtime::sections;
use crate::syntax::ast::Node;
use crate::verbs::above::Evaluate;
use columns::kernel::partial::section_rows;
use columns::table::{Items, Table, Value, Vector};
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
        // A clause that is `()`, as `x~/:()` is, keeps no rows: kdb+'s own select over partitions ends with it if no partition matches.
        Value::Vector(Vector { items: Items::List(l), .. }) if l.is_empty() => Ok(Vec::new()),
        Value::Bool(all) => Ok(if *all { (0..count).map(row).collect() } else { Vec::new() }),
        _ => Err(QError::with("type", "a where-clause gives booleans, one a row")),
    }
}
