//! A user as an identity service knows the user.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Maximum length of a user name that an identity service gives.
const MAX_NAME_BYTES: usize = 256;

/// A user whom an identity service vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Issuer of the token, or address of the directory.
    pub by: Arc<str>,
    /// Name for `.z.u`.
    pub user: Vec<u8>,
    /// Values of the roles claim, or names of groups: what the users file maps to roles.
    pub values: BTreeSet<String>,
    /// Time at which the connection is closed, because the token has expired then.
    pub until: Option<Instant>,
}

/// Whether this may be a user's name: control characters would falsify log lines.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control)
}
