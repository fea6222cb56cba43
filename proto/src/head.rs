//! The six bytes before the items of a vector or general list: the only code that reads and writes them.
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | type code, 0 (general list) to 19 (time) |
//! | 1 | attribute, see [`types`] |
//! | 2 to 5 | number of items, a signed 32-bit integer that is not negative, in the byte order of the message |
//!
//! After the head of a simple vector come `count` items of [`types::width`] bytes, or `count` NUL-terminated symbols;
//! after that of a general list, `count` objects.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::header::Endian;
use crate::types;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 6;

/// Returns whether objects of this type begin with a head: simple vectors and general lists.
pub const fn has_head(ty: i8) -> bool {
    matches!(ty, types::LIST..=types::TIME)
}

/// The head of a vector or general list. Its count always fits the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Type code.
    pub ty: i8,
    /// Attribute byte.
    pub attr: u8,
    count: usize,
}

impl Head {
    /// Makes a head without attribute.
    ///
    /// # Errors
    /// [`EncodeError::Count`] above `i32::MAX` items.
    pub const fn new(ty: i8, count: usize) -> Result<Head, EncodeError> {
        Head::with_attr(ty, types::ATTR_NONE, count)
    }

    /// Makes a head with an attribute byte.
    ///
    /// # Errors
    /// [`EncodeError::Count`] above `i32::MAX` items.
    pub const fn with_attr(ty: i8, attr: u8, count: usize) -> Result<Head, EncodeError> {
        if count > i32::MAX as usize {
            return Err(EncodeError::Count(count));
        }
        Ok(Head { ty, attr, count })
    }

    /// Makes a head without attribute for a count that the caller knows to fit: that of a parsed object, or of columns
    /// in memory. A count above `i32::MAX` becomes `i32::MAX`.
    pub const fn saturating(ty: i8, count: usize) -> Head {
        const MAX: usize = i32::MAX as usize;
        Head { ty, attr: types::ATTR_NONE, count: if count > MAX { MAX } else { count } }
    }

    /// Number of items that follow.
    #[inline]
    pub const fn count(self) -> usize {
        self.count
    }

    /// Splits `bytes` into the little-endian head at their start and the rest. Returns `None` if the bytes end inside the head
    /// or the count is negative. Checks neither the type (compare it, or call [`has_head`]) nor that the items are present.
    #[inline]
    pub fn split(bytes: &[u8]) -> Option<(Head, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let [ty, attr, count @ ..] = *head;
        let count = usize::try_from(i32::from_le_bytes(count)).ok()?;
        Some((Head { ty: ty.cast_signed(), attr, count }, rest))
    }

    /// Splits `bytes` into the head at their start, in either byte order, and the rest. Checks no more than [`Head::split`].
    ///
    /// # Errors
    /// `Incomplete` and `NegativeCount`, with the offset of the field.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<(Head, &[u8]), DecodeError> {
        let mut cursor = Cursor::new(bytes, endian);
        let ty = cursor.ty()?;
        let head = Head::after_type(ty, &mut cursor)?;
        Ok((head, cursor.rest()))
    }

    /// Reads the rest of a head after its type byte.
    #[inline]
    pub(crate) fn after_type(ty: i8, cursor: &mut Cursor<'_>) -> Result<Head, DecodeError> {
        let attr = cursor.byte()?;
        let count = cursor.count()?;
        Ok(Head { ty, attr, count })
    }

    /// Returns the little-endian head.
    #[inline]
    pub const fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let [a, b, c, d] = (self.count as u32).to_le_bytes();
        [self.ty.cast_unsigned(), self.attr, a, b, c, d]
    }

    /// Appends the head to `out`, little-endian.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
}
