//! Decides which expressions are evaluated in blocks: columns, row numbers and atoms under atomic functions.

use super::{Selected, within};
use crate::runtime::context::Context;
use crate::runtime::frame::{Frame, Walk};
use crate::syntax::ast::{Kind, Node};
use crate::syntax::{prims, resolve};
use crate::verbs::above::Evaluate;
use crate::verbs::rowwise::RowWise;
use columns::table::symbol::text;
use columns::table::{Items, Sym, Value};
use std::sync::Arc;

/// Whether an expression is row-wise: its value for a row depends on that row only. Such an argument of an aggregate is evaluated
/// over all groups at once.
pub(super) fn is_row_wise(node: &Node) -> bool {
    match &node.kind {
        Kind::Const(v) => v.is_atom(),
        Kind::Column(..) => true,
        Kind::Apply(f, arguments) => {
            let atomic = matches!(&f.kind, Kind::Const(f) if prims::is_atomic(f));
            atomic && arguments.iter().all(|a| a.as_ref().is_some_and(is_row_wise))
        }
        _ => false,
    }
}

/// Returns the value of a name that is no column. kdb+ keeps the phrases of a query as parse trees, whose names are those of the namespace
/// that is current when the query runs: they come second, to those of the namespace that the text belongs to. Not for a remote caller, whose
/// namespace would name the globals of the owner's code.
pub(crate) fn outside(context: &mut Context, name: Sym, outer: &Node, frame: &mut Frame) -> Walk {
    let Kind::Global(full) = outer.kind else { return context.node(outer, frame) };
    if full == name || context.host.caller().remote || context.host.global(full).is_some() {
        return context.node(outer, frame);
    }
    let current = resolve::qualify(name, context.host.namespace())?;
    match context.host.global(current) {
        Some(_) => Ok(context.global(current).map_err(|e| e.place(outer.at))?),
        None => context.node(outer, frame),
    }
}

/// Returns the value of a node that is the same for all rows: an atom, or a name that is not a column.
pub(super) fn atom(context: &mut Context, node: &Node, selected: &Selected, frame: &mut Frame) -> Walk<Option<Value>> {
    let value = match &node.kind {
        Kind::Const(value) => value.clone(),
        Kind::Local(_) | Kind::Global(_) | Kind::Name(_) => context.node(node, frame)?,
        Kind::Column(name, outer) if selected.table.column(*name).is_none() => match outer.kind {
            Kind::Local(_) | Kind::Global(_) | Kind::Name(_) if text(*name) != b"i" && !text(*name).contains(&b'.') => {
                outside(context, *name, outer, frame)?
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(value).filter(Value::is_atom))
}

/// Returns the block-wise form of an expression over columns without nested lists; `None` if it must be evaluated whole.
pub(super) fn blocks(
    context: &mut Context,
    node: &Node,
    selected: &Selected,
    frame: &mut Frame,
) -> Walk<Option<RowWise>> {
    if let Some(atom) = atom(context, node, selected, frame)? {
        return Ok(match atom.plain() {
            Value::Func(_) | Value::Null => None,
            atom => Some(RowWise::Atom(atom.to_items())),
        });
    }
    match &node.kind {
        Kind::Column(name, _) => Ok(match (selected.table.column(*name), &selected.rows) {
            (Some(column), _) if matches!(column.items, Items::List(_)) => None,
            (Some(column), None) => Some(RowWise::of(column.items.clone())),
            (Some(column), Some(rows)) => Some(RowWise::Column(column.items.clone(), Arc::clone(rows))),
            (None, rows) if text(*name) == b"i" => Some(RowWise::Number(rows.clone())),
            _ => None,
        }),
        Kind::Apply(f, arguments) => {
            let (Kind::Const(f), [Some(x), Some(y)]) = (&f.kind, &arguments[..]) else { return Ok(None) };
            let Some(op) = prims::index_of(f).and_then(prims::atomic_op) else { return Ok(None) };
            let Some(y) = blocks(context, y, selected, frame)? else { return Ok(None) };
            let Some(x) = blocks(context, x, selected, frame)? else { return Ok(None) };
            Ok((!x.is_atom() || !y.is_atom()).then(|| RowWise::Apply(op, Box::new(x), Box::new(y))))
        }
        _ => Ok(None),
    }
}

/// Returns an expression with one item per selected row: in block-wise form, or evaluated now if the result is such a vector.
pub(super) fn row_wise(
    context: &mut Context,
    node: &Node,
    selected: &Selected,
    frame: &mut Frame,
) -> Walk<Option<RowWise>> {
    match blocks(context, node, selected, frame)? {
        Some(RowWise::Atom(_)) => return Ok(None),
        Some(expression) => return Ok(Some(expression)),
        None if !is_row_wise(node) => return Ok(None),
        None => {}
    }
    let value = within(context, &selected.table, selected.rows.as_ref(), |c| c.node(node, frame))?;
    Ok(match value {
        Value::Vector(v) if v.len() == selected.count() => Some(RowWise::of(v.items)),
        _ => None,
    })
}
