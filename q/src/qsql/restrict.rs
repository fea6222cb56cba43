//! Rows of a table that a caller may read: where-clauses of the process's owner, as text.

use super::Selected;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Flow, Frame};
use crate::runtime::host::Host;
use crate::runtime::{gather, limits};
use crate::syntax::ast::{Kind, Node, Query, Verb};
use crate::syntax::parse;
use columns::table::{Sym, Table};
use std::sync::Arc;

/// Parses a where-clause, such as ``sym in `AAPL`MSFT``; its parts may be separated by commas.
fn parsed(clause: &str) -> Result<Vec<Node>, QError> {
    let program = parse::program(["select from t where ", clause].concat().as_bytes(), Sym::NULL)?;
    let body = <[Node; 1]>::try_from(program.code.body);
    match body.map(|[node]| node.kind) {
        Ok(Kind::Query(query)) => match *query {
            Query { verb: Verb::Select, by: None, columns, filters, limit: None, order: None, .. }
                if columns.is_empty() && !filters.is_empty() =>
            {
                Ok(filters)
            }
            _ => Err(QError::with("parse", "not a where-clause")),
        },
        _ => Err(QError::with("parse", "not a where-clause")),
    }
}

/// Checks the syntax of a where-clause.
///
/// # Errors
/// `parse` and other errors of the parser.
pub fn check(clause: &str) -> Result<(), QError> {
    parsed(clause).map(drop)
}

/// Returns the rows of a table for which one of the clauses holds, within the limits of the evaluation on this thread. `host`
/// has no globals, so that the clauses depend on the row alone.
///
/// # Errors
/// Those of a clause, such as the name of a missing column; the limits.
pub fn rows<'a>(
    host: &mut dyn Host,
    table: &Arc<Table>,
    clauses: impl Iterator<Item = &'a str>,
) -> Result<Table, QError> {
    let mut context = Context::within(host, limits::innermost());
    let mut found: Vec<Arc<Vec<u32>>> = Vec::new();
    for clause in clauses {
        let filters = parsed(clause)?;
        let mut frame = Frame { locals: Vec::new(), is_owners: false, among: Vec::new() };
        let Selected { rows, .. } =
            super::filter(&mut context, Arc::clone(table), &filters, &mut frame).map_err(|flow| match flow {
                Flow::Error(error) => error,
                Flow::Return(_) => QError::with("parse", "not a where-clause"),
            })?;
        match rows {
            Some(rows) => found.push(rows),
            None => return Ok((**table).clone()),
        }
    }
    limits::settle()?;
    let rows = match &found[..] {
        [] => Arc::default(),
        [one] => Arc::clone(one),
        many => {
            let mut all: Vec<u32> = many.iter().flat_map(|rows| rows.iter().copied()).collect();
            all.sort_unstable();
            all.dedup();
            Arc::new(all)
        }
    };
    gather::rows(&context.allowance, table, &rows)
}
