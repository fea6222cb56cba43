//! A read position in a byte slice.

use crate::error::{DecodeError, DecodeErrorKind};
use crate::header::Endian;
use crate::item::Item;

/// Forward reader that knows its byte order and offset. Every error carries the offset of the field that could not be read.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    total: usize,
    pub(crate) endian: Endian,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], endian: Endian) -> Cursor<'a> {
        Cursor { rest: bytes, total: bytes.len(), endian }
    }

    /// Bytes read so far.
    pub(crate) fn offset(&self) -> usize {
        self.total.saturating_sub(self.rest.len())
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind, self.offset() as u64)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(bytes) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.error(DecodeErrorKind::Incomplete)),
        }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        match self.rest.split_first() {
            Some((byte, rest)) => {
                self.rest = rest;
                Ok(*byte)
            }
            None => Err(self.error(DecodeErrorKind::Incomplete)),
        }
    }

    /// Reads a type byte.
    pub(crate) fn ty(&mut self) -> Result<i8, DecodeError> {
        self.byte().map(u8::cast_signed)
    }

    pub(crate) fn item<T: Item>(&mut self) -> Result<T, DecodeError> {
        let item = T::read(self.rest, self.endian).ok_or(self.error(DecodeErrorKind::Incomplete))?;
        self.take(T::WIDTH)?;
        Ok(item)
    }

    /// Reads a 32-bit count of items.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let error_at = *self;
        let count: i32 = self.item()?;
        usize::try_from(count).map_err(|_| error_at.error(DecodeErrorKind::NegativeCount(count)))
    }

    /// Reads the bytes up to a NUL, and skips the NUL.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], DecodeError> {
        match first_nul(self.rest) {
            Some(length) => {
                let text = self.take(length)?;
                self.byte()?;
                Ok(text)
            }
            None => Err(self.error(DecodeErrorKind::Incomplete)),
        }
    }
}

/// Returns the position of the first NUL. Scans eight bytes at a time: most symbols are that short, and a loop over
/// single bytes would mispredict its end at each.
pub(crate) fn first_nul(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let mut passed: usize = 0;
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        // The lowest set bit is in the first zero byte; higher ones may be borrows.
        let nuls = word.wrapping_sub(LOW) & !word & HIGH;
        if nuls != 0 {
            return passed.checked_add((nuls.trailing_zeros() / 8) as usize);
        }
        passed = passed.checked_add(8)?;
    }
    passed.checked_add(tail.iter().position(|byte| *byte == 0)?)
}
