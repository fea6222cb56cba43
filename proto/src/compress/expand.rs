//! The decompressor.

use super::{Slots, slot};
use crate::cursor::Cursor;
use crate::decode::whole_header;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::header::{Compression, HEADER_BYTES, Header};
use crate::limits::Limits;

/// Bytes of a full group: its flags and eight matches.
const GROUP_BYTES: u64 = 17;
/// Maximum bytes that a full group expands to: eight times two bytes and 255 extra.
const GROUP_EXPANDS_TO: u64 = 8 * 257;

/// Decompresses a whole message and returns it with its header. Copies a message that is not compressed.
///
/// # Errors
/// `ExpandsTooFar` over the limit, `BadCompression` for a stream that no compressor writes, `Incomplete` for one that
/// ends early, `Trailing` for bytes after its end. Nothing is allocated for a length that the stream cannot expand to.
pub fn decompress(message: &[u8], limits: &Limits) -> Result<Vec<u8>, DecodeError> {
    let header = whole_header(message, limits)?;
    if header.compression == Compression::None {
        return Ok(message.to_vec());
    }
    let (total_bytes, length_at, mut cursor) = declared(message, header, limits)?;
    let plain = Header { compression: Compression::None, total_bytes, ..header };
    let bad = length_at.error(DecodeErrorKind::BadCompression);
    let mut out = vec![0; usize::try_from(total_bytes).map_err(|_| bad)?];
    *out.first_chunk_mut().ok_or(bad)? = plain.write().map_err(|_| bad)?;
    expand(&mut cursor, &mut out)?;
    match cursor.rest().len() as u64 {
        0 => Ok(out),
        extra_bytes => Err(cursor.error(DecodeErrorKind::Trailing { extra_bytes })),
    }
}

/// Returns the length of a whole message after decompression, as it declares it.
///
/// # Errors
/// As [`decompress`], as far as the header shows them: a wrong form, or a declared length over a limit.
pub fn expanded_bytes(message: &[u8], limits: &Limits) -> Result<u64, DecodeError> {
    let header = whole_header(message, limits)?;
    match header.compression {
        Compression::None => Ok(header.total_bytes),
        _ => declared(message, header, limits).map(|(total_bytes, ..)| total_bytes),
    }
}

/// Returns the declared length of a compressed message, the position of that length, and of the stream.
fn declared<'a>(
    message: &'a [u8],
    header: Header,
    limits: &Limits,
) -> Result<(u64, Cursor<'a>, Cursor<'a>), DecodeError> {
    let mut cursor = Cursor::new(message, header.endian);
    cursor.take(HEADER_BYTES)?;
    let length_at = cursor;
    let total_bytes = match header.compression {
        Compression::Long => cursor.item::<i64>()?.cast_unsigned(),
        _ => u64::from(cursor.item::<i32>()?.cast_unsigned()),
    };
    if total_bytes > limits.max_decompressed_bytes {
        let max_bytes = limits.max_decompressed_bytes;
        return Err(length_at.error(DecodeErrorKind::ExpandsTooFar { total_bytes, max_bytes }));
    }
    let stream_bytes = cursor.rest().len() as u64;
    let most = stream_bytes.div_ceil(GROUP_BYTES).saturating_mul(GROUP_EXPANDS_TO);
    let body_bytes = total_bytes.checked_sub(HEADER_BYTES as u64).filter(|body_bytes| *body_bytes <= most);
    if body_bytes.is_none() {
        return Err(length_at.error(DecodeErrorKind::BadCompression));
    }
    Ok((total_bytes, length_at, cursor))
}

/// Fills `out` after its header from the groups at the cursor.
fn expand(cursor: &mut Cursor<'_>, out: &mut [u8]) -> Result<(), DecodeError> {
    let mut slots: Slots = [0; 256];
    // `at` is the next byte to fill, `entered` the first position whose pair is not in the table yet.
    let mut at = HEADER_BYTES;
    let mut entered = HEADER_BYTES;
    while at < out.len() {
        let flags = cursor.byte()?;
        for bit in 0..8 {
            if at >= out.len() {
                break;
            }
            if flags & (1 << bit) == 0 {
                let byte = cursor.byte()?;
                at = fill(out, at, &[byte]).ok_or(cursor.error(DecodeErrorKind::BadCompression))?;
                enter(&mut slots, out, &mut entered, at);
            } else {
                let bad = cursor.error(DecodeErrorKind::BadCompression);
                let hash = cursor.byte()?;
                let extra = usize::from(cursor.byte()?);
                let from = *slots.get(usize::from(hash)).filter(|from| **from != 0).ok_or(bad)?;
                let pair = *out.get(from..).and_then(|seen| seen.first_chunk::<2>()).ok_or(bad)?;
                at = fill(out, at, &pair).ok_or(bad)?;
                enter(&mut slots, out, &mut entered, at);
                at = copy(out, from.saturating_add(2), at, extra).ok_or(bad)?;
                entered = at;
            }
        }
    }
    Ok(())
}

/// Enters every pair that ends before `at`.
fn enter(slots: &mut Slots, out: &[u8], entered: &mut usize, at: usize) {
    while entered.saturating_add(1) < at {
        if let Some([first, second]) = out.get(*entered..).and_then(|rest| rest.first_chunk::<2>())
            && let Some(slot) = slots.get_mut(slot(*first, *second))
        {
            *slot = *entered;
        }
        *entered = entered.saturating_add(1);
    }
}

/// Puts `bytes` at `at`. Returns the position after them; `None` if they do not fit.
fn fill(out: &mut [u8], at: usize, bytes: &[u8]) -> Option<usize> {
    let end = at.checked_add(bytes.len())?;
    out.get_mut(at..end)?.copy_from_slice(bytes);
    Some(end)
}

/// Copies `count` bytes from an earlier position. If source and target overlap, copied bytes are copied again.
fn copy(out: &mut [u8], from: usize, to: usize, count: usize) -> Option<usize> {
    let end = to.checked_add(count)?;
    let distance = to.checked_sub(from)?;
    if distance == 0 || end > out.len() {
        return if count == 0 { Some(end) } else { None };
    }
    if count <= distance {
        out.copy_within(from..from.checked_add(count)?, to);
    } else {
        let (seen, room) = out.get_mut(from..end)?.split_at_mut_checked(distance)?;
        for chunk in room.chunks_mut(distance) {
            chunk.copy_from_slice(seen.get(..chunk.len())?);
        }
    }
    Some(end)
}
