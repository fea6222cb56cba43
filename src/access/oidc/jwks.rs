//! Public keys of an issuer (JWKS, RFC 7517), and the verification of a token's signature. The cryptography is `ring`'s.

use super::algorithm::Algorithm;
use super::jwt::{Token, base64};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde::Deserialize;

/// A key's numbers. The kind of key decides which algorithms it verifies, so a token cannot choose another one for it.
#[derive(Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Debug)]
struct Key {
    name: Option<String>,
    /// The one algorithm that its issuer uses it for.
    algorithm: Option<Algorithm>,
    material: Material,
}

impl Key {
    fn fits(&self, algorithm: Algorithm) -> bool {
        let kind = match (&self.material, algorithm) {
            (Material::Rsa { .. }, algorithm) => algorithm.rsa().is_some(),
            (Material::P256(_), Algorithm::Es256)
            | (Material::P384(_), Algorithm::Es384)
            | (Material::Ed25519(_), Algorithm::EdDsa) => true,
            _ => false,
        };
        kind && self.algorithm.is_none_or(|own| own == algorithm)
    }

    fn has_signed(&self, token: &Token<'_>) -> bool {
        let (signed, signature) = (token.signed, token.signature.as_slice());
        let curve = |of: &'static dyn VerificationAlgorithm, point: &[u8]| {
            UnparsedPublicKey::new(of, point).verify(signed, signature).is_ok()
        };
        match (&self.material, token.algorithm.rsa()) {
            (Material::Rsa { n, e }, Some(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature).is_ok()
            }
            (Material::P256(point), None) => curve(&ECDSA_P256_SHA256_FIXED, point),
            (Material::P384(point), None) => curve(&ECDSA_P384_SHA384_FIXED, point),
            (Material::Ed25519(point), None) => curve(&ED25519, point),
            _ => false,
        }
    }
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Entry {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Entry {
    /// `None` for a key that verifies no token: for encryption, symmetric, or of an unknown kind.
    fn key(self) -> Option<Key> {
        if self.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let algorithm = match &self.alg {
            Some(name) => Some(Algorithm::named(name)?),
            None => None,
        };
        let number = |text: &Option<String>| base64(text.as_ref()?.as_bytes());
        let point = |bytes: usize| {
            let (x, y) = (number(&self.x)?, number(&self.y)?);
            // 4 stands for a point that is not compressed.
            (x.len() == bytes && y.len() == bytes).then(|| [&[4], x.as_slice(), &y].concat())
        };
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: without_zeros(number(&self.n)?), e: without_zeros(number(&self.e)?) },
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(number(&self.x)?),
            _ => return None,
        };
        Some(Key { name: self.kid, algorithm, material })
    }
}

/// Some issuers write a number with a leading zero, which `ring` rejects.
fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    number.into_iter().skip_while(|byte| *byte == 0).collect()
}

/// Why a signature was not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// No key has the token's name: the issuer may have new ones.
    UnknownKey,
    Wrong(&'static str),
}

/// The public keys of an issuer.
#[derive(Debug)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Parses a JWKS document; keys that cannot verify tokens are left out.
    ///
    /// # Errors
    /// It is no JWKS, or has no usable key.
    pub fn parse(document: &[u8]) -> Result<Keys, String> {
        let document: Document = serde_json::from_slice(document).map_err(|error| format!("is no JWKS: {error}"))?;
        let entries = document.keys.into_iter().filter_map(|key| serde_json::from_value::<Entry>(key).ok());
        let keys: Vec<Key> = entries.filter_map(Entry::key).collect();
        match keys.is_empty() {
            true => Err("has no public key of a supported kind (RSA, P-256, P-384, Ed25519)".to_string()),
            false => Ok(Keys(keys)),
        }
    }

    /// Verifies that one of the keys has signed the token.
    ///
    /// # Errors
    /// The key is unknown, or the signature wrong.
    pub fn verify(&self, token: &Token<'_>) -> Result<(), SignatureError> {
        let fitting = || self.0.iter().filter(|key| key.fits(token.algorithm));
        let candidates: Vec<&Key> = match &token.key {
            Some(name) => {
                if !self.0.iter().any(|key| key.name.as_ref() == Some(name)) {
                    return Err(SignatureError::UnknownKey);
                }
                fitting().filter(|key| key.name.as_ref() == Some(name)).collect()
            }
            None => fitting().collect(),
        };
        if token.key.is_none() && candidates.len() > 1 {
            return Err(SignatureError::Wrong("the token names no key (kid), and the issuer has several"));
        }
        if candidates.is_empty() {
            return Err(SignatureError::Wrong("the token's key is not for its algorithm"));
        }
        match candidates.iter().any(|key| key.has_signed(token)) {
            true => Ok(()),
            false => Err(SignatureError::Wrong("the token's signature is wrong")),
        }
    }
}
