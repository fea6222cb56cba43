//! Errors of decoding and encoding.

use core::fmt;

/// Error for bytes that are not a valid kdb+ message, object or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// Offset of the error in bytes from the start of the input.
    pub offset: u64,
}

/// Reason why bytes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The input ends inside an object. In a log this is a torn tail; on a stream, more bytes may follow.
    Incomplete,
    /// A type code that is never serialised, or not allowed at this position.
    UnknownType(i8),
    /// A count with its sign bit set.
    NegativeCount(i32),
    /// Nested deeper than [`Limits::max_depth`](crate::Limits::max_depth).
    TooDeep {
        /// The limit in force.
        max_depth: usize,
    },
    /// Keys and values of a dictionary, or two columns of a table, differ in length.
    Length {
        /// Items in the keys, or rows in the first column.
        expected: usize,
        /// Items in the values, or rows in the column at the offset.
        found: usize,
    },
    /// A dictionary whose keys or values are an atom or a function.
    NotADict,
    /// A table whose body is not a dictionary from column names to a list of vectors.
    NotATable,
    /// A lambda whose source is not a character vector.
    NotASource,
    /// Bytes after the end of the object.
    Trailing {
        /// Their number.
        extra_bytes: u64,
    },
    /// The first byte of a header is neither 0 (big-endian) nor 1 (little-endian).
    ByteOrder(u8),
    /// The second byte of a header is none of 0 (async), 1 (sync), 2 (response).
    MessageKind(u8),
    /// The third byte of a header is none of 0, 1 and 2 (none, short or long compression).
    Compression(u8),
    /// A header's length is impossible: shorter than the header itself, or not that of the given message.
    MessageLength {
        /// The length in the header.
        total_bytes: u64,
    },
    /// Longer than [`Limits::max_message_bytes`](crate::Limits::max_message_bytes).
    MessageTooLong {
        /// The length in the header.
        total_bytes: u64,
        /// The limit in force.
        max_bytes: u64,
    },
    /// Longer when decompressed than [`Limits::max_decompressed_bytes`](crate::Limits::max_decompressed_bytes).
    ExpandsTooFar {
        /// The uncompressed length that the message declares.
        total_bytes: u64,
        /// The limit in force.
        max_bytes: u64,
    },
    /// No compressor writes such a stream: it refers to an empty slot, overruns its declared length, or declares more
    /// than its bytes can expand to.
    BadCompression,
}

impl DecodeError {
    pub(crate) const fn new(kind: DecodeErrorKind, offset: u64) -> DecodeError {
        DecodeError { kind, offset }
    }

    /// Returns the same error with its offset increased by `bytes`, for an input that starts that much earlier.
    #[must_use]
    pub const fn shifted(self, bytes: u64) -> DecodeError {
        DecodeError { kind: self.kind, offset: self.offset.saturating_add(bytes) }
    }

    /// Returns whether more input could complete the object: the bytes end early and are otherwise valid.
    pub const fn is_incomplete(&self) -> bool {
        matches!(self.kind, DecodeErrorKind::Incomplete)
    }

    /// Returns q's error name: `badmsg`, `limit` or `length`.
    pub const fn term(&self) -> &'static str {
        match self.kind {
            DecodeErrorKind::TooDeep { .. }
            | DecodeErrorKind::MessageTooLong { .. }
            | DecodeErrorKind::ExpandsTooFar { .. } => "limit",
            DecodeErrorKind::Length { .. } => "length",
            _ => "badmsg",
        }
    }
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DecodeErrorKind::*;
        match *self {
            Incomplete => write!(f, "the input ends inside an object"),
            UnknownType(ty) => write!(f, "type {ty} cannot be received here"),
            NegativeCount(count) => write!(f, "negative count {count}"),
            TooDeep { max_depth } => write!(f, "nested more than {max_depth} levels deep"),
            Length { expected, found } => write!(f, "expected {expected} items, got {found}"),
            NotADict => write!(f, "keys and values of a dictionary must be lists, dictionaries or tables"),
            NotATable => write!(f, "a table needs a dictionary of column names and a list of columns"),
            NotASource => write!(f, "the source of a lambda must be a character vector"),
            Trailing { extra_bytes } => write!(f, "{extra_bytes} bytes after the object"),
            ByteOrder(byte) => write!(f, "byte order {byte} in the header, expected 0 or 1"),
            MessageKind(byte) => write!(f, "message kind {byte} in the header, expected 0, 1 or 2"),
            Compression(byte) => write!(f, "compression {byte} in the header, expected 0, 1 or 2"),
            MessageLength { total_bytes } => write!(f, "invalid message length {total_bytes}"),
            MessageTooLong { total_bytes, max_bytes } => {
                write!(f, "message of {total_bytes} bytes exceeds the limit of {max_bytes}")
            }
            ExpandsTooFar { total_bytes, max_bytes } => {
                write!(f, "message of {total_bytes} bytes after decompression exceeds the limit of {max_bytes}")
            }
            BadCompression => write!(f, "corrupt compressed data"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}: {} (byte {})", self.term(), self.kind, self.offset)
    }
}

impl core::error::Error for DecodeError {}

/// Error for a value that cannot be serialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// More items than the 32-bit count of a vector, list or table can express.
    Count(usize),
    /// A message longer than the 40-bit length of a header can express.
    MessageTooLong(u64),
    /// A NUL in a symbol, column name or error text, which would end the text early.
    Nul,
    /// Keys and values of a dictionary, names and columns of a table, or two columns differ in length.
    Length {
        /// Items in the keys, or names, or rows in the first column.
        expected: usize,
        /// Items in the values, or columns, or rows in the other column.
        found: usize,
    },
    /// A type that is not allowed at its position: an error inside another object, a column that is not a vector, a
    /// derived function with a code outside 106 to 111.
    Type(i8),
    /// Nested deeper than [`DEEPEST`](crate::DEEPEST).
    TooDeep,
    /// No message was begun at the given position.
    NoMessage,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EncodeError::Count(count) => write!(f, "'limit: {count} items, a vector holds at most {}", i32::MAX),
            EncodeError::MessageTooLong(bytes) => write!(f, "'limit: message of {bytes} bytes"),
            EncodeError::Nul => write!(f, "'type: a symbol or error text cannot hold a NUL"),
            EncodeError::Length { expected, found } => write!(f, "'length: expected {expected} items, got {found}"),
            EncodeError::Type(ty) => write!(f, "'type: type {ty} cannot be serialised here"),
            EncodeError::NoMessage => write!(f, "'badmsg: no message was started at this position"),
            EncodeError::TooDeep => write!(f, "'limit: nested too deeplyly"),
        }
    }
}

impl core::error::Error for EncodeError {}
