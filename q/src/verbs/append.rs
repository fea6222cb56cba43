//! Rows added to tables (join, insert, upsert), with type checks.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::above::{Evaluate, Stored};
use crate::verbs::find;
use crate::verbs::rows::key_by;
use crate::verbs::rows::unkey;
use crate::verbs::rows::{join_tables, row_table};
use crate::verbs::shape::join;
use columns::table::{Attr, Dict, Items, Sym, Table, Value, Vector};
use proto::types;
use std::sync::Arc;

/// As [`join_tables`], but columns keep attributes that still hold.
fn add_rows(a: Arc<Table>, b: &Table) -> Result {
    let mut attrs = Vec::with_capacity(a.columns.len());
    for (name, column) in a.names.iter().zip(&a.columns) {
        attrs.push(match b.column(*name) {
            Some(more) => crate::verbs::attributes::after_append(column, &more.items)?,
            None => Attr::None,
        });
    }
    let mut joined = join_tables(a, b)?;
    if let Value::Table(t) = &mut joined
        && let Some(t) = Arc::get_mut(t)
    {
        t.columns.iter_mut().zip(attrs).for_each(|(column, attr)| column.attr = attr);
    }
    Ok(joined)
}

/// Returns new rows as a table that fits `t`, with types checked; an untyped empty column accepts any type.
pub(crate) fn conform(t: &Table, rows: &Value) -> std::result::Result<Table, QError> {
    let new = match rows {
        Value::Table(new) => {
            if new.names.len() != t.names.len() {
                return Err(QError::named("mismatch"));
            }
            let mut out = Table::new(t.names.clone(), Vec::new());
            for name in &t.names {
                out.columns.push(new.column(*name).ok_or(QError::named("mismatch"))?.clone());
            }
            out
        }
        Value::Dict(d) if d.keyed().is_some() => {
            let Value::Table(flat) = unkey(rows)? else { return Err(type_error()) };
            return conform(t, &Value::Table(flat));
        }
        row => row_table(t, row)?,
    };
    for (old, new) in t.columns.iter().zip(&new.columns) {
        let (a, b) = (old.items.type_number(), new.items.type_number());
        let symbols = matches!((a, b), (20, 11) | (11, 20));
        if a != b && a != 0 && !(b == 0 && new.is_empty()) && !symbols {
            return Err(type_error());
        }
    }
    Ok(new)
}

/// Enumerates the new rows' items where `t`'s column is enumerated.
fn retagged(context: &mut Context, t: &Table, mut new: Table) -> std::result::Result<Table, QError> {
    for (old, column) in t.columns.iter().zip(&mut new.columns) {
        if let Some(domain) = crate::runtime::values::domain_of_items(&old.items)
            && crate::runtime::values::domain_of_items(&column.items).is_none()
        {
            let tagged = crate::verbs::enums::enumerate(context, domain, column.clone().into())?;
            *column = tagged.into_vector().ok_or_else(type_error)?;
        }
    }
    Ok(new)
}

/// `x,:y`: a vector accepts only its own type, a table rows in any form.
pub(crate) fn append_to(context: &mut Context, x: Value, y: Value) -> Result {
    match &x {
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
        Value::Vector(v) if !v.is_empty() && !matches!(v.items, Items::List(_)) => {
            let y = y.plain();
            if v.items.type_number() != y.type_number().abs() && y.count() > 0 {
                return Err(type_error());
            }
            let attr = crate::verbs::attributes::after_append(v, &y.to_items())?;
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

/// Completes rows that lack some of the table's columns with nulls; turns a list of records into a table.
fn widened(t: &Table, rows: &Value) -> std::result::Result<Option<Value>, QError> {
    let given = match rows {
        Value::Table(new) => (**new).clone(),
        Value::Dict(d)
            if d.keyed().is_none() && matches!(&d.keys, Value::Vector(v) if matches!(v.items, Items::Sym(_))) =>
        {
            let names = d.keys.as_symbols().ok_or_else(type_error)?.to_vec();
            let columns = d.values.items().into_iter().map(|v| match v {
                atom if atom.is_scalar() => Vector::from(atom.to_items()),
                list => Items::List(vec![list].into()).into(),
            });
            Table::new(names, columns.collect())
        }
        Value::Vector(Vector { items: Items::List(l), .. })
            if !l.is_empty()
                && l.iter().all(|r| matches!(r, Value::Vector(_)) && r.count() == t.names.len())
                && (l.len() != t.names.len() || rows_fit(t, rows)) =>
        {
            return crate::verbs::rows::flip_list(rows.clone()).map(Some);
        }
        _ => return Ok(None),
    };
    for name in &given.names {
        if crate::runtime::limits::place(&t.names, *name)?.is_none() {
            return Err(QError::named("mismatch"));
        }
    }
    if given.names.len() == t.names.len() {
        return Ok(None);
    }
    let count = given.count();
    let mut out = Table::new(t.names.clone(), Vec::with_capacity(t.names.len()));
    for (name, column) in t.names.iter().zip(&t.columns) {
        out.columns.push(match given.column(*name) {
            Some(own) => own.clone(),
            None => column.items.gather(&vec![-1i64; count]).into(),
        });
    }
    Ok(Some(Value::table(out)))
}

/// Whether every list is a record of the table, judging by item types.
fn rows_fit(t: &Table, rows: &Value) -> bool {
    crate::verbs::rows::flip_list(rows.clone()).is_ok_and(|columns| fits_columns(t, &columns.items()))
}

/// Whether the lists are columns of the table, judging by types.
fn fits_columns(t: &Table, lists: &[Value]) -> bool {
    t.columns.iter().zip(lists).all(|(c, l)| {
        let own = c.items.type_number();
        own == types::LIST || own == l.type_number() || (own == types::ENUM && l.type_number() == types::SYMBOL)
    })
}

/// Returns a plain table or list with rows added; for implementations of [`crate::Host::append`].
pub fn extend(x: Value, rows: &Value) -> std::result::Result<Value, QError> {
    match x {
        Value::Table(t) => {
            let new = conform(&t, rows)?;
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
            Ok(v.items.join(&more).into())
        }
        _ => Err(type_error()),
    }
}

/// `x insert y` and `x upsert y` for the name of a global.
fn append_global(context: &mut Context, name: Sym, rows: &Value, replace: bool) -> Result {
    match context.host.global(name) {
        Some(Value::Dict(d)) if d.keyed().is_some() => {
            let before = d.keys.count();
            let new = upsert_value(context, Value::Dict(d.clone()), rows, replace)?;
            let after = new.count();
            context.set_global(name, new)?;
            Ok(Value::longs((before as i64..after as i64).collect()))
        }
        Some(Value::Dict(d)) => {
            let new = upsert_value(context, Value::Dict(d), rows, replace)?;
            context.set_global(name, new)?;
            Ok(Value::Null)
        }
        // Rows of an enumerated column must be in its domain.
        Some(Value::Table(t))
            if t.columns.iter().any(|c| crate::runtime::values::domain_of_items(&c.items).is_some()) =>
        {
            let new = conform(&t, rows)?;
            let new = retagged(context, &t, new)?;
            drop(t);
            context.host.append(name, &Value::table(new))
        }
        // A table of rows creates an undefined global.
        None if matches!(rows, Value::Table(_)) || matches!(rows, Value::Dict(d) if d.keyed().is_some()) => {
            context.set_global(name, rows.clone())?;
            Ok(Value::longs((0..rows.count() as i64).collect()))
        }
        _ => context.host.append(name, rows),
    }
}

pub(crate) fn insert(context: &mut Context, x: Value, y: Value) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    if crate::runtime::paths::is_path(name) {
        return upsert(context, x, y);
    }
    append_global(context, name, &y, false)
}

pub(crate) fn upsert(context: &mut Context, x: Value, y: Value) -> Result {
    if let Value::Sym(name) = x
        && crate::runtime::paths::is_path(name)
    {
        let old = context.stored_or_empty(&x)?;
        let new = if old.count() == 0 { y } else { upsert_value(context, old, &y, true)? };
        return context.store(x, &new);
    }
    if let Value::Sym(name) = x {
        // A list of records, or records with only some of the columns.
        let wide = match context.host.global(name) {
            Some(Value::Table(t)) => widened(&t, &y)?,
            _ => None,
        };
        append_global(context, name, wide.as_ref().unwrap_or(&y), true)?;
        return Ok(x);
    }
    upsert_value(context, x, &y, true)
}

/// Returns a table with rows added. In a keyed table, rows with existing keys are replaced (`replace`) or rejected.
pub(crate) fn upsert_value(context: &mut Context, x: Value, rows: &Value, replace: bool) -> Result {
    match &x {
        Value::Table(t) => {
            let wide = widened(t, rows)?;
            let new = conform(t, wide.as_ref().unwrap_or(rows))?;
            let new = retagged(context, t, new)?;
            add_rows(Arc::clone(t), &new)
        }
        Value::Dict(d) if d.sorted => Err(QError::named("step")),
        Value::Dict(d) => {
            let Some((k, v)) = d.keyed() else {
                return match rows {
                    Value::Dict(r) => crate::verbs::shape::join_dicts(context, d, r),
                    pair if pair.count() == 2 => crate::verbs::amend::set(x.clone(), &pair.at(0), pair.at(1)),
                    _ => Err(type_error()),
                };
            };
            let Value::Table(whole) = unkey(&x)? else { return Err(type_error()) };
            let flat_rows = match rows {
                Value::Dict(r) if r.keyed().is_some() => unkey(rows)?,
                other => other.clone(),
            };
            let wide = if replace { widened(&whole, &flat_rows)? } else { None };
            let new = conform(&whole, wide.as_ref().unwrap_or(&flat_rows))?;
            let new = retagged(context, &whole, new)?;
            let Value::Dict(new) = key_by(k.columns.len(), &new)? else { return Err(type_error()) };
            if !replace {
                let (Value::Table(own), Value::Table(added)) = (&d.keys, &new.keys) else { return Err(type_error()) };
                let known = find::table_positions(context, own, added)?;
                if known.iter().any(|p| (*p as usize) < own.count()) {
                    return Err(QError::named("insert"));
                }
            }
            // Columns missing from the rows keep their values.
            if let (Some(_), Value::Table(given), Value::Table(added), Value::Table(own)) =
                (&wide, &flat_rows, &new.keys, &d.keys)
            {
                let kept = find::table_positions(context, own, added)?;
                let Value::Table(fresh) = &new.values else { return Err(type_error()) };
                let mut merged = (**fresh).clone();
                for (name, column) in merged.names.iter().zip(&mut merged.columns) {
                    if let (None, Some(held)) = (given.column(*name), v.column(*name)) {
                        *column = held.items.gather(&kept).into();
                    }
                }
                let merged = Dict::new(new.keys.clone(), Value::table(merged));
                return crate::verbs::shape::join_dicts(context, d, &merged);
            }
            crate::verbs::shape::join_dicts(context, d, &new)
        }
        Value::Vector(_) => append_to(context, x, rows.clone()),
        _ => Err(type_error()),
    }
}
