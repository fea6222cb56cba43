//! Code whose text is not shown: that of a script made by `\_ file`. Its text begins with a mark, as text in k begins with `k)`.
//!
//! As in kdb+, a function of such a script displays as `locked`. This is no encryption: any user who can read the file can unpack its text.

/// Mark of a text in q that is not shown.
pub(crate) const MARK: &[u8] = b"\x01";

pub(crate) fn is_locked(text: &[u8]) -> bool {
    text.starts_with(MARK)
}

/// The text as it is shown: that of locked code is `locked`.
pub(crate) fn shown(text: &[u8]) -> &[u8] {
    if is_locked(text) { b"locked" } else { text }
}

/// The text without the mark.
pub(crate) fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK).unwrap_or(text)
}
