//! Dictionaries and tables: construction, keys, column names, `meta`, `set`, `fby`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::prims;
use crate::verbs::above::{Evaluate, Stored};
use crate::verbs::aggregate::{Aggregation, Grouping, Ids};
use crate::verbs::on_disk::{described, held};
use crate::verbs::rows::{key_by, unkey};
use crate::verbs::rowwise::RowWise;
use crate::verbs::{aggregate, find, index};
use columns::kernel::blocks;
use columns::sys::budget;
use columns::table::symbol::{intern_name as intern, text};
use columns::table::{Items, Sym, Table, Value, Vector};
use proto::types;
use std::sync::Arc;

/// `x!y`.
pub(crate) fn bang(context: &mut Context, x: Value, y: Value) -> Result {
    match (&x, &y) {
        (Value::Int(n), Value::Table(_) | Value::Dict(_)) if *n >= 0 => bang(context, Value::Long(i64::from(*n)), y),
        (Value::Long(n), Value::Table(t)) if *n >= 0 => key_by(usize::try_from(*n).unwrap_or(0), t),
        (Value::Long(n), Value::Dict(d)) if *n >= 0 && d.keyed().is_some() => {
            let Value::Table(flat) = unkey(&y)? else { return Err(type_error()) };
            key_by(usize::try_from(*n).unwrap_or(0), &flat)
        }
        (Value::Long(n), Value::Sym(name)) if *n >= 0 => {
            let table = of_name(context, *name)?;
            let keyed = bang(context, x.clone(), table)?;
            let full = located(context, *name)?;
            context.set_global(full, keyed)?;
            Ok(y)
        }
        (Value::Sym(name), Value::Vector(Vector { items: Items::Long(_) | Items::Int(_), .. }) | Value::Long(_)) => {
            crate::verbs::enums::link(context, *name, y)
        }
        (Value::Int(_) | Value::Long(_), Value::Func(_))
            if x.as_long() == Some(0) && described(context, &y).is_some() =>
        {
            // A table on disk has no keys.
            Ok(y)
        }
        (Value::Int(_) | Value::Long(_), Value::Func(_)) if x.as_long().is_some_and(|n| n > 0) => {
            match held(context, y)? {
                table @ Value::Table(_) => bang(context, x, table),
                _ => Err(type_error()),
            }
        }
        (Value::Int(_) | Value::Long(_), _) if x.as_long().is_some_and(|n| n < 0) => {
            context.numbered(x.as_long().unwrap_or(0), y)
        }
        (Value::Table(_), Value::Table(_)) if x.count() == y.count() => Ok(Value::dict(x, y)),
        // An empty list of values gives every key the empty list.
        (Value::Vector(_), Value::Vector(Vector { items: Items::List(l), .. })) if l.is_empty() => {
            let values = vec![Value::empty(); x.count()];
            Ok(Value::dict(x, Value::list(values)))
        }
        (Value::Vector(_) | Value::Table(_), Value::Vector(_) | Value::Table(_)) => {
            if x.count() != y.count() {
                return Err(QError::named("length"));
            }
            Ok(Value::dict(x, y))
        }
        (Value::Vector(Vector { items: Items::Sym(names), .. }), Value::Sym(place)) => {
            Ok(Value::symbols_to(names, *place))
        }
        (Value::Vector(_), scalar) if scalar.is_scalar() => {
            let values = Value::collapse(vec![y.clone(); x.count()]);
            Ok(Value::dict(x, values))
        }
        _ => Err(type_error()),
    }
}

/// The full name of the global that a symbol names: under `\d .space` that of the namespace, also where only the root has a global of this name.
/// Otherwise the name as it is, which may be one of q's own.
pub(crate) fn located(context: &Context, name: Sym) -> std::result::Result<Sym, QError> {
    let full = context.named(name)?;
    let is_global = |name: Sym| context.host.global(name).is_some();
    // A program may assign a dictionary as a namespace, `.my:(1#`.)!1#(::)`: then no global is named `.my.f`, but the dictionary has the entry `f`.
    let is_entry = || match context.host.global(context.host.namespace()) {
        Some(Value::Dict(d)) => d.keys.as_symbols().is_some_and(|names| names.contains(&name)),
        _ => false,
    };
    Ok(if full == name || is_global(full) || is_global(name) || is_entry() { full } else { name })
}

/// Returns the value of a global that should be a table.
///
/// # Errors
/// `'type` if the value is a name again, perhaps its own.
pub(crate) fn of_name(context: &mut Context, name: Sym) -> Result {
    let name = located(context, name)?;
    match context.global(name)? {
        Value::Sym(_) => Err(type_error()),
        value => Ok(value),
    }
}

/// A plain table and its number of key columns, from a table, a keyed table, a name, a file or a table on disk.
pub(crate) fn flat(context: &mut Context, x: &Value) -> std::result::Result<(Arc<Table>, usize), QError> {
    match x {
        Value::Table(t) => Ok((Arc::clone(t), 0)),
        Value::Dict(d) => {
            let keys = d.keyed().ok_or_else(type_error)?.0.columns.len();
            match unkey(x)? {
                Value::Table(t) => Ok((t, keys)),
                _ => Err(type_error()),
            }
        }
        Value::Sym(name) if crate::runtime::paths::is_path(*name) => {
            let table = context.stored(x)?;
            if matches!(table, Value::Sym(_)) { Err(type_error()) } else { flat(context, &table) }
        }
        Value::Sym(name) => {
            let global = of_name(context, *name)?;
            flat(context, &global)
        }
        Value::Func(_) => {
            let table = context.table_on_disk(x)?;
            flat(context, &table)
        }
        _ => Err(type_error()),
    }
}

/// `cols x`.
pub(crate) fn cols(context: &mut Context, x: Value) -> Result {
    if let Value::Dict(d) = &x
        && d.keyed().is_none()
    {
        return Ok(d.keys.clone());
    }
    match context.names_on_disk(&x)? {
        Some(names) => Ok(Value::symbols(names)),
        None => Ok(Value::symbols(schema(context, &x)?.0.names.clone())),
    }
}

/// As [`flat`]; of a table on disk its columns with at most one row.
pub(crate) fn schema(context: &mut Context, x: &Value) -> std::result::Result<(Arc<Table>, usize), QError> {
    match context.schema_on_disk(x)? {
        Some(table) => Ok((Arc::new(table), 0)),
        None => flat(context, x),
    }
}

/// `keys x`. A dictionary whose keys are rows has their columns for keys, whatever its values are.
pub(crate) fn keys(context: &mut Context, x: Value) -> Result {
    if let Value::Dict(d) = &x
        && let Value::Table(rows) = &d.keys
    {
        return Ok(Value::symbols(rows.names.clone()));
    }
    let (t, keys) = schema(context, &x)?;
    Ok(Value::symbols(t.names.iter().take(keys).copied().collect()))
}

/// `key x`: of a dictionary, a keyed table, a namespace's name, a type.
pub(crate) fn key(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Dict(d) => Ok(d.keys.clone()),
        Value::Sym(name) => {
            let written = text(*name);
            if crate::runtime::paths::is_path(*name) {
                return context.stored_names(x);
            }
            if written.is_empty() {
                let mut spaces: Vec<Sym> = ["q", "Q", "h", "j", "o"].map(prims::name).to_vec();
                // `.z` is not listed, whatever handlers have been set.
                let is_more = |space: &Sym| !spaces.contains(space) && text(*space) != b"z";
                spaces.extend(context.host.namespaces().into_iter().filter(is_more).collect::<Vec<_>>());
                return Ok(Value::symbols(spaces));
            }
            if written == b"." {
                return Ok(Value::symbols(context.host.names(Sym::NULL)));
            }
            // `..name` is `name` in the root, whatever the namespace.
            let of_root = written.strip_prefix(b"..").filter(|global| !global.is_empty());
            let name = &match of_root {
                Some(global) => crate::runtime::values::symbol(global)?,
                None => crate::syntax::resolve::qualify(*name, context.host.namespace())?,
            };
            if let Some(Value::Dict(d)) = context.namespace(*name) {
                let large = context.host.large_names(*name);
                return Ok(match d.keys.as_symbols() {
                    Some(names) if !large.is_empty() => Value::symbols([names, &large].concat()),
                    _ => d.keys.clone(),
                });
            }
            match context.host.global(*name) {
                Some(Value::Dict(d)) => Ok(d.keys.clone()),
                Some(_) => Ok(x),
                // A part of a global dictionary: `.cfg.options`.
                None if written.iter().skip(1).any(|c| *c == b'.') => Ok(match context.global(*name) {
                    Ok(Value::Dict(d)) => d.keys.clone(),
                    Ok(_) => x,
                    Err(_) => Value::empty(),
                }),
                None => Ok(Value::empty()),
            }
        }
        Value::Enum(name, _) | Value::Link(name, _) => Ok(Value::Sym(*name)),
        Value::Vector(v) => match &v.items {
            Items::Enum(name, _) | Items::Link(name, _) => Ok(Value::Sym(*name)),
            Items::List(_) => Ok(Value::Sym(Sym::NULL)),
            simple => Ok(Value::Sym(prims::name(crate::verbs::types::type_name(simple.type_number())))),
        },
        Value::Long(_) | Value::Int(_) => crate::verbs::shape::til(context, x),
        _ => Err(type_error()),
    }
}

/// `meta x`.
pub(crate) fn meta(context: &mut Context, x: Value) -> Result {
    let (t, _) = schema(context, &x)?;
    let mut types = Vec::with_capacity(t.columns.len());
    let mut attributes = Vec::with_capacity(t.columns.len());
    let mut foreign = Vec::with_capacity(t.columns.len());
    for column in &t.columns {
        types.push(match &column.items {
            Items::Enum(..) => b's',
            Items::Link(..) => crate::verbs::types::letter(column.items.plain().type_number()),
            _ => column_letter(column),
        });
        foreign.push(crate::verbs::enums::foreign(context, &column.items).unwrap_or(Sym::NULL));
        attributes.push(crate::verbs::types::attribute_name(column.attr));
    }
    // A table sorted by its only key shows that at the key.
    if let (Value::Dict(d), Some(first)) = (&x, attributes.first_mut())
        && d.sorted
        && d.keyed().is_some_and(|(keys, _)| keys.columns.len() == 1)
    {
        *first = crate::verbs::types::attribute_name(columns::table::Attr::Sorted);
    }
    let keys = Table::new(vec![prims::name("c")], vec![Items::Sym(t.names.clone().into()).into()]);
    let values = Table::new(
        vec![prims::name("t"), prims::name("f"), prims::name("a")],
        vec![Items::Char(types.into()).into(), Items::Sym(foreign.into()).into(), Items::Sym(attributes.into()).into()],
    );
    Ok(Value::dict(Value::table(keys), Value::table(values)))
}

/// A column's type in `meta`; for a list of vectors the upper-case letter of the first one's type.
pub(crate) fn column_letter(column: &Vector) -> u8 {
    match &column.items {
        Items::List(l) => {
            let first = l.first().map(Value::type_number);
            match first {
                Some(t @ types::BOOL..=types::TIME) => crate::verbs::types::letter(t).to_ascii_uppercase(),
                _ => b' ',
            }
        }
        simple => crate::verbs::types::letter(simple.type_number()),
    }
}

/// `x xkey y`.
pub(crate) fn xkey(context: &mut Context, x: Value, y: Value) -> Result {
    if let Value::Sym(name) = y {
        let table = of_name(context, name)?;
        let keyed = xkey(context, x, table)?;
        let full = located(context, name)?;
        context.set_global(full, keyed)?;
        return Ok(Value::Sym(name));
    }
    let (t, _) = flat(context, &y)?;
    let names = names(&x)?;
    let ordered = first_columns(&t, names)?;
    key_by(names.len(), &ordered)
}

/// Names of columns; the empty list, of any type, names none.
pub(crate) fn names(x: &Value) -> std::result::Result<&[Sym], QError> {
    match x {
        Value::Vector(v) if v.is_empty() => Ok(&[]),
        x => x.as_symbols().ok_or_else(type_error),
    }
}

/// Returns the table with these columns first.
pub(crate) fn first_columns(t: &Table, names: &[Sym]) -> std::result::Result<Table, QError> {
    let mut out = Table::new(Vec::new(), Vec::new());
    for name in names {
        out.columns.push(index::column(t, *name)?.clone());
        out.names.push(*name);
    }
    for (name, column) in t.names.iter().zip(&t.columns) {
        if limits::place(names, *name)?.is_none() {
            out.names.push(*name);
            out.columns.push(column.clone());
        }
    }
    Ok(out)
}

/// `x xcols y`.
pub(crate) fn xcols(context: &mut Context, x: Value, y: Value) -> Result {
    // The entries of a dictionary with symbol keys are moved like columns.
    if let Value::Dict(d) = &y
        && let Some(keys) = d.keys.as_symbols()
    {
        let mut order = names(&x)?.to_vec();
        let front: std::collections::HashSet<Sym> = order.iter().copied().collect();
        order.extend(keys.iter().filter(|key| !front.contains(key)));
        let values = order.iter().map(|key| context.apply(&y, vec![Value::Sym(*key)]));
        let values = Value::collapse(values.collect::<std::result::Result<_, _>>()?);
        return Ok(Value::dict(Value::symbols(order), values));
    }
    let (t, _) = flat(context, &y)?;
    Ok(Value::table(first_columns(&t, names(&x)?)?))
}

/// `x xcol y`: new names from the left, or by a dictionary.
pub(crate) fn xcol(context: &mut Context, x: Value, y: Value) -> Result {
    let (t, keys) = flat(context, &y)?;
    let mut out = (*t).clone();
    match &x {
        Value::Dict(d) => {
            for (old, new) in names(&d.keys)?.iter().zip(names(&d.values)?) {
                let at = limits::place(&out.names, *old)?.ok_or(QError::named("length"))?;
                if let Some(name) = out.names.get_mut(at) {
                    *name = *new;
                }
            }
        }
        given => {
            let names = names(given)?;
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
pub(crate) fn xgroup(context: &mut Context, x: Value, y: Value) -> Result {
    let (t, _) = flat(context, &y)?;
    let names = x.as_symbols().ok_or_else(type_error)?;
    let ordered = first_columns(&t, names)?;
    let (keys, values) = ordered.columns.split_at(names.len());
    let groups = find::row_groups(keys)?;
    let members = groups.members();
    let nested = |c: &Vector| -> std::result::Result<Vector, QError> {
        let mut lists = limits::list(members.len())?;
        for rows in &members {
            limits::pace()?;
            lists.push(Value::from(c.items.gather(rows)));
        }
        Ok(Items::List(lists.into()).into())
    };
    let key_columns = keys.iter().map(|c| c.items.gather(&groups.firsts).into()).collect();
    let (key_names, value_names) = ordered.names.split_at(names.len());
    Ok(Value::dict(
        Value::table(Table::new(key_names.to_vec(), key_columns)),
        Value::table(Table::new(
            value_names.to_vec(),
            values.iter().map(nested).collect::<std::result::Result<_, _>>()?,
        )),
    ))
}

/// `ungroup x`.
pub(crate) fn ungroup(context: &mut Context, x: Value) -> Result {
    let (t, _) = flat(context, &x)?;
    let Some(lengths) = t.columns.iter().find(|c| matches!(c.items, Items::List(_))) else {
        return Ok(Value::Table(t));
    };
    let lengths: Vec<usize> = blocks::numbers(0..t.count(), |i| lengths.items.get(i).count());
    let total = blocks::fold(&lengths, 0usize, |sum, n| sum.saturating_add(*n));
    limits::room_for::<i64>(total)?;
    let mut repeat: Vec<i64> = Vec::with_capacity(total);
    for (i, n) in lengths.iter().enumerate() {
        if budget::spend(n.saturating_add(1)) {
            limits::settle()?;
        }
        repeat.extend(std::iter::repeat_n(i as i64, *n));
    }
    let mut columns = Vec::with_capacity(t.columns.len());
    for column in &t.columns {
        columns.push(match &column.items {
            Items::List(l) => {
                if l.iter().zip(&lengths).any(|(v, n)| v.count() != *n) {
                    return Err(QError::named("length"));
                }
                let items =
                    crate::verbs::shape::raze(context, column.clone().into())?.into_vector().ok_or_else(type_error)?;
                // A dictionary among the items has a count, but raze joins it as one item.
                if items.len() != repeat.len() {
                    return Err(QError::named("length"));
                }
                items
            }
            simple => simple.gather(&repeat).into(),
        });
    }
    Ok(Value::table(Table::new(t.names.clone(), columns)))
}

/// `tables x`: names of tables in a namespace, sorted.
pub(crate) fn tables(context: &mut Context, x: Value) -> Result {
    let space = match &x {
        Value::Sym(s) if text(*s) == b"." => Sym::NULL,
        Value::Sym(s) if !s.is_null() => *s,
        _ => context.host.namespace(),
    };
    let mut found = Vec::new();
    let held = match context.host.global(space) {
        // A part of a global dictionary.
        None if !space.is_null() && context.host.names(space).is_empty() => context.global(space).ok(),
        held => held,
    };
    if let Some(Value::Dict(d)) = held {
        let is_table = |at: &usize| crate::verbs::function::type_of(&d.values.at(*at)) == types::TABLE;
        let names = d.keys.as_symbols().unwrap_or_default().iter().enumerate();
        found.extend(names.filter(|(at, _)| is_table(at)).map(|(_, name)| *name));
    }
    for name in context.host.names(space) {
        let full = if space.is_null() {
            name
        } else {
            intern(&[text(space), b".", text(name)].concat()).map_err(QError::from)?
        };
        let is_table = match context.host.global(full) {
            Some(Value::Table(_)) => true,
            Some(Value::Dict(d)) => d.keyed().is_some(),
            Some(on_disk) => crate::verbs::function::type_of(&on_disk) == types::TABLE,
            None => false,
        };
        if is_table {
            found.push(name);
        }
    }
    found.sort_by_key(|s| text(*s));
    Ok(Value::symbols(found))
}

/// `x set y`: assigns a global by name.
pub(crate) fn set(context: &mut Context, x: Value, y: Value) -> Result {
    if matches!(&x, Value::Vector(v) if matches!(v.items, Items::List(_))) {
        return context.store_packed(&x, &y);
    }
    let Value::Sym(name) = x else { return Err(type_error()) };
    if crate::runtime::paths::is_path(name) {
        return context.store(Value::Sym(name), &y);
    }
    let full = context.named(name)?;
    context.set_global(full, y)?;
    context.was_set(full, &[])?;
    Ok(Value::Sym(name))
}

/// `x fby y`: `(aggregate;column)` by group, expanded to all rows.
pub(crate) fn fby(context: &mut Context, x: Value, y: Value) -> Result {
    let (f, data) = (x.at(0), x.at(1));
    if x.count() != 2 || data.count() != y.count() {
        return Err(QError::named("length"));
    }
    if y.count() == 0 {
        // The result keeps the aggregate's type.
        let none = context.call1(&f, data)?;
        return Ok(none.to_items().cut(0, 0).into());
    }
    let groups = find::groups_of(&y)?;
    if let (Some(aggregate), Value::Vector(v)) = (aggregate::of(&f).filter(|a| a.arity() == 1), &data)
        && !matches!(v.items, Items::List(_))
    {
        let request = Aggregation { aggregate, arguments: vec![0] };
        let by = Grouping { ids: Ids::Given(&groups.ids), groups: groups.firsts.len() };
        let column = RowWise::of(v.items.clone());
        if let Some([result]) = aggregate::over(&context.allowance, &[column], &[request], y.count(), by)?.as_deref() {
            return Ok(crate::runtime::gather::items(&context.allowance, result, &groups.ids)?.into());
        }
    }
    let mut out = vec![Value::Null; y.count()];
    for rows in groups.members() {
        context.tick()?;
        let result = context.call1(&f, data.gather(&rows))?;
        for (i, row) in rows.iter().enumerate() {
            if let Some(slot) = out.get_mut(*row as usize) {
                *slot = if result.is_scalar() { result.clone() } else { result.at(i) };
            }
        }
    }
    Ok(Value::collapse(out))
}

/// Returns the names in order; appends a number to duplicates.
pub(crate) fn unique_names(given: impl Iterator<Item = Sym>) -> std::result::Result<Vec<Sym>, QError> {
    let mut out: Vec<Sym> = Vec::new();
    for name in given {
        let mut unique = name;
        let mut number = 0;
        while limits::place(&out, unique)?.is_some() {
            limits::step()?;
            number += 1;
            unique = crate::runtime::values::symbol(&[text(name), number.to_string().as_bytes()].concat())?;
        }
        out.push(unique);
    }
    Ok(out)
}
