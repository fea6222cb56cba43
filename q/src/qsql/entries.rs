//! qSQL on dictionaries: entries are treated as columns.

use super::{delete, exec, filter, select};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::syntax::ast::{Query, Verb};
use crate::verbs::above::Evaluate;
use columns::table::{Dict, Table, Value};
use std::sync::Arc;

/// Returns a dictionary with symbol keys, or the one of that name, as a table, and whether its values were atoms (one row).
pub(super) fn entries(context: &mut Context, from: &Value) -> Result<Option<(Arc<Table>, bool)>, QError> {
    let held = match from {
        Value::Sym(name) => context.host.global(*name),
        other => Some(other.clone()),
    };
    let Some(Value::Dict(d)) = held else { return Ok(None) };
    if d.keyed().is_some() || d.keys.as_symbols().is_none() || d.keys.count() == 0 {
        return Ok(None);
    }
    let values = d.values.items();
    let atoms = values.iter().all(Value::is_scalar);
    let lists = if atoms { values.into_iter().map(Value::enlist).collect() } else { values };
    match crate::verbs::rows::from_columns(&Dict::new(d.keys.clone(), Value::list(lists)))? {
        Value::Table(t) => Ok(Some((t, atoms))),
        _ => Ok(None),
    }
}

/// Runs a query on the entries of a dictionary. The result is a dictionary, of atoms if the entries were atoms.
pub(super) fn over_entries(
    context: &mut Context,
    query: &Query,
    from: Value,
    table: Arc<Table>,
    atoms: bool,
    frame: &mut Frame,
) -> Walk<Value> {
    if query.by.is_some() {
        return Err(QError::named("type").into());
    }
    let selected = filter(context, table, &query.filters, frame)?;
    let result = match query.verb {
        Verb::Select => select(context, query, &selected, frame)?,
        Verb::Exec => {
            let result = exec(context, query, &selected, frame)?;
            let single = atoms && matches!(&result, Value::Vector(v) if v.len() == 1);
            return Ok(if single { result.at(0) } else { result });
        }
        Verb::Update => Value::table(super::update::update(context, query, &selected, frame)?),
        Verb::Delete => Value::table(delete(query, &selected)?),
    };
    let Value::Table(t) = result else { return Err(QError::named("type").into()) };
    let values = t.columns.iter().map(|c| if atoms && c.len() == 1 { c.items.get(0) } else { c.clone().into() });
    let result = Value::dict(Value::symbols(t.names.clone()), Value::collapse(values.collect()));
    if let (Value::Sym(name), Verb::Update | Verb::Delete) = (&from, query.verb) {
        context.set_global(*name, result)?;
        return Ok(from);
    }
    Ok(result)
}
