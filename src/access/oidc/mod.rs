//! OpenID Connect: the table `[oidc]` of a users file, and what the claims of a token must say.

mod algorithm;
mod jwks;
mod jwt;
#[cfg(test)]
mod tests;

pub use algorithm::Algorithm;
pub use jwks::{Keys, SignatureError};
pub use jwt::{Token, is_token};

use super::identity::is_name;
use super::one_or_more::OneOrMore;
use super::role_map::RoleMap;
use super::url::Url;
use crate::config::units;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where an issuer's public keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    Url {
        url: Url,
        /// PEM file of trusted authorities in place of the process's.
        authorities: Option<PathBuf>,
    },
}

/// The table `[oidc]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OidcEntry {
    jwks: String,
    ca: Option<PathBuf>,
    issuer: String,
    audience: OneOrMore,
    algorithms: Option<Vec<String>>,
    user_claim: Option<String>,
    #[serde(default)]
    any_user: bool,
    roles_claim: Option<String>,
    leeway: Option<String>,
    keys_lifetime: Option<String>,
    keys_refetch: Option<String>,
    disconnect_at_expiry: Option<bool>,
    #[serde(default)]
    pub(super) every_user: Vec<String>,
    #[serde(default)]
    pub(super) roles: BTreeMap<String, Vec<String>>,
}

/// How logins with tokens are decided.
#[derive(Debug)]
pub struct Oidc {
    pub source: KeySource,
    pub issuer: Arc<str>,
    audience: Vec<String>,
    algorithms: Vec<Algorithm>,
    user_claim: String,
    any_user: bool,
    roles_claim: Option<String>,
    leeway: Duration,
    /// Age at which keys are not used any more; at half of it they are read again.
    pub keys_lifetime: Duration,
    /// Shortest time between two requests for keys: tokens with unknown keys cost an attacker nothing.
    pub keys_refetch: Duration,
    disconnect_at_expiry: bool,
    pub(super) roles: RoleMap,
}

/// A user whom a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub user: Vec<u8>,
    pub values: BTreeSet<String>,
    /// Time left until the connection is to be closed.
    pub left: Option<Duration>,
}

impl Oidc {
    /// # Errors
    /// What is wrong with the table.
    pub(super) fn of(entry: OidcEntry, roles: RoleMap) -> Result<Oidc, String> {
        let time = |name: &str, text: Option<String>, default: u64| match text {
            Some(text) => units::duration(&text).map_err(|reason| format!("{name}: {reason}")),
            None => Ok(Duration::from_secs(default)),
        };
        let algorithms = match entry.algorithms {
            None => Algorithm::ALL.map(|(algorithm, _)| algorithm).to_vec(),
            Some(names) => names.iter().map(|name| algorithm(name)).collect::<Result<_, _>>()?,
        };
        let audience = entry.audience.list();
        if entry.issuer.is_empty()
            || audience.is_empty()
            || audience.iter().any(String::is_empty)
            || algorithms.is_empty()
        {
            return Err("issuer, audience and algorithms must not be empty".to_string());
        }
        if roles.is_empty() {
            return Err("no token has a role: set [oidc.roles] or every_user".to_string());
        }
        if !roles.by_value.is_empty() && entry.roles_claim.is_none() {
            return Err("[oidc.roles] needs roles_claim, the claim whose values it maps".to_string());
        }
        let keys_lifetime = time("keys_lifetime", entry.keys_lifetime, 3600)?;
        if keys_lifetime.is_zero() {
            return Err("keys_lifetime must not be 0".to_string());
        }
        Ok(Oidc {
            source: source(&entry.jwks, entry.ca)?,
            issuer: entry.issuer.into(),
            audience,
            algorithms,
            user_claim: entry.user_claim.unwrap_or_else(|| "sub".to_string()),
            any_user: entry.any_user,
            roles_claim: entry.roles_claim,
            leeway: time("leeway", entry.leeway, 60)?,
            keys_lifetime,
            keys_refetch: time("keys_refetch", entry.keys_refetch, 10)?,
            disconnect_at_expiry: entry.disconnect_at_expiry.unwrap_or(true),
            roles,
        })
    }

    /// Whether tokens with this signature algorithm are accepted.
    ///
    /// # Errors
    /// They are not.
    pub fn accepts(&self, token: &Token<'_>) -> Result<(), &'static str> {
        match self.algorithms.contains(&token.algorithm) {
            true => Ok(()),
            false => Err("the token's algorithm is not accepted"),
        }
    }

    /// Checks the claims of a verified token at a time, in seconds from 1970. `user` is the one that the client names.
    ///
    /// # Errors
    /// Why the token admits nobody.
    pub fn claimed(&self, token: &Token<'_>, user: &[u8], now: Duration) -> Result<Claimed, &'static str> {
        let claims = token.claims()?;
        if claims.get("iss").and_then(Value::as_str) != Some(&*self.issuer) {
            return Err("the token is of another issuer");
        }
        if !self.is_audience(claims.get("aud")) {
            return Err("the token is for another audience");
        }
        let (now, leeway) = (now.as_secs_f64(), self.leeway.as_secs_f64());
        let expiry = claims.get("exp").and_then(Value::as_f64).ok_or("the token has no expiry (exp)")?;
        let left = expiry + leeway - now;
        if left <= 0.0 {
            return Err("the token has expired");
        }
        if let Some(from) = claims.get("nbf") {
            let from = from.as_f64().ok_or("the token's start (nbf) is no number")?;
            if now + leeway < from {
                return Err("the token is not valid yet; are the clocks right?");
            }
        }
        let name = found(&claims, &self.user_claim).and_then(Value::as_str).filter(|name| is_name(name));
        let name = name.ok_or("the token has no user name (user_claim)")?;
        if !self.any_user && !user.is_empty() && user != name.as_bytes() {
            return Err("the token is of another user");
        }
        let values = self.roles_claim.as_ref().and_then(|claim| found(&claims, claim)).map(values).unwrap_or_default();
        // A time beyond every clock is none.
        let left = Duration::try_from_secs_f64(left).ok().filter(|_| self.disconnect_at_expiry);
        Ok(Claimed { user: name.as_bytes().to_vec(), values, left })
    }

    fn is_audience(&self, claim: Option<&Value>) -> bool {
        let is_own = |value: &Value| value.as_str().is_some_and(|value| self.audience.iter().any(|own| own == value));
        match claim {
            Some(Value::Array(values)) => values.iter().any(is_own),
            Some(value) => is_own(value),
            None => false,
        }
    }
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    Algorithm::named(name).ok_or_else(|| {
        let known = Algorithm::ALL.map(|(_, name)| name).join(", ");
        format!("algorithms: {name:?} is not one of {known}")
    })
}

fn source(jwks: &str, authorities: Option<PathBuf>) -> Result<KeySource, String> {
    if !jwks.contains("://") {
        return Ok(KeySource::File(jwks.into()));
    }
    let url = Url::parse(jwks, ("http", 80), ("https", 443)).map_err(|reason| format!("jwks: {reason}"))?;
    // An attacker who can change the keys on their way can log in as anybody.
    match url.is_secure || url.is_loopback() {
        true => Ok(KeySource::Url { url, authorities }),
        false => Err("jwks: http:// is accepted on this machine only; use https://".to_string()),
    }
}

/// Finds a claim by its whole name, which may have dots, or else by a path of names such as `realm_access.roles`.
fn found<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| name.split('.').try_fold(claims, |claim, part| claim.get(part)))
}

/// The texts of a list, or the words of a text (as in the claim `scope`).
fn values(claim: &Value) -> BTreeSet<String> {
    match claim {
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_string).collect(),
        Value::String(text) => text.split_ascii_whitespace().map(str::to_string).collect(),
        _ => BTreeSet::new(),
    }
}
