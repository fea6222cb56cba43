//! Dictionaries and tables: making, keying, renaming, `meta`, `insert`, `upsert`, attributes.

use super::cast;
use super::context::Context;
use super::error::QError;
use super::find;
use super::index;
use super::matches::order;
use super::prims;
use super::shape::{Result, join, type_error};
use crate::table::symbol::{intern, text};
use crate::table::{Attr, Dict, Items, Sym, Table, Value, Vector};
use std::cmp::Ordering;
use std::sync::Arc;

/// `x!y`.
pub(super) fn bang(context: &mut Context, x: Value, y: Value) -> Result {
    match (&x, &y) {
        (Value::Long(n), Value::Table(t)) if *n >= 0 => key_by(usize::try_from(*n).unwrap_or(0), t),
        (Value::Long(n), Value::Dict(d)) if *n >= 0 && d.keyed().is_some() => {
            let Value::Table(flat) = unkey(&y)? else { return Err(type_error()) };
            key_by(usize::try_from(*n).unwrap_or(0), &flat)
        }
        (Value::Long(n), Value::Sym(name)) if *n >= 0 => {
            let table = context.global(*name)?;
            let keyed = bang(context, x.clone(), table)?;
            context.set_global(*name, keyed)?;
            Ok(y)
        }
        (Value::Sym(name), Value::Vector(Vector { items: Items::Long(_) | Items::Int(_), .. }) | Value::Long(_)) => {
            super::enums::link(context, *name, y)
        }
        (Value::Int(_) | Value::Long(_), _) if x.as_long().is_some_and(|n| n < 0) => {
            super::numbered::call(context, x.as_long().unwrap_or(0), y)
        }
        (Value::Table(_), Value::Table(_)) if x.count() == y.count() => Ok(Value::dict(x, y)),
        (Value::Vector(_) | Value::Table(_), Value::Vector(_) | Value::Table(_)) => {
            if x.count() != y.count() {
                return Err(QError::named("length"));
            }
            Ok(Value::dict(x, y))
        }
        (Value::Vector(_), scalar) if scalar.is_scalar() => {
            let values = Value::collapse(vec![y.clone(); x.count()]);
            Ok(Value::dict(x, values))
        }
        _ => Err(type_error()),
    }
}

/// The table whose columns a dictionary holds; atoms are repeated.
pub(super) fn from_columns(d: &Dict) -> Result {
    let names = d.keys.as_symbols().ok_or_else(type_error)?.to_vec();
    let values = d.values.items();
    let rows = values.iter().find(|v| !v.is_scalar()).map(Value::count).ok_or(QError::named("rank"))?;
    let mut columns = Vec::with_capacity(values.len());
    for value in values {
        let column = if value.is_scalar() { Value::collapse(vec![value; rows]) } else { value };
        let column = column.into_vector().ok_or_else(type_error)?;
        if column.len() != rows {
            return Err(QError::named("length"));
        }
        columns.push(column);
    }
    Ok(Value::table(Table::new(names, columns)))
}

/// The table with its first `keys` columns as keys.
pub(super) fn key_by(keys: usize, t: &Table) -> Result {
    if keys == 0 {
        return Ok(Value::table(t.clone()));
    }
    if keys >= t.columns.len() {
        return Err(QError::named("length"));
    }
    let mut names = t.names.clone();
    let mut columns = t.columns.clone();
    let (value_names, value_columns) = (names.split_off(keys), columns.split_off(keys));
    Ok(Value::dict(Value::table(Table::new(names, columns)), Value::table(Table::new(value_names, value_columns))))
}

/// A keyed table as a plain one.
pub(super) fn unkey(x: &Value) -> Result {
    match x {
        Value::Table(_) => Ok(x.clone()),
        Value::Dict(d) => {
            let (k, v) = d.keyed().ok_or_else(type_error)?;
            let mut out = k.clone();
            out.names.extend_from_slice(&v.names);
            out.columns.extend_from_slice(&v.columns);
            out.sorted = false;
            Ok(Value::table(out))
        }
        _ => Err(type_error()),
    }
}

/// A plain table and how many of its columns were keys, from a table, a keyed table or a name.
pub(super) fn flat(context: &mut Context, x: &Value) -> std::result::Result<(Arc<Table>, usize), QError> {
    match x {
        Value::Table(t) => Ok((Arc::clone(t), 0)),
        Value::Dict(d) => {
            let keys = d.keyed().ok_or_else(type_error)?.0.columns.len();
            match unkey(x)? {
                Value::Table(t) => Ok((t, keys)),
                _ => Err(type_error()),
            }
        }
        Value::Sym(name) => {
            let global = context.global(*name)?;
            if matches!(global, Value::Sym(_)) { Err(type_error()) } else { flat(context, &global) }
        }
        _ => Err(type_error()),
    }
}

/// `cols x`.
pub(super) fn cols(context: &mut Context, x: Value) -> Result {
    if let Value::Dict(d) = &x
        && d.keyed().is_none()
    {
        return Ok(d.keys.clone());
    }
    Ok(Value::symbols(flat(context, &x)?.0.names.clone()))
}

/// `keys x`.
pub(super) fn keys(context: &mut Context, x: Value) -> Result {
    let (t, keys) = flat(context, &x)?;
    Ok(Value::symbols(t.names.iter().take(keys).copied().collect()))
}

/// `key x`: of a dictionary, a keyed table, a namespace's name, a type.
pub(super) fn key(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Dict(d) => Ok(d.keys.clone()),
        Value::Sym(name) => {
            let written = text(*name);
            if super::files::is_path(*name) {
                return super::files::key(context, x);
            }
            if written.is_empty() {
                let mut spaces = vec![prims::name("q"), prims::name("Q"), prims::name("h"), prims::name("j")];
                spaces
                    .extend(context.host.namespaces().into_iter().filter(|s| !spaces.contains(s)).collect::<Vec<_>>());
                return Ok(Value::symbols(spaces));
            }
            if written == b"." {
                return Ok(Value::symbols(context.host.names(Sym::NULL)));
            }
            let (name, written) = (&super::resolve::qualify(*name, context.host.namespace())?, written);
            let global = written.strip_prefix(b"..").unwrap_or(b"");
            if !global.is_empty() {
                let known = context.host.global(super::parse::symbol(global)?).is_some();
                return Ok(if known { x } else { Value::empty() });
            }
            if let Some(Value::Dict(d)) = context.namespace(*name) {
                return Ok(d.keys.clone());
            }
            match context.host.global(*name) {
                Some(Value::Dict(d)) => Ok(d.keys.clone()),
                Some(_) => Ok(x),
                None => Ok(Value::empty()),
            }
        }
        Value::Enum(name, _) | Value::Link(name, _) => Ok(Value::Sym(*name)),
        Value::Vector(v) => match &v.items {
            Items::Enum(name, _) | Items::Link(name, _) => Ok(Value::Sym(*name)),
            Items::List(_) => Ok(Value::Sym(Sym::NULL)),
            simple => Ok(Value::Sym(prims::name(cast::type_name(simple.type_number())))),
        },
        Value::Long(_) | Value::Int(_) => super::shape::til(context, x),
        _ => Err(type_error()),
    }
}

/// `meta x`.
pub(super) fn meta(context: &mut Context, x: Value) -> Result {
    let (t, _) = flat(context, &x)?;
    let mut types = Vec::with_capacity(t.columns.len());
    let mut attributes = Vec::with_capacity(t.columns.len());
    let mut foreign = Vec::with_capacity(t.columns.len());
    for column in &t.columns {
        types.push(match &column.items {
            Items::Enum(..) => b's',
            Items::Link(..) => b'j',
            _ => column_letter(column),
        });
        foreign.push(super::enums::foreign(context, &column.items).unwrap_or(Sym::NULL));
        attributes.push(attribute_name(column.attr));
    }
    let keys = Table::new(vec![prims::name("c")], vec![Items::Sym(t.names.clone().into()).into()]);
    let values = Table::new(
        vec![prims::name("t"), prims::name("f"), prims::name("a")],
        vec![Items::Char(types.into()).into(), Items::Sym(foreign.into()).into(), Items::Sym(attributes.into()).into()],
    );
    Ok(Value::dict(Value::table(keys), Value::table(values)))
}

/// A column's type as `meta` has it: upper case for lists of vectors of one type.
pub(super) fn column_letter(column: &Vector) -> u8 {
    match &column.items {
        Items::List(l) => {
            let first = l.first().map(Value::type_number);
            match first {
                Some(t @ 1..=19) => cast::letter(t as i8).to_ascii_uppercase(),
                _ => b' ',
            }
        }
        simple => cast::letter(simple.type_number()),
    }
}

pub(super) fn attribute_name(attr: Attr) -> Sym {
    prims::name(match attr {
        Attr::None => "",
        Attr::Sorted => "s",
        Attr::Unique => "u",
        Attr::Parted => "p",
        Attr::Grouped => "g",
    })
}

/// `` `s#x `` and the like, checked.
pub(super) fn set_attribute(name: &[u8], x: Value) -> Result {
    let attr = match name {
        b"" => Attr::None,
        b"s" => Attr::Sorted,
        b"u" => Attr::Unique,
        b"p" => Attr::Parted,
        b"g" => Attr::Grouped,
        _ => return Err(type_error()),
    };
    match x {
        Value::Vector(v) => {
            let groups = || find::groups(&v.items);
            let holds = match attr {
                Attr::None | Attr::Grouped => true,
                Attr::Sorted => (1..v.len()).all(|i| order(&v.items.get(i - 1), &v.items.get(i)) != Ordering::Greater),
                Attr::Unique => groups().firsts.len() == v.len(),
                Attr::Parted => {
                    let changes = groups().ids.windows(2).filter(|w| w.first() != w.last()).count();
                    v.is_empty() || changes + 1 == groups().firsts.len()
                }
            };
            if !holds {
                return Err(QError::signal(match attr {
                    Attr::Sorted => "s-fail",
                    _ => "u-fail",
                }));
            }
            Ok(Vector { attr, items: v.items }.into())
        }
        Value::Dict(d) => {
            let keys = match &d.keys {
                Value::Vector(_) => set_attribute(name, d.keys.clone())?,
                Value::Table(t) => Value::table(Table { sorted: attr == Attr::Sorted, ..(**t).clone() }),
                other => other.clone(),
            };
            Ok(Value::Dict(Arc::new(Dict { sorted: attr == Attr::Sorted, keys, values: d.values.clone() })))
        }
        Value::Table(t) => {
            let mut t = Arc::unwrap_or_clone(t);
            if let Some(first) = t.columns.first_mut() {
                let attributed = set_attribute(if name == b"s" { b"p" } else { name }, first.clone().into())?;
                *first = attributed.into_vector().ok_or_else(type_error)?;
            }
            t.sorted = attr == Attr::Sorted;
            Ok(Value::table(t))
        }
        _ => Err(type_error()),
    }
}

/// `attr x`.
pub(super) fn attr(_: &mut Context, x: Value) -> Result {
    Ok(Value::Sym(match &x {
        Value::Vector(v) => attribute_name(v.attr),
        Value::Dict(d) if d.sorted => prims::name("s"),
        Value::Table(t) if t.sorted => prims::name("s"),
        _ => Sym::NULL,
    }))
}

/// `x xkey y`.
pub(super) fn xkey(context: &mut Context, x: Value, y: Value) -> Result {
    if let Value::Sym(name) = y {
        let table = context.global(name)?;
        let keyed = xkey(context, x, table)?;
        context.set_global(name, keyed)?;
        return Ok(Value::Sym(name));
    }
    let (t, _) = flat(context, &y)?;
    if x.count() == 0 {
        return Ok(Value::Table(t));
    }
    let names = x.as_symbols().ok_or_else(type_error)?;
    let ordered = first_columns(&t, names)?;
    key_by(names.len(), &ordered)
}

/// The table with these columns first.
pub(super) fn first_columns(t: &Table, names: &[Sym]) -> std::result::Result<Table, QError> {
    let mut out = Table::new(Vec::new(), Vec::new());
    for name in names {
        out.columns.push(index::column(t, *name)?.clone());
        out.names.push(*name);
    }
    for (name, column) in t.names.iter().zip(&t.columns) {
        if !names.contains(name) {
            out.names.push(*name);
            out.columns.push(column.clone());
        }
    }
    Ok(out)
}

/// `x xcols y`.
pub(super) fn xcols(context: &mut Context, x: Value, y: Value) -> Result {
    let (t, _) = flat(context, &y)?;
    Ok(Value::table(first_columns(&t, x.as_symbols().ok_or_else(type_error)?)?))
}

/// `x xcol y`: new names from the left, or by a dictionary.
pub(super) fn xcol(context: &mut Context, x: Value, y: Value) -> Result {
    let (t, keys) = flat(context, &y)?;
    let mut out = (*t).clone();
    match &x {
        Value::Dict(d) => {
            let (old, new) =
                (d.keys.as_symbols().ok_or_else(type_error)?, d.values.as_symbols().ok_or_else(type_error)?);
            for (old, new) in old.iter().zip(new) {
                let at = out.names.iter().position(|n| n == old).ok_or(QError::named("length"))?;
                if let Some(name) = out.names.get_mut(at) {
                    *name = *new;
                }
            }
        }
        names => {
            let names = names.as_symbols().ok_or_else(type_error)?;
            if names.len() > out.names.len() {
                return Err(QError::named("length"));
            }
            for (slot, name) in out.names.iter_mut().zip(names) {
                *slot = *name;
            }
        }
    }
    key_by(keys, &out)
}

/// `x xgroup y`.
pub(super) fn xgroup(context: &mut Context, x: Value, y: Value) -> Result {
    let (t, _) = flat(context, &y)?;
    let names = x.as_symbols().ok_or_else(type_error)?;
    let ordered = first_columns(&t, names)?;
    let (keys, values) = ordered.columns.split_at(names.len());
    let groups = find::row_groups(keys);
    let members = groups.members();
    let nested = |c: &Vector| -> Vector {
        Items::List(members.iter().map(|rows| Value::from(c.items.gather(rows))).collect()).into()
    };
    let key_columns = keys.iter().map(|c| c.items.gather(&groups.firsts).into()).collect();
    let (key_names, value_names) = ordered.names.split_at(names.len());
    Ok(Value::dict(
        Value::table(Table::new(key_names.to_vec(), key_columns)),
        Value::table(Table::new(value_names.to_vec(), values.iter().map(nested).collect())),
    ))
}

/// `ungroup x`.
pub(super) fn ungroup(context: &mut Context, x: Value) -> Result {
    let (t, _) = flat(context, &x)?;
    let Some(lengths) = t.columns.iter().find(|c| matches!(c.items, Items::List(_))) else {
        return Ok(Value::Table(t));
    };
    let lengths: Vec<usize> = (0..t.count()).map(|i| lengths.items.get(i).count()).collect();
    let repeat: Vec<i64> = lengths.iter().enumerate().flat_map(|(i, n)| std::iter::repeat_n(i as i64, *n)).collect();
    let mut columns = Vec::with_capacity(t.columns.len());
    for column in &t.columns {
        columns.push(match &column.items {
            Items::List(l) => {
                if l.iter().zip(&lengths).any(|(v, n)| v.count() != *n) {
                    return Err(QError::named("length"));
                }
                super::shape::raze(context, column.clone().into())?.into_vector().ok_or_else(type_error)?
            }
            simple => simple.gather(&repeat).into(),
        });
    }
    Ok(Value::table(Table::new(t.names.clone(), columns)))
}

/// Rows of `b` behind those of `a`; the columns must be the same.
pub(super) fn join_tables(a: Arc<Table>, b: &Table) -> Result {
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

/// One or many rows given as a dictionary or a list, as a table like `t`.
pub(super) fn row_table(t: &Table, row: &Value) -> std::result::Result<Table, QError> {
    let values: Vec<Value> = match row {
        Value::Dict(d) => {
            let names = d.keys.as_symbols().ok_or_else(type_error)?;
            let mut out = Vec::with_capacity(t.names.len());
            for name in &t.names {
                let at = names.iter().position(|n| n == name).ok_or(QError::named("mismatch"))?;
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
            let attr = v.attr;
            let keeps = match attr {
                Attr::None | Attr::Parted => false,
                Attr::Grouped => true,
                Attr::Sorted => {
                    y.count() == 0
                        || (order(&v.items.get(v.len() - 1), &y.at(0)) != Ordering::Greater && is_ascending(&y))
                }
                Attr::Unique => {
                    let more = Vector::from(y.to_items());
                    let known = find::positions(context, v, &more)?;
                    find::groups(&more.items).firsts.len() == more.len() && known.iter().all(|p| *p >= v.len() as i64)
                }
            };
            if attr == Attr::Unique && !keeps {
                return Err(QError::named("u-fail"));
            }
            let joined = join(context, x, y)?;
            match joined {
                Value::Vector(v) if keeps => Ok(Vector { attr, items: v.items }.into()),
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

/// Whether the items of a list do not descend.
fn is_ascending(x: &Value) -> bool {
    (1..x.count()).all(|i| order(&x.at(i - 1), &x.at(i)) != Ordering::Greater)
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
    if given.names.iter().any(|n| !t.names.contains(n)) {
        return Err(QError::named("mismatch"));
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
            join_tables(t, &new)
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
            let new = upsert_value(context, Value::Dict(Arc::clone(&d)), rows, replace)?;
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
            join_tables(Arc::clone(t), &new)
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

/// `tables x`: names of tables in a namespace, sorted.
pub(super) fn tables(context: &mut Context, x: Value) -> Result {
    let space = match &x {
        Value::Sym(s) if text(*s) == b"." => Sym::NULL,
        Value::Sym(s) => *s,
        _ => Sym::NULL,
    };
    let mut found = Vec::new();
    for name in context.host.names(space) {
        let full = if space.is_null() {
            name
        } else {
            intern(&[text(space), b".", text(name)].concat()).map_err(|_| QError::named("limit"))?
        };
        let is_table = match context.host.global(full) {
            Some(Value::Table(_)) => true,
            Some(Value::Dict(d)) => d.keyed().is_some(),
            _ => false,
        };
        if is_table {
            found.push(name);
        }
    }
    found.sort_by_key(|s| text(*s));
    Ok(Vector { attr: Attr::Sorted, items: Items::Sym(found.into()) }.into())
}

/// `x set y`: assigns a global by name.
pub(super) fn set(context: &mut Context, x: Value, y: Value) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    if super::files::is_path(name) {
        return super::files::set(context, Value::Sym(name), &y);
    }
    context.set_global(name, y)?;
    Ok(Value::Sym(name))
}

/// `x fby y`: (aggregate;column) by group, spread over the rows.
pub(super) fn fby(context: &mut Context, x: Value, y: Value) -> Result {
    let (f, data) = (x.at(0), x.at(1));
    if x.count() != 2 || data.count() != y.count() {
        return Err(QError::named("length"));
    }
    let groups = find::groups_of(&y)?;
    let mut out = vec![Value::Null; y.count()];
    for rows in groups.members() {
        let result = context.call1(&f, data.gather(&rows))?;
        for (i, row) in rows.iter().enumerate() {
            if let Some(slot) = out.get_mut(*row as usize) {
                *slot = if result.is_scalar() { result.clone() } else { result.at(i) };
            }
        }
    }
    Ok(Value::collapse(out))
}
