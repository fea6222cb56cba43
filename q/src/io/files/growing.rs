//! Bytes of files that may grow while they are read. Of a list, what an append under way adds is left out.
//!
//! An append writes the items of a mapped list to the file beside it, then their references, then the new count in the head. A head counts fewer
//! items than there are during an append, and after one by kdb+, which leaves the old count.

use super::fixed::number;
use super::unfinished::noted_rows;
use super::{head, reach, refused, zipped};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use proto::View;
use std::path::Path;

type Held<T> = Result<T, QError>;

/// Times that a file is read again while it grows.
const MAX_READS: usize = 64;

/// Bytes of a reference.
pub(super) const REFERENCE_BYTES: u64 = 8;

/// Number of items by a file's head, number of items in it, and where they begin.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Counts {
    pub counted: u64,
    pub items: u64,
    pub head: usize,
}

/// Counts of a list of references: a mapped one, or vectors stored back to back as kdb+ before 3.6 wrote them. `None` for another form.
pub(super) fn references(first: &[u8], size: u64) -> Option<Counts> {
    let (head, count_at) = match first {
        [0xfe, 0x20, 77..=u8::MAX, ..] => (head::HEAD_BYTES, 8),
        _ if head::is_mapped(first) => (head::PAGE_BYTES, head::TAIL_AT + 8),
        _ => return None,
    };
    let items = size.saturating_sub(head as u64) / REFERENCE_BYTES;
    Some(Counts { counted: number::<8>(first, count_at), items, head })
}

/// Counts of any list, and the length of its file with the first `rows` items.
fn counts(context: &mut Context, bytes: &[u8], rows: Option<u64>) -> Held<Option<(Counts, usize)>> {
    let place = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    if let Some(counts) = references(bytes, bytes.len() as u64) {
        let length = rows.unwrap_or(counts.items).saturating_mul(REFERENCE_BYTES);
        return Ok(Some((counts, counts.head.saturating_add(place(length)))));
    }
    let [0xff, 0x01, 0, _, _, _, _, _, items @ ..] = bytes else { return Ok(None) };
    // A log counts nothing.
    let counted = number::<4>(bytes, 4);
    if counted == 0 {
        return Ok(None);
    }
    let ends = ends(context, items)?;
    let last = rows.map_or(ends.len(), place).min(ends.len()).checked_sub(1);
    let length = last.and_then(|last| ends.get(last)).copied().unwrap_or(0);
    // The beginning of an item is none yet.
    let is_whole = ends.last().copied().unwrap_or(0) == items.len() as u64;
    let found = (ends.len() as u64).saturating_add(u64::from(!is_whole));
    let head = head::LIST_HEAD_BYTES;
    Ok(Some((Counts { counted, items: found, head }, head.saturating_add(place(length)))))
}

/// Bytes of a file, decompressed; of a list without the items of an append under way.
///
/// # Errors
/// The limits', those of reading.
pub(super) fn bytes(context: &mut Context, path: &Path) -> Held<Vec<u8>> {
    let mut held = bytes_of(context, path)?;
    let noted = || path.parent().and_then(noted_rows);
    for _ in 0..MAX_READS {
        let Some((before, _)) = counts(context, &held, None)? else { break };
        if before.counted >= before.items {
            break;
        }
        if let Some(rows) = noted() {
            if let Some((_, length)) = counts(context, &held, Some(rows))? {
                held.truncate(length);
            }
            break;
        }
        let again = bytes_of(context, path)?;
        let is_same = counts(context, &again, None)?.is_some_and(|(now, _)| now == before);
        if is_same && noted().is_none() {
            break;
        }
        held = again;
    }
    Ok(held)
}

/// Calls `found` with each item of a general list and the offset of its end.
pub(super) fn each_item(
    context: &mut Context,
    bytes: &[u8],
    mut found: impl FnMut(&View, u64) -> std::result::Result<(), QError>,
) -> std::result::Result<(), QError> {
    let (limits, mut at) = (proto::Limits::default(), 0usize);
    loop {
        context.tick()?;
        let next = proto::log::next_record(bytes.get(at..).unwrap_or_default(), &limits);
        let Some((used, view)) = next.map_err(|error| QError::with("badtail", error.to_string()))? else {
            return Ok(());
        };
        at = at.saturating_add(used);
        found(&view, at as u64)?;
    }
}

/// Offsets at which the items of a general list end, up to the last whole one.
pub(super) fn ends(context: &mut Context, bytes: &[u8]) -> std::result::Result<Vec<u64>, QError> {
    let mut ends = Vec::new();
    match each_item(context, bytes, |_, end| {
        ends.push(end);
        Ok(())
    }) {
        Err(error) if *error.name != *b"badtail" => Err(error),
        _ => Ok(ends),
    }
}

/// Bytes of a file, decompressed.
pub(super) fn bytes_of(context: &mut Context, path: &Path) -> std::result::Result<Vec<u8>, QError> {
    reach::check(context, path)?;
    let size = std::fs::metadata(path).map_err(|e| refused(path, &e))?.len();
    context.reserve(usize::try_from(size).unwrap_or(usize::MAX))?;
    let bytes = std::fs::read(path).map_err(|e| refused(path, &e))?;
    zipped::unpacked(context, path, bytes)
}
