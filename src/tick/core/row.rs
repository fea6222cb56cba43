//! A single row of atoms, the form that most feeds send: one comparison and one copy for each column.

use super::Stamp;
use super::schema::TableSpec;

pub(super) enum Outcome {
    /// All columns were appended.
    Done,
    /// Not such a row; what was appended means nothing.
    Other,
}

/// Appends the columns of a row whose every atom has the type that its column asks for. `out` ends with the record's head.
pub(super) fn columns(spec: &TableSpec, data: &[u8], stamp: Stamp, out: &mut Vec<u8>) -> Outcome {
    match try_columns(spec, data, stamp, out) {
        Some(()) => Outcome::Done,
        None => Outcome::Other,
    }
}

fn try_columns(spec: &TableSpec, data: &[u8], stamp: Stamp, out: &mut Vec<u8>) -> Option<()> {
    let (head, mut rest) = data.split_first_chunk::<6>()?;
    if head[0] != 0 {
        return None;
    }
    let count = usize::try_from(i32::from_le_bytes([head[2], head[3], head[4], head[5]])).ok()?;
    let mut columns = spec.columns.as_slice();
    let (time, others) = columns.split_first()?;
    if count == others.len() {
        // Without the time. A row that begins with one anyhow is short of another column.
        if rest.first()?.cast_signed() == time.ty.checked_neg()? {
            return None;
        }
        let (item, width) = stamp.item(time.ty)?;
        out.extend_from_slice(&time.one);
        out.extend_from_slice(item.get(..width)?);
        columns = others;
    } else if count != columns.len() {
        return None;
    }
    for column in columns {
        let (ty, after) = rest.split_first()?;
        if ty.cast_signed() != column.ty.checked_neg()? {
            return None;
        }
        let bytes = match column.width {
            Some(width) => width,
            // Symbols are short: a plain loop finds the end soonest.
            None if column.ty == proto::types::SYMBOL => after.iter().position(|byte| *byte == 0)?.checked_add(1)?,
            None => return None,
        };
        let (item, after) = after.split_at_checked(bytes)?;
        out.extend_from_slice(&column.one);
        out.extend_from_slice(item);
        rest = after;
    }
    rest.is_empty().then_some(())
}
