//! Entries put into a dictionary: values of known keys are replaced, new keys are appended. Of a repeated key the last entry counts.

use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::verbs::find;
use crate::verbs::keyed::{Places, picked, places};
use columns::table::{Attr, Dict, Items, Value, Vector};

/// Entries of one dictionary that fit into another one, and their places there.
pub(crate) struct Entries {
    /// For each value that is replaced: its position in the dictionary, and the position of the new value in `source`.
    replaced: Vec<(usize, usize)>,
    source: Items,
    new_keys: Items,
    new_values: Items,
}

/// Whether items with these keys or values can be put into `own` without a change of its type: a general list takes every value.
fn takes(own: &Vector, items: &Items, is_values: bool) -> bool {
    let is_plain = |items: &Items| !matches!(items, Items::Enum(..) | Items::Link(..));
    let fits = own.items.type_number() == items.type_number() || is_values && matches!(own.items, Items::List(_));
    fits && !own.is_empty() && is_plain(&own.items) && is_plain(items)
}

/// Finds the places of `new`'s entries in `d`. Returns `None` where a join may change the type of the keys or the values, or their attributes.
///
/// # Errors
/// `wsfull`, `stop`.
pub(crate) fn fit(d: &Dict, new: &Dict) -> Result<Option<Entries>, QError> {
    let (Value::Vector(keys), Value::Vector(values)) = (&d.keys, &d.values) else { return Ok(None) };
    let (Value::Vector(new_keys), Value::Vector(new_values)) = (&new.keys, &new.values) else { return Ok(None) };
    // Keys that are new leave a unique list unique.
    let attributes_stay = values.attr == Attr::None && matches!(keys.attr, Attr::None | Attr::Unique);
    if d.sorted
        || !attributes_stay
        || new_keys.len() != new_values.len()
        || !takes(keys, &new_keys.items, false)
        || !takes(values, &new_values.items, true)
    {
        return Ok(None);
    }
    limits::room_for::<(i64, usize)>(new_keys.len())?;
    let known = find::positions_of(keys, new_keys)?;
    let known: Vec<Option<usize>> =
        known.into_iter().map(|at| usize::try_from(at).ok().filter(|at| *at < keys.len())).collect();
    let Places { replaced, keys: firsts, values: lasts } = places(&known, || find::groups(&new_keys.items))?;
    let copied = [keys, values].into_iter().filter(|v| v.items.holders() > 1).map(|v| v.items.held_bytes());
    let added = [new_keys, new_values].into_iter().map(|v| v.items.held_bytes());
    limits::room(copied.chain(added).fold(0, usize::saturating_add))?;
    // A search that a limit has ended has found too little.
    limits::settle()?;
    Ok(Some(Entries {
        replaced,
        new_keys: picked(&new_keys.items, &firsts),
        new_values: picked(&new_values.items, &lasts),
        source: new_values.items.clone(),
    }))
}

impl Entries {
    /// Puts the entries into the dictionary that they were fitted to, in place where nothing else refers to its keys or values.
    pub(crate) fn put(&self, d: &mut Dict) {
        let (Value::Vector(keys), Value::Vector(values)) = (&mut d.keys, &mut d.values) else { return };
        if !self.replaced.is_empty() {
            values.items.put(&self.replaced, &self.source);
        }
        if !self.new_keys.is_empty() {
            grow(keys, &self.new_keys);
            grow(values, &self.new_values);
        }
    }
}

fn grow(v: &mut Vector, more: &Items) {
    let own = std::mem::replace(&mut v.items, Items::List(Default::default()));
    v.items = own.join(more);
}

/// Joins the entries of `more` to `x` in place. Returns `None`, and changes nothing, where the general join must decide or something else
/// refers to `x`.
pub(crate) fn join_in_place(x: &mut Value, more: &Value) -> Option<Result<(), QError>> {
    let (Value::Dict(d), Value::Dict(more)) = (x, more) else { return None };
    if d.holders() > 1 || d.keyed().is_some() || more.keyed().is_some() {
        return None;
    }
    match fit(d, more) {
        Ok(new) => {
            let new = new?;
            d.edit(|d| {
                new.put(d);
                Ok(())
            })
        }
        Err(error) => Some(Err(error)),
    }
}
