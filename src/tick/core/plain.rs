//! The two forms that most feeds send, a row of atoms and a list of typed columns: one comparison and one copy for each column.

use super::Stamp;
use super::schema::{ColumnSpec, TableSpec};
use proto::{Endian, Limits, types, walk};

/// Appends the columns of a row whose every atom has the type that its column asks for, or of a list of vectors of those types
/// and one length, and answers how many rows they have. `out` ends with the record's head.
///
/// `None` for anything else; what was appended means nothing then.
pub(super) fn columns(spec: &TableSpec, data: &[u8], stamp: Stamp, out: &mut Vec<u8>) -> Option<usize> {
    let (count, rest) = list(data)?;
    let (time, others) = spec.columns.split_first()?;
    let first = rest.first()?.cast_signed();
    let brings_time = count == spec.columns.len();
    if !brings_time && (count != others.len() || first.unsigned_abs() == time.ty.unsigned_abs()) {
        return None;
    }
    let rows = if first < 0 { 1 } else { list_count(rest)? };
    // Every item takes a byte at least: a count that cannot be is not worked for.
    if rows > rest.len() {
        return None;
    }
    if !brings_time {
        let (item, width) = stamp.item(time.ty)?;
        put_head(time, rows, out)?;
        (0..rows).for_each(|_| out.extend_from_slice(item.get(..width).unwrap_or_default()));
    }
    let columns = if brings_time { spec.columns.as_slice() } else { others };
    if first < 0 {
        atoms(columns, rest, out)?
    } else {
        vectors(columns, rows, rest, out)?
    }
    Some(rows)
}

/// Number of items of the general list that `bytes` are, and the items.
fn list(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let items = bytes.get(6..)?;
    if *bytes.first()? == 0 { Some((list_count(bytes)?, items)) } else { None }
}

/// Number of items of the vector or list at the start of `bytes`.
fn list_count(bytes: &[u8]) -> Option<usize> {
    let (_, rest) = bytes.split_first_chunk::<2>()?;
    usize::try_from(i32::from_le_bytes(*rest.first_chunk()?)).ok()
}

fn put_head(column: &ColumnSpec, rows: usize, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&[column.ty.cast_unsigned(), 0]);
    out.extend_from_slice(&i32::try_from(rows).ok()?.to_le_bytes());
    Some(())
}

fn vectors(columns: &[ColumnSpec], rows: usize, mut rest: &[u8], out: &mut Vec<u8>) -> Option<()> {
    for column in columns {
        if rest.first()?.cast_signed() != column.ty || column.ty == types::LIST || list_count(rest)? != rows {
            return None;
        }
        let bytes = match column.width {
            Some(width) => rows.checked_mul(width)?.checked_add(6)?,
            None => walk::object(rest, Endian::Little, &Limits::default()).ok()?,
        };
        let (own, after) = rest.split_at_checked(bytes)?;
        put_head(column, rows, out)?;
        out.extend_from_slice(own.get(6..)?);
        rest = after;
    }
    rest.is_empty().then_some(())
}

fn atoms(columns: &[ColumnSpec], mut rest: &[u8], out: &mut Vec<u8>) -> Option<()> {
    for column in columns {
        let (ty, after) = rest.split_first()?;
        if ty.cast_signed() != column.ty.checked_neg()? {
            return None;
        }
        let bytes = match column.width {
            Some(width) => width,
            // Symbols are short: a plain loop finds the end soonest.
            None if column.ty == types::SYMBOL => after.iter().position(|byte| *byte == 0)?.checked_add(1)?,
            None => return None,
        };
        let (item, after) = after.split_at_checked(bytes)?;
        out.extend_from_slice(&column.one);
        out.extend_from_slice(item);
        rest = after;
    }
    rest.is_empty().then_some(())
}
