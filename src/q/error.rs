//! Errors as q signals them.

use std::borrow::Cow;

/// An error of an expression: kdb+'s short name (`type`, `length`, an undefined variable's name), and words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QError {
    /// What travels as the error response, without the quote. Bytes, as q's strings are.
    pub name: Cow<'static, [u8]>,
    /// What was wrong and where, for logs and the console; empty where the name says it all.
    pub detail: String,
}

impl QError {
    pub const fn named(name: &'static str) -> QError {
        QError { name: Cow::Borrowed(name.as_bytes()), detail: String::new() }
    }

    pub fn with(name: &'static str, detail: impl Into<String>) -> QError {
        QError { name: Cow::Borrowed(name.as_bytes()), detail: detail.into() }
    }

    /// A name made at run time: an undefined variable, a signalled string.
    pub fn signal(name: impl Into<Vec<u8>>) -> QError {
        QError { name: Cow::Owned(name.into()), detail: String::new() }
    }
}

impl std::fmt::Display for QError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}", String::from_utf8_lossy(&self.name))?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl std::error::Error for QError {}
