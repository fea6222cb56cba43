//! Namespaces as dictionaries: reads and modifies a namespace as one.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use columns::table::function::Function;
use columns::table::symbol::{intern_name as intern, text};
use columns::table::{Dict, Sym, Value};

/// Returns a namespace as a dictionary, whose first entry is the null symbol with the generic null.
pub(crate) fn of(context: &mut Context, name: Sym) -> Option<Value> {
    if text(name) == b".q" {
        let (names, words): (Vec<Sym>, Vec<Value>) =
            prims::keywords().into_iter().filter_map(|name| Some((name, prims::keyword(text(name))?))).unzip();
        let keys = std::iter::once(Sym::NULL).chain(names).collect();
        let values = std::iter::once(Value::Null).chain(words).collect();
        return Some(Value::dict(Value::symbols(keys), Value::list(values)));
    }
    let mut names = context.host.names(name);
    for own in Context::library_names(text(name)).into_iter().chain(prims::names_in(text(name))) {
        if !names.contains(&own) {
            names.push(own);
        }
    }
    let root = name == Sym::NULL || text(name) == b".";
    if names.is_empty() && !root {
        return None;
    }
    let mut keys = vec![Sym::NULL];
    let mut values = vec![Value::Null];
    for short in names {
        let full = if root { short } else { intern(&[text(name), b".", text(short)].concat()).ok()? };
        let value = match context.host.global(full) {
            Some(value) => value,
            None if context.host.native(full).is_some() => Value::func(Function::Native(full)),
            None => match (prims::keyword(text(full)), context.library(full)) {
                (Some(value), _) | (None, Ok(Some(value))) => value,
                _ => match of(context, full).filter(|_| !root) {
                    Some(below) => below,
                    None => continue,
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
        let name = full(short)?;
        if context.host.global(name).is_some() {
            context.host.remove(name)?;
        }
    }
    for (at, short) in now.iter().enumerate() {
        let value = members.values.at(at);
        let had = before.iter().position(|b| b == short).map(|at| old.values.at(at));
        let kept = match &had {
            Some(had) => {
                crate::eval::views::identical(had, &value) || crate::verbs::matches::same_exactly(had, &value)?
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
