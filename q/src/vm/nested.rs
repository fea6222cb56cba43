//! Updates items of lists, dictionaries and tables in place, at any depth: `x[i]:v`, `x[i;j]op:v`, `x[i],:v`.
//!
//! Falls back to the general path, which copies, if a container has other references, if the result may have another type, or if the update is an
//! error. In these cases nothing has been changed.

use super::in_place::{Change, put};
use crate::runtime::limits;
use crate::runtime::scalar::Scalar;
use crate::syntax::prims;
use crate::verbs::entries::join_in_place;
use crate::verbs::find;
use columns::sys::shared::{Held, Nests, Shared};
use columns::table::{Attr, Dict, Items, Table, Value, Vector};
use std::sync::Arc;

/// Change of an item.
#[derive(Clone, Copy)]
pub(crate) enum Edit<'a> {
    /// Only returns the item.
    Read,
    /// `x[i]:value`
    Replace(&'a Value),
    /// `x[i],:value`
    Join(&'a Value),
    /// `x[i]op:atom`, with the operator and the atom.
    Apply(&'a Value, &'a Value),
}

/// Changes the item at a path of one or more atoms. Returns the new item, or `None` if the general path is needed.
pub(crate) fn edit(x: &mut Value, path: &[Value], change: Edit) -> Option<Value> {
    let (key, rest) = path.split_first()?;
    if let Edit::Replace(new) | Edit::Join(new) = change
        && new.depth() > MAX_DEPTH
    {
        return None;
    }
    match x {
        Value::Dict(d) => in_dict(d, key, rest, change),
        Value::Table(t) => in_table(t, key, rest, change),
        Value::Vector(Vector { attr: Attr::None, items: Items::List(list) }) => {
            let at = row(key)?;
            if at >= list.len() || (rest.is_empty() && !stays_list(list, at, change)) {
                return None;
            }
            list.edit_item(at, |item| if rest.is_empty() { in_list(item, change) } else { edit(item, rest, change) })?
        }
        Value::Vector(_) if rest.is_empty() => in_vector(x, key, change),
        _ => None,
    }
}

/// The general path, which checks the depth limit, handles values that nest deeper.
const MAX_DEPTH: u16 = 64;

fn row(key: &Value) -> Option<usize> {
    match key {
        Value::Long(_) | Value::Int(_) | Value::Short(_) => usize::try_from(key.as_long()?).ok(),
        _ => None,
    }
}

/// Whether the list certainly stays a general list (type 0) after the change at `at`. It becomes a simple vector if all items are atoms of one type.
fn stays_list(list: &Shared<Value>, at: usize, change: Edit) -> bool {
    let Edit::Replace(new) = change else { return true };
    let differs = |other: usize| {
        other != at && list.get(other).is_some_and(|item| !item.is_atom() || item.type_number() != new.type_number())
    };
    !new.is_atom() || differs(0) || differs(1) || differs(list.len().saturating_sub(1))
}

/// Updates an item of a general list.
fn in_list(item: &mut Value, change: Edit) -> Option<Value> {
    match change {
        Edit::Read => {}
        Edit::Replace(new) => *item = new.clone(),
        Edit::Join(more) => join(item, more)?,
        Edit::Apply(f, y) => {
            let (op, x, y) = (prims::atomic_op(prims::index_of(f)?)?, Scalar::of(item)?, Scalar::of(y)?);
            let new = super::quick::quick(op, &x, &y)?.value(&[])?;
            // With a new type the list might have to become a simple vector.
            if new.type_number() != item.type_number() {
                return None;
            }
            *item = new;
        }
    }
    Some(item.clone())
}

/// Updates an item of a simple vector.
fn in_vector(x: &mut Value, key: &Value, change: Edit) -> Option<Value> {
    let at = row(key)?;
    let put_in = |x: &mut Value| {
        Some(match change {
            Edit::Read => Change::Done,
            Edit::Replace(new) => put(x, Scalar::Long(at as i64), Scalar::of(new)?, None),
            Edit::Apply(f, y) => {
                let op = prims::atomic_op(prims::index_of(f)?)?;
                put(x, Scalar::Long(at as i64), Scalar::of(y)?, Some(op))
            }
            Edit::Join(_) => return None,
        })
    };
    let mut done = put_in(x)?;
    // Only the items are copied, not what is around them: a matrix made by `#` or `cut` has rows that are parts of one vector.
    if let (Change::Shared, Value::Vector(v)) = (done, &mut *x) {
        limits::room(v.items.held_bytes()).ok()?;
        let (attr, items) = (v.attr, v.items.clone().with_room(0));
        *x = Vector { attr, items }.into();
        done = put_in(x)?;
    }
    match x {
        Value::Vector(v) if done == Change::Done && at < v.len() => Some(v.items.get(at)),
        _ => None,
    }
}

/// `item,:more`
fn join(item: &mut Value, more: &Value) -> Option<()> {
    if let Value::Dict(_) = item {
        return join_in_place(item, more)?.ok();
    }
    let Value::Vector(Vector { attr: Attr::None, items }) = item else { return None };
    let is_vector = matches!(more, Value::Vector(_));
    let fits = match &*items {
        Items::Enum(..) | Items::Link(..) => false,
        Items::List(list) => !list.is_empty() || is_vector || more.is_atom(),
        simple => simple.type_number() == more.type_number().abs(),
    };
    if !fits || !(is_vector || more.is_atom()) || more.is_enumerated() {
        return None;
    }
    let more = more.to_items();
    limits::room(more.held_bytes()).ok()?;
    let own = std::mem::replace(items, Items::List(Shared::default()));
    *items = match own {
        Items::List(list) if list.is_empty() => more,
        own => own.join(&more),
    };
    Some(())
}

/// A cell or a row of a keyed table: `k[key;column]` and `k[key]`, where `key` has an item for each of several key columns.
fn in_keyed(d: &mut Held<Dict>, key: &Value, rest: &[Value], change: Edit) -> Option<Value> {
    let (Value::Table(keys), [] | [Value::Sym(_), ..]) = (&d.keys, rest) else { return None };
    let values = match (keys.columns.len(), key) {
        (1, atom) if atom.is_atom() => atom.clone().enlist(),
        (2.., Value::Vector(_)) if key.count() == keys.columns.len() => key.clone(),
        _ => return None,
    };
    let row = i64::try_from(find::row_of(keys, &values).ok()??).ok()?;
    d.edit(|d| match &mut d.values {
        Value::Table(t) => in_table(t, &Value::Long(row), rest, change),
        _ => None,
    })?
}

fn in_dict(d: &mut Held<Dict>, key: &Value, rest: &[Value], change: Edit) -> Option<Value> {
    if d.keyed().is_some() {
        return if d.sorted { None } else { in_keyed(d, key, rest, change) };
    }
    if d.sorted || !key.is_atom() || !matches!(d.keys, Value::Vector(_)) {
        return None;
    }
    let found = find::position(&d.keys, key).ok()?;
    d.edit(|d| match (found, change) {
        (Some(at), _) => {
            let path = [&[Value::Long(i64::try_from(at).ok()?)][..], rest].concat();
            matches!(d.values, Value::Vector(_)).then(|| edit(&mut d.values, &path, change)).flatten()
        }
        (None, Edit::Replace(new)) if rest.is_empty() => add(d, key, new),
        (None, Edit::Join(more)) if rest.is_empty() => {
            // A missing key has the null of the values: for lists an empty one.
            let mut item = d.values.at(usize::MAX);
            join(&mut item, more)?;
            add(d, key, &item)
        }
        _ => None,
    })?
}

/// Adds a key that the dictionary does not have. Returns `None` if the keys or the values would change their type.
fn add(d: &mut Dict, key: &Value, new: &Value) -> Option<Value> {
    let (Value::Vector(keys), Value::Vector(values)) = (&mut d.keys, &mut d.values) else { return None };
    // A new key keeps `u#; other attributes need a check.
    if values.attr != Attr::None || !matches!(keys.attr, Attr::None | Attr::Unique) {
        return None;
    }
    let takes = |v: &Vector, item: &Value| match &v.items {
        _ if v.is_empty() => false,
        Items::List(_) => true,
        Items::Enum(..) | Items::Link(..) => false,
        simple => item.is_atom() && item.type_number() == simple.type_number().wrapping_neg(),
    };
    let is_list = |v: &Vector| matches!(v.items, Items::List(_));
    if !takes(keys, key) || !takes(values, new) || is_list(keys) {
        return None;
    }
    let push_to = |v: &mut Vector, item: &Value| {
        let more = if is_list(v) { Items::List(vec![item.clone()].into()) } else { item.to_items() };
        let own = std::mem::replace(&mut v.items, Items::List(Shared::default()));
        v.items = match (own, more) {
            (Items::List(own), Items::List(more)) => Items::List(own.followed_by(&more)),
            (own, more) => own.join(&more),
        };
    };
    push_to(keys, key);
    push_to(values, new);
    Some(new.clone())
}

/// `t[row]:new`, where `new` is a list or dictionary with a cell for each column. Returns `None` if a cell has another type than its column.
fn in_row(t: &mut Arc<Table>, row: usize, new: &Value) -> Option<Value> {
    let cells = match new {
        Value::Dict(d) if d.keys.as_symbols() == Some(&t.names) => &d.values,
        Value::Vector(_) => new,
        _ => return None,
    };
    let t = Arc::get_mut(t).filter(|t| row < t.count() && cells.count() == t.columns.len())?;
    let fits = |(column, at): (&Vector, usize)| {
        let cell = cells.at(at);
        let takes = match &column.items {
            Items::List(list) => stays_list(list, row, Edit::Replace(&cell)),
            simple => !simple.is_enumerated() && cell.is_atom() && cell.type_number() == -simple.type_number(),
        };
        takes && column.items.holders() == 1
    };
    if !t.columns.iter().zip(0..).all(fits) {
        return None;
    }
    for (column, at) in t.columns.iter_mut().zip(0..) {
        let mut held = Value::Vector(std::mem::replace(column, Vector::from(Items::List(Shared::default()))));
        let done = edit(&mut held, &[Value::Long(i64::try_from(row).ok()?)], Edit::Replace(&cells.at(at)));
        if let Value::Vector(back) = held {
            *column = back;
        }
        // The general path replaces the whole row.
        done?;
    }
    t.sorted = false;
    Some(new.clone())
}

/// A cell of a table: `t[column;row]` and `t[row;column]`.
fn in_table(t: &mut Arc<Table>, key: &Value, rest: &[Value], change: Edit) -> Option<Value> {
    if let (Edit::Replace(new), []) = (change, rest) {
        return in_row(t, row(key)?, new);
    }
    let (name, row, rest) = match (key, rest.split_first()?) {
        (Value::Sym(name), (row, rest)) | (row, (Value::Sym(name), rest)) => (*name, row, rest),
        _ => return None,
    };
    let path = [std::slice::from_ref(row), rest].concat();
    let t = Arc::get_mut(t)?;
    let at = t.names.iter().position(|n| *n == name)?;
    let column = t.columns.get_mut(at)?;
    let mut held = Value::Vector(std::mem::replace(column, Vector::from(Items::List(Shared::default()))));
    let done = edit(&mut held, &path, change);
    if let Value::Vector(back) = held {
        *column = back;
    }
    if done.is_some() && !matches!(change, Edit::Read) {
        t.sorted = false;
    }
    done
}
