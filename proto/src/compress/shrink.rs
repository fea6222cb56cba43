//! The compressor.

use super::{Slots, slot};
use crate::header::{Compression, HEADER_BYTES, Header};

/// kdb+ compresses only messages longer than this.
const WORTH_BYTES: usize = 2000;
/// Maximum bytes of a group: its flags and eight matches.
const GROUP_BYTES: usize = 17;
/// Largest message whose length is written in 4 bytes, because receivers may read a signed number.
const MAX_SHORT_BYTES: usize = i32::MAX as usize;

/// Compresses a whole uncompressed message if kdb+ would: it is longer than 2000 bytes and shrinks to less than half.
/// The caller must know that the peer is on another host and accepts compression.
pub fn compress(message: &[u8]) -> Option<Vec<u8>> {
    if message.len() > WORTH_BYTES { compress_always(message) } else { None }
}

/// Compresses a whole uncompressed message of any length, like `-18!`. Returns `None` if it does not shrink to less
/// than half, or if `message` is not a whole uncompressed message.
pub fn compress_always(message: &[u8]) -> Option<Vec<u8>> {
    let header = Header::parse(message).ok()?;
    if header.compression != Compression::None || header.total_bytes != message.len() as u64 {
        return None;
    }
    let big = header.endian == crate::Endian::Big;
    let (compression, length) = if message.len() <= MAX_SHORT_BYTES {
        let length = u32::try_from(message.len()).ok()?;
        (Compression::Short, if big { length.to_be_bytes() } else { length.to_le_bytes() }.to_vec())
    } else {
        let length = message.len() as u64;
        (Compression::Long, if big { length.to_be_bytes() } else { length.to_le_bytes() }.to_vec())
    };
    let mut out = Vec::with_capacity(message.len() / 2);
    out.extend_from_slice(&[0; HEADER_BYTES]);
    out.extend_from_slice(&length);
    shrink(message, &mut out)?;
    let header = Header { compression, total_bytes: out.len() as u64, ..header };
    *out.first_chunk_mut()? = header.write().ok()?;
    // The result may wait long in a send buffer.
    out.shrink_to_fit();
    Some(out)
}

/// Appends the groups for `message` after its header. Returns `None` if they come too close to half its length.
fn shrink(message: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let give_up_at = (message.len() / 2).checked_sub(GROUP_BYTES)?;
    let mut slots: Slots = [0; 256];
    // Slot and position of the last literal's pair, which is entered one item later.
    let mut late: Option<(usize, usize)> = None;
    let mut at = HEADER_BYTES;
    while at < message.len() {
        if out.len() > give_up_at {
            return None;
        }
        let flags_at = out.len();
        out.push(0);
        let mut flags: u8 = 0;
        for bit in 0..8 {
            let Some(rest) = message.get(at..) else { break };
            let Some(&byte) = rest.first() else { break };
            // The last two bytes are always literals.
            let pair = match rest {
                [first, second, _, ..] => Some(slot(*first, *second)),
                _ => None,
            };
            let seen_at = pair.map_or(0, |pair| *slots.get(pair).unwrap_or(&0));
            if let Some((pair, position)) = late.take()
                && let Some(slot) = slots.get_mut(pair)
            {
                *slot = position;
            }
            match pair {
                Some(pair) if seen_at != 0 && message.get(seen_at) == Some(&byte) => {
                    if let Some(slot) = slots.get_mut(pair) {
                        *slot = at;
                    }
                    let extra = extra_bytes(message, seen_at.checked_add(2)?, at.checked_add(2)?);
                    flags |= 1 << bit;
                    out.extend_from_slice(&[u8::try_from(pair).ok()?, extra]);
                    at = at.checked_add(2)?.checked_add(usize::from(extra))?;
                }
                _ => {
                    late = pair.map(|pair| (pair, at));
                    out.push(byte);
                    at = at.checked_add(1)?;
                }
            }
        }
        *out.get_mut(flags_at)? = flags;
    }
    Some(())
}

/// Returns how many bytes from the two positions on are equal, at most 255.
fn extra_bytes(message: &[u8], earlier: usize, later: usize) -> u8 {
    let (Some(earlier), Some(later)) = (message.get(earlier..), message.get(later..)) else { return 0 };
    let agree = later.iter().zip(earlier).take(usize::from(u8::MAX)).take_while(|(left, right)| left == right);
    u8::try_from(agree.count()).unwrap_or(u8::MAX)
}
