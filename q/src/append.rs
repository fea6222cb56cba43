//! Rows added to tables: joined, inserted, upserted, with their types checked.

use super::context::Context;
use super::error::QError;
use super::find;
use super::shape::{Result, join, type_error};
use super::tables::{key_by, unkey};
use columns::table::{Attr, Dict, Items, Sym, Table, Value, Vector};
use std::sync::Arc;

/// Rows of `b` behind those of `a`; the columns must be the same.
pub(super) fn join_tables(a: Arc<Table>, b: &Table) -> Result {
    let bytes = |t: &Table| t.columns.iter().map(|c| c.items.held_bytes()).fold(0, usize::saturating_add);
    // Columns that others hold are copied.
    let copied = if Arc::strong_count(&a) > 1 { bytes(&a) } else { 0 };
    super::limits::room(bytes(b).saturating_add(copied))?;
    let mut a = Arc::unwrap_or_clone(a);
    if a.columns.is_empty() {
        return Ok(Value::table(b.clone()));
    }
    if a.names.len() != b.names.len() {
        return Err(QError::named("mismatch"));
    }
    for (i, name) in a.names.clone().iter().enumerate() {
        let other = b.column(*name).ok_or(QError::named("mismatch"))?;
        if let Some(column) = a.columns.get_mut(i) {
            let own = std::mem::replace(&mut column.items, Items::List(Default::default()));
            column.items = own.join(&other.items);
            column.attr = Attr::None;
        }
    }
    a.sorted = false;
    Ok(Value::table(a))
}

/// As [`join_tables`], in place as far as people can tell: columns keep the attributes that still hold.
fn add_rows(a: Arc<Table>, b: &Table) -> Result {
    let mut attrs = Vec::with_capacity(a.columns.len());
    for (name, column) in a.names.iter().zip(&a.columns) {
        attrs.push(match b.column(*name) {
            Some(more) => super::attributes::after_append(column, &more.items)?,
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

/// One or many rows given as a dictionary or a list, as a table like `t`.
pub(super) fn row_table(t: &Table, row: &Value) -> std::result::Result<Table, QError> {
    let values: Vec<Value> = match row {
        Value::Dict(d) => {
            let names = d.keys.as_symbols().ok_or_else(type_error)?;
            let mut out = Vec::with_capacity(t.names.len());
            for name in &t.names {
                let at = super::limits::place(names, *name)?.ok_or(QError::named("mismatch"))?;
                out.push(d.values.at(at));
            }
            if names.len() != t.names.len() {
                return Err(QError::named("mismatch"));
            }
            out
        }
        list => list.items(),
    };
    if values.len() != t.names.len() {
        return Err(QError::named("length"));
    }
    // Of atoms, one row; of lists, as many as they are long. A column of lists takes a list as its item.
    let one_row = values.first().is_some_and(Value::is_scalar);
    let nested = |i: usize| matches!(t.columns.get(i), Some(Vector { items: Items::List(l), .. }) if l.first().map_or(one_row, |v| !v.is_scalar()));
    let is_batch = |(i, v): (usize, &Value)| !v.is_scalar() && (!nested(i) || v.type_number() == 0);
    let many = !matches!(row, Value::Dict(_)) && values.iter().enumerate().any(is_batch);
    let rows = if many { values.iter().find(|v| !v.is_scalar()).map_or(1, Value::count) } else { 1 };
    let mut columns = Vec::with_capacity(values.len());
    for value in values {
        let column = match (many, value.is_scalar()) {
            (true, false) => value,
            (true, true) => Value::collapse(vec![value; rows]),
            (false, _) => Value::collapse(vec![value]),
        };
        let column = match column {
            Value::Vector(v) => v,
            other => Items::List(vec![other].into()).into(),
        };
        if column.len() != rows {
            return Err(QError::named("length"));
        }
        columns.push(column);
    }
    Ok(Table::new(t.names.clone(), columns))
}

/// New rows as a table that fits `t`, types checked: an untyped empty column takes any.
pub(super) fn conform(t: &Table, rows: &Value) -> std::result::Result<Table, QError> {
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

/// New rows with what stands in enumerated columns enumerated too.
fn retagged(context: &mut Context, t: &Table, mut new: Table) -> std::result::Result<Table, QError> {
    for (old, column) in t.columns.iter().zip(&mut new.columns) {
        if let Some(domain) = super::enums::domain_of_items(&old.items)
            && super::enums::domain_of_items(&column.items).is_none()
        {
            let tagged = super::enums::enumerate(context, domain, column.clone().into())?;
            *column = tagged.into_vector().ok_or_else(type_error)?;
        }
    }
    Ok(new)
}

/// `x,:y`: a vector takes only its own type, a table rows in any form.
pub(super) fn append_to(context: &mut Context, x: Value, y: Value) -> Result {
    match &x {
        Value::Table(_) => upsert_value(context, x, &y, true),
        Value::Dict(d) if d.keyed().is_some() => upsert_value(context, x, &y, true),
        // Values of one type stay of that type.
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
            let new = super::enums::enumerate(context, *domain, y)?;
            join(context, x, new)
        }
        Value::Vector(v) if !v.is_empty() && !matches!(v.items, Items::List(_)) => {
            let y = y.plain();
            if i16::from(v.items.type_number()) != y.type_number().abs() && y.count() > 0 {
                return Err(type_error());
            }
            let attr = super::attributes::after_append(v, &y.to_items())?;
            let joined = join(context, x, y)?;
            match joined {
                Value::Vector(v) => Ok(Vector { attr, items: v.items }.into()),
                other => Ok(other),
            }
        }
        // To a list of lists a list is added as one item.
        Value::Vector(Vector { items: Items::List(l), .. })
            if l.first().is_some_and(|v| matches!(v, Value::Vector(_)))
                && matches!(&y, Value::Vector(v) if !matches!(v.items, Items::List(_)) && !v.is_empty()) =>
        {
            join(context, x, Value::list(vec![y]))
        }
        _ => join(context, x, y),
    }
}

/// Rows that have only some of a table's columns, with nulls in the others; a list of records as a table.
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
            return super::shape::flip_list(rows.clone()).map(Some);
        }
        _ => return Ok(None),
    };
    for name in &given.names {
        if super::limits::place(&t.names, *name)?.is_none() {
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

/// Whether each of several lists is a record of a table by its items' types.
fn rows_fit(t: &Table, rows: &Value) -> bool {
    super::shape::flip_list(rows.clone()).is_ok_and(|columns| fits_columns(t, &columns.items()))
}

/// Whether lists are columns of a table by their types.
fn fits_columns(t: &Table, lists: &[Value]) -> bool {
    t.columns.iter().zip(lists).all(|(c, l)| {
        let own = i16::from(c.items.type_number());
        own == 0 || own == l.type_number() || (own == 20 && l.type_number() == 11)
    })
}

/// A plain table or list with rows added: what a host does for [`super::Host::append`].
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
            if v.items.type_number() != more.type_number() && v.items.type_number() != 0 {
                return Err(type_error());
            }
            Ok(v.items.join(&more).into())
        }
        _ => Err(type_error()),
    }
}

/// `x insert y` and `x upsert y` on a global's name.
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
        // What goes into an enumerated column must be in its domain.
        Some(Value::Table(t)) if t.columns.iter().any(|c| super::enums::domain_of_items(&c.items).is_some()) => {
            let new = conform(&t, rows)?;
            let new = retagged(context, &t, new)?;
            drop(t);
            context.host.append(name, &Value::table(new))
        }
        // Rows that are a table make the global where there is none.
        None if matches!(rows, Value::Table(_)) || matches!(rows, Value::Dict(d) if d.keyed().is_some()) => {
            context.set_global(name, rows.clone())?;
            Ok(Value::longs((0..rows.count() as i64).collect()))
        }
        _ => context.host.append(name, rows),
    }
}

pub(super) fn insert(context: &mut Context, x: Value, y: Value) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    if super::files::is_path(name) {
        return upsert(context, x, y);
    }
    append_global(context, name, &y, false)
}

pub(super) fn upsert(context: &mut Context, x: Value, y: Value) -> Result {
    if let Value::Sym(name) = x
        && super::files::is_path(name)
    {
        let old = super::files::get_or_empty(context, &x)?;
        let new = if old.count() == 0 { y } else { upsert_value(context, old, &y, true)? };
        return super::files::set(context, x, &new);
    }
    if let Value::Sym(name) = x {
        // Records one after the other, or with only some of the columns.
        let wide = match context.host.global(name) {
            Some(Value::Table(t)) => widened(&t, &y)?,
            _ => None,
        };
        append_global(context, name, wide.as_ref().unwrap_or(&y), true)?;
        return Ok(x);
    }
    upsert_value(context, x, &y, true)
}

/// A table with rows added; in a keyed one rows with known keys are replaced, or refused.
pub(super) fn upsert_value(context: &mut Context, x: Value, rows: &Value, replace: bool) -> Result {
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
                    Value::Dict(r) => super::shape::join_dicts(context, d, r),
                    pair if pair.count() == 2 => super::amend::set(x.clone(), &pair.at(0), pair.at(1)),
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
            // Columns that the rows do not have keep what they hold.
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
                return super::shape::join_dicts(context, d, &merged);
            }
            super::shape::join_dicts(context, d, &new)
        }
        Value::Vector(_) => append_to(context, x, rows.clone()),
        _ => Err(type_error()),
    }
}
