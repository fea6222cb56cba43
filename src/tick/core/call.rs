//! Recognises `(".u.upd";"trade";data)` in the bytes of a message.

use proto::{Head, types};

/// A publisher's call of `.u.upd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    pub table: &'a [u8],
    /// The data object up to the end of the message, not validated.
    pub data: &'a [u8],
}

const SYMBOL: u8 = types::SYMBOL_ATOM.cast_unsigned();
const CHARS: u8 = types::CHAR.cast_unsigned();
const CHAR: u8 = types::CHAR_ATOM.cast_unsigned();

/// Returns the call in a little-endian message body, `None` for any other message. Both names may be a symbol or a string; a table name
/// of one character may be a character atom.
pub fn recognise(body: &[u8]) -> Option<Call<'_>> {
    let (head, rest) = Head::split(body)?;
    // The attribute of a general list has no meaning, so it is ignored.
    if (head.ty, head.count()) != (types::LIST, 3) {
        return None;
    }
    let (table, data) = table(rest)?;
    Some(Call { table, data })
}

/// Returns the table name of a call with more items, the number of items, and what follows the name.
pub(super) fn longer(body: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let (head, rest) = Head::split(body)?;
    if head.ty != types::LIST || head.count() <= 3 {
        return None;
    }
    let (table, rest) = table(rest)?;
    Some((head.count(), table, rest))
}

/// Returns the table name after `.u.upd`, and what follows it.
fn table(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = rest.strip_prefix(b"\xf5.u.upd\0").or_else(|| match chars(rest)? {
        (b".u.upd", rest) => Some(rest),
        _ => None,
    })?;
    name(rest)
}

/// Returns the text of the character vector at the start of `bytes`, and the remaining bytes.
fn chars(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = Head::split(bytes)?;
    if head.ty == types::CHAR { rest.split_at_checked(head.count()) } else { None }
}

/// Returns the name at the start of `bytes`, and the remaining bytes.
fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match bytes.split_first()? {
        (&SYMBOL, rest) => {
            let end = rest.iter().position(|byte| *byte == 0)?;
            Some((rest.get(..end)?, rest.get(end.checked_add(1)?..)?))
        }
        (&CHARS, _) => chars(bytes),
        (&CHAR, rest) => rest.split_at_checked(1),
        _ => None,
    }
}
