//! `x[rows]:value` of a vector of longs, without a step for each row.

use crate::runtime::error::QError;
use columns::table::{Items, Value, Vector};

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
