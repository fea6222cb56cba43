//! Values that stand for tables on disk.

use crate::runtime::context::Context;
use crate::runtime::values::Result;
use crate::verbs::above::Stored;
use columns::table::function::Function;
use columns::table::{Sym, Value};

/// The path of a table on disk, given as a value or by name.
pub(crate) fn place_of(context: &mut Context, x: &Value) -> Option<Sym> {
    described(context, x).map(|(_, place)| place)
}

/// The columns and the path of a table on disk.
pub(crate) fn described(context: &mut Context, x: &Value) -> Option<(Vec<Sym>, Sym)> {
    let held = match x {
        Value::Sym(name) => context.host.global(*name)?,
        other => other.clone(),
    };
    match &held {
        Value::Func(f) => match &**f {
            Function::OnDisk { columns, place } => Some((columns.clone(), *place)),
            _ => None,
        },
        _ => None,
    }
}

/// Loads a splayed table on disk for functions that need the whole table; `'par` for a partitioned one.
pub(crate) fn held(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Func(f) if matches!(**f, Function::OnDisk { .. }) => context.table_on_disk(&x),
        _ => Ok(x),
    }
}

/// A table on disk, made by flipping a dictionary of columns and a path.
pub(crate) fn on_disk(columns: Vec<Sym>, place: Sym) -> Value {
    Value::func(Function::OnDisk { columns, place })
}
