//! The eight-byte header of every message.
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | byte order of all that follows: 1 little-endian, 0 big-endian |
//! | 1 | 0 async, 1 sync, 2 response |
//! | 2 | compression: 0 none, 1 with a 4-byte, 2 with an 8-byte uncompressed length |
//! | 3 | high byte of the total length |
//! | 4..8 | low 32 bits of the total length, these eight bytes included |

use crate::error::{DecodeError, DecodeErrorKind, EncodeError};

/// Bytes of a message header.
pub const HEADER_BYTES: usize = 8;

/// Largest length that a header can express.
const MAX_TOTAL_BYTES: u64 = (1 << 40) - 1;

/// Byte order of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Most significant byte first.
    Big,
    /// Least significant byte first: what q on x86 and ARM sends.
    Little,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Expects no response.
    Async,
    /// Expects a response.
    Sync,
    /// Response to a sync message.
    Response,
}

/// Compression of a message's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not compressed.
    None,
    /// Compressed, with a 4-byte uncompressed length.
    Short,
    /// Compressed, with an 8-byte uncompressed length, for messages over 2 GiB.
    Long,
}

/// A message header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Byte order of length and body.
    pub endian: Endian,
    /// Async, sync or response.
    pub kind: MessageKind,
    /// Whether and how the body is compressed.
    pub compression: Compression,
    /// Length of the whole message as sent, header included.
    pub total_bytes: u64,
}

impl Header {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// `Incomplete` for fewer than eight bytes, else the invalid field. The length is not checked against any limit.
    pub fn parse(bytes: &[u8]) -> Result<Header, DecodeError> {
        let Some(&[order, kind, compression, high, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(DecodeError::new(DecodeErrorKind::Incomplete, bytes.len() as u64));
        };
        let low = [a, b, c, d];
        let (endian, low) = match order {
            0 => (Endian::Big, u32::from_be_bytes(low)),
            1 => (Endian::Little, u32::from_le_bytes(low)),
            other => return Err(DecodeError::new(DecodeErrorKind::ByteOrder(other), 0)),
        };
        let kind = match kind {
            0 => MessageKind::Async,
            1 => MessageKind::Sync,
            2 => MessageKind::Response,
            other => return Err(DecodeError::new(DecodeErrorKind::MessageKind(other), 1)),
        };
        let compression = match compression {
            0 => Compression::None,
            1 => Compression::Short,
            2 => Compression::Long,
            other => return Err(DecodeError::new(DecodeErrorKind::Compression(other), 2)),
        };
        let total_bytes = (u64::from(high) << 32) | u64::from(low);
        if total_bytes < HEADER_BYTES as u64 {
            return Err(DecodeError::new(DecodeErrorKind::MessageLength { total_bytes }, 4));
        }
        Ok(Header { endian, kind, compression, total_bytes })
    }

    /// Returns the header as bytes.
    ///
    /// # Errors
    /// `MessageTooLong` if the length exceeds 40 bits.
    pub fn write(&self) -> Result<[u8; HEADER_BYTES], EncodeError> {
        if self.total_bytes > MAX_TOTAL_BYTES {
            return Err(EncodeError::MessageTooLong(self.total_bytes));
        }
        let [.., high, _, _, _, _] = self.total_bytes.to_be_bytes();
        // Truncates to the low 32 bits: the high byte goes to byte 3.
        let low = self.total_bytes as u32;
        let (order, [a, b, c, d]) = match self.endian {
            Endian::Big => (0, low.to_be_bytes()),
            Endian::Little => (1, low.to_le_bytes()),
        };
        let kind = match self.kind {
            MessageKind::Async => 0,
            MessageKind::Sync => 1,
            MessageKind::Response => 2,
        };
        let compression = match self.compression {
            Compression::None => 0,
            Compression::Short => 1,
            Compression::Long => 2,
        };
        Ok([order, kind, compression, high, a, b, c, d])
    }
}
