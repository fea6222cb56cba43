//! Parses one record at the start of a byte slice: whole, incomplete, or not a record.
//!
//! A kdb+ log has neither lengths nor checksums; a record ends where its structure ends. So damage shows only as a malformed object, or as
//! an object that no tickerplant writes. Valid records are messages: a general list whose first item is a function or its name, or the text
//! of an expression.

use proto::walk;
use proto::{DecodeError, DecodeErrorKind, Endian, Limits};
use std::fmt;

/// Length of a list's type, attribute and count.
pub(crate) const LIST_HEAD_BYTES: usize = 6;

const LIST: u8 = 0;
const CHARS: u8 = 10;
const SYMBOLS: u8 = 11;
const SYMBOL_ATOM: u8 = 0xf5;
/// Type codes of lambdas, primitives, projections and derived functions.
const FUNCTIONS: std::ops::RangeInclusive<u8> = 100..=111;

/// Result of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record of this length.
    Whole(usize),
    /// The slice ends inside a record.
    Incomplete,
    Bad(Fault),
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Offset of the fault in the record.
    pub offset_bytes: u64,
}

/// Kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Zeros where a record should begin: space that the file system allocated but never filled.
    Zeros,
    /// An object that is not a message.
    NotAMessage,
    /// Not an object.
    Malformed(DecodeErrorKind),
    /// Longer than the message limit.
    TooLong { limit_bytes: u64 },
    /// Well-formed, but its last bytes are zeros that continue after it, as an unsynced write leaves them. Nothing tells whether zeros were
    /// written there.
    EndsInZeros,
    /// Well-formed, but its block's checksum is wrong.
    Checksum,
    /// The checksums of all blocks are wrong.
    NoBlockAgrees,
    /// A repair kept the block though its checksum was wrong or unreadable.
    Unconfirmed,
    /// The side file's entry for the block cannot be read.
    Unchecked,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Zeros => f.write_str("zeros at the start of a record"),
            FaultKind::NotAMessage => f.write_str("an object that is not a message"),
            FaultKind::Malformed(kind) => write!(f, "{kind}"),
            FaultKind::TooLong { limit_bytes } => {
                write!(f, "a record of more than {limit_bytes} bytes (--limit-message)")
            }
            FaultKind::EndsInZeros => f.write_str("zeros that may begin inside a record and continue after it,"),
            FaultKind::Checksum => f.write_str("the checksum of the block differs"),
            FaultKind::NoBlockAgrees => f.write_str(
                "no block has the checksum in the side file: if the side file belongs to another log, move it \
                 away; otherwise the log was changed from its start,",
            ),
            FaultKind::Unconfirmed => f.write_str(
                "kept by a repair although the block matched no checksum: its values may differ from those published,",
            ),
            FaultKind::Unchecked => f.write_str("the side file's entry is unreadable: the values cannot be checked,"),
        }
    }
}

/// Parses the record at the start of `bytes`.
pub(crate) fn step(bytes: &[u8], limits: &Limits) -> Step {
    let fault = |kind, offset_bytes| Step::Bad(Fault { kind, offset_bytes });
    match looks_like_message(bytes) {
        Some(true) => {}
        Some(false) if bytes.iter().take(LIST_HEAD_BYTES).all(|byte| *byte == 0) => return fault(FaultKind::Zeros, 0),
        Some(false) => return fault(FaultKind::NotAMessage, 0),
        None => return Step::Incomplete,
    }
    let too_long = |length: usize| length as u64 > limits.max_message_bytes;
    match walk::object(bytes, Endian::Little, limits) {
        Ok(length) if too_long(length) => fault(FaultKind::TooLong { limit_bytes: limits.max_message_bytes }, 0),
        Ok(length) => Step::Whole(length),
        Err(error) if error.is_incomplete() && too_long(bytes.len()) => {
            fault(FaultKind::TooLong { limit_bytes: limits.max_message_bytes }, 0)
        }
        Err(error) if error.is_incomplete() => Step::Incomplete,
        Err(DecodeError { kind, offset }) => fault(FaultKind::Malformed(kind), offset),
    }
}

/// Whether the first bytes are those of a message; `None` if there are too few.
fn looks_like_message(bytes: &[u8]) -> Option<bool> {
    match *bytes.first()? {
        CHARS | SYMBOLS => Some(true),
        LIST => {
            let (head, rest) = bytes.split_at_checked(LIST_HEAD_BYTES)?;
            if head.get(2..).is_none_or(|count| count.iter().all(|byte| *byte == 0)) {
                return Some(false);
            }
            let first = *rest.first()?;
            Some(first == SYMBOL_ATOM || first == CHARS || FUNCTIONS.contains(&first))
        }
        _ => Some(false),
    }
}

/// Returns the bytes that begin every call of the same function: list head, and the function's name with its NUL.
///
/// `None` for records that do not call a function by name.
pub(crate) fn call_prefix(record: &[u8]) -> Option<&[u8]> {
    let (head, rest) = record.split_at_checked(LIST_HEAD_BYTES)?;
    if head.first() != Some(&LIST) || rest.first() != Some(&SYMBOL_ATOM) {
        return None;
    }
    let nul = rest.iter().position(|byte| *byte == 0)?;
    record.get(..LIST_HEAD_BYTES + nul + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPD: &[u8] = b"\x00\x00\x03\0\0\0\xf5upd\0\xf5t\0\x07\x00\x01\0\0\0abcdefgh";

    #[test]
    fn a_record_is_whole_or_cut_off_at_every_byte() {
        let limits = Limits::default();
        assert_eq!(step(UPD, &limits), Step::Whole(UPD.len()));
        for end in 0..UPD.len() {
            assert_eq!(step(&UPD[..end], &limits), Step::Incomplete, "{end}");
        }
    }

    #[test]
    fn zeros_and_numbers_are_no_records() {
        let limits = Limits::default();
        assert!(matches!(step(&[0; 16], &limits), Step::Bad(Fault { kind: FaultKind::Zeros, .. })));
        let long = [0xf9, 1, 2, 3, 4, 5, 6, 7, 8];
        assert!(matches!(step(&long, &limits), Step::Bad(Fault { kind: FaultKind::NotAMessage, .. })));
    }

    #[test]
    fn a_record_above_the_limit_is_rejected_before_it_is_whole() {
        let limits = Limits { max_message_bytes: 16, ..Limits::default() };
        assert!(matches!(step(UPD, &limits), Step::Bad(Fault { kind: FaultKind::TooLong { .. }, .. })));
        assert!(matches!(step(&UPD[..20], &limits), Step::Bad(Fault { kind: FaultKind::TooLong { .. }, .. })));
    }

    #[test]
    fn calls_by_name_share_a_prefix() {
        assert_eq!(call_prefix(UPD), Some(&UPD[..11]));
        assert_eq!(call_prefix(b"\x0a\x00\x01\0\0\0x"), None);
    }
}
