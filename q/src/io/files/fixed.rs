//! Items of a fixed width, and numbers, as files hold them.

use crate::runtime::error::QError;
use crate::runtime::values::{Result, type_error};
use columns::table::{Attr, Element, Items, Vector};
use proto::types;

pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let field = at.checked_add(N).and_then(|end| bytes.get(at..end)).unwrap_or_default();
    field.iter().rev().fold(0u64, |all, b| all << 8 | u64::from(*b))
}

/// Bytes of an item of a simple type.
pub(super) fn width(t: i8) -> Option<u64> {
    Some(match t {
        types::BOOL | types::BYTE | types::CHAR => 1,
        types::GUID => 16,
        types::SHORT => 2,
        types::INT | types::REAL | types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME => 4,
        types::LONG | types::FLOAT | types::TIMESTAMP | types::DATETIME | types::TIMESPAN => 8,
        _ => return None,
    })
}

/// Whether items of this type have a fixed width.
pub(super) fn is_simple(number: i8) -> bool {
    matches!(number, types::BOOL | types::GUID | types::BYTE..=types::CHAR | types::TIMESTAMP..=types::TIME)
}

/// Where the items of a vector come from.
pub(super) trait Source {
    /// Converts every item.
    ///
    /// # Errors
    /// The limits', those of reading.
    fn items<T, const N: usize>(&mut self, of: impl Fn([u8; N]) -> T) -> std::result::Result<Vec<T>, QError>;
}

/// Bytes in memory, and how many items of them are wanted at most.
pub(super) struct Body<'a> {
    pub bytes: &'a [u8],
    pub most: usize,
}

impl Source for Body<'_> {
    fn items<T, const N: usize>(&mut self, of: impl Fn([u8; N]) -> T) -> std::result::Result<Vec<T>, QError> {
        Ok(self.bytes.as_chunks::<N>().0.iter().take(self.most).map(|bytes| of(*bytes)).collect())
    }
}

fn items_of<T: Element, const N: usize>(
    t: i8,
    source: &mut impl Source,
    of: impl Fn([u8; N]) -> T,
) -> std::result::Result<Items, QError> {
    Ok(T::wrap(t, source.items(of)?.into()))
}

/// How many items a file has at most: kdb+ stores an index after the items if they have an attribute other than sorted, and only then keeps the
/// count in the head.
pub(super) fn counted(attr: Attr, count: u64) -> usize {
    match attr {
        Attr::None | Attr::Sorted => usize::MAX,
        _ => usize::try_from(count).unwrap_or(usize::MAX),
    }
}

/// Checks that a file has the items that its head counts. It may have more: an append by kdb+ leaves the count as it was.
///
/// # Errors
/// `badtail` if it has fewer.
pub(super) fn check_count(count: u64, found: usize) -> std::result::Result<(), QError> {
    match count > found as u64 {
        true => Err(QError::with("badtail", format!("the file is cut off: it has {found} of {count} items"))),
        false => Ok(()),
    }
}

/// Items of a fixed width up to the end of the bytes, at most so many.
pub(super) fn vector(t: i8, attr: Attr, most: usize, bytes: &[u8]) -> Result {
    Ok(Vector { attr, items: vector_of(t, &mut Body { bytes, most })? }.into())
}

/// Items of a simple type.
///
/// # Errors
/// `type` for another type, those of the source.
pub(super) fn vector_of(t: i8, source: &mut impl Source) -> std::result::Result<Items, QError> {
    match t {
        types::BOOL | types::BYTE | types::CHAR => items_of(t, source, |b: [u8; 1]| b[0]),
        types::GUID => items_of(t, source, |b: [u8; 16]| b),
        types::SHORT => items_of(t, source, i16::from_le_bytes),
        types::INT | types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME => {
            items_of(t, source, i32::from_le_bytes)
        }
        types::LONG | types::TIMESTAMP | types::TIMESPAN => items_of(t, source, i64::from_le_bytes),
        types::REAL => items_of(t, source, f32::from_le_bytes),
        types::FLOAT | types::DATETIME => items_of(t, source, f64::from_le_bytes),
        _ => Err(type_error()),
    }
}
