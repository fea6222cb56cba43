//! `select` and `exec` from a splayed table in its directory, which is not read whole.

use super::steps::{Reading, columns_of, uses_numbers};
use super::{Selected, counted};
use crate::io::files::folder::{Part, splayed_of};
use crate::runtime::context::Context;
use crate::runtime::frame::{Frame, Walk};
use crate::runtime::paths::is_path;
use crate::syntax::ast::{Kind, Node, Query, Verb};
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use columns::table::Value;

fn reads_only(query: &Query) -> bool {
    matches!(query.verb, Verb::Select | Verb::Exec)
}

/// The argument of `get x` and `value x`.
fn getting(node: &Node) -> Option<(&Node, &Node)> {
    let Kind::Apply(f, arguments) = &node.kind else { return None };
    let (Kind::Const(function), [Some(x)]) = (&f.kind, &arguments[..]) else { return None };
    matches!(prims::name_of(function)?, "get" | "value").then_some((&**f, x))
}

/// What a query is over. Of a splayed table that `get` would read the path, so that [`selected`] reads what the query needs.
pub(super) fn from(context: &mut Context, query: &Query, frame: &mut Frame) -> Walk<Value> {
    let Some((f, argument)) = getting(&query.from).filter(|_| reads_only(query)) else {
        return context.node(&query.from, frame);
    };
    let x = context.node(argument, frame)?;
    if let Value::Sym(name) = x
        && is_path(name)
        && splayed_of(context, &x).is_ok_and(|part| part.is_some())
    {
        return Ok(x);
    }
    let x = Node { at: argument.at, height: argument.height, kind: Kind::Const(x) };
    let call = Kind::Apply(Box::new(f.clone()), vec![Some(x)]);
    context.node(&Node { at: query.from.at, height: query.from.height, kind: call }, frame)
}

/// The splayed table on disk that a query is over; `None` for anything else, and where all columns must be read.
pub(super) fn part(context: &mut Context, query: &Query, from: &Value) -> Walk<Option<Part>> {
    if !reads_only(query) || !matches!(from, Value::Sym(_) | Value::Func(_)) {
        return Ok(None);
    }
    let by = query.by.iter().flatten().map(|(_, node)| node);
    if query.columns.is_empty() && uses_numbers(&columns_of(by).0) {
        return Ok(None);
    }
    Ok(splayed_of(context, from)?)
}

/// Whether a query needs nothing but the number of rows.
pub(super) fn only_counts(query: &Query, part: &Part) -> bool {
    let is_plain = query.filters.is_empty() && query.by.is_none() && query.limit.is_none() && query.order.is_none();
    is_plain && !uses_numbers(part.names()) && counted::only_counts(query)
}

/// Reads the rows that the clauses select, of the columns that the query uses.
pub(super) fn selected(context: &mut Context, query: &Query, part: &Part, frame: &mut Frame) -> Walk<Selected> {
    super::check_rows(part.count(context)?)?;
    let by = query.by.iter().flatten();
    let named = query.columns.iter().chain(by).map(|(_, node)| node);
    let ordered = query.limit.as_ref().into_iter().chain(query.order_node());
    let (needed, _) = columns_of(named.chain(&query.filters).chain(ordered));
    // Row numbers of the whole table need no column.
    let numbers = uses_numbers(&needed) && !query.filters.is_empty();
    // All columns are the result, or its last rows.
    let needed = if query.columns.is_empty() { part.names().to_vec() } else { needed };
    let reading = Reading { filters: &query.filters, needed, numbers };
    reading.selected(context, part, frame)
}
