//! Users and their roles: who may connect, and what each may do.
//!
//! A process checks a login against a [`Users`] file, or accepts everyone. Either way the connection gets its [`Grants`], and every call is
//! checked against them once, before it is dispatched.

mod file;
mod grants;
mod kdb_file;
mod listen;
pub mod member;
mod password;
mod users;

#[cfg(test)]
mod tests;

pub use file::FileError;
pub use grants::{Grants, Names, PerTable, Role, Rows};
pub use listen::{LOOPBACK_NOTE, listen_on};
pub use users::{Anyone, Users, WithCluster};

use crate::q::QError;
use std::sync::Arc;

/// Error of a caller without a role.
pub fn needs_role(what: &str, role: Role) -> QError {
    QError::with("access", format!("{what} needs the role {} (users file, -u or -U)", role.name()))
}

/// Decides on the user and password of a login.
pub trait Access: Send {
    /// Returns what the user may do, or `None` if user or password are wrong.
    fn admits(&self, user: &[u8], password: &[u8]) -> Option<Arc<Grants>>;

    /// Returns what a user may do whose name was verified in another way (by `.z.ac`); `None` for an unknown user.
    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>>;

    /// Whether users are checked at all, here or by `.z.pw`.
    fn is_checked(&self) -> bool;
}
