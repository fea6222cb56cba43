//! Enumerations and foreign keys: symbols over the name of a list, keys and row numbers over that of a table.

mod follow;

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::listed;
use crate::runtime::values::type_error;
use crate::runtime::values::{domain_of, domain_of_items};
use crate::verbs::above::Evaluate;
use crate::verbs::{find, index};
use columns::table::domains;
use columns::table::function::Function;
use columns::table::symbol::{position, text, without_placeholders};
use columns::table::{Attr, Items, Sym, Table, Value, Vector};
pub(crate) use follow::{domain_changed, has_domains, is_domain, note};
use proto::types;

/// The keys of the table, or items of the list, that a domain's name refers to.
fn domain(context: &mut Context, name: Sym) -> std::result::Result<Value, QError> {
    Ok(match context.global(name)? {
        Value::Dict(d) => match &d.keys {
            Value::Table(t) => match &t.columns[..] {
                [only] => only.clone().into(),
                // Over several key columns a foreign key is the number of a row.
                _ => Value::longs((0..t.count() as i64).collect()),
            },
            keys => keys.clone(),
        },
        Value::Table(t) => Value::longs((0..t.count() as i64).collect()),
        list @ Value::Vector(_) => list,
        _ => return Err(type_error()),
    })
}

fn note_kind(context: &Context, name: Sym) {
    let keys = match context.host.global(name) {
        None | Some(Value::Table(_)) => None,
        Some(Value::Dict(d)) => match d.keyed() {
            Some((keys, _)) => {
                <&[Vector; 1]>::try_from(&keys.columns[..]).ok().map(|[only]| only.items.plain().type_number())
            }
            None => Some(d.keys.type_number()),
        },
        Some(held) => Some(held.type_number()),
    };
    match keys {
        Some(number) => domains::note_keys(name, number),
        None => domains::note_rows(name),
    }
}

/// `` `d$y ``: every item of `y` must be in the domain.
pub(crate) fn enumerate(context: &mut Context, name: Sym, y: Value) -> Result {
    note(name);
    note_kind(context, name);
    if let Value::Dict(d) = context.global(name)?
        && let Some((keys, _)) = d.keyed()
        && keys.columns.len() > 1
    {
        return rows_of_keys(context, name, keys, y);
    }
    let domain = domain(context, name)?;
    let y = y.plain();
    let Value::Vector(items) = listed(y.clone()) else { return Err(type_error()) };
    let Value::Vector(known) = &domain else { return Err(type_error()) };
    if items.is_empty() && matches!(items.items, Items::List(_)) {
        return Ok(match known.items {
            Items::Sym(_) => Items::Enum(name, Default::default()).into(),
            _ => Items::Link(name, Default::default()).into(),
        });
    }
    let at = find::positions(context, known, &items)?;
    let tagged = match &items.items {
        Items::Sym(s) => {
            if at.iter().zip(s.iter()).any(|(p, s)| *p >= known.len() as i64 && !s.is_null()) {
                return Err(QError::named("cast"));
            }
            Items::Enum(name, s.clone())
        }
        // An atom without a vector type, such as a function, is in no domain.
        Items::List(l) if !l.is_empty() && !y.is_scalar() => {
            context.enter()?;
            return crate::verbs::map::map(context, &y, |c, item| enumerate(c, name, item));
        }
        other => {
            if at.iter().any(|p| *p >= known.len() as i64) {
                return Err(QError::named("cast"));
            }
            if matches!(other, Items::List(_)) {
                return Err(type_error());
            }
            // A date and a long are both stored as integers here, but a long is no key of a table keyed by dates.
            let (own, sought) = (known.items.plain().type_number(), other.type_number());
            let is_integer = |number: i8| (types::SHORT..=types::LONG).contains(&number);
            if own != sought && !(is_integer(own) && is_integer(sought)) && own != types::LIST {
                return Err(type_error());
            }
            if let Some(number) = [own, sought].into_iter().find(|number| !domains::can_hold(*number)) {
                return Err(QError::with("nyi", format!("an enumeration over items of type {number}h")));
            }
            Items::Link(name, crate::verbs::arith::longs(other, 7)?.into())
        }
    };
    Ok(if y.is_scalar() { tagged.get(0) } else { Vector { attr: items.attr, items: tagged }.into() })
}

/// `` `kt$y `` for several key columns: a link to the rows of the records `y`, a list, a table or only one.
fn rows_of_keys(context: &Context, name: Sym, keys: &Table, y: Value) -> Result {
    let wide = keys.columns.len();
    let one = |row: &Value| row.count() == wide && !row.is_scalar();
    let (at, is_one) = match &y {
        // Numbers of rows, as in a column over this table.
        Value::Link(own, row) if *own == name => (vec![*row], true),
        Value::Vector(Vector { items: Items::Link(own, rows), .. }) if *own == name => (rows.to_vec(), false),
        Value::Table(t) => (find::table_positions(context, keys, t)?, false),
        Value::Vector(Vector { items: Items::List(l), .. }) if l.iter().all(one) => {
            context.reserve_items(l.len() + keys.count(), 16)?;
            (find::rows_of_lists(keys, l)?, false)
        }
        record if one(record) => (find::rows_of_lists(keys, std::slice::from_ref(record))?, true),
        _ => return Err(type_error()),
    };
    if at.iter().any(|row| *row >= keys.count() as i64) {
        return Err(QError::named("cast"));
    }
    Ok(match at.first() {
        Some(row) if is_one => Value::Link(name, *row),
        _ => Items::Link(name, at.into()).into(),
    })
}

/// A symbol as an item of an enumeration over `domain`, which must have it.
pub(crate) fn item(context: &mut Context, name: Sym, symbol: Sym) -> Result {
    match context.host.global(name) {
        // A scan: the hash index that `enumerate` makes costs more for one item.
        Some(Value::Vector(Vector { items: Items::Sym(known), .. })) if symbol.is_null() || known.contains(&symbol) => {
            Ok(Value::Enum(name, symbol))
        }
        Some(_) => enumerate(context, name, Value::Sym(symbol)),
        // The domain may be defined later.
        None => Ok(Value::Enum(name, symbol)),
    }
}

/// `` `d!i ``: the items of the domain at these positions; for a plain table, a link to its rows.
pub(crate) fn link(context: &mut Context, name: Sym, rows: Value) -> Result {
    if context.host.global(name).is_none() {
        // The domain may be defined later; until then only the positions are known.
        return Ok(match crate::verbs::arith::longs(&rows.to_items(), 7)? {
            one if rows.is_scalar() => Value::Link(name, one.first().copied().unwrap_or(i64::MIN)),
            all => Items::Link(name, all.into()).into(),
        });
    }
    note(name);
    note_kind(context, name);
    let held = domain(context, name)?;
    let picked = index::one(context, &held, &rows)?;
    Ok(match picked {
        Value::Sym(s) => Value::Enum(name, s),
        Value::Vector(v) => match &v.items {
            Items::Sym(s) => Items::Enum(name, s.clone()).into(),
            Items::Long(s) => Items::Link(name, s.clone()).into(),
            keys if domains::can_hold(keys.type_number()) => {
                Items::Link(name, crate::verbs::arith::longs(keys, types::LONG)?.into()).into()
            }
            _ => return Err(type_error()),
        },
        key if domains::can_hold(key.type_number().saturating_neg()) => {
            let held = crate::verbs::arith::longs(&key.to_items(), types::LONG)?;
            Value::Link(name, held.first().copied().unwrap_or(i64::MIN))
        }
        _ => return Err(type_error()),
    })
}

/// `` `d?y ``: as [`enumerate`], after appending missing items to the domain.
pub(crate) fn extend(context: &mut Context, name: Sym, y: Value) -> Result {
    let known = context.host.global(name).unwrap_or_else(|| Value::symbols(Vec::new()));
    let y = y.plain();
    let Value::Vector(Vector { items: own, .. }) = &known else { return enumerate(context, name, y) };
    // A list of symbols takes only symbols as new items. Others would make the domain a general list.
    let is_none = own.is_empty() || y.count() == 0;
    if !is_none
        && matches!(own, Items::Sym(_))
        && y.type_number().abs() != types::SYMBOL
        && y.type_number() != types::LIST
    {
        return Err(type_error());
    }
    if context.host.global(name).is_none() || !has_all(context, &known, &y)? {
        // The domain keeps its items in place, also equal ones: positions of other enumerations refer to them.
        let new = crate::verbs::sets::distinct(context, listed(without_null(y.clone())))?;
        let new = crate::verbs::sets::except(context, new, known.clone())?;
        let all = if known.count() == 0 { new } else { crate::verbs::shape::join(context, known.clone(), new)? };
        // `extend` only adds distinct items, so the attribute still holds.
        let all = match (known, all) {
            (Value::Vector(Vector { attr: Attr::Unique, .. }), Value::Vector(v)) => {
                Vector { attr: Attr::Unique, items: v.items }.into()
            }
            (_, all) => all,
        };
        context.set_global(name, all)?;
    }
    enumerate(context, name, y)
}

/// Whether a domain is known to have all items, without a copy of it: most updates bring no new symbol.
pub(crate) fn has_all(context: &Context, known: &Value, y: &Value) -> std::result::Result<bool, QError> {
    let (Value::Vector(known), Value::Vector(sought)) = (known, listed(y.clone())) else { return Ok(false) };
    if known.items.type_number() != sought.items.type_number() || matches!(sought.items, Items::List(_)) {
        return Ok(false);
    }
    let found = find::positions(context, known, &sought)?;
    let is_null = |i: usize| matches!(&sought.items, Items::Sym(s) if s.get(i).is_some_and(|s| s.is_null()));
    Ok(found.iter().enumerate().all(|(i, at)| (*at as usize) < known.len() || is_null(i)))
}

/// The items to be added to a domain. The null symbol is never added: its position is null.
fn without_null(y: Value) -> Value {
    match listed(y) {
        Value::Vector(Vector { items: Items::Sym(s), .. }) if s.iter().any(|s| s.is_null()) => {
            Value::symbols(s.iter().copied().filter(|s| !s.is_null()).collect())
        }
        other => other,
    }
}

/// Positions of the items in their domain, which kdb+ stores and a cast to a number returns.
pub(crate) fn places(context: &mut Context, x: &Value) -> Result {
    let name = domain_of(x).ok_or_else(type_error)?;
    let held = domain(context, name)?;
    let size = held.count() as i64;
    let found = crate::verbs::sets::find_in(context, held, x.clone().plain())?;
    let symbols = x.as_symbols().unwrap_or_default();
    // A placeholder stands for a position beyond the end of the domain: write that position.
    let beyond = |i: usize| symbols.get(i).and_then(|symbol| position(*symbol));
    let place = |i: usize, at: i64| beyond(i).unwrap_or(if at < size { at } else { i64::MIN });
    Ok(match found {
        Value::Long(at) => Value::Long(place(0, at)),
        Value::Vector(Vector { attr, items: Items::Long(at) })
            if at.iter().any(|at| *at >= size) || without_placeholders(symbols).is_some() =>
        {
            let at = at.iter().enumerate().map(|(i, at)| place(i, *at));
            Vector { attr, items: Items::Long(at.collect::<Vec<i64>>().into()) }.into()
        }
        found => found,
    })
}

/// `key.column`: the column of the table that a foreign key refers to, at the key's rows.
pub(crate) fn follow(context: &mut Context, key: &Value, column: Sym) -> Option<Result> {
    let name = domain_of(key)?;
    let table = match context.global(name) {
        Ok(table) => table,
        Err(error) => return Some(Err(error)),
    };
    let numbered = |keys: &Table, values: &Table| {
        let rows = crate::verbs::arith::longs(&key.clone().plain().to_items(), 7);
        rows.and_then(|rows| pick(keys, values, column, &rows, key))
    };
    Some(match &table {
        Value::Dict(d) => match d.keyed() {
            Some((keys, values)) if keys.columns.len() > 1 => numbered(keys, values),
            Some((keys, values)) => rows(context, keys, key).and_then(|rows| pick(keys, values, column, &rows, key)),
            None => return None,
        },
        Value::Table(t) => numbered(t, t),
        _ => return None,
    })
}

fn rows(context: &mut Context, keys: &Table, key: &Value) -> std::result::Result<Vec<i64>, QError> {
    let [only] = &keys.columns[..] else { return Err(type_error()) };
    let sought = Vector::from(key.clone().plain().to_items());
    find::positions(context, only, &sought)
}

fn pick(keys: &Table, values: &Table, column: Sym, rows: &[i64], key: &Value) -> Result {
    let held = values.column(column).or_else(|| keys.column(column)).ok_or_else(|| QError::no_column(text(column)))?;
    let picked = held.items.gather(rows);
    Ok(if key.is_scalar() { picked.get(0) } else { picked.into() })
}

/// `fkeys t`: foreign key columns and their tables.
pub(crate) fn fkeys(context: &mut Context, x: Value) -> Result {
    let (t, _) = crate::verbs::tables::schema(context, &x)?;
    let (mut names, mut domains) = (Vec::new(), Vec::new());
    for (name, column) in t.names.iter().zip(&t.columns) {
        if let Some(domain) = foreign(context, &column.items) {
            names.push(*name);
            domains.push(domain);
        }
    }
    Ok(Value::dict(Value::symbols(names), Value::symbols(domains)))
}

/// The table that a column refers to, if it is a foreign key.
pub(crate) fn foreign(context: &mut Context, items: &Items) -> Option<Sym> {
    let name = domain_of_items(items)?;
    match context.global(name).ok()? {
        Value::Table(_) => Some(name),
        Value::Dict(d) if d.keyed().is_some() => Some(name),
        Value::Func(f) if matches!(*f, Function::OnDisk { .. }) => Some(name),
        _ => None,
    }
}
