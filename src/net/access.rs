//! Authentication: which users may connect.

use crate::kernel::digest::{hex, md5, sha1};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Decides on the user and password of a handshake.
pub trait Access: Send {
    fn allows(&self, user: &[u8], password: &[u8]) -> bool;
}

/// Accepts every user, as kdb+ without `-u` or `-U` does.
pub struct Everyone;

impl Access for Everyone {
    fn allows(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

/// A file of `user:password` lines, as for kdb+'s `-U`. Each password is plain text, or its MD5 or SHA-1 in hex.
pub struct UserFile {
    passwords: HashMap<Vec<u8>, Vec<u8>>,
}

impl UserFile {
    /// Reads a user file.
    ///
    /// # Errors
    /// The file cannot be read, or has a line without a colon.
    pub fn read(path: &Path) -> io::Result<UserFile> {
        UserFile::parse(&std::fs::read(path)?)
    }

    fn parse(text: &[u8]) -> io::Result<UserFile> {
        let mut passwords = HashMap::new();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let colon = line.iter().position(|byte| *byte == b':').ok_or_else(|| {
                let number = number.saturating_add(1);
                io::Error::new(io::ErrorKind::InvalidData, format!("line {number} is not user:password"))
            })?;
            let (user, password) = line.split_at(colon);
            passwords.insert(user.to_vec(), password.get(1..).unwrap_or_default().to_vec());
        }
        Ok(UserFile { passwords })
    }
}

impl Access for UserFile {
    fn allows(&self, user: &[u8], password: &[u8]) -> bool {
        let Some(kept) = self.passwords.get(user) else { return false };
        let is_hex = |digits: usize| kept.len() == digits && kept.iter().all(u8::is_ascii_hexdigit);
        let kept_hex = || kept.to_ascii_lowercase();
        same(kept, password)
            || (is_hex(32) && same(&kept_hex(), hex(&md5(password)).as_bytes()))
            || (is_hex(40) && same(&kept_hex(), hex(&sha1(password)).as_bytes()))
    }
}

/// Compares in a time that depends on the lengths alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_may_be_plain_or_hashed() {
        let file = format!("ann:secret\r\nbob:{}\n\ncy:{}\n", hex(&md5(b"b:b")), hex(&sha1(b"c")).to_uppercase());
        let users = UserFile::parse(file.as_bytes()).unwrap();
        for (user, password, allowed) in [
            ("ann", "secret", true),
            ("ann", "Secret", false),
            ("bob", "b:b", true),
            ("bob", "b", false),
            ("cy", "c", true),
            ("dee", "", false),
            ("", "", false),
        ] {
            assert_eq!(users.allows(user.as_bytes(), password.as_bytes()), allowed, "{user}:{password}");
        }
    }

    #[test]
    fn a_line_without_a_password_is_named() {
        assert!(UserFile::parse(b"ann:x\nbob\n").err().is_some_and(|e| e.to_string().contains("line 2")));
    }
}
