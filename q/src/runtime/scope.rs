//! Tables whose columns are names within a qSQL template.

use columns::table::symbol::text;
use columns::table::{Sym, Table, Value};
use std::sync::Arc;

/// A table of a qSQL template, and its selected rows.
pub(crate) struct Scope {
    pub table: Arc<Table>,
    /// `None`: all rows, and columns are used without a copy.
    pub rows: Option<Arc<Vec<u32>>>,
    /// Columns already reduced to the selected rows.
    pub cut: Vec<(Sym, Value)>,
}

/// Returns a column of the innermost table, reduced to its selected rows; `i` is the row number.
pub(crate) fn column(scopes: &mut [Scope], name: Sym) -> Option<Value> {
    let scope = scopes.last_mut()?;
    let whole = match scope.table.column(name) {
        Some(column) => column,
        None if text(name) == b"i" => {
            let rows = match &scope.rows {
                Some(rows) => rows.iter().map(|r| i64::from(*r)).collect(),
                None => (0..scope.table.count() as i64).collect(),
            };
            return Some(Value::longs(rows));
        }
        None => return None,
    };
    let Some(rows) = &scope.rows else { return Some(Value::of_column(whole.clone())) };
    if let Some((_, cut)) = scope.cut.iter().find(|(n, _)| *n == name) {
        return Some(cut.clone());
    }
    let cut = Value::of_column(whole.items.gather(rows).into());
    scope.cut.push((name, cut.clone()));
    Some(cut)
}
