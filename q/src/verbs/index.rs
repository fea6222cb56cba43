//! Indexing of lists, dictionaries and tables, at one level and at depth.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::above::Evaluate;
use crate::verbs::bin;
use crate::verbs::convert::rows;
use crate::verbs::find::{self, FindRank};
use crate::verbs::lookup::{Lookup, together};
use crate::verbs::map::map;
use crate::verbs::rows::is_item_of_lists;
use columns::table::{Dict, Items, Sym, Table, Value, Vector};
use proto::types;
use std::sync::Arc;

/// `x[i;j;…]`; the generic null selects all of a level.
pub(crate) fn deep(context: &mut Context, x: &Value, path: &[Value]) -> Result<Value, QError> {
    context.enter()?;
    let Some((first, rest)) = path.split_first() else { return Ok(x.clone()) };
    if rest.is_empty() {
        return one(context, x, first);
    }
    if let Value::Func(_) | Value::Sym(_) = x {
        return context.apply(x, path.to_vec());
    }
    if let (Value::Dict(table), Value::Dict(sought)) = (x, first)
        && table.keyed().is_some()
        && let (Value::Vector(_), Value::Table(rows)) = (&sought.keys, &sought.values)
    {
        let found = at_dictionary(context, x, rows, rest)?;
        return Ok(Value::dict(sought.keys.clone(), found));
    }
    // `table[rows;column]`: selects the column first, so that rows are picked from one vector.
    if let (Value::Table(_), [column @ (Value::Sym(_) | Value::Vector(_))]) = (x, rest)
        && column.as_symbols().is_some()
    {
        let picked = one(context, x, column)?;
        return match column {
            Value::Sym(_) => one(context, &picked, first),
            _ => {
                let columns = map(context, &picked, |c, item| one(c, &item, first))?;
                let one_row = first.is_scalar() && !matches!(first, Value::Null);
                Ok(if one_row { columns } else { crate::verbs::rows::flip_list(columns)? })
            }
        };
    }
    match first {
        Value::Null => map(context, x, |c, item| deep(c, &item, rest)),
        // A list that is one key of several columns.
        key @ Value::Vector(_) if is_key(x, key) => {
            let item = one(context, x, key)?;
            deep(context, &item, rest)
        }
        // A list among several indices is taken item by item; no item leaves the type of the result open.
        Value::Vector(none) if none.is_empty() => Ok(Value::empty()),
        list @ (Value::Vector(_) | Value::Table(_)) => map(context, list, |c, i| {
            let item = one(c, x, &i)?;
            deep(c, &item, rest)
        }),
        atom => {
            let item = one(context, x, atom)?;
            if ends(x, &item) && rest.iter().all(is_index) {
                return Err(QError::with("rank", "more indices were given than there are levels"));
            }
            deep(context, &item, rest)
        }
    }
}

/// Whether the indices before led to an atom of a list or dictionary: a number there is no handle that the next index is written to.
fn ends(x: &Value, item: &Value) -> bool {
    matches!(x, Value::Vector(_) | Value::Dict(_)) && item.is_atom() && !matches!(item, Value::Sym(_) | Value::Enum(..))
}

/// Whether a value can be an index of a list.
fn is_index(i: &Value) -> bool {
    match i {
        Value::Vector(v) => matches!(v.items.type_number(), types::INT | types::LONG),
        atom => row(atom).is_some(),
    }
}

/// `x[i]`.
pub(crate) fn one(context: &mut Context, x: &Value, i: &Value) -> Result<Value, QError> {
    match x {
        _ if matches!(i, Value::Null) => Ok(x.clone()),
        Value::Vector(v) => from_vector(context, v, i),
        Value::Dict(d) => from_dict(context, d, i),
        Value::Table(t) => from_table(context, t, i),
        Value::Func(_) | Value::Sym(_) | Value::Null | Value::Int(_) | Value::Long(_) => {
            context.apply(x, vec![i.clone()])
        }
        _ => Err(QError::named("type")),
    }
}

/// Whether a list is a single key of `x` rather than many.
pub(crate) fn is_key(x: &Value, key: &Value) -> bool {
    let (Value::Dict(d), Value::Vector(_)) = (x, key) else { return false };
    match &d.keys {
        Value::Table(keys) if keys.columns.len() == 1 => keys.count() > 0 && is_item_of_lists(keys, key),
        Value::Table(keys) => key.count() == keys.columns.len() && !is_keys(keys, key),
        // As when it is read: an atom as the first key makes `` `a`b `` two keys of ``(`c;`a`b)!1 2``.
        Value::Vector(keys @ Vector { items: Items::List(l), .. }) => {
            !l.is_empty() && matches!(find::find_rank(keys, key), FindRank::Item)
        }
        _ => false,
    }
}

/// Whether every item of a list is a row of these columns.
pub(crate) fn is_keys(keys: &Table, list: &Value) -> bool {
    let is_one = |k: &Value| !k.is_scalar() && k.count() == keys.columns.len();
    matches!(list, Value::Vector(Vector { items: Items::List(l), .. }) if l.iter().all(is_one))
}

/// An integer atom as a row number; negative or too large gives one past any end.
fn row(i: &Value) -> Option<usize> {
    match i {
        Value::Long(_) | Value::Int(_) | Value::Short(_) | Value::Byte(_) | Value::Bool(_) => {
            Some(i.as_long().and_then(|i| usize::try_from(i).ok()).unwrap_or(usize::MAX))
        }
        _ => None,
    }
}

fn from_vector(context: &mut Context, v: &Vector, i: &Value) -> Result<Value, QError> {
    match i {
        Value::Vector(indices) => match &indices.items {
            Items::Long(rows) => Ok(Value::of_column(v.items.gather(rows).into())),
            Items::Int(rows) => Ok(Value::of_column(v.items.gather(rows).into())),
            Items::List(list) if list.is_empty() => Ok(v.items.cut(0, 0).into()),
            Items::List(_) => map(context, i, |c, item| {
                c.enter()?;
                from_vector(c, v, &item)
            }),
            // Chars count as bytes: the tables of a lexer have a place for each.
            Items::Char(text) => Ok(v.items.gather(&text.iter().map(|c| i64::from(*c)).collect::<Vec<_>>()).into()),
            other => {
                let rows = rows(other).ok_or(QError::named("type"))?;
                Ok(Value::of_column(v.items.gather(&rows).into()))
            }
        },
        Value::Dict(_) => map(context, i, |c, item| from_vector(c, v, &item)),
        Value::Null => Ok(v.clone().into()),
        Value::Char(c) => Ok(v.items.get(usize::from(*c))),
        atom => Ok(v.items.get(row(atom).ok_or(QError::named("type"))?)),
    }
}

/// The values of `kt[([]k:d);column]`, where d is a dictionary of keys, or of lists of keys, of the keyed table kt. The caller adds the keys of d.
fn at_dictionary(context: &mut Context, x: &Value, rows: &Arc<Table>, rest: &[Value]) -> Result<Value, QError> {
    if let (Value::Dict(table), [Value::Sym(name)]) = (x, rest)
        && let (Some((keys, values)), false) = (table.keyed(), table.sorted)
        && let ([key], [wanted]) = (&keys.columns[..], &rows.columns[..])
        && keys.names == rows.names
    {
        let at = crate::verbs::sets::find_in(context, key.clone().into(), wanted.clone().into())?;
        return one(context, &column(values, *name)?.clone().into(), &at);
    }
    deep(context, x, &[&[Value::Table(Arc::clone(rows))][..], rest].concat())
}

fn from_dict(context: &mut Context, d: &Dict, i: &Value) -> Result<Value, QError> {
    if let (Value::Table(keys), values) = (&d.keys, &d.values) {
        if let Value::Dict(sought) = i
            && let (Value::Vector(_), rows @ Value::Table(_)) = (&sought.keys, &sought.values)
        {
            return Ok(Value::dict(sought.keys.clone(), from_dict(context, d, rows)?));
        }
        if d.sorted {
            return stepped(context, keys, values, i);
        }
        return from_keyed(context, keys, values, i);
    }
    // `` `a`b!`t `` is the flip of the partitioned table t.
    if let (Value::Vector(Vector { items: Items::Sym(_), .. }), Value::Sym(_)) = (&d.keys, &d.values) {
        return Err(QError::named("par"));
    }
    if let Value::Vector(keys) = &d.keys {
        same_kind(keys, i)?;
    }
    match (&d.keys, i) {
        // Keys that are atoms: the index is taken item by item, at any depth.
        (Value::Vector(keys), Value::Vector(Vector { items: Items::List(l), .. }))
            if !matches!(keys.items, Items::List(_)) && l.iter().any(|item| !item.is_scalar()) =>
        {
            // Values that are lists may make a vector of a row.
            if matches!(&d.values, Value::Vector(v) if !matches!(v.items, Items::List(_)))
                && let Some(found) = together(context, i, |c, all| from_dict(c, d, &all))?
            {
                return Ok(found);
            }
            map(context, i, |c, item| {
                c.enter()?;
                from_dict(c, d, &item)
            })
        }
        // A list of keys selects a list of values, unless a key is itself a list.
        (Value::Vector(_), Value::Vector(sought)) => {
            if d.sorted {
                return Ok(d.values.gather(&bin::bin(&d.keys, i)?));
            }
            let keys = d.keys.as_vector().ok_or(QError::named("type"))?;
            let deep = |v: &Vector| matches!(v.items, Items::List(_));
            match if deep(keys) { find::find_rank(keys, i) } else { FindRank::ListOfItems } {
                FindRank::ListOfItems => Ok(d.values.gather(&find::positions(context, keys, sought)?)),
                FindRank::Higher => {
                    let result = |at: Vec<i64>| d.values.gather(&at);
                    Lookup::new(keys)?.each(context, i, &result, &|c, item| from_dict(c, d, &item))
                }
                _ => Ok(d.values.at(find::position(&d.keys, i)?.unwrap_or(usize::MAX))),
            }
        }
        (_, Value::Dict(_)) => map(context, i, |c, item| from_dict(c, d, &item)),
        _ if d.sorted => {
            let at = bin::bin(&d.keys, &i.clone().enlist())?.first().copied().unwrap_or(-1);
            Ok(d.values.at(usize::try_from(at).unwrap_or(usize::MAX)))
        }
        _ => Ok(d.values.at(find::position(&d.keys, i)?.unwrap_or(usize::MAX))),
    }
}

/// A keyed table used as a step function: the row at or before the key.
fn stepped(context: &mut Context, keys: &Table, values: &Value, i: &Value) -> Result<Value, QError> {
    let sought = match i {
        Value::Table(t) => Value::Table(t.clone()),
        Value::Dict(_) => i.clone(),
        Value::Vector(v) if keys.columns.len() == 1 => Value::table(Table::new(keys.names.clone(), vec![v.clone()])),
        other => {
            let row = crate::verbs::rows::row_table(
                keys,
                &if other.is_scalar() { other.clone().enlist() } else { other.clone() },
            )?;
            Value::table(row).at(0)
        }
    };
    let rows = crate::verbs::sets::bin(context, Value::table(keys.clone()), sought)?;
    match &rows {
        Value::Vector(v) => Ok(values.gather(&crate::verbs::convert::rows(&v.items).unwrap_or_default())),
        atom => Ok(values.at(atom.as_long().and_then(|r| usize::try_from(r).ok()).unwrap_or(usize::MAX))),
    }
}

/// Rows of a keyed table: by a key (an atom, if there is one key column), a list of keys that are lists, a dictionary or a table.
fn from_keyed(context: &mut Context, keys: &Table, values: &Value, i: &Value) -> Result<Value, QError> {
    match i {
        Value::Table(sought) => Ok(values.gather(&find::table_positions(context, keys, sought)?)),
        Value::Dict(d) => {
            let row = find::row_of(keys, &d.values)?;
            Ok(values.at(row.unwrap_or(usize::MAX)))
        }
        Value::Sym(name) if keys.columns.len() > 1 => match values {
            Value::Table(t) => t.column(*name).cloned().map(Value::of_column).ok_or(QError::named("length")),
            _ => Err(QError::named("type")),
        },
        list @ Value::Vector(_) if keys.columns.len() == 1 && is_keys(keys, list) => {
            let column = keys.columns.first().ok_or(QError::named("type"))?;
            let sought = Value::collapse(list.items().iter().map(|key| key.at(0)).collect());
            let sought = sought.into_vector().ok_or(QError::named("type"))?;
            Ok(values.gather(&find::positions(context, column, &sought)?))
        }
        // Otherwise a list is one key, an item for each key column.
        list @ Value::Vector(_) => {
            if is_keys(keys, list) {
                if list.count() > find::FEW_ROWS {
                    return Ok(values.gather(&find::rows_of_lists(keys, &list.items())?));
                }
                return map(context, list, |_, key| Ok(values.at(find::row_of(keys, &key)?.unwrap_or(usize::MAX))));
            }
            Ok(values.at(find::row_of(keys, list)?.unwrap_or(usize::MAX)))
        }
        atom => {
            if let [column] = &keys.columns[..] {
                same_kind(column, atom)?;
            }
            Ok(values.at(find::row_of(keys, &atom.clone().enlist())?.unwrap_or(usize::MAX)))
        }
    }
}

/// Symbols are sought among symbols and chars among chars, as by `?`. In a general list each atom is checked: `` (`a`b!1 2)(`a;2) `` is an error.
///
/// # Errors
/// `'type` if keys and index are of different types and one of them is symbols or chars.
fn same_kind(keys: &Vector, i: &Value) -> Result<(), QError> {
    let sought = match i {
        Value::Vector(Vector { items: Items::List(items), .. }) if !matches!(keys.items, Items::List(_)) => {
            return items.iter().filter(|item| item.is_atom()).try_for_each(|atom| same_kind(keys, atom));
        }
        Value::Vector(v) => v.items.plain().type_number(),
        atom if atom.is_atom() => -atom.clone().plain().type_number(),
        _ => return Ok(()),
    };
    let own = keys.items.plain().type_number();
    let is_text = |number: i8| matches!(number, types::CHAR | types::SYMBOL);
    let differ = own != sought && own != types::LIST && sought != types::LIST && (is_text(own) || is_text(sought));
    if differ { Err(QError::named("type")) } else { Ok(()) }
}

fn from_table(context: &mut Context, t: &Table, i: &Value) -> Result<Value, QError> {
    match i {
        Value::Sym(name) => Ok(Value::of_column(column_or_none(t, *name))),
        Value::Vector(v) => match &v.items {
            Items::Sym(names) => {
                Ok(Value::list(names.iter().map(|n| Value::of_column(column_or_none(t, *n))).collect()))
            }
            Items::List(l) if l.is_empty() => Ok(Value::table(t.rows::<i64>(&[]))),
            Items::List(_) => map(context, i, |c, item| from_table(c, t, &item)),
            other => Ok(Value::table(t.rows(&rows(other).ok_or(QError::named("type"))?))),
        },
        Value::Dict(_) => map(context, i, |c, item| from_table(c, t, &item)),
        Value::Null => Ok(Value::table(t.clone())),
        atom => Ok(t.row(row(atom).ok_or(QError::named("type"))?)),
    }
}

/// Returns a column by name; for a name that is none, an empty list of the first column's type, as `flip t` does.
fn column_or_none(t: &Table, name: Sym) -> Vector {
    let missing =
        || t.columns.first().map_or_else(|| Items::List(Vec::new().into()).into(), |c| c.items.cut(0, 0).into());
    t.column(name).cloned().unwrap_or_else(missing)
}

/// Returns a column by name.
///
/// # Errors
/// The name, if there is no such column.
pub(crate) fn column(t: &Table, name: Sym) -> Result<&Vector, QError> {
    t.column(name).ok_or_else(|| QError::no_column(columns::table::symbol::text(name)))
}
