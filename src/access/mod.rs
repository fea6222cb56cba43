//! Users and their roles: who may connect, and what each may do.
//!
//! A process checks a login against a [`Users`] file, or accepts everyone. Either way the connection gets its [`Grants`], and every call is
//! checked against them once, before it is dispatched.

mod brake;
mod external;
mod file;
mod grants;
mod identity;
mod kdb_file;
pub mod ldap;
mod listen;
pub mod member;
pub mod oidc;
mod one_or_more;
mod password;
mod quota;
mod role_map;
mod url;
mod users;

#[cfg(test)]
mod tests;

pub use brake::Brake;
pub use external::{BindLogin, ExternalError, ExternalLogin, TokenLogin};
pub use file::FileError;
pub use grants::{Grants, Names, PerTable, Role, Rows};
pub use identity::Identity;
pub use listen::{listen_on, log_who_may_connect};
pub use password::{Verify, hashed};
pub use quota::Quota;
pub use url::Url;
pub use users::{Anyone, Users, WithCluster, open};

use crate::q::QError;
use std::io;
use std::net::IpAddr;
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
    /// An identity service decides: not on the event loop either.
    External(ExternalLogin),
}

impl Check {
    /// Returns what the user may do, computing a slow hash at once. No identity service is asked.
    pub fn decide(self) -> Option<Arc<Grants>> {
        match self {
            Check::Refused | Check::External(_) => None,
            Check::Admitted(grants) => Some(grants),
            Check::Slow(verify) => verify.run(),
        }
    }
}

/// Decides on the user and password of a login.
pub trait Access: Send {
    /// Checks user and password.
    fn check(&self, user: &[u8], password: &[u8]) -> Check;

    /// Checks user and password of a login from this address.
    fn check_from(&self, user: &[u8], password: &[u8], _ip: IpAddr) -> Check {
        self.check(user, password)
    }

    /// Returns what a user may do whose name was verified in another way (by `.z.ac`); `None` for an unknown user.
    fn grants(&self, user: &[u8]) -> Option<Arc<Grants>>;

    /// Whether a file has this user, in upper or lower case.
    fn is_named(&self, _user: &[u8]) -> bool {
        false
    }

    /// Returns what a user may do whom an identity service knows.
    ///
    /// # Errors
    /// Why the user may do nothing.
    fn identified(&self, _identity: &Arc<Identity>) -> Result<Arc<Grants>, &'static str> {
        Err("this process takes no users of identity services")
    }

    /// Whether a token may be the password.
    fn takes_tokens(&self) -> bool {
        false
    }

    /// Returns the user that a verified certificate with this name stands for.
    fn of_certificate(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }

    /// Starts to watch the file that the users come from, if there is one; `wake` is called when [`Access::reload`] has something to do.
    ///
    /// # Errors
    /// The operating system's, if no thread can be started.
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
