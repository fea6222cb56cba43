//! Tokens, each with one thing about it: what is accepted, and why the others are not.

use super::*;
use crate::access::file;
use crate::kernel::digest::to_base64;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

const NOW: u64 = 1_900_000_000;

const FILE: &str = r#"
    [oidc]
    jwks = "/etc/keys.json"
    issuer = "https://sso.example.com/realms/firm"
    audience = ["elastick", "market-data"]
    user_claim = "preferred_username"
    roles_claim = "realm_access.roles"

    [oidc.roles]
    traders = ["query"]
"#;

fn base64url(bytes: &[u8]) -> String {
    to_base64(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

/// An issuer with a P-256 key `p` and an Ed25519 key `e`.
struct Issuer {
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

impl Issuer {
    fn new() -> Issuer {
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Issuer {
            p256: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref(), &random).unwrap(),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap(),
        }
    }

    fn point(&self) -> &[u8] {
        self.p256.public_key().as_ref()
    }

    fn jwk(&self, name: &str) -> Value {
        match name {
            "p" => {
                let (x, y) = (base64url(&self.point()[1..33]), base64url(&self.point()[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": "p", "alg": "ES256", "use": "sig", "x": x, "y": y})
            }
            _ => {
                let x = base64url(self.ed25519.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": "e", "x": x})
            }
        }
    }

    fn keys(&self) -> Keys {
        let others =
            [json!({"kty": "oct", "k": "c2VjcmV0", "kid": "h"}), json!({"kty": "RSA", "use": "enc"}), json!(7)];
        let keys: Vec<Value> = [self.jwk("p"), self.jwk("e")].into_iter().chain(others).collect();
        Keys::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn sign(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()));
        let signature = match header.contains("EdDSA") {
            true => self.ed25519.sign(signed.as_bytes()).as_ref().to_vec(),
            false => self.p256.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{signed}.{}", base64url(&signature))
    }
}

fn oidc(text: &str) -> Arc<Oidc> {
    file::parse(text).unwrap().oidc.unwrap()
}

fn decide(oidc: &Oidc, keys: &Keys, token: &str, user: &str) -> Result<Claimed, &'static str> {
    let token = Token::parse(token.as_bytes())?;
    oidc.accepts(&token)?;
    keys.verify(&token).map_err(|error| match error {
        SignatureError::UnknownKey => "unknown key",
        SignatureError::Wrong(reason) => reason,
    })?;
    oidc.claimed(&token, user.as_bytes(), Duration::from_secs(NOW))
}

fn claims() -> Value {
    json!({
        "iss": "https://sso.example.com/realms/firm",
        "aud": "elastick",
        "exp": NOW + 300,
        "preferred_username": "ann",
        "realm_access": {"roles": ["traders", "offline_access"]},
    })
}

fn with(changes: Value) -> String {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value.is_null() {
            true => drop(claims.as_object_mut().unwrap().remove(name)),
            false => claims[name] = value.clone(),
        }
    }
    claims.to_string()
}

const ES256: &str = r#"{"alg":"ES256","kid":"p","typ":"JWT"}"#;

#[test]
fn claims_decide() {
    let (issuer, oidc) = (Issuer::new(), oidc(FILE));
    let keys = issuer.keys();
    for (changes, wanted) in [
        (json!({}), Ok(())),
        (json!({"aud": ["other", "market-data"]}), Ok(())),
        (json!({"exp": NOW - 59}), Ok(())),
        (json!({"exp": NOW as f64 + 0.5}), Ok(())),
        (json!({"exp": 1e300}), Ok(())),
        (json!({"nbf": NOW + 60}), Ok(())),
        (json!({"exp": NOW - 60}), Err("expired")),
        (json!({"exp": null}), Err("no expiry")),
        (json!({"exp": "1900009999"}), Err("no expiry")),
        (json!({"exp": -1e300}), Err("expired")),
        (json!({"nbf": NOW + 61}), Err("not valid yet")),
        (json!({"nbf": "0"}), Err("nbf")),
        (json!({"aud": "elastic"}), Err("another audience")),
        (json!({"aud": ["other"]}), Err("another audience")),
        (json!({"aud": []}), Err("another audience")),
        (json!({"aud": null}), Err("another audience")),
        (json!({"aud": {"elastick": "elastick"}}), Err("another audience")),
        (json!({"iss": "https://sso.example.com/realms/firm/"}), Err("another issuer")),
        (json!({"iss": null}), Err("another issuer")),
        (json!({"iss": ["https://sso.example.com/realms/firm"]}), Err("another issuer")),
        (json!({"preferred_username": null}), Err("no user name")),
        (json!({"preferred_username": ""}), Err("no user name")),
        (json!({"preferred_username": "ann\nbob"}), Err("no user name")),
        (json!({"preferred_username": "x".repeat(257)}), Err("no user name")),
        (json!({"preferred_username": 7}), Err("no user name")),
        (json!({"preferred_username": "bob"}), Err("another user")),
    ] {
        let token = issuer.sign(ES256, &with(changes.clone()));
        let decided = decide(&oidc, &keys, &token, "ann").map(|claimed| assert_eq!(claimed.user, b"ann"));
        match (decided, wanted) {
            (Ok(()), Ok(())) => {}
            (Err(reason), Err(wanted)) => assert!(reason.contains(wanted), "{changes}: {reason}"),
            (decided, wanted) => panic!("{changes}: {decided:?}, not {wanted:?}"),
        }
    }
}

/// The last digit of a signature of 64 bytes has four bits that mean nothing.
fn same_bytes(token: &str) -> String {
    let (rest, last) = token.split_at(token.len() - 1);
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = digits.find(last).unwrap();
    format!("{rest}{}", &digits[at + 1..at + 2])
}

#[test]
fn headers_and_signatures_decide() {
    let (issuer, stranger, oidc) = (Issuer::new(), Issuer::new(), oidc(FILE));
    let (keys, whole) = (issuer.keys(), claims().to_string());
    let signed = |header: &str| issuer.sign(header, &whole);
    let good = signed(ES256);
    let parts: Vec<&str> = good.split('.').collect();
    // The public key is known to everybody: taken for the key of an HMAC, anybody could sign with it.
    let confused = {
        let text = format!("{}.{}", base64url(br#"{"alg":"HS256","kid":"p"}"#), parts[1]);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, issuer.point()), text.as_bytes());
        format!("{text}.{}", base64url(tag.as_ref()))
    };
    let other_claims = base64url(with(json!({"preferred_username": "ann", "x": 1})).as_bytes());
    for (what, token, wanted) in [
        ("ES256", good.clone(), Ok(())),
        ("EdDSA", signed(r#"{"alg":"EdDSA","kid":"e"}"#), Ok(())),
        ("one fitting key needs no name", signed(r#"{"alg":"ES256"}"#), Ok(())),
        ("none", format!("{}.{}.", base64url(br#"{"alg":"none"}"#), parts[1]), Err("algorithm")),
        ("None", format!("{}.{}.AA", base64url(br#"{"alg":"None","kid":"p"}"#), parts[1]), Err("algorithm")),
        ("HS256 with the public key", confused, Err("algorithm")),
        ("no algorithm", signed(r#"{"kid":"p"}"#), Err("header")),
        ("two algorithms", signed(r#"{"alg":"none","alg":"ES256","kid":"p"}"#), Err("header")),
        ("another key's algorithm", signed(r#"{"alg":"EdDSA","kid":"p"}"#), Err("not for its algorithm")),
        ("RSA's algorithm", signed(r#"{"alg":"RS256","kid":"p"}"#), Err("not for its algorithm")),
        ("the symmetric key", signed(r#"{"alg":"ES256","kid":"h"}"#), Err("unknown key")),
        ("an unknown key", signed(r#"{"alg":"ES256","kid":"q"}"#), Err("unknown key")),
        ("an extension", signed(r#"{"alg":"ES256","kid":"p","crit":["exp"]}"#), Err("crit")),
        ("another signer", stranger.sign(ES256, &whole), Err("signature")),
        ("other claims", format!("{}.{other_claims}.{}", parts[0], parts[2]), Err("signature")),
        ("no signature", format!("{}.{}.", parts[0], parts[1]), Err("signature")),
        ("a part of the signature", good[..good.len() - 2].to_string(), Err("signature")),
        ("bad base64", format!("{}.{}.!!!!", parts[0], parts[1]), Err("malformed")),
        ("base64 of the other alphabet", format!("{}.{}.++//", parts[0], parts[1]), Err("malformed")),
        ("another text of the same bytes", same_bytes(&good), Err("malformed")),
        ("no JSON", format!("{}.{}.{}", base64url(b"{alg"), parts[1], parts[2]), Err("header")),
        ("two parts", format!("{}.{}", parts[0], parts[1]), Err("malformed")),
        ("nothing", String::new(), Err("malformed")),
        ("no claims", issuer.sign(ES256, "[]"), Err("another issuer")),
        ("claims that are no JSON", issuer.sign(ES256, "{"), Err("claims")),
    ] {
        match (decide(&oidc, &keys, &token, "ann").map(drop), wanted) {
            (Ok(()), Ok(())) => {}
            (Err(reason), Err(wanted)) => assert!(reason.contains(wanted), "{what}: {reason}"),
            (decided, wanted) => panic!("{what}: {decided:?}, not {wanted:?}"),
        }
    }
}

#[test]
fn a_token_without_a_key_name_is_rejected_where_several_keys_fit() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let mut second = other.jwk("p");
    second["kid"] = json!("q");
    let keys = Keys::parse(json!({"keys": [issuer.jwk("p"), second]}).to_string().as_bytes()).unwrap();
    let token = issuer.sign(r#"{"alg":"ES256"}"#, &claims().to_string());
    let token = Token::parse(token.as_bytes()).unwrap();
    assert!(matches!(keys.verify(&token), Err(SignatureError::Wrong(reason)) if reason.contains("several")));
}

#[test]
fn only_configured_algorithms_are_accepted() {
    let (issuer, oidc) =
        (Issuer::new(), oidc(&FILE.replace("issuer =", "algorithms = [\"RS256\", \"ES256\"]\nissuer =")));
    let keys = issuer.keys();
    let token = |header| issuer.sign(header, &claims().to_string());
    assert!(decide(&oidc, &keys, &token(ES256), "").is_ok());
    assert!(
        decide(&oidc, &keys, &token(r#"{"alg":"EdDSA","kid":"e"}"#), "").is_err_and(|why| why.contains("algorithm"))
    );
}

#[test]
fn the_user_may_be_left_out_and_need_not_agree_if_any_user_is_allowed() {
    let issuer = Issuer::new();
    let (keys, token) = (issuer.keys(), issuer.sign(ES256, &claims().to_string()));
    let any = oidc(&FILE.replace("issuer =", "any_user = true\nissuer ="));
    for (rules, user, is_admitted) in
        [(oidc(FILE), "", true), (oidc(FILE), "ann", true), (oidc(FILE), "Ann", false), (any, "token", true)]
    {
        assert_eq!(decide(&rules, &keys, &token, user).is_ok(), is_admitted, "{user}");
    }
}

#[test]
fn roles_come_from_nested_claims_lists_and_words() {
    let issuer = Issuer::new();
    let keys = issuer.keys();
    for (claim, changes, wanted) in [
        ("realm_access.roles", json!({}), vec!["offline_access", "traders"]),
        ("groups", json!({"groups": ["/a b", "/a b", 7]}), vec!["/a b"]),
        ("scope", json!({"scope": "openid desk"}), vec!["desk", "openid"]),
        ("https://firm/roles.v2", json!({"https://firm/roles.v2": ["desk"]}), vec!["desk"]),
        ("resource_access.elastick.roles", json!({"resource_access": {"elastick": {"roles": ["x"]}}}), vec!["x"]),
        ("realm_access", json!({}), vec![]),
        ("no.such", json!({}), vec![]),
    ] {
        let rules = oidc(&FILE.replace("realm_access.roles", claim));
        let claimed = decide(&rules, &keys, &issuer.sign(ES256, &with(changes)), "").unwrap();
        assert_eq!(claimed.values.iter().map(String::as_str).collect::<Vec<_>>(), wanted, "{claim}");
    }
}

#[test]
fn the_connection_ends_with_the_token_unless_it_may_stay() {
    let issuer = Issuer::new();
    let (keys, token) = (issuer.keys(), issuer.sign(ES256, &claims().to_string()));
    let left = |rules: &Oidc| decide(rules, &keys, &token, "").unwrap().left;
    assert_eq!(left(&oidc(FILE)), Some(Duration::from_secs(360)));
    assert_eq!(left(&oidc(&FILE.replace("issuer =", "leeway = \"5s\"\nissuer ="))), Some(Duration::from_secs(305)));
    assert_eq!(left(&oidc(&FILE.replace("issuer =", "disconnect_at_expiry = false\nissuer ="))), None);
    let endless = issuer.sign(ES256, &with(json!({"exp": 1e300})));
    assert_eq!(decide(&oidc(FILE), &keys, &endless, "").unwrap().left, None);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_rejected(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64),
        header in "[{}\\[\\]\",:a-z0-9]{0,40}",
    ) {
        assert!(Token::parse(&bytes).is_err() && Keys::parse(&bytes).is_err());
        let token = format!("{}.{}.AAAA", base64url(header.as_bytes()), base64url(&bytes));
        assert!(Token::parse(token.as_bytes()).is_err() || header.contains("alg"));
    }
}

#[test]
fn passwords_that_are_tokens() {
    let token = Issuer::new().sign(ES256, &claims().to_string());
    for (password, is) in [
        (token.as_str(), true),
        ("secret", false),
        ("eyJ", false),
        ("eyJh.b", false),
        ("eyJ.b.c.d", false),
        ("eyJ a.b.c", false),
    ] {
        assert_eq!(is_token(password.as_bytes()), is, "{password}");
    }
}

#[test]
fn a_jwks_without_a_usable_key_is_an_error() {
    for (document, wanted) in [
        ("", "no JWKS"),
        ("{}", "no JWKS"),
        ("{\"keys\": []}", "no public key"),
        (
            r#"{"keys": [{"kty": "oct", "k": "AA"}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}"#,
            "no public key",
        ),
    ] {
        assert!(Keys::parse(document.as_bytes()).is_err_and(|reason| reason.contains(wanted)), "{document}");
    }
}

#[test]
fn a_wrong_table_is_rejected_with_the_reason() {
    for (from, to, wanted) in [
        ("issuer =", "algorithms = [\"HS256\"]\nissuer =", "\"HS256\" is not one of RS256"),
        ("issuer =", "algorithms = [\"none\"]\nissuer =", "\"none\" is not one of"),
        ("issuer =", "algorithms = []\nissuer =", "must not be empty"),
        ("issuer =", "leeway = \"long\"\nissuer =", "leeway"),
        ("issuer =", "keys_lifetime = \"0s\"\nissuer =", "keys_lifetime"),
        ("[\"elastick\", \"market-data\"]", "[]", "must not be empty"),
        ("issuer =", "isuer =", "unknown field `isuer`"),
        ("/etc/keys.json", "http://sso.example.com/keys", "use https://"),
        ("/etc/keys.json", "ftp://sso.example.com/keys", "jwks: "),
        ("\"query\"", "\"dsk\"", "[oidc.roles] \"traders\": there is no role \"dsk\""),
        ("traders = [\"query\"]", "", "no token has a role"),
        ("roles_claim = \"realm_access.roles\"", "", "needs roles_claim"),
    ] {
        let text = FILE.replace(from, to);
        assert_ne!(text, FILE);
        let reason = file::parse(&text).err().unwrap_or_default();
        assert!(reason.contains(wanted), "{to}: {reason}");
    }
}
