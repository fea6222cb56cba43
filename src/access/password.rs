//! Verification of a password against the form in which a users file keeps it.

use super::Grants;
use crate::kernel::digest::{hex, md5, sha1};
use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use std::sync::Arc;

/// A password as a users file keeps it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Kept {
    /// Argon2 as a PHC string: slow on purpose, so it is computed on another thread.
    Argon2(Arc<str>),
    Plain(Vec<u8>),
    Md5(Vec<u8>),
    Sha1(Vec<u8>),
    /// Nobody can log in with a password.
    None,
}

impl Kept {
    /// The form is recognised by its beginning or length: `$argon2` begins a PHC string, 32 hex digits are an MD5, 40 a SHA-1, as kdb+ has it.
    /// A text of such a form is never compared as plain text: a reader of the file would otherwise know the password.
    ///
    /// # Errors
    /// A PHC string that cannot be used.
    pub(super) fn read(text: &[u8]) -> Result<Kept, String> {
        let is_hex = |digits: usize| text.len() == digits && text.iter().all(u8::is_ascii_hexdigit);
        if text.starts_with(b"$argon2") {
            let hash = str::from_utf8(text).map_err(|_| "the password's hash is not UTF-8".to_string())?;
            PasswordHash::new(hash).map_err(|error| format!("the password's hash cannot be used: {error}"))?;
            return Ok(Kept::Argon2(hash.into()));
        }
        Ok(match text {
            _ if is_hex(32) => Kept::Md5(text.to_ascii_lowercase()),
            _ if is_hex(40) => Kept::Sha1(text.to_ascii_lowercase()),
            plain => Kept::Plain(plain.to_vec()),
        })
    }

    /// Whether this is the password; of no use for Argon2, which [`Verify`] computes.
    pub(super) fn is(&self, password: &[u8]) -> bool {
        match self {
            Kept::Plain(plain) => same(plain, password),
            Kept::Md5(digest) => same(digest, hex(&md5(password)).as_bytes()),
            Kept::Sha1(digest) => same(digest, hex(&sha1(password)).as_bytes()),
            Kept::Argon2(_) | Kept::None => false,
        }
    }

    /// What is weak about this form; `None` for a good one.
    pub(super) fn weakness(&self) -> Option<&'static str> {
        match self {
            Kept::Plain(_) => Some("plain text"),
            Kept::Md5(_) => Some("MD5"),
            Kept::Sha1(_) => Some("SHA-1"),
            Kept::Argon2(_) | Kept::None => None,
        }
    }
}

/// A check that would hold the event loop.
pub enum Verify {
    /// The hash is still to be computed.
    Hash {
        hash: Arc<str>,
        password: Vec<u8>,
        /// What the user may do; `None` for an unknown user, whose login takes as long as a known one's.
        grants: Option<Arc<Grants>>,
    },
    /// Another thread decides; the function waits for it.
    Asked(Box<dyn FnOnce() -> Option<Arc<Grants>> + Send>),
}

impl Verify {
    /// Computes the hash, which takes some ten milliseconds, or waits for the decision. Returns what the user may do, if the password is right.
    pub fn run(self) -> Option<Arc<Grants>> {
        match self {
            Verify::Hash { hash, password, grants } => {
                let hash = PasswordHash::new(&hash).ok()?;
                // The parameters are those of the hash.
                Argon2::default().verify_password(&password, &hash).ok()?;
                grants
            }
            Verify::Asked(decision) => decision(),
        }
    }
}

/// Returns the PHC string of a password, for a users file.
///
/// # Errors
/// The system has no random numbers, or the password is longer than Argon2 takes.
pub fn hashed(password: &[u8]) -> Result<String, String> {
    Argon2::default().hash_password(password).map(|hash| hash.to_string()).map_err(|error| error.to_string())
}

/// Compares in a time that depends on the lengths alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
