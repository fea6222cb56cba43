//! Users and their roles: who may connect, and what each may do.
//!
//! A process checks a login against a [`Users`] file, or accepts everyone. Either way the connection gets its [`Grants`], and every call is
//! checked against them once, before it is dispatched.

mod brake;
mod file;
mod grants;
mod kdb_file;
mod listen;
pub mod member;
mod password;
mod users;
mod watch;

#[cfg(test)]
mod tests;

pub use brake::Brake;
pub use file::FileError;
pub use grants::{Grants, Names, PerTable, Role, Rows};
pub use listen::{LOOPBACK_NOTE, listen_on};
pub use password::{Verify, hashed};
pub use users::{Anyone, Users, WithCluster, open};

use crate::q::QError;
use std::io;
use std::sync::Arc;

/// Error of a caller without a role.
pub fn needs_role(what: &str, role: Role) -> QError {
    QError::with("access", format!("{what} needs the role {} (users file, -u or -U)", role.name()))
}

/// Outcome of the check of a login.
pub enum Check {
    /// The user or the password is wrong.
    Refused,
    /// What the user may do.
    Admitted(Arc<Grants>),
    /// The password's hash is slow to compute: not on the event loop.
    Slow(Verify),
}

impl Check {
    /// Returns what the user may do, computing a slow hash at once.
    pub fn decide(self) -> Option<Arc<Grants>> {
        match self {
            Check::Refused => None,
            Check::Admitted(grants) => Some(grants),
            Check::Slow(verify) => verify.run(),
        }
    }
}

/// Decides on the user and password of a login.
pub trait Access: Send {
    /// Checks user and password.
    fn check(&self, user: &[u8], password: &[u8]) -> Check;

    /// Returns what a user may do whose name was verified in another way (by `.z.ac`); `None` for an unknown user.
    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>>;

    /// Returns the user that a verified certificate with this name stands for.
    fn of_certificate(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }

    /// Starts to watch the file that the users come from, if there is one; `wake` is called when [`Access::reload`] has something to do.
    ///
    /// # Errors
    /// The system's, if it has no thread left.
    fn watch(&mut self, _wake: Box<dyn Fn() + Send>) -> io::Result<()> {
        Ok(())
    }

    /// Adopts a changed users file. Returns whether there was one.
    fn reload(&mut self) -> bool {
        false
    }

    /// Whether users are checked at all, here or by `.z.pw`.
    fn is_checked(&self) -> bool;
}
