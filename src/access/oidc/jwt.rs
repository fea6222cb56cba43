//! Signed tokens: JSON Web Tokens in their compact form (RFC 7519, RFC 7515).

use super::algorithm::Algorithm;
use crate::kernel::digest::{from_base64, to_base64};
use serde::Deserialize;
use serde_json::Value;

/// First characters of a token: a JSON object in base64 begins with them.
const PREFIX: &[u8] = b"eyJ";

/// A token in its parts. Nothing in it is true before [`super::Keys::verify`] says so.
#[derive(Debug)]
pub struct Token<'a> {
    pub(super) algorithm: Algorithm,
    /// Name of the key that signed it.
    pub(super) key: Option<String>,
    /// What is signed: the first two parts as they were sent.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
    claims: Vec<u8>,
}

/// A field that occurs twice is an error, so the fields are those that every other reader sees.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader must understand; none are supported.
    crit: Option<Value>,
}

/// Whether a password has the form of a token.
pub fn is_token(password: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let dots = password.iter().filter(|byte| **byte == b'.').count();
    password.starts_with(PREFIX) && dots == 2 && password.iter().all(is_digit)
}

impl<'a> Token<'a> {
    /// Splits a token into its parts.
    ///
    /// # Errors
    /// Why it is none, or none that is accepted: an algorithm without a public key is never one.
    pub fn parse(token: &'a [u8]) -> Result<Token<'a>, &'static str> {
        let dot =
            |from: usize| token.iter().skip(from).position(|byte| *byte == b'.').map(|at| at.saturating_add(from));
        let malformed = "the token is malformed";
        let first = dot(0).ok_or(malformed)?;
        let second = dot(first.saturating_add(1)).ok_or(malformed)?;
        let (signed, signature) = token.split_at_checked(second).ok_or(malformed)?;
        let (header, claims) = signed.split_at_checked(first).ok_or(malformed)?;
        let part = |with_dot: &[u8]| base64(with_dot.get(1..)?);
        let header = base64(header).ok_or(malformed)?;
        let header: Header = serde_json::from_slice(&header).map_err(|_| "the token's header is malformed")?;
        if header.crit.is_some() {
            return Err("the token requires an extension (crit) that is not supported");
        }
        let algorithm = Algorithm::named(&header.alg).ok_or("the token's algorithm is not accepted")?;
        let claims = part(claims).ok_or(malformed)?;
        let signature = part(signature).ok_or(malformed)?;
        Ok(Token { algorithm, key: header.kid, signed, signature, claims })
    }

    /// Returns the claims of a token that was verified.
    pub(super) fn claims(&self) -> Result<Value, &'static str> {
        serde_json::from_slice(&self.claims).map_err(|_| "the token's claims are malformed")
    }
}

/// Decodes base64url without padding. Each text has one form only: one that decodes to the same bytes as another is rejected.
pub(super) fn base64(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.iter().any(|digit| b"+/".contains(digit)) {
        return None;
    }
    let standard: Vec<u8> = digits
        .iter()
        .map(|digit| match digit {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        })
        .collect();
    let bytes = from_base64(&standard)?;
    (to_base64(&bytes).trim_end_matches('=').as_bytes() == standard).then_some(bytes)
}
