//! Rows added to tables and items added to lists (join, insert, upsert). What nothing else refers to grows in place; anything else is
//! copied once.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::guard::is_owned_code;
use crate::runtime::values::Result;
use crate::runtime::values::domain_of_items;
use crate::runtime::values::type_error;
use crate::syntax::prims;
use crate::syntax::resolve::qualify;
use crate::verbs::above::{Evaluate, Stored};
use crate::verbs::attributes::{after_append, after_growth};
use crate::verbs::entries::join_in_place;
use crate::verbs::fit::{Fitting, conform, fitting, is_keyed, keyed_rows, widened};
use crate::verbs::keyed;
use crate::verbs::rows::{joined, room_for_rows};
use crate::verbs::shape::join;
use columns::table::symbol::text;
use columns::table::{Attr, Items, Sym, Table, Value, Vector};
use proto::types;
use std::sync::Arc;

type Done = std::result::Result<(), QError>;

/// Appends the rows of `new`, which fit. Columns keep attributes that still hold.
fn add_rows(t: &mut Arc<Table>, new: &Table) -> Done {
    let attrs = attributes_after(t, new)?;
    room_for_rows(t, new)?;
    // A search that a limit has ended has found too little.
    crate::runtime::limits::settle()?;
    let empty = Arc::new(Table::new(Vec::new(), Vec::new()));
    let mut grown = joined(std::mem::replace(t, empty), new);
    grown.columns.iter_mut().zip(attrs).for_each(|(column, attr)| column.attr = attr);
    *t = Arc::new(grown);
    Ok(())
}

/// Returns the attribute of each column of `t` once the rows of `new` are appended.
fn attributes_after(t: &mut Arc<Table>, new: &Table) -> std::result::Result<Vec<Attr>, QError> {
    if let Some(own) = Arc::get_mut(t) {
        let columns = own.names.iter().zip(&mut own.columns);
        let after = columns.map(|(name, column)| match new.column(*name) {
            Some(more) => after_growth(column, &more.items),
            None => Ok(Attr::None),
        });
        return after.collect();
    }
    let columns = t.names.iter().zip(&t.columns);
    let after = columns.map(|(name, column)| match new.column(*name) {
        Some(more) => after_append(column, &more.items),
        None => Ok(Attr::None),
    });
    after.collect()
}

/// Adds rows to a table, with or without keys. In a keyed table, rows with existing keys are replaced (`replace`) or rejected.
///
/// # Errors
/// `insert` for an existing key, `wsfull`; `x` stays as it was.
fn add(x: &mut Value, new: &Fitting, replace: bool) -> Done {
    match x {
        Value::Table(t) => add_rows(t, &new.rows),
        Value::Dict(d) => {
            if let Some(done) = d.edit(|own| keyed::put(own, new, replace)) {
                return done;
            }
            let mut own = (**d).clone();
            keyed::put(&mut own, new, replace)?;
            *d = own.into();
            Ok(())
        }
        _ => Err(type_error()),
    }
}

/// `x,:y`: a vector accepts only its own type, a table rows in any form.
pub(crate) fn append_to(context: &mut Context, x: Value, y: Value) -> Result {
    match &x {
        // `x,:()` makes a list of an atom.
        atom if atom.is_atom() && y.count() > 0 => Err(QError::with("type", "items were appended to an atom")),
        Value::Table(_) | Value::Dict(_) if y.is_nothing() => Ok(x),
        Value::Table(_) => upsert_value(context, x, &y, true),
        Value::Dict(d) if d.keyed().is_some() => upsert_value(context, x, &y, true),
        // The values keep their type.
        Value::Dict(d) => {
            let Value::Dict(new) = &y else { return Err(type_error()) };
            if let (Value::Vector(own), Value::Vector(more)) = (&d.values, &new.values) {
                let (a, b) = (own.items.type_number(), more.items.type_number());
                if a != b && a != 0 && !own.is_empty() && !more.is_empty() {
                    return Err(type_error());
                }
            }
            join(context, x, y)
        }
        Value::Vector(Vector { items: Items::Enum(domain, _) | Items::Link(domain, _), .. }) => {
            let new = crate::verbs::enums::enumerate(context, *domain, y)?;
            join(context, x, new)
        }
        Value::Vector(v) if !matches!(v.items, Items::List(_)) => {
            let y = y.plain();
            // Items appended to an empty list decide its type, as in `x,y`: published solutions append longs to `` `int$() ``.
            if v.items.type_number() != y.type_number().abs() && y.count() > 0 && !v.is_empty() {
                return Err(type_error());
            }
            let attr = after_append(v, &y.to_items())?;
            let joined = join(context, x, y)?;
            match joined {
                Value::Vector(v) => Ok(Vector { attr, items: v.items }.into()),
                other => Ok(other),
            }
        }
        // A list appended to a list of lists becomes one item.
        Value::Vector(Vector { items: Items::List(l), .. })
            if l.first().is_some_and(|v| matches!(v, Value::Vector(_)))
                && matches!(&y, Value::Vector(v) if !matches!(v.items, Items::List(_)) && !v.is_empty()) =>
        {
            join(context, x, Value::list(vec![y]))
        }
        _ => join(context, x, y),
    }
}

/// Adds rows to a plain table or list, in place if nothing else refers to it; for implementations of [`crate::Host::append`].
///
/// # Errors
/// The rows do not fit, or memory does not suffice; `x` stays as it was.
pub fn extend(x: &mut Value, rows: &Value) -> Done {
    match x {
        Value::Table(t) => {
            let new = conform(t, rows)?;
            add_rows(t, &new)
        }
        Value::Vector(v) => {
            let more = match rows {
                Value::Vector(m) => m.items.clone(),
                atom => atom.to_items(),
            };
            if v.items.type_number() != more.type_number() && v.items.type_number() != types::LIST {
                return Err(type_error());
            }
            let own = std::mem::replace(&mut v.items, Items::List(Default::default()));
            *v = own.join(&more).into();
            Ok(())
        }
        _ => Err(type_error()),
    }
}

/// Whether [`in_place`] handles `x,:y`.
fn grows_in_place(x: &Value, y: &Value) -> bool {
    match x {
        Value::Table(_) | Value::Dict(_) if y.is_nothing() => false,
        Value::Table(t) => !t.columns.is_empty(),
        Value::Dict(d) => !d.sorted && (d.keyed().is_some() || matches!(y, Value::Dict(y) if y.keyed().is_none())),
        Value::Vector(Vector { items: Items::List(l), .. }) => match y {
            Value::Vector(Vector { items: Items::List(more), .. }) => !l.is_empty() && !more.is_empty(),
            // A list appended to a list of lists becomes one item.
            Value::Vector(more) => matches!(l.first(), Some(Value::Vector(_))) && !more.is_empty(),
            _ => false,
        },
        Value::Vector(v) if !v.is_empty() && domain_of_items(&v.items).is_none() => {
            y.type_number().abs() == v.items.type_number() && y.count() > 0
        }
        _ => false,
    }
}

/// `x,:y` in place, if nothing else refers to `x`. Returns `None`, and changes nothing, where [`append_to`] must decide.
pub(crate) fn in_place(context: &mut Context, x: &mut Value, y: &Value) -> Option<Done> {
    if !grows_in_place(x, y) {
        return None;
    }
    match x {
        Value::Vector(v) => return Some(lengthen(v, y)),
        Value::Dict(d) if d.keyed().is_none() => return join_in_place(x, y),
        _ => {}
    }
    Some(fitting(context, x, y, true).and_then(|new| add(x, &new, true)))
}

/// As [`in_place`], for a global. Returns its new value. It looks at the value through [`crate::Host::edit`] only: a host may count a read
/// of the global otherwise, and an append reads nothing.
pub(crate) fn in_place_global(context: &mut Context, name: Sym, y: &Value) -> Option<Result> {
    if is_owned_code(y) {
        return None;
    }
    context.settle_loaded();
    // Enumerations over a list follow its assignment.
    let is_domain = crate::verbs::enums::is_domain(name);
    let found = with_global(context, name, |x| match x {
        _ if !grows_in_place(x, y) => None,
        Value::Vector(_) if is_domain => None,
        Value::Vector(v) => Some(lengthen(v, y).map(|()| None)),
        Value::Dict(d) if d.keyed().is_none() => join_in_place(x, y).map(|done| done.map(|()| None)),
        table => Some(Ok(Some(table.clone()))),
    });
    let new = match found?? {
        Ok(Some(table)) => fitting(context, &table, y, true),
        Ok(None) => return with_global(context, name, |x| Ok(x.clone())),
        Err(error) => return Some(Err(error)),
    };
    // No other reference to the table is left when it grows.
    match new {
        Ok(new) => with_global(context, name, |x| add(x, &new, true).map(|()| x.clone())),
        Err(error) => Some(Err(error)),
    }
}

/// Runs `change` on the value of a global where it is, so that no other reference to it exists. `None` if the host gives no access.
fn with_global<R>(context: &mut Context, name: Sym, change: impl FnOnce(&mut Value) -> R) -> Option<R> {
    let (mut change, mut result) = (Some(change), None);
    context.host.edit(name, &mut |x| result = change.take().map(|change| change(x)));
    result
}

/// Appends `y` to a vector, where [`grows_in_place`] says so.
fn lengthen(v: &mut Vector, y: &Value) -> Done {
    let more = match (&v.items, y) {
        (Items::List(_), Value::Vector(own)) if !matches!(own.items, Items::List(_)) => {
            Items::List(vec![y.clone()].into())
        }
        _ => y.to_items(),
    };
    let attr = after_growth(v, &more)?;
    crate::runtime::limits::room(more.held_bytes())?;
    crate::runtime::limits::settle()?;
    let own = std::mem::replace(&mut v.items, Items::List(Default::default()));
    *v = Vector { attr, items: own.join(&more) };
    Ok(())
}

/// `x insert y` and `x upsert y` for the name of a global.
fn append_global(context: &mut Context, name: Sym, rows: &Value, replace: bool) -> Result {
    context.settle_loaded();
    // The table's own columns grow in place, so no other reference to them may be left when the rows are appended.
    let tagged = match context.host.global(name) {
        Some(held @ Value::Dict(_)) => {
            let Value::Dict(d) = &held else { return Err(type_error()) };
            if d.keyed().is_none() {
                let new = upsert_value(context, held, rows, replace)?;
                context.set_global(name, new)?;
                return Ok(Value::Null);
            }
            let before = d.keys.count() as i64;
            let new = fitting(context, &held, rows, replace)?;
            drop(held);
            let added = |x: &mut Value| {
                add(x, &new, replace)?;
                Ok(Value::longs((before..x.count() as i64).collect()))
            };
            if let Some(done) = with_global(context, name, added) {
                return done;
            }
            let mut held = context.host.global(name).ok_or_else(type_error)?;
            add(&mut held, &new, replace)?;
            let after = held.count() as i64;
            context.set_global(name, held)?;
            return Ok(Value::longs((before..after).collect()));
        }
        // Rows of an enumerated column must be in its domain.
        Some(held @ Value::Table(_)) if is_enumerated(&held) => {
            Some(Value::table(fitting(context, &held, rows, false)?.rows))
        }
        // The first rows may decide the types.
        Some(held @ Value::Table(_)) if held.count() == 0 => {
            let before = held.count() as i64;
            let new = fitting(context, &held, rows, replace)?;
            drop(held);
            match with_global(context, name, |x| add(x, &new, replace)) {
                Some(done) => {
                    let after = before.saturating_add(new.rows.count() as i64);
                    return done.map(|()| Value::longs((before..after).collect()));
                }
                // A host that keeps its tables itself keeps their types.
                None => None,
            }
        }
        // A part of a global dictionary: `.cfg.t`.
        None if columns::table::symbol::text(name).iter().skip(1).any(|c| *c == b'.')
            && context.namespace(name).is_none()
            && let Ok(held @ (Value::Table(_) | Value::Dict(_) | Value::Vector(_))) = context.global(name) =>
        {
            let before = held.count() as i64;
            let new = upsert_value(context, held, rows, replace)?;
            let after = new.count() as i64;
            context.set_global(name, new)?;
            return Ok(Value::longs((before..after).collect()));
        }
        // A table of rows creates an undefined global, and replaces an empty list as `(),t` does; so does a dictionary that is upserted.
        held if held.as_ref().is_none_or(Value::is_nothing)
            && (has_rows(rows) || replace && matches!(rows, Value::Dict(_))) =>
        {
            context.set_global(name, rows.clone())?;
            return Ok(Value::longs((0..rows.count() as i64).collect()));
        }
        _ => None,
    };
    context.host.append(name, tagged.as_ref().unwrap_or(rows))
}

/// Whether a value is a table, with or without keys.
fn has_rows(y: &Value) -> bool {
    matches!(y, Value::Table(_)) || matches!(y, Value::Dict(d) if d.keyed().is_some())
}

/// Whether a table has a column over a domain.
fn is_enumerated(x: &Value) -> bool {
    matches!(x, Value::Table(t) if t.columns.iter().any(|c| domain_of_items(&c.items).is_some()))
}

pub(crate) fn insert(context: &mut Context, x: Value, y: Value) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    if crate::runtime::paths::is_path(name) {
        return upsert(context, x, y);
    }
    let name = context.named(name)?;
    // Rows of a table may lack columns.
    let wide = match (context.host.global(name), &y) {
        (Some(Value::Table(t)), Value::Table(_)) => widened(&t, &y)?,
        _ => None,
    };
    let rows = append_global(context, name, wide.as_ref().unwrap_or(&y), false)?;
    context.was_set(name, &[])?;
    Ok(rows)
}

pub(crate) fn upsert(context: &mut Context, x: Value, y: Value) -> Result {
    if let Value::Sym(name) = x
        && crate::runtime::paths::is_path(name)
    {
        if context.append_stored(&x, &y)? {
            return Ok(x);
        }
        let old = context.stored_or_empty(&x)?;
        // A file of longs takes longs only, even if it holds none yet.
        if let (Value::Vector(own), Value::Vector(new)) = (&old, &y)
            && !matches!(own.items, Items::List(_))
            && own.items.type_number() != new.items.type_number()
            && !new.is_empty()
        {
            return Err(type_error());
        }
        let new = if old.is_nothing() { y } else { upsert_value(context, old, &y, true)? };
        // The directory of a splayed table may also be named without its slash.
        let is_folder = matches!(context.stored_names(x.clone())?, Value::Vector(Vector { items: Items::Sym(_), .. }));
        let place = if is_folder { crate::runtime::paths::inside(name, Sym::NULL)? } else { name };
        context.store_changed(Value::Sym(place), &new)?;
        return Ok(x);
    }
    // The names of a namespace: `` `. upsert `a`b!1 2 ``.
    if let (Value::Sym(space), Value::Dict(names)) = (&x, &y)
        && names.keyed().is_none()
        && context.host.global(*space).is_none()
        && (text(*space) == b"." || context.namespace(*space).is_some())
    {
        // If one of the names may not be assigned, none is.
        for name in names.keys.as_symbols().ok_or_else(type_error)? {
            context.host.may_change(qualify(*name, if text(*space) == b"." { Sym::NULL } else { *space })?)?;
        }
        return context.apply(&prims::glyph("."), vec![x.clone(), Value::empty(), prims::glyph(","), y]);
    }
    if let Value::Sym(short) = x {
        let name = context.named(short)?;
        // A list of records, or records with only some of the columns.
        let wide = match context.host.global(name) {
            Some(Value::Table(t)) if is_keyed(&y) => return Err(keyed_rows(&t, &y)),
            // Without rows, `append_global` widens them.
            Some(Value::Table(t)) if t.count() > 0 => widened(&t, &y)?,
            _ => None,
        };
        if !(y.is_nothing() && context.host.global(name).as_ref().is_some_and(has_rows)) {
            append_global(context, name, wide.as_ref().unwrap_or(&y), true)?;
        }
        context.was_set(name, &[])?;
        return Ok(x);
    }
    upsert_value(context, x, &y, true)
}

/// Returns a table with rows added. In a keyed table, rows with existing keys are replaced (`replace`) or rejected.
pub(crate) fn upsert_value(context: &mut Context, mut x: Value, rows: &Value, replace: bool) -> Result {
    match &x {
        Value::Dict(d) if !d.sorted && d.keyed().is_none() => match rows {
            Value::Dict(r) => crate::verbs::shape::join_dicts(context, d.clone(), r),
            pair if pair.count() == 2 => crate::verbs::amend::set(context, x.clone(), &pair.at(0), pair.at(1)),
            _ => Err(type_error()),
        },
        Value::Table(_) | Value::Dict(_) if replace && rows.is_nothing() => Ok(x),
        Value::Table(_) | Value::Dict(_) => {
            let new = fitting(context, &x, rows, replace)?;
            add(&mut x, &new, replace)?;
            Ok(x)
        }
        Value::Vector(_) => append_to(context, x, rows.clone()),
        _ => Err(type_error()),
    }
}
