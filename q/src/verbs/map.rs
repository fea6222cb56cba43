//! Applies a function to every item.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use columns::table::{Table, Value};

/// Applies `f` to every item; a dictionary keeps its keys.
pub(crate) fn map(
    context: &mut Context,
    over: &Value,
    mut f: impl FnMut(&mut Context, Value) -> Result<Value, QError>,
) -> Result<Value, QError> {
    // Recursive callers pass here at every level, so this bounds their depth.
    context.enter()?;
    if let Value::Dict(d) = over {
        let values = map(context, &d.values, f)?;
        return Ok(Value::dict(d.keys.clone(), values));
    }
    if over.is_scalar() {
        return f(context, over.clone());
    }
    let count = over.count();
    if count == 0 {
        return Ok(match over {
            Value::Vector(v) => v.items.cut(0, 0).into(),
            _ => Value::empty(),
        });
    }
    let mut out = limits::list(count)?;
    for i in 0..count {
        context.tick()?;
        out.push(f(context, over.at(i))?);
    }
    Ok(Value::collapse(out))
}

/// Applies a function of vectors to each column.
pub(crate) fn columns(
    context: &mut Context,
    t: &Table,
    f: impl Fn(&mut Context, Value) -> Result<Value, QError>,
) -> Result<Value, QError> {
    let mut out = Vec::with_capacity(t.columns.len());
    for column in &t.columns {
        out.push(f(context, column.clone().into())?.into_vector().ok_or(QError::named("type"))?);
    }
    Ok(Value::table(Table::new(t.names.clone(), out)))
}
