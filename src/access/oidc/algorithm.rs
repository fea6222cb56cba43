//! Signature algorithms of tokens (RFC 7518, RFC 8037).

use ring::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
};

/// Signature algorithms. All have a public key: with `none` or `HS256` anybody who knows the public key could sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub const ALL: [(Algorithm, &str); 9] = [
        (Algorithm::Rs256, "RS256"),
        (Algorithm::Rs384, "RS384"),
        (Algorithm::Rs512, "RS512"),
        (Algorithm::Ps256, "PS256"),
        (Algorithm::Ps384, "PS384"),
        (Algorithm::Ps512, "PS512"),
        (Algorithm::Es256, "ES256"),
        (Algorithm::Es384, "ES384"),
        (Algorithm::EdDsa, "EdDSA"),
    ];

    pub(super) fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|(_, known)| *known == name).map(|(algorithm, _)| algorithm)
    }

    pub(super) fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
            Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
        })
    }
}
