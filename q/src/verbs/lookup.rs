//! Searches of many items in one list: the list is hashed once for all of them.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::verbs::find::{FindRank, canonical, find_rank};
use crate::verbs::map::map;
use columns::table::{Items, Value, Vector};
use std::collections::HashMap;

/// Fewer lists are searched one by one.
const FEW_LISTS: usize = 8;

/// A hash table of a general list: the position at which each item first occurs.
pub(crate) struct Lookup<'a> {
    list: &'a Vector,
    /// Whether the first item is an atom: the items of a list such as "ab" are then looked up as atoms, `"a"`, and not as lists of one, `,"a"`.
    begins_with_atom: bool,
    first: HashMap<Vec<u8>, i64>,
}

impl Lookup<'_> {
    /// # Errors
    /// Those of the limits.
    pub(crate) fn new(list: &Vector) -> Result<Lookup<'_>, QError> {
        limits::room_for::<(Vec<u8>, i64)>(list.len().saturating_mul(2))?;
        let mut first = HashMap::with_capacity(list.len());
        for i in 0..list.len() {
            limits::pace()?;
            first.entry(canonical(&list.items.get(i))?).or_insert(i as i64);
        }
        let begins_with_atom = matches!(&list.items, Items::List(items) if items.first().is_some_and(Value::is_scalar));
        Ok(Lookup { list, begins_with_atom, first })
    }

    fn position(&self, item: &Value) -> Result<i64, QError> {
        Ok(self.first.get(&canonical(item)?).copied().unwrap_or(self.list.len() as i64))
    }

    /// Looks up the lists within `y`, at any depth. `result` makes a result of positions, `other` one of a dictionary or table within `y`.
    ///
    /// # Errors
    /// Those of `other` and of the limits.
    pub(crate) fn each(
        &self,
        context: &mut Context,
        y: &Value,
        result: &impl Fn(Vec<i64>) -> Value,
        other: &impl Fn(&mut Context, Value) -> Result<Value, QError>,
    ) -> Result<Value, QError> {
        match y {
            Value::Vector(Vector { items: Items::List(items), .. }) => match find_rank(self.list, y) {
                FindRank::Item => Ok(result(vec![self.position(y)?]).at(0)),
                FindRank::ListOfItems => {
                    limits::room_for::<i64>(items.len())?;
                    let mut at = Vec::with_capacity(items.len());
                    for item in items.iter() {
                        limits::pace()?;
                        at.push(self.position(item)?);
                    }
                    Ok(result(at))
                }
                FindRank::Higher => map(context, y, |c, item| self.each(c, &item, result, other)),
            },
            Value::Dict(_) | Value::Table(_) => other(context, y.clone()),
            atom if self.begins_with_atom && atom.is_scalar() => Ok(result(vec![self.position(atom)?]).at(0)),
            Value::Vector(v) if self.begins_with_atom => {
                limits::room_for::<i64>(v.len())?;
                let at = (0..v.len()).map(|i| limits::pace().and_then(|()| self.position(&v.items.get(i))));
                Ok(result(at.collect::<Result<Vec<i64>, QError>>()?))
            }
            // An atom is looked up as `enlist` of it.
            atom if atom.is_atom() => Ok(result(vec![self.position(&atom.clone().enlist())?]).at(0)),
            item => Ok(result(vec![self.position(item)?]).at(0)),
        }
    }
}

/// Applies `f`, which works item by item, to each of many simple lists of one type, by one call for all of them. `None` for other lists.
///
/// # Errors
/// Those of `f` and of the limits.
pub(crate) fn together(
    context: &mut Context,
    lists: &Value,
    f: impl FnOnce(&mut Context, Value) -> Result<Value, QError>,
) -> Result<Option<Value>, QError> {
    let Value::Vector(Vector { items: Items::List(all), .. }) = lists else { return Ok(None) };
    let number = all.first().map_or(0, Value::type_number);
    let is_alike = |v: &Value| matches!(v, Value::Vector(_)) && v.type_number() == number && !v.is_enumerated();
    if all.len() < FEW_LISTS || number == 0 || !all.iter().all(is_alike) {
        return Ok(None);
    }
    let held = |v: &Value| v.as_vector().map_or(0, |v| v.items.held_bytes());
    limits::room(all.iter().fold(0usize, |sum, v| sum.saturating_add(held(v))))?;
    let mut joined = Items::empty_of(number);
    for list in all.iter() {
        context.tick()?;
        if let Value::Vector(list) = list {
            joined = joined.join(&list.items);
        }
    }
    let results = f(context, joined.into())?;
    let (mut out, mut from) = (limits::list(all.len())?, 0);
    for list in all.iter() {
        context.tick()?;
        let to = from + list.count();
        out.push(results.cut(from, to));
        from = to;
    }
    Ok(Some(Value::list(out)))
}
