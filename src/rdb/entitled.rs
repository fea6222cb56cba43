//! What a user with a restricted `query` role reads on a node. Expressions read globals through their host only, so the host enforces it:
//!
//! 1. A table of the feed or of a start-up file shows the rows that the role permits; without a permission it does not exist.
//! 2. A global that somebody else has assigned since the start may hold other rows, so it does not exist either.
//! 3. Views are evaluated at each read: the kept value may be another user's.
//! 4. `--remote-may` grants such a user nothing: no files, no handles, no system commands.
//!
//! What the user may change is in `visible`.

use super::shared::Moment;
use crate::access::{Grants, Rows};
use crate::q::error::QError;
use crate::q::host::{Caller, Host};
use crate::q::restrict;
use crate::sys::shared::Shared as Slice;
use crate::table::{Function, Sym, Value, symbol};
use std::sync::Arc;

/// Returns a user's grants if they restrict queries.
pub fn restriction(grants: &Arc<Grants>) -> Option<Arc<Grants>> {
    (!grants.reads_everything()).then(|| Arc::clone(grants))
}

/// Whether a value has rows: a table, also with keys or on disk.
pub fn has_rows(value: &Value) -> bool {
    match value {
        Value::Table(_) => true,
        Value::Dict(dict) => dict.keyed().is_some(),
        Value::Func(function) => matches!(&**function, Function::OnDisk { .. }),
        _ => false,
    }
}

/// Error of a table that the user may not read.
pub fn denied(name: Sym) -> QError {
    QError::with("access", format!("{} is not among your tables", symbol::text(name).escape_ascii()))
}

/// Returns the rows of a table that these grants permit.
///
/// # Errors
/// `access` without a permission, or for rows of a table with keys or on disk; errors of a where-clause.
pub fn rows(grants: &Grants, name: Sym, value: Value, view: &Moment, caller: &Caller) -> Result<Value, QError> {
    match (grants.query.of(symbol::text(name)), &value) {
        (None, _) => Err(denied(name)),
        (Some(Rows::All), _) => Ok(value),
        (Some(Rows::Where(clauses)), Value::Table(table)) => {
            let mut host = ColumnsOnly { view, caller };
            let rows = restrict::rows(&mut host, table, clauses.iter().map(String::as_str));
            let wrong = |error: QError| match error.name.as_ref() {
                b"stop" | b"wsfull" => error,
                _ => {
                    let table = symbol::text(name).escape_ascii();
                    tracing::error!("the users file's where-clause for {table} fails: {error}");
                    QError::with("access", format!("the where-clause for {table} fails: {error}"))
                }
            };
            rows.map(Value::table).map_err(wrong)
        }
        (Some(Rows::Where(_)), _) => {
            Err(QError::with("access", "rows of a table with keys or on disk cannot be restricted"))
        }
    }
}

/// Host of a where-clause: columns and indexes of the tables, and no globals.
struct ColumnsOnly<'a> {
    view: &'a Moment,
    caller: &'a Caller,
}

impl Host for ColumnsOnly<'_> {
    fn global(&self, _: Sym) -> Option<Value> {
        None
    }

    fn assign(&mut self, _: Sym, _: Value) -> Result<(), QError> {
        Err(QError::named("access"))
    }

    fn names(&self, _: Sym) -> Vec<Sym> {
        Vec::new()
    }

    fn native(&self, _: Sym) -> Option<u8> {
        None
    }

    fn call(&mut self, name: Sym, _: &[Value]) -> Result<Value, QError> {
        Err(QError::signal(symbol::text(name)))
    }

    fn append(&mut self, _: Sym, _: &Value) -> Result<Value, QError> {
        Err(QError::named("access"))
    }

    fn caller(&self) -> &Caller {
        self.caller
    }

    fn rows_of(&self, column: &Slice<Sym>, symbol: Sym) -> Option<Vec<u32>> {
        self.view.rows_of(column, symbol)
    }
}
