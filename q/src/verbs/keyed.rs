//! Rows put into a keyed table: values of known keys are replaced, rows with new keys are appended.

use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::type_error;
use crate::verbs::attributes::after_growth;
use crate::verbs::find::{self, INDEXED_ROWS};
use crate::verbs::fit::Fitting;
use columns::kernel::keys::Groups;
use columns::table::row_index::find_rows;
use columns::table::{Attr, Dict, Items, Table, Value, Vector};
use std::sync::Arc;

/// Where new rows go in a keyed table.
#[derive(Default)]
pub(super) struct Places {
    /// Row of the table, and the new row that replaces its values; a later one replaces an earlier one.
    pub(super) replaced: Vec<(usize, usize)>,
    /// New rows to append: the first of each key, and the last of each, whose values count.
    pub(super) keys: Vec<u32>,
    pub(super) values: Vec<u32>,
}

/// Puts rows into a keyed table, in place where nothing else refers to its columns.
///
/// # Errors
/// `insert` for a row with a known key unless `replace`; `u-fail`; `wsfull`. The table stays as it was.
pub(crate) fn put(d: &mut Dict, new: &Fitting, replace: bool) -> Result<(), QError> {
    let (Value::Table(keys), Value::Table(values)) = (&mut d.keys, &mut d.values) else { return Err(type_error()) };
    let (keys, values) = (Arc::make_mut(keys), Arc::make_mut(values));
    let (key_columns, value_columns) = new.rows.columns.split_at(keys.columns.len().min(new.rows.columns.len()));
    if value_columns.len() != values.columns.len() {
        return Err(QError::named("length"));
    }
    let added = Table::new(keys.names.clone(), key_columns.to_vec());
    let known = rows_of(keys, &added)?;
    if !replace && known.iter().any(Option::is_some) {
        return Err(QError::named("insert"));
    }
    let places = places(&known, || find::row_groups(&added.columns))?;
    room(keys.columns.iter().chain(&values.columns), new)?;
    let fresh_keys: Vec<Items> = key_columns.iter().map(|c| picked(&c.items, &places.keys)).collect();
    let fresh_values: Vec<Items> = value_columns.iter().map(|c| picked(&c.items, &places.values)).collect();
    let attrs_of = |columns: &mut [Vector], fresh: &[Items]| {
        columns.iter_mut().zip(fresh).map(|(c, more)| after_growth(c, more)).collect::<Result<Vec<Attr>, QError>>()
    };
    // Keys that are new make a unique key column longer, never wrong.
    let only_key = keys.columns.len() == 1 && keys.columns.iter().all(|key| key.attr == Attr::Unique);
    let key_attrs = if only_key { vec![Attr::Unique] } else { attrs_of(&mut keys.columns, &fresh_keys)? };
    let value_attrs = attrs_of(&mut values.columns, &fresh_values)?;
    // A search that a limit has ended has found too little.
    limits::settle()?;
    if !places.keys.is_empty() {
        keys.sorted = false;
        grow(&mut keys.columns, &fresh_keys, &key_attrs);
    }
    for ((column, name), source) in values.columns.iter_mut().zip(&values.names).zip(value_columns) {
        if new.is_given(*name) && !places.replaced.is_empty() {
            column.items.put(&places.replaced, &source.items);
            column.attr = Attr::None;
        }
    }
    if !places.values.is_empty() {
        let attr_of = |(name, attr)| match new.is_given(name) && !places.replaced.is_empty() {
            true => Attr::None,
            false => attr,
        };
        let attrs: Vec<Attr> = values.names.iter().copied().zip(value_attrs).map(attr_of).collect();
        grow(&mut values.columns, &fresh_values, &attrs);
    }
    Ok(())
}

pub(super) fn picked(items: &Items, rows: &[u32]) -> Items {
    if rows.len() == items.len() && rows.iter().enumerate().all(|(i, row)| *row as usize == i) {
        return items.clone();
    }
    items.gather(rows)
}

fn grow(columns: &mut [Vector], fresh: &[Items], attrs: &[Attr]) {
    for ((column, more), attr) in columns.iter_mut().zip(fresh).zip(attrs) {
        let own = std::mem::replace(&mut column.items, Items::List(Default::default()));
        let items = if own.is_empty() { more.clone() } else { own.join(more) };
        *column = Vector { attr: *attr, items };
    }
}

/// The row of each key in the table.
fn rows_of(keys: &mut Table, added: &Table) -> Result<Vec<Option<usize>>, QError> {
    if let ([own], [sought]) = (&mut keys.columns[..], &added.columns[..])
        && (own.attr == Attr::Unique || own.len() >= INDEXED_ROWS)
        && let Some(found) = own.items.find_indexed(&sought.items, find::room)
    {
        return found;
    }
    let count = keys.count();
    // With `u#` a column keeps an index of its own.
    let has_own = |column: &Vector| column.attr == Attr::Unique;
    // A single column of floats has such an index too.
    if count >= INDEXED_ROWS
        && !keys.columns.iter().any(has_own)
        && let Some(found) = find_rows(&mut keys.columns, &added.columns, find::room)
    {
        return found;
    }
    let at = find::rows_of(keys, added)?;
    Ok(at.into_iter().map(|at| usize::try_from(at).ok().filter(|at| *at < count)).collect())
}

/// The places of new rows, of which some have `known` keys. `groups` groups the new rows by their keys.
pub(super) fn places(
    known: &[Option<usize>],
    groups: impl FnOnce() -> Result<Groups, QError>,
) -> Result<Places, QError> {
    let mut out = Places::default();
    let is_new = known.iter().filter(|at| at.is_none()).count();
    let groups = if is_new > 1 { groups()? } else { Default::default() };
    let mut place_of: Vec<Option<usize>> = vec![None; groups.firsts.len().max(1)];
    for (row, at) in known.iter().enumerate() {
        limits::pace()?;
        if let Some(at) = at {
            out.replaced.push((*at, row));
            continue;
        }
        let group = groups.ids.get(row).map_or(0, |id| *id as usize);
        let Some(place) = place_of.get_mut(group) else { continue };
        match place.and_then(|place: usize| out.values.get_mut(place)) {
            Some(last) => *last = row as u32,
            None => {
                *place = Some(out.keys.len());
                out.keys.push(row as u32);
                out.values.push(row as u32);
            }
        }
    }
    Ok(out)
}

/// Checks the memory that the rows need, and copies of columns that something else refers to.
fn room<'a>(columns: impl Iterator<Item = &'a Vector>, new: &Fitting) -> Result<(), QError> {
    let copied = columns.filter(|c| c.items.holders() > 1).map(|c| c.items.held_bytes());
    let added = new.rows.columns.iter().map(|c| c.items.held_bytes());
    limits::room(copied.chain(added).fold(0, usize::saturating_add))
}
