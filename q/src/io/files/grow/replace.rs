//! Columns that an append writes as a whole, under other names, before they take the place of those that are there.

use super::super::fixed::{number, width};
use super::super::mapper::Mapper;
use super::super::unfinished::new_of;
use super::super::zipped::Packing;
use super::super::{head, layout, reach, refused, remove_beside, write};
use super::column::{Beside, Column, Form, Held, More, items_of};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::type_error;
use columns::table::{Value, Vector};
use std::path::Path;

/// Bytes of a column that is written as a whole: one of another form, type or compression.
pub(super) fn whole(context: &mut Context, column: &Column, rows: u64, new: &Vector) -> Held<More> {
    let held = match &column.form {
        Form::Whole(Some(held)) => held.clone(),
        _ => layout::read(context, &column.path)?.into_vector().ok_or_else(type_error)?,
    };
    let held = held.cut(0, usize::try_from(rows).unwrap_or(usize::MAX).min(held.len()));
    let all = Vector::from(if held.is_empty() { new.items.clone() } else { held.items.join(&new.items) });
    let packing = Packing::found(&column.path)?;
    let parts = match packing.map(|_| grown(context, &column.path, rows, new)).transpose()?.flatten() {
        Some(parts) => parts,
        None => layout::parts(context, &all.into(), false)?,
    };
    let mut packed = |plain: Vec<u8>| match packing {
        Some(packing) => packing.pack(context, &plain),
        None => Ok(plain),
    };
    let here = packed(parts.own)?;
    let mut beside = Vec::new();
    for plain in parts.beside {
        beside.push(Beside { at: 0, bytes: packed(plain)? });
    }
    Ok(More { here, beside, count: new.len() as u64, replaces: true, ..More::default() })
}

/// Appends items to a compressed list that is stored in several files, and returns the bytes of all of them, not compressed yet; `None` for a list
/// in one file. The files beside only grow: with the old head a reader finds the old items in them.
///
/// # Errors
/// `type` for other items than the vectors of a list in the form before kdb+ 3.6.
fn grown(context: &mut Context, path: &Path, rows: u64, new: &Vector) -> Held<Option<layout::Parts>> {
    let mut own = layout::bytes_of(context, path)?;
    let is_mapped = head::is_mapped(&own);
    let (head, count_at) = match is_mapped {
        true => (head::PAGE_BYTES, head::TAIL_AT + 8),
        false => (head::HEAD_BYTES, 8),
    };
    let nested = match own[..] {
        [0xfe, 0x20, t @ 77..=u8::MAX, ..] => Some(layout::nested_type(t)?),
        _ if is_mapped => None,
        _ => return Ok(None),
    };
    let end = usize::try_from(rows.saturating_mul(8)).unwrap_or(usize::MAX).saturating_add(head);
    if own.len() < end {
        return Err(QError::with("badtail", format!("{}: fewer than {rows} items", path.display())));
    }
    own.truncate(end);
    let objects_path = layout::beside(path);
    let mut objects = layout::bytes_of(context, &objects_path)?;
    let mut beside = Vec::new();
    let references = if let Some(t) = nested {
        let last = if rows == 0 { 0 } else { number::<8>(&own, own.len().saturating_sub(8)) };
        let bytes = last.saturating_mul(width(t).ok_or_else(type_error)?);
        objects.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        let Some([ends, items]) = layout::nested_bytes(t, &new.items, last)? else { return Err(type_error()) };
        objects.extend(items);
        beside.push(objects);
        ends
    } else {
        let symbols = layout::beside(&objects_path);
        let mut known = match symbols.is_file() {
            true => layout::read(context, &symbols)?.as_symbols().ok_or_else(type_error)?.to_vec(),
            false => Vec::new(),
        };
        let mut mapper = Mapper::after(objects.len().saturating_sub(head::PAGE_BYTES), &known, false);
        let Some(references) = mapper.references(context, &items_of(new))? else { return Ok(None) };
        objects.extend(mapper.objects);
        beside.push(objects);
        known.extend(mapper.symbols);
        if !known.is_empty() {
            beside.push(layout::encoded(context, &Value::symbols(known))?);
        }
        references
    };
    own.extend(references);
    let count = rows.saturating_add(new.len() as u64).to_le_bytes();
    own.iter_mut().skip(count_at).zip(count).for_each(|(slot, byte)| *slot = byte);
    Ok(Some(layout::Parts { own, beside }))
}

pub(super) fn recount(context: &mut Context, path: &Path, count: u64) -> Held<()> {
    let column = Column::open(context, path.to_owned())?;
    let file = std::fs::OpenOptions::new().write(true).open(path);
    file.and_then(|mut file| column.write_count(&mut file, count)).map_err(|e| refused(path, &e))
}

/// Replaces a column's file, and those beside it. All are written before the first one takes its place, so that an error leaves the rows
/// as they were; those beside go first: they only grow ([`grown`]), or the file that is there has none. The head has the count of the rows before
/// the append.
pub(super) fn replace(context: &mut Context, column: &Column, rows: u64, more: &More) -> Held<()> {
    let mut parts = vec![(column.path.clone(), &more.here)];
    for Beside { bytes, .. } in &more.beside {
        let last = parts.last().map_or(&column.path, |(path, _)| path);
        parts.push((layout::beside(last), bytes));
    }
    for (path, _) in &parts {
        reach::check_change(context, path)?;
    }
    let written = parts.iter().try_for_each(|(path, bytes)| write(context, &new_of(path), bytes));
    let written = written.and_then(|()| recount(context, &new_of(&column.path), rows));
    if written.is_err() {
        for (path, _) in &parts {
            // It may not have been created; the error reported is the first one.
            drop(std::fs::remove_file(new_of(path)));
        }
        return written;
    }
    for (path, _) in parts.iter().rev() {
        std::fs::rename(new_of(path), path).map_err(|e| refused(path, &e))?;
    }
    remove_beside(&column.path, more.beside.len())
}

/// Removes the files that an interrupted append would have put in the place of a column's.
pub(super) fn clear(column: &Column) {
    let mut path = column.path.clone();
    for _ in 0..=2 {
        // Most columns have none.
        drop(std::fs::remove_file(new_of(&path)));
        path = layout::beside(&path);
    }
}
