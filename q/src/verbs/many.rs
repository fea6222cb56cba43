//! Assignments to many items at once: `x[rows]:value` of longs, and finding all rows that `k[keys;column]:value` changes by one search.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::find;
use columns::table::{Dict, Items, Table, Value, Vector};

/// Returns the longs `x` with those at `rows` replaced by `value`, which is one long for all or one for each; `None` for other types.
///
/// # Errors
/// `length` for a row that is not there.
pub(super) fn replaced(x: &Value, rows: &Vector, value: &Value) -> Result<Option<Value>, QError> {
    let Value::Vector(v) = x else { return Ok(None) };
    let (Items::Long(v), Items::Long(rows)) = (&v.items, &rows.items) else { return Ok(None) };
    let mut items = v.clone().into_vec();
    let mut put = |row: i64, new: i64| {
        let slot = usize::try_from(row).ok().and_then(|r| items.get_mut(r)).ok_or(QError::named("length"))?;
        *slot = new;
        Ok::<(), QError>(())
    };
    match value {
        Value::Long(new) => rows.iter().try_for_each(|r| put(*r, *new))?,
        Value::Vector(Vector { items: Items::Long(new), .. }) if new.len() == rows.len() => {
            rows.iter().zip(new.iter()).try_for_each(|(r, n)| put(*r, *n))?;
        }
        _ => return Ok(None),
    }
    Ok(Some(Value::longs(items)))
}

/// Below this number of keys, each is searched by itself.
pub(super) const FEW_KEYS: usize = 8;

/// Row numbers of `keys` in a keyed table, for `k[keys;column]:value`. `keys` is a table with the key columns of k.
/// Returns `None` if one of the keys is not in k, if they are few, or if `d` is no keyed table: each key is then searched by itself.
///
/// # Errors
/// `wsfull`, `stop`.
pub(super) fn rows_of_keys(context: &Context, d: &Dict, keys: &Table) -> Result<Option<Value>, QError> {
    let Some((own, _)) = d.keyed() else { return Ok(None) };
    // Keys that are lists, such as texts, would all have to be encoded for one search: each is found faster by itself.
    let is_general = own.columns.iter().any(|column| matches!(column.items, Items::List(_)));
    if d.sorted || is_general || keys.count() < FEW_KEYS || own.names != keys.names {
        return Ok(None);
    }
    let rows = find::table_positions(context, own, keys)?;
    let are_known = rows.iter().all(|row| usize::try_from(*row).is_ok_and(|row| row < own.count()));
    Ok(are_known.then(|| Value::longs(rows)))
}
