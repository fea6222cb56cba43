//! Logins that an identity service decides, and why it may admit nobody.

use super::ldap::Ldap;
use super::oidc::Oidc;
use std::fmt;
use std::sync::Arc;

/// A login that an identity service decides, so not on the event loop.
pub enum ExternalLogin {
    Token(TokenLogin),
    Bind(BindLogin),
}

/// A login with an OpenID Connect token as the password.
pub struct TokenLogin {
    pub oidc: Arc<Oidc>,
    /// User that the client names; may be empty.
    pub user: Vec<u8>,
    pub token: Vec<u8>,
}

/// A login whose user and password a directory checks.
pub struct BindLogin {
    pub ldap: Arc<Ldap>,
    /// As [`Ldap::folded`] gives it.
    pub user: String,
    pub password: Vec<u8>,
}

/// Why an identity service admits nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalError {
    /// The token or password is wrong: counts as a guess.
    Wrong(&'static str),
    /// The service could not decide: the user is not locked out.
    Unavailable(&'static str),
}

impl fmt::Display for ExternalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExternalError::Wrong(reason) | ExternalError::Unavailable(reason) => f.write_str(reason),
        }
    }
}
