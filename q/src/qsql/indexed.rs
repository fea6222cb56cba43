//! Rows that a first where-clause selects, by the attribute of its column: an index of symbols, or a search in sorted items.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::runtime::values::truth;
use crate::syntax::ast::{Kind, Node};
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::find;
use columns::sys::shared::Shared;
use columns::table::grouped::kept_rows;
use columns::table::symbol::text;
use columns::table::{Attr, Items, Sym, Table, Value, Vector};
use proto::types;
use std::ops::Range;

/// Fewer rows are scanned.
const MANY_ROWS: usize = 1 << 10;

/// Returns the rows, ascending, for which `column f operand` holds, if the column's attribute tells them without a scan.
pub(super) fn indexed(
    context: &mut Context,
    table: &Table,
    clause: &Node,
    frame: &mut Frame,
) -> Walk<Option<Vec<u32>>> {
    let Kind::Apply(f, arguments) = &clause.kind else { return Ok(None) };
    let (Kind::Const(f), [Some(x), Some(y)]) = (&f.kind, arguments.as_slice()) else { return Ok(None) };
    let Kind::Column(name, _) = &x.kind else { return Ok(None) };
    let Some(column) = table.column(*name) else { return Ok(None) };
    let is_useful = match (column.attr, &column.items) {
        (Attr::Grouped | Attr::Parted, Items::Sym(_) | Items::Enum(..)) => true,
        (Attr::Sorted, items) => is_ordered(items.type_number()) && items.len() >= MANY_ROWS,
        _ => false,
    };
    if !is_useful {
        return Ok(None);
    }
    let operand = match &y.kind {
        Kind::Const(value) => value.clone(),
        Kind::Local(_) | Kind::Global(_) | Kind::Name(_) => context.node(y, frame)?,
        Kind::Column(name, outer) if table.column(*name).is_none() => match outer.kind {
            Kind::Local(_) | Kind::Global(_) | Kind::Name(_) if text(*name) != b"i" => {
                super::compile::outside(context, *name, outer, frame)?
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    match &column.items {
        Items::Sym(symbols) | Items::Enum(_, symbols) => Ok(by_symbol(context, symbols, f, &operand)?),
        _ => Ok(in_order(context, column, f, &operand).map(|rows| (rows.start as u32..rows.end as u32).collect())),
    }
}

/// Rows of `column=symbol` and `column in symbols`; `None` without an index.
fn by_symbol(
    context: &mut Context,
    column: &Shared<Sym>,
    f: &Value,
    operand: &Value,
) -> Result<Option<Vec<u32>>, QError> {
    /// For more symbols a scan is as fast.
    const MAX: usize = 64;
    let symbols = match (operand, prims::is_glyph(f, "="), prims::name_of(f)) {
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
        let rows = match context.host.rows_of(column, symbol) {
            Some(rows) => rows,
            None => match kept_rows(column, symbol, find::room) {
                Some(rows) => rows?,
                None => return Ok(None),
            },
        };
        found.extend(rows);
        seen.push(symbol);
    }
    Ok(Some(if seen.len() > 1 { ascending(&found, column.len()) } else { found }))
}

/// Whether items of a type can be searched by halves. Floats cannot: they compare within a tolerance.
fn is_ordered(number: i8) -> bool {
    !matches!(number, types::DATETIME) && matches!(number, types::SHORT..=types::LONG | types::TIMESTAMP..=types::TIME)
}

/// Rows of a comparison of sorted items, by the verbs themselves; `None` for another clause, or where a verb fails.
fn in_order(context: &mut Context, column: &Vector, f: &Value, operand: &Value) -> Option<Range<usize>> {
    let count = column.len();
    if count > u32::MAX as usize || !is_ordered(operand.type_number().abs()) {
        return None;
    }
    // The first row for which `row verb bound` holds: it holds for all after it.
    let mut first = |verb: &str, bound: &Value| {
        let verb = prims::glyph(verb);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let holds = context.call2(&verb, column.items.get(middle), bound.clone()).ok()?;
            if truth(&holds).ok()? { high = middle } else { low = middle + 1 }
        }
        Some(low)
    };
    if prims::name_of(f) == Some("within") {
        let (2, false) = (operand.count(), operand.is_atom()) else { return None };
        let (start, end) = (first(">=", &operand.at(0))?, first(">", &operand.at(1))?);
        return Some(start..end.max(start));
    }
    if !operand.is_atom() {
        return None;
    }
    match ["=", "<", "<=", ">", ">="].into_iter().find(|glyph| prims::is_glyph(f, glyph))? {
        "=" => Some(first(">=", operand)?..first(">", operand)?),
        "<" => Some(0..first(">=", operand)?),
        "<=" => Some(0..first(">", operand)?),
        ">" => Some(first(">", operand)?..count),
        _ => Some(first(">=", operand)?..count),
    }
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
