//! qSQL on dictionaries: entries are treated as columns.

use super::{delete, exec, filter, names, select};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::runtime::scope::Scope;
use crate::syntax::ast::{Query, Verb};
use crate::syntax::resolve::qualify;
use crate::verbs::above::Evaluate;
use columns::table::symbol::text;
use columns::table::{Dict, Items, Sym, Table, Value};
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

/// `select`, `update` and `exec` of a dictionary without conditions and groups: names in expressions are the values themselves, and so are
/// the entries of the result, also where all values are of one length. `None` for anything else.
pub(super) fn over_record(
    context: &mut Context,
    query: &Query,
    from: &Value,
    frame: &mut Frame,
) -> Walk<Option<Value>> {
    let held = match from {
        Value::Sym(name) => match context.host.global(*name) {
            None => return over_namespace(context, query, *name, frame),
            held => held,
        },
        other => Some(other.clone()),
    };
    let Some(Value::Dict(d)) = held else { return Ok(None) };
    let Some(keys) = d.keys.as_symbols() else { return Ok(None) };
    let is_plain = match query.verb {
        Verb::Update => true,
        Verb::Exec => !query.columns.is_empty() && !query.distinct,
        Verb::Select => !query.distinct && query.limit.is_none() && query.order.is_none(),
        Verb::Delete => false,
    } && query.filters.is_empty()
        && query.by.is_none();
    let mut values = d.values.items();
    if !is_plain || d.keyed().is_some() {
        return Ok(None);
    }
    if query.verb == Verb::Select && query.columns.is_empty() {
        return Ok(Some(Value::Dict(d)));
    }
    let mut keys = keys.to_vec();
    let cells = values.iter().map(|v| Value::collapse(vec![v.clone()]).into_vector().ok_or(QError::named("type")));
    let table = Arc::new(Table::new(keys.clone(), cells.collect::<Result<_, _>>()?));
    let cut = keys.iter().copied().zip(values.iter().cloned()).collect();
    context.scopes.push(Scope { table, rows: Some(Arc::new(vec![0])), cut });
    let results: Walk<Vec<Value>> = query.columns.iter().map(|(_, node)| context.node(node, frame)).collect();
    context.scopes.pop();
    let mut results = results?;
    if matches!(query.verb, Verb::Select | Verb::Exec) {
        return Ok(Some(match (&query.columns[..], results.pop()) {
            ([(None, _)], Some(value)) if query.verb == Verb::Exec => value,
            (columns, last) => {
                results.extend(last);
                Value::dict(Value::symbols(names(columns)?), Value::collapse(results))
            }
        }));
    }
    for (name, value) in names(&query.columns)?.into_iter().zip(results) {
        match crate::runtime::limits::place(&keys, name)?.and_then(|at| values.get_mut(at)) {
            Some(held) => *held = value,
            None => {
                keys.push(name);
                values.push(value);
            }
        }
    }
    let result = Value::dict(Value::symbols(keys), Value::collapse(values));
    if let Value::Sym(name) = from {
        context.set_global(*name, result)?;
        return Ok(Some(from.clone()));
    }
    Ok(Some(result))
}

/// Functional update of a namespace by name: `` ![`.lib;();0b;(enlist`f)!enlist 1] `` sets `.lib.f` to 1 and returns `` `.lib ``. `None` if `space` is no
/// namespace, or if the update has a by or where phrase.
fn over_namespace(context: &mut Context, query: &Query, space: Sym, frame: &mut Frame) -> Walk<Option<Value>> {
    let is_plain = query.verb == Verb::Update && query.filters.is_empty() && query.by.is_none();
    let names = names(&query.columns)?;
    let Some(Value::Dict(members)) = context.namespace(space).filter(|_| is_plain && !space.is_null()) else {
        return Ok(None);
    };
    let (Some(keys), false) = (members.keys.as_symbols(), names.contains(&Sym::NULL)) else { return Ok(None) };
    // Names in expressions are the namespace's.
    let values = members.values.items();
    let cells = values.iter().map(|value| Items::List(vec![value.clone()].into()).into()).collect();
    let table = Arc::new(Table::new(keys.to_vec(), cells));
    let cut = keys.iter().copied().zip(values).collect();
    context.scopes.push(Scope { table, rows: Some(Arc::new(vec![0])), cut });
    let results: Walk<Vec<Value>> = query.columns.iter().map(|(_, node)| context.node(node, frame)).collect();
    context.scopes.pop();
    let within = if text(space) == b"." { Sym::NULL } else { space };
    for (name, value) in names.into_iter().zip(results?) {
        context.set_global(qualify(name, within)?, value)?;
    }
    Ok(Some(Value::Sym(space)))
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
