//! Amend of a list, dictionary or table: indexed assignment, and `@` and `.` with three and four arguments.

mod in_table;

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::fit::fitting;
use crate::verbs::format::is_blank;
use crate::verbs::index::is_key;
use crate::verbs::many::FEW_KEYS;
use crate::verbs::rows::{is_item_of_lists, row_like};
use crate::verbs::{cast, enums, find, index, many};
use columns::sys::shared::{Held, Shared, depth_around};
use columns::table::{Attr, Dict, Items, Table, Value, Vector};
use in_table::set_in_table;
use proto::types;
use std::sync::Arc;

/// The change to apply to the items.
#[derive(Clone, Copy)]
pub(crate) struct Amend<'a> {
    /// `None` replaces.
    pub function: Option<&'a Value>,
    /// `None` applies the function to the item alone.
    pub value: Option<&'a Value>,
}

impl Amend<'_> {
    fn apply(&self, context: &mut Context, old: Value) -> Result<Value, QError> {
        match (self.function, self.value) {
            (None, Some(value)) => Ok(value.clone()),
            (Some(f), Some(value)) => context.call2(f, old, value.clone()),
            (Some(f), None) => context.call1(f, old),
            (None, None) => Err(QError::named("rank")),
        }
    }
}

/// Returns `x` with the items at `path` changed.
pub(crate) fn deep(context: &mut Context, x: Value, path: &[Value], change: &Amend) -> Result<Value, QError> {
    context.enter()?;
    let Some((first, rest)) = path.split_first() else { return change.apply(context, x) };
    // As when a list is read, chars count as bytes: the tables of a lexer have a place for each.
    if let (Value::Vector(_), Some(text)) = (&x, first.as_text()) {
        let at: Vec<i64> = text.iter().map(|c| i64::from(*c)).collect();
        let at = if first.is_scalar() { Value::Long(at.first().copied().unwrap_or(0)) } else { Value::longs(at) };
        return deep(context, x, &[&[at][..], rest].concat(), change);
    }
    match first {
        Value::Null => {
            let count = match &x {
                Value::Dict(d) => {
                    let keys = d.keys.clone();
                    return deep(context, x, &[&[keys][..], rest].concat(), change);
                }
                Value::Table(t) if !rest.is_empty() => {
                    let all = Value::longs((0..t.count() as i64).collect());
                    return deep(context, x, &[&[all][..], rest].concat(), change);
                }
                other => other.count(),
            };
            let all = Value::longs((0..count as i64).collect());
            deep(context, x, &[&[all][..], rest].concat(), change)
        }
        key if rest.is_empty() && is_key_of_record(&x, key, change.value) => {
            single(context, x, (key, None), rest, change)
        }
        keys @ (Value::Vector(_) | Value::Table(_)) if !is_key(&x, first) => {
            if let (Value::Vector(keys), true) = (keys, rest.is_empty())
                && let (None, Some(value)) = (change.function, change.value)
                && let Some(done) = many::replaced(&x, keys, value)?
            {
                return Ok(done);
            }
            // `table[rows;column]` changes one column. While it is in the table it has a second reference, and would be copied for each row.
            let x = match (x, rest) {
                (Value::Table(t), [Value::Sym(name)]) if matches!(keys, Value::Vector(_)) => {
                    let mut t = Arc::unwrap_or_clone(t);
                    let at = limits::place(&t.names, *name)?;
                    let at = at.ok_or_else(|| QError::no_column(columns::table::symbol::text(*name)))?;
                    let own = t.columns.get_mut(at).ok_or(QError::named("length"))?;
                    let column = std::mem::replace(own, Vector::from(Items::List(Shared::default())));
                    let new = deep(context, Value::of_column(column), std::slice::from_ref(keys), change)?;
                    *own = new.into_vector().ok_or(QError::named("type"))?;
                    t.sorted = false;
                    return Ok(Value::Table(Arc::new(t)));
                }
                (x, _) => x,
            };
            let mut x = match (x, keys) {
                (Value::Dict(d), Value::Table(keys)) => match many::rows_of_keys(context, &d, keys)? {
                    Some(rows) => {
                        let Dict { sorted, keys, values } = d.into_value();
                        let values = deep(context, values, &[&[rows][..], rest].concat(), change)?;
                        return Ok(Value::Dict(Held::new(Dict { sorted, keys, values })));
                    }
                    None => Value::Dict(d),
                },
                (x, _) => x,
            };
            let spread = change.value.filter(|v| !v.is_scalar());
            if spread.is_some_and(|v| v.count() != keys.count()) {
                return Err(QError::named("length"));
            }
            let places = places(&x, keys)?;
            for i in 0..keys.count() {
                context.tick()?;
                let place = places.as_ref().and_then(|places| places.get(i)).copied();
                let item = spread.map(|v| v.at(i));
                let change = Amend { function: change.function, value: item.as_ref().or(change.value) };
                // A list among the indices is taken item by item, an elided index as every item. Keys without a type take it whole.
                x = match keys.at(i) {
                    key @ (Value::Vector(_) | Value::Null) if !is_key(&x, &key) && !is_untyped(&x) => {
                        deep(context, x, &[&[key][..], rest].concat(), &change)?
                    }
                    key => single(context, x, (&key, place), rest, &change)?,
                };
            }
            Ok(x)
        }
        key => single(context, x, (key, None), rest, change),
    }
}

/// Whether a list of one item is the key of a keyed table with one key column, as it is when read: the value is then a record.
fn is_key_of_record(x: &Value, key: &Value, value: Option<&Value>) -> bool {
    let (Value::Dict(d), Value::Vector(Vector { items, .. }), Some(value)) = (x, key, value) else { return false };
    let Some((keys, values)) = d.keyed() else { return false };
    let is_record = match value {
        Value::Dict(record) => record.keyed().is_none(),
        Value::Vector(cells) => cells.len() > 1 && cells.len() == values.columns.len(),
        _ => false,
    };
    is_record && keys.columns.len() == 1 && items.len() == 1 && !matches!(items, Items::List(_))
}

/// Positions that `keys` have in a dictionary once those that are new have been appended in turn; `None` where each is searched by itself.
fn places(x: &Value, keys: &Value) -> Result<Option<Vec<usize>>, QError> {
    let (Value::Dict(d), Value::Vector(sought)) = (x, keys) else { return Ok(None) };
    let (Value::Vector(own), Value::Vector(_), false) = (&d.keys, &d.values, d.sorted) else { return Ok(None) };
    let is_same_type = own.items.type_number() == sought.items.type_number() && !own.items.is_enumerated();
    let are_keys = match &sought.items {
        Items::List(lists) => lists.iter().all(|key| is_key(x, key)),
        _ => true,
    };
    if sought.len() < FEW_KEYS || own.is_empty() || !is_same_type || !are_keys {
        return Ok(None);
    }
    let at = find::positions_of(own, sought)?;
    let groups = find::groups(&sought.items)?;
    let mut end = own.len();
    limits::room_for::<usize>(groups.firsts.len())?;
    let mut of_groups = Vec::with_capacity(groups.firsts.len());
    for first in &groups.firsts {
        let found = at.get(*first as usize).and_then(|at| usize::try_from(*at).ok()).filter(|at| *at < own.len());
        of_groups.push(found.unwrap_or_else(|| {
            end += 1;
            end - 1
        }));
    }
    limits::room_for::<usize>(groups.ids.len())?;
    Ok(Some(groups.ids.iter().filter_map(|id| of_groups.get(*id as usize)).copied().collect()))
}

/// Position of a key in a dictionary; `None` if it is a new key. A `place` from [`places`] saves the search.
fn position(d: &Dict, (key, place): Key) -> Result<Option<usize>, QError> {
    match place {
        Some(place) => Ok(Some(place).filter(|place| *place < d.keys.count())),
        None => find::position(&d.keys, key),
    }
}

/// A key, and where it is if that is known.
type Key<'a> = (&'a Value, Option<usize>);

/// Whether the keys of a dictionary are `()`, as in `()!()`: the first key that is added then sets their type.
fn is_untyped(x: &Value) -> bool {
    let Value::Dict(d) = x else { return false };
    matches!(&d.keys, Value::Vector(Vector { items: Items::List(keys), .. }) if keys.is_empty())
}

/// Changes one item.
fn single(context: &mut Context, x: Value, at: Key, rest: &[Value], change: &Amend) -> Result<Value, QError> {
    if let Value::Func(_) = x {
        return Err(QError::named("type"));
    }
    let key = at.0;
    let replaces = rest.is_empty() && change.function.is_none();
    if replaces {
        let new = change.apply(context, Value::Null)?;
        return set_at(context, x, at, new);
    }
    if let (Value::Table(t), Value::Sym(name)) = (&x, key)
        && t.column(*name).is_none()
    {
        return Err(QError::no_column(columns::table::symbol::text(*name)));
    }
    // Records in a column are items of a list, of which one may become another or get a new key.
    if let (Value::Table(t), Value::Sym(name), [_, ..]) = (&x, key, rest) {
        let column = Value::Vector(index::column(t, *name)?.clone());
        let new = deep(context, column, rest, change)?;
        return set(context, x, key, new);
    }
    if let (Value::Table(t), [Value::Sym(name), deeper @ ..]) = (&x, rest) {
        let column = Value::Vector(index::column(t, *name)?.clone());
        let new = deep(context, column, &[std::slice::from_ref(key), deeper].concat(), change)?;
        return set(context, x, &Value::Sym(*name), new);
    }
    // A cell of a keyed table, as that of the table of its values.
    if let (Value::Dict(d), [Value::Sym(_), ..]) = (&x, rest)
        && let Some((keys, _)) = d.keyed()
        && let Some(row) = find::row_of(keys, &sought_row(keys, key))?
    {
        let Dict { sorted, keys, values } = (**d).clone();
        let values = deep(context, values, &[&[Value::Long(row as i64)], rest].concat(), change)?;
        return Ok(Value::Dict(Held::new(Dict { sorted, keys, values })));
    }
    if rest.is_empty()
        && let Some(counted) = counted_from_zero(context, &x, at, change)?
    {
        return set_at(context, x, at, counted);
    }
    let mut old = match (&x, at.1) {
        (Value::Dict(d), Some(place)) => d.values.at(place),
        _ => index::one(context, &x, key)?,
    };
    if rest.is_empty()
        && let Some(zeros) = zeros_of_new_row(&x, key, &old, change)?
    {
        old = zeros;
    }
    // A new key of a dictionary of dictionaries starts from an empty one.
    if let (Value::Dict(d), false) = (&x, rest.is_empty())
        && let first @ Value::Dict(_) = d.values.at(0)
        && !matches!(old, Value::Dict(_))
        && position(d, at)?.is_none()
    {
        old = first.cut(0, 0);
    }
    let new = deep(context, old, rest, change)?;
    set_at(context, x, at, new)
}

/// Whether a function is `+` or `-`.
fn adds(f: &Value) -> bool {
    prims::index_of(f).and_then(prims::get).is_some_and(|p| matches!(p.name, "+" | "-"))
}

fn is_number(column: &Vector) -> bool {
    matches!(column.items.type_number(), types::SHORT..=types::FLOAT)
}

/// As in kdb+, `+` and `-` on a new key of a keyed table of numbers count from 0 in each column. `None` for anything else.
fn zeros_of_new_row(x: &Value, key: &Value, old: &Value, change: &Amend) -> Result<Option<Value>, QError> {
    let (Value::Dict(d), Value::Dict(old), Some(f)) = (x, old, change.function) else { return Ok(None) };
    let Some((keys, values)) = d.keyed().filter(|_| adds(f)) else { return Ok(None) };
    // A row that is there is rarely all null, so the key is rarely looked up again.
    let is_null = |at: usize| is_blank(&old.values.at(at));
    if !(0..values.columns.len()).all(is_null) || !values.columns.iter().all(is_number) {
        return Ok(None);
    }
    if find::row_of(keys, &sought_row(keys, key))?.is_some() {
        return Ok(None);
    }
    let zeros = values.columns.iter().map(|c| Value::from_long(c.items.type_number(), 0)).collect();
    Ok(Some(Value::dict(Value::symbols(values.names.clone()), Value::list(zeros))))
}

/// The key cells of a row of a keyed table that an index names.
fn sought_row(keys: &Table, key: &Value) -> Value {
    match key {
        Value::Dict(d) => d.values.clone(),
        list @ Value::Vector(_) if !is_item_of_lists(keys, list) => list.clone(),
        one => one.clone().enlist(),
    }
}

/// As in kdb+, `+` and `-` on a new key of a dictionary count from 0, where the item at a missing key would be null. `None` for anything else.
fn counted_from_zero(context: &mut Context, x: &Value, key: Key, change: &Amend) -> Result<Option<Value>, QError> {
    let (Value::Dict(d), Some(f), Some(value)) = (x, change.function, change.value) else { return Ok(None) };
    let Value::Vector(values) = &d.values else { return Ok(None) };
    let numbers = is_number(values);
    if !adds(f) || !(numbers || values.is_empty()) || position(d, key)?.is_some() {
        return Ok(None);
    }
    let zero = match numbers {
        true => cast::to(context, values.items.type_number(), &Value::Long(0))?,
        false => Value::Bool(false),
    };
    context.call2(f, zero, value.clone()).map(Some)
}

/// Returns `x` with the item at `key` replaced; a new key is added to a dictionary or keyed table.
pub(crate) fn set(context: &mut Context, x: Value, key: &Value, new: Value) -> Result<Value, QError> {
    set_at(context, x, (key, None), new)
}

fn set_at(context: &mut Context, x: Value, key_at: Key, new: Value) -> Result<Value, QError> {
    let key = key_at.0;
    match x {
        Value::Vector(v) => set_item(context, v, key, new),
        Value::Dict(d) => {
            if let Some((keys, values)) = d.keyed() {
                let sought = sought_row(keys, key);
                let Some(row) = find::row_of(keys, &sought)? else {
                    let row = new_row(keys, values, &sought, new)?;
                    return add_row(context, d, &row);
                };
                let Dict { sorted, keys, values } = d.into_value();
                let values = set(context, values, &Value::Long(row as i64), new)?;
                return Ok(Value::Dict(Held::new(Dict { sorted, keys, values })));
            }
            let at = position(&d, key_at)?;
            let Dict { sorted, keys, values } = d.into_value();
            // A list of dictionaries with the same keys is a table, also after the change.
            if let (Value::Table(rows), Value::Dict(row)) = (&values, &new)
                && let Some(new) = row_like(rows, row, at.is_none())?
            {
                return set_row(context, Dict { sorted, keys, values }, (key, at), new);
            }
            match at {
                Some(at) => {
                    let values = values.into_vector().ok_or(QError::named("type"))?;
                    let values = set_item(context, values, &Value::Long(at as i64), new)?;
                    Ok(Value::Dict(Held::new(Dict { sorted, keys, values })))
                }
                None => {
                    let is_unique = matches!(&keys, Value::Vector(v) if v.attr == Attr::Unique);
                    let mut keys = with_key(context, keys, key)?;
                    if let Value::Vector(keys) = &mut keys
                        && is_unique
                    {
                        keys.attr = Attr::Unique;
                    }
                    let values = append(context, values, new)?;
                    Ok(Value::Dict(Held::new(Dict { sorted: false, keys, values })))
                }
            }
        }
        Value::Table(t) => set_in_table(context, Arc::unwrap_or_clone(t), key, new),
        _ => Err(QError::named("type")),
    }
}

/// Sets a value of a dictionary whose values are the rows of a table: `new` is such a row.
fn set_row(context: &mut Context, d: Dict, key: (&Value, Option<usize>), new: Value) -> Result<Value, QError> {
    let (Dict { sorted, keys, values: Value::Table(rows) }, (key, at)) = (d, key) else {
        return Err(QError::named("type"));
    };
    let rows = Arc::unwrap_or_clone(rows);
    if let Some(at) = at {
        let values = set_in_table(context, rows, &Value::Long(at as i64), new)?;
        return Ok(Value::Dict(Held::new(Dict { sorted, keys, values })));
    }
    let values = match &new {
        Value::Dict(row) => append_row(context, rows, row.values.items())?,
        _ => Value::table(rows),
    };
    let keys = with_key(context, keys, key)?;
    Ok(Value::Dict(Held::new(Dict { sorted: false, keys, values })))
}

/// Appends a row, cell by cell.
fn append_row(context: &mut Context, mut rows: Table, cells: Vec<Value>) -> Result<Value, QError> {
    for (column, cell) in rows.columns.iter_mut().zip(cells) {
        let own = std::mem::replace(&mut column.items, Items::List(Shared::default()));
        let longer = append(context, Vector::from(own).into(), cell)?;
        *column = longer.into_vector().ok_or(QError::named("type"))?;
    }
    Ok(Value::table(rows))
}

/// Adds a row with a new key.
fn add_row(context: &mut Context, d: Held<Dict>, row: &Value) -> Result<Value, QError> {
    let new = fitting(context, &Value::Dict(d.clone()), row, false)?.rows;
    let Dict { sorted, keys: Value::Table(keys), values: Value::Table(values) } = d.into_value() else {
        return Err(QError::named("type"));
    };
    let count = keys.columns.len();
    let joined = |t: Arc<Table>, new: &[Vector]| {
        let mut t = Arc::unwrap_or_clone(t);
        for (column, new) in t.columns.iter_mut().zip(new) {
            let own = std::mem::replace(&mut column.items, Items::List(Shared::default()));
            *column = own.join(&new.items).into();
        }
        Value::table(t)
    };
    let (key, rest) = new.columns.split_at_checked(count).ok_or(QError::named("length"))?;
    let (keys, values) = (joined(keys, key), joined(values, rest));
    Ok(Value::Dict(Held::new(Dict { sorted, keys, values })))
}

/// A row of a keyed table by column name; columns that `new` does not have are null.
fn new_row(keys: &Table, values: &Table, key: &Value, new: Value) -> Result<Value, QError> {
    let mut cells = key.items();
    match &new {
        Value::Dict(d) => {
            for (name, column) in values.names.iter().zip(&values.columns) {
                let at = find::position(&d.keys, &Value::Sym(*name))?;
                cells.push(at.map_or_else(|| column.items.get(usize::MAX), |at| d.values.at(at)));
            }
        }
        list @ Value::Vector(_) if list.count() == values.columns.len() => {
            cells.extend(list.items().into_iter().zip(&values.columns).map(|(cell, column)| joined_cell(column, cell)));
        }
        Value::Null => cells.extend(values.columns.iter().map(nothing_of)),
        // As everywhere, an atom extends.
        atom if atom.is_atom() => cells.extend(values.columns.iter().map(|_| atom.clone())),
        Value::Vector(_) => return Err(QError::named("length")),
        _ => return Err(QError::named("type")),
    }
    let names = keys.names.iter().chain(&values.names).copied().collect();
    Ok(Value::dict(Value::symbols(names), Value::list(cells)))
}

/// The cell that a value makes at the end of a column. A new row is joined to the columns: a list of one item is its item, except in a
/// general list.
fn joined_cell(column: &Vector, value: Value) -> Value {
    match (&column.items, &value) {
        (Items::List(_), _) => value,
        (_, Value::Vector(one)) if one.len() == 1 => value.at(0),
        _ => value,
    }
}

/// The cell that `(::)` stands for in a column: itself in a general list, else the null of its type.
fn nothing_of(column: &Vector) -> Value {
    match &column.items {
        Items::List(_) => Value::Null,
        simple => simple.get(usize::MAX),
    }
}

/// Adds a key of a dictionary. An integer of another width is joined as by `,`: loggers keep their sinks by handle, an int, after the
/// longs 1 and 2.
fn with_key(context: &mut Context, keys: Value, key: &Value) -> Result<Value, QError> {
    let is_integer = |kind: i8| matches!(kind, types::SHORT | types::INT | types::LONG);
    let widths_differ = match (&keys, key) {
        (Value::Vector(v), Value::Short(_) | Value::Int(_) | Value::Long(_)) => {
            let (held, new) = (v.items.type_number(), key.to_items().type_number());
            !v.items.is_empty() && held != new && is_integer(held) && is_integer(new)
        }
        _ => false,
    };
    if !widths_differ {
        return append(context, keys, key.clone());
    }
    context.reserve_items(keys.count() + 1, size_of::<Value>())?;
    let mut all = keys.items();
    all.push(key.clone());
    Ok(Value::list(all))
}

/// Adds a key or value of a dictionary. As with `,:`, a simple list takes only atoms of its type.
fn append(context: &mut Context, list: Value, item: Value) -> Result<Value, QError> {
    // Keys that are the rows of a table.
    if let Value::Table(rows) = &list {
        let cells = match &item {
            Value::Dict(row) if row.keys.as_symbols() == Some(&rows.names[..]) => row.values.items(),
            Value::Vector(row) if row.len() == rows.columns.len() => item.items(),
            _ => return Err(QError::named("type")),
        };
        return append_row(context, Table::clone(rows), cells);
    }
    let vector = list.into_vector().ok_or(QError::named("type"))?;
    let item = match (&vector.items, item) {
        (Items::Enum(domain, _), Value::Sym(symbol)) => enums::item(context, *domain, symbol)?,
        (_, item) => item,
    };
    let fits = item.is_atom() && vector.items.plain().type_number() == item.to_items().plain().type_number();
    match vector.items {
        // An empty list has no type yet, whatever it was cast to.
        simple if simple.is_empty() && item.is_atom() && !matches!(simple, Items::Enum(..) | Items::Link(..)) => {
            Ok(item.enlist())
        }
        Items::List(l) if l.is_empty() => Ok(item.enlist()),
        Items::List(l) => {
            let mut all = l.into_vec();
            all.push(item);
            Ok(Value::list(all))
        }
        simple if fits => Ok(simple.join(&item.to_items()).into()),
        _ => Err(QError::named("type")),
    }
}

fn set_item(context: &mut Context, v: Vector, key: &Value, new: Value) -> Result<Value, QError> {
    let at = match key {
        Value::Long(_) | Value::Int(_) | Value::Short(_) | Value::Byte(_) | Value::Bool(_) => key.as_long(),
        _ => return Err(QError::named("type")),
    };
    let at = at.and_then(|a| usize::try_from(a).ok()).filter(|a| *a < v.len()).ok_or(QError::named("length"))?;
    let new = match &v.items {
        Items::Enum(domain, _) => match new {
            Value::Sym(s) => enums::item(context, *domain, s)?,
            other => other,
        },
        Items::Link(domain, _) if new.is_atom() && !matches!(new, Value::Link(..)) => {
            enums::enumerate(context, *domain, new)?
        }
        _ => new,
    };
    macro_rules! put {
        ($($variant:ident)*) => {
            match (v.items, new) {
                (Items::Enum(domain, s), Value::Enum(own, new)) if own == domain => {
                    let mut items = s.into_vec();
                    if let Some(slot) = items.get_mut(at) {
                        *slot = new;
                    }
                    Items::Enum(domain, items.into())
                }
                (Items::Link(domain, s), Value::Link(own, new)) if own == domain => {
                    let mut items = s.into_vec();
                    if let Some(slot) = items.get_mut(at) {
                        *slot = new;
                    }
                    Items::Link(domain, items.into())
                }
                (Items::Sym(s), Value::Enum(_, new)) => {
                    let mut items = s.into_vec();
                    if let Some(slot) = items.get_mut(at) {
                        *slot = new;
                    }
                    Items::Sym(items.into())
                }
                $((Items::$variant(s), Value::$variant(new)) => {
                    let mut items = s.into_vec();
                    if let Some(slot) = items.get_mut(at) {
                        *slot = new.into();
                    }
                    Items::$variant(items.into())
                })*
                (Items::List(s), new) => {
                    // An upper bound: the depth of the unchanged items is not recomputed.
                    let depth = s.depth().max(depth_around([&new]));
                    let mut items = s.into_vec();
                    if let Some(slot) = items.get_mut(at) {
                        *slot = new;
                    }
                    match Items::collapse(items) {
                        Ok(simple) => simple,
                        Err(items) => Items::List(Shared::of_depth(items, depth)),
                    }
                }
                _ => return Err(QError::named("type")),
            }
        };
    }
    let items = put!(Bool Guid Byte Short Int Long Real Float Char Sym Timestamp Month Date Datetime Timespan Minute Second Time);
    Ok(Vector { attr: Attr::None, items }.into())
}
