//! Verification of a password against the form in which a users file keeps it.

use crate::kernel::digest::{hex, md5, sha1};

/// A password as a users file keeps it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Kept {
    Plain(Vec<u8>),
    Md5(Vec<u8>),
    Sha1(Vec<u8>),
    /// Nobody can log in with a password.
    None,
}

impl Kept {
    /// The form is recognised by its length: 32 hex digits are an MD5, 40 a SHA-1, as kdb+ has it. A text of that form is never compared as
    /// plain text: a reader of the file would otherwise know the password.
    pub(super) fn read(text: &[u8]) -> Kept {
        let is_hex = |digits: usize| text.len() == digits && text.iter().all(u8::is_ascii_hexdigit);
        match text {
            _ if is_hex(32) => Kept::Md5(text.to_ascii_lowercase()),
            _ if is_hex(40) => Kept::Sha1(text.to_ascii_lowercase()),
            plain => Kept::Plain(plain.to_vec()),
        }
    }

    /// Whether this is the password.
    pub(super) fn is(&self, password: &[u8]) -> bool {
        match self {
            Kept::Plain(plain) => same(plain, password),
            Kept::Md5(digest) => same(digest, hex(&md5(password)).as_bytes()),
            Kept::Sha1(digest) => same(digest, hex(&sha1(password)).as_bytes()),
            Kept::None => false,
        }
    }

    /// What is weak about this form; `None` for a good one.
    pub(super) fn weakness(&self) -> Option<&'static str> {
        match self {
            Kept::Plain(_) => Some("plain text"),
            Kept::Md5(_) => Some("MD5"),
            Kept::Sha1(_) => Some("SHA-1"),
            Kept::None => None,
        }
    }
}

/// Compares in a time that depends on the lengths alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
