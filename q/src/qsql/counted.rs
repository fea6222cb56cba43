//! Queries of tables on disk that only count rows: the heads of columns have the numbers.

use crate::qsql::{self, Selected, names};
use crate::runtime::context::Context;
use crate::runtime::frame::{Frame, Walk};
use crate::syntax::ast::{Kind, Node, Query, Verb};
use crate::syntax::prims;
use columns::table::symbol::text;
use columns::table::{Table, Value};
use std::sync::Arc;

/// Whether an expression is `count i`.
fn counts_rows(node: &Node) -> bool {
    let Kind::Apply(f, arguments) = &node.kind else { return false };
    let (Kind::Const(f), [Some(x)]) = (&f.kind, &arguments[..]) else { return false };
    prims::name_of(f) == Some("count") && matches!(x.kind, Kind::Column(name, _) if text(name) == b"i")
}

/// Whether all columns of a query are `count i`.
pub(super) fn only_counts(query: &Query) -> bool {
    !query.columns.is_empty() && query.columns.iter().all(|(_, node)| counts_rows(node))
}

/// The query with a number of rows in the place of each `count i`.
pub(super) fn with_count(query: &Query, rows: usize) -> Walk<Query> {
    let names = names(&query.columns)?;
    let is_value = query.verb == Verb::Exec && matches!(query.columns[..], [(None, _)]);
    let count = |node: &Node| Node { at: node.at, height: node.height, kind: Kind::Const(Value::Long(rows as i64)) };
    let columns = query.columns.iter().zip(names);
    let columns = columns.map(|((_, node), name)| (Some(name).filter(|_| !is_value), count(node))).collect();
    Ok(Query { columns, ..query.clone() })
}

/// Result of a query without groups that counts so many rows.
pub(super) fn counted(context: &mut Context, query: &Query, rows: usize, frame: &mut Frame) -> Walk<Value> {
    let query = with_count(query, rows)?;
    let none = Selected::whole(Arc::new(Table::new(Vec::new(), Vec::new())));
    match query.verb {
        Verb::Exec => qsql::exec(context, &query, &none, frame),
        _ => qsql::select(context, &query, &none, frame),
    }
}
