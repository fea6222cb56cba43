//! Namespaces as dictionaries: reads and modifies a namespace as one.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::syntax::{prims, words};
use crate::verbs::above::Evaluate;
use crate::verbs::matches;
use columns::table::function::Function;
use columns::table::symbol::{intern_name as intern, text};
use columns::table::{Dict, Sym, Value};

/// Returns a namespace as a dictionary, whose first entry is the null symbol with the generic null.
pub(crate) fn of(context: &mut Context, name: Sym) -> Option<Value> {
    if text(name) == b".q" {
        let mut keys = vec![Sym::NULL];
        let mut values = vec![Value::Null];
        for word in prims::keywords() {
            values.push(prims::keyword(text(word))?);
            keys.push(word);
        }
        for word in Context::library_names(b".q") {
            values.extend(context.library(intern(&[b".q.", text(word)].concat()).ok()?).ok()?);
            keys.push(word);
        }
        // What scripts have added.
        for short in context.host.names(name).into_iter().filter(|short| prims::keyword(text(*short)).is_none()) {
            values.extend(context.host.global(intern(&[b".q.", text(short)].concat()).ok()?));
            keys.push(short);
        }
        return Some(Value::dict(Value::symbols(keys), Value::list(values)));
    }
    let mut names = context.host.names(name);
    for own in Context::library_names(text(name)).into_iter().chain(prims::names_in(text(name))) {
        if !names.contains(&own) {
            names.push(own);
        }
    }
    let root = name == Sym::NULL || text(name) == b".";
    // kdb+ has a context for ODBC, and lists it: programs that walk over all contexts read it.
    if names.is_empty() && !root && text(name) != b".o" {
        return None;
    }
    // The dictionary of a namespace begins with the null symbol and `::`. That of the root does not.
    let (mut keys, mut values) = if root { Default::default() } else { (vec![Sym::NULL], vec![Value::Null]) };
    for short in names {
        let full = if root { short } else { intern(&[text(name), b".", text(short)].concat()).ok()? };
        let value = match context.host.global(full) {
            Some(value) => value,
            None if context.host.native(full).is_some() => Value::func(Function::Native(full)),
            None => match (prims::keyword(text(full)), context.library(full)) {
                (Some(value), _) | (None, Ok(Some(value))) => value,
                _ => match context.variable(text(full)) {
                    Some(value) => value,
                    None => match of(context, full) {
                        Some(below) => below,
                        None => continue,
                    },
                },
            },
        };
        keys.push(short);
        values.push(value);
    }
    Some(Value::dict(Value::symbols(keys), Value::list(values)))
}

/// Applies a modified namespace dictionary: deletes removed names, assigns changed ones.
pub(super) fn set_members(context: &mut Context, space: Sym, old: &Dict, members: &Dict) -> Result<(), QError> {
    let before = old.keys.as_symbols().unwrap_or_default();
    let now = match members.keys.as_symbols() {
        Some(names) => names,
        None if members.keys.count() == 0 => &[],
        None => return Err(QError::named("type")),
    };
    let full = |short: &Sym| match text(space) {
        b"." => Ok(*short),
        around => crate::runtime::values::symbol(&[around, b".", text(*short)].concat()),
    };
    for short in before.iter().filter(|short| !short.is_null() && !now.contains(short)) {
        delete(context, full(short)?)?;
    }
    for (at, short) in now.iter().enumerate() {
        let value = members.values.at(at);
        let had = before.iter().position(|b| b == short).map(|at| old.values.at(at));
        let kept = match &had {
            Some(had) => {
                (crate::eval::views::identical(had, &value) || matches::same_exactly(had, &value)?)
                    && matches::same_attributes(had, &value)?
            }
            None => false,
        };
        if short.is_null() || kept {
            continue;
        }
        context.set_global(full(short)?, value)?;
    }
    Ok(())
}

/// Whether a dictionary begins like a namespace: its first key is the null symbol.
pub(super) fn is_one(members: &Dict) -> bool {
    members.keys.as_symbols().and_then(|names| names.first()).is_some_and(|first| first.is_null())
}

/// Deletes the globals below a name: all, or on an error none.
pub(super) fn delete_below(context: &mut Context, space: Sym) -> Result<(), QError> {
    let names = context.host.names_below(space);
    names.iter().try_for_each(|name| context.host.may_change(*name))?;
    for name in names {
        context.host.remove(name)?;
        words::forget(name);
    }
    Ok(())
}

/// Deletes a global, or a namespace with those below it.
fn delete(context: &mut Context, name: Sym) -> Result<(), QError> {
    if context.host.global(name).is_none()
        && let Some(Value::Dict(below)) = context.namespace(name)
    {
        context.enter()?;
        let nothing = Dict { sorted: false, keys: Value::symbols(Vec::new()), values: Value::empty() };
        return set_members(context, name, &below, &nothing);
    }
    // A name that is not there may be one that the caller must not change.
    context.host.remove(name)?;
    words::forget(name);
    Ok(())
}

/// `` delete a,b from `.n ``: deletes names of a namespace: all, or none if the caller may not delete one. A namespace that has no names left remains, empty.
pub(crate) fn delete_names(context: &mut Context, space: Sym, names: &[Sym]) -> Result<(), QError> {
    let is_root = text(space) == b".";
    let full = |name: &Sym| if is_root { Ok(*name) } else { crate::syntax::resolve::qualify(*name, space) };
    let names = names.iter().map(full).collect::<Result<Vec<Sym>, _>>()?;
    names.iter().try_for_each(|name| context.host.may_change(*name))?;
    names.into_iter().try_for_each(|name| delete(context, name))?;
    if !is_root && context.namespace(space).is_none() {
        let empty = Value::dict(Value::symbols(vec![Sym::NULL]), Value::list(vec![Value::Null]));
        context.set_global(space, empty)?;
    }
    Ok(())
}
