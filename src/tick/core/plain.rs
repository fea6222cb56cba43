//! Fast path for the two forms that most feeds send, a row of atoms and a list of typed columns: one comparison and one copy for each
//! column.

use super::Stamp;
use super::schema::{ColumnSpec, TableSpec};
use proto::{Endian, HEAD_BYTES, Head, Limits, types, walk};

/// Appends the columns of a row of atoms of the schema's types, or of a list of vectors of those types and of one length. Returns the
/// number of rows. `out` ends with the record's head.
///
/// Returns `None` for any other form; the bytes appended to `out` are then invalid.
pub(super) fn columns(spec: &TableSpec, data: &[u8], stamp: Stamp, out: &mut Vec<u8>) -> Option<usize> {
    let (list, rest) = Head::split(data)?;
    if list.ty != types::LIST {
        return None;
    }
    let (time, others) = spec.columns.split_first()?;
    let first = rest.first()?.cast_signed();
    let brings_time = list.count() == spec.columns.len();
    if !brings_time && (list.count() != others.len() || first.unsigned_abs() == time.ty.unsigned_abs()) {
        return None;
    }
    let rows = if first < 0 { 1 } else { Head::split(rest)?.0.count() };
    // Every item has at least one byte: reject an impossible count before any work.
    if rows > rest.len() {
        return None;
    }
    if !brings_time {
        let (item, width) = stamp.item(time.ty)?;
        Head::new(time.ty, rows).ok()?.write(out);
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

fn vectors(columns: &[ColumnSpec], rows: usize, mut rest: &[u8], out: &mut Vec<u8>) -> Option<()> {
    for column in columns {
        let (head, items) = Head::split(rest)?;
        if head.ty != column.ty || column.ty == types::LIST || head.count() != rows {
            return None;
        }
        let bytes = match column.width {
            Some(width) => rows.checked_mul(width)?,
            None => walk::object(rest, Endian::Little, &Limits::default()).ok()?.checked_sub(HEAD_BYTES)?,
        };
        let (own, after) = items.split_at_checked(bytes)?;
        // Write a new head, to drop an attribute.
        Head::new(column.ty, rows).ok()?.write(out);
        out.extend_from_slice(own);
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
            // Symbols are short: a plain loop is fastest.
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
