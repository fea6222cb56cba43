//! Recognising `(".u.upd";"trade";data)` in the bytes of a message.

use proto::types;

/// A publisher's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    pub table: &'a [u8],
    /// The data object, up to the end of the message; not checked.
    pub data: &'a [u8],
}

const LIST_OF_THREE: [u8; 6] = [0, 0, 3, 0, 0, 0];
const SYMBOL: u8 = types::SYMBOL_ATOM.cast_unsigned();
const CHARS: u8 = types::CHAR.cast_unsigned();
const CHAR: u8 = types::CHAR_ATOM.cast_unsigned();

/// The call in a little-endian message body, `None` if it is anything else. Both names may be a symbol or a string; a table
/// whose name has one character may come as that character.
pub fn recognise(body: &[u8]) -> Option<Call<'_>> {
    let (head, rest) = body.split_first_chunk::<6>()?;
    // An attribute on a general list means nothing.
    if (head[0], &head[2..]) != (0, &LIST_OF_THREE[2..]) {
        return None;
    }
    let rest = rest.strip_prefix(b"\xf5.u.upd\0").or_else(|| {
        let rest = rest.strip_prefix(&[CHARS])?.get(1..)?;
        rest.strip_prefix(b"\x06\0\0\0.u.upd")
    })?;
    let (table, data) = name(rest)?;
    Some(Call { table, data })
}

/// A name at the start of `bytes`, and what follows it.
fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match bytes.split_first()? {
        (&SYMBOL, rest) => {
            let end = rest.iter().position(|byte| *byte == 0)?;
            Some((rest.get(..end)?, rest.get(end.checked_add(1)?..)?))
        }
        (&CHARS, rest) => {
            let (length, rest) = rest.get(1..)?.split_first_chunk::<4>()?;
            rest.split_at_checked(usize::try_from(i32::from_le_bytes(*length)).ok()?)
        }
        (&CHAR, rest) => rest.split_at_checked(1),
        _ => None,
    }
}
