//! Heads of the files of vectors: where type, attribute, count and domain are.

use super::mapped;
use crate::runtime::error::QError;
use columns::table::Attr;
use columns::table::wire::attribute;
use std::io::Read;
use std::path::Path;

/// Bytes before the items of a simple vector: magic, type, attribute, count.
pub(super) const HEAD_BYTES: usize = 16;
/// Bytes before the items of a general list or symbol vector: magic, type, attribute, 32-bit count.
pub(super) const LIST_HEAD_BYTES: usize = 8;
/// Bytes before the items of an enumeration.
pub(super) const PAGE_BYTES: usize = 4096;
/// Offsets in that page: the name of the domain; type, attribute and count.
pub(super) const DOMAIN_AT: usize = 16;
pub(super) const TAIL_AT: usize = 0xff0;
/// Offset of the flag of a mapped list.
pub(super) const MAPPED_AT: usize = TAIL_AT + 1;
/// Offset of our mark for an attribute other than sorted, and its bytes: this, then the attribute's number. kdb+ stores an index after the items,
/// with a hash that is not documented; it reads our files as vectors without the attribute. Only of an empty enumeration with `p#` we know the
/// index, and write it.
pub(super) const MARK_AT: usize = 0x100;
pub(super) const MARK: &[u8] = b"elastick:";

/// Whether a file begins with the magic bytes of a kdb+ file. The rest may be damaged. What is read from a pipe would be lost to the next reader.
pub(crate) fn is_value(path: &Path) -> bool {
    let mut begin = [0; 2];
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    let is_read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok();
    is_read && (begin == [0xff, 0x01] || matches!(begin, [0xfd | 0xfe, 0x20]) || &begin == b"kx")
}

/// Whether this is the file of a mapped list.
pub(super) fn is_mapped(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xfd, 0x20]) && bytes.get(MAPPED_AT..TAIL_AT + 3) == Some(&[1, mapped::LIST.cast_unsigned()])
}

/// A head without its attribute and count.
pub(super) fn without_attribute(head: &[u8]) -> Vec<u8> {
    let mut out = head.to_vec();
    // A head ends with the attribute, 4 zero bytes, and the count in 8.
    let at = head.len().saturating_sub(13);
    out.iter_mut().skip(at).for_each(|byte| *byte = 0);
    if marked(head).is_some() {
        out.iter_mut().skip(MARK_AT).take(MARK_BYTES).for_each(|b| *b = 0);
    }
    out
}

/// Bytes of a mark.
pub(super) const MARK_BYTES: usize = MARK.len() + 1;

/// The attribute that our mark in the head of a page says, if there is one.
pub(super) fn marked(head: &[u8]) -> Option<Attr> {
    let number = head.get(MARK_AT..)?.strip_prefix(MARK)?.first()?;
    Some(attribute(*number)).filter(|attr| !matches!(attr, Attr::None | Attr::Sorted))
}

/// Name of the domain in the head of an enumeration.
pub(super) fn domain_of(head: &[u8]) -> &[u8] {
    head.get(DOMAIN_AT..MARK_AT).unwrap_or_default().split(|c| *c == 0).next().unwrap_or_default()
}

pub(super) fn cut_head() -> QError {
    QError::with("badtail", "the file is cut off within its head")
}

/// Adds the file to the reason of an error about its bytes.
pub(super) fn located(path: &Path, mut error: QError) -> QError {
    let file = path.display().to_string();
    if matches!(&*error.name, b"type" | b"badmsg" | b"badtail" | b"nyi") && !error.detail.contains(&file) {
        let reason = if error.detail.is_empty() { "not a file of a q value" } else { error.detail.as_str() };
        error.detail = format!("{file}: {reason}");
    }
    error
}
