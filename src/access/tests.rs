//! Tests of users files and of the union of roles.

use super::file;
use super::grants::Union;
use super::*;
use crate::kernel::digest::{hex, md5, sha1};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn written(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("elastick-users-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn users(name: &str, text: &str, operators: &[&str]) -> Result<Users, FileError> {
    let path = written(name, text);
    let users = Users::read(&path, &operators.iter().map(|name| name.as_bytes().to_vec()).collect());
    std::fs::remove_file(path).unwrap();
    users
}

fn refused(text: &str) -> String {
    file::parse(text).err().expect("a refusal")
}

const FIRM: &str = r#"
    [roles.desk]
    subscribe = { trade = ["AAPL", "MSFT"], quote = true }
    query = { trade = "sym in `AAPL`MSFT" }

    [roles.audit]
    query = ["trade"]

    [users.feed]
    password = "f"
    roles = ["publish"]

    [users.ann]
    password = "a"
    roles = ["desk"]

    [users.bob]
    password = "b"
    roles = ["desk", "audit", "operator"]

    [users.node]
    certificates = ["rdb.example.com"]
    roles = ["node"]
"#;

#[test]
fn passwords_may_be_plain_or_hashed() {
    let text = format!("ann:secret\r\nbob:{}\n\ncy:{}\n", hex(&md5(b"b:b")), hex(&sha1(b"c")).to_uppercase());
    let users = users("kdb", &text, &[]).unwrap();
    for (user, password, admitted) in [
        ("ann", "secret", true),
        ("ann", "Secret", false),
        ("bob", "b:b", true),
        ("bob", "b", false),
        ("cy", "c", true),
        ("dee", "", false),
        ("", "", false),
    ] {
        assert_eq!(users.check(user.as_bytes(), password.as_bytes()).decide().is_some(), admitted, "{user}:{password}");
    }
}

#[test]
fn a_hash_is_not_a_password() {
    let digest = hex(&md5(b"secret"));
    let users = users("hash", &format!("ann:{digest}\n"), &[]).unwrap();
    assert!(users.check(b"ann", digest.as_bytes()).decide().is_none());
    assert_eq!(users.weak(), [("MD5", 1)].into());
}

#[test]
fn a_slow_hash_is_checked_elsewhere_for_unknown_users_too() {
    let text = format!("ann:{}\nbob:plain\n", hashed(b"secret").unwrap());
    let users = users("slow", &text, &[]).unwrap();
    for (user, password, admitted) in [("ann", "secret", true), ("ann", "Secret", false), ("cy", "secret", false)] {
        let check = users.check(user.as_bytes(), password.as_bytes());
        assert!(matches!(check, Check::Slow(_)), "{user}");
        assert_eq!(check.decide().is_some(), admitted, "{user}:{password}");
    }
    assert!(matches!(users.check(b"bob", b"plain"), Check::Admitted(_)));
    assert_eq!(users.weak(), [("plain text", 1)].into());
}

#[test]
fn a_hash_that_cannot_be_used_is_refused_with_its_user() {
    assert!(
        refused("[users.ann]\npassword = \"$argon2id$x\"\nroles = []\n").contains("[users.ann]: the password's hash")
    );
}

#[test]
fn a_line_without_a_password_is_named() {
    assert!(users("line", "ann:x\nbob\n", &[]).err().is_some_and(|error| error.to_string().contains("line 2")));
}

#[test]
fn users_of_kdb_are_clients_and_named_ones_operators() {
    let users = users("operators", "ann:a\nbob:b\n", &["bob", "cy"]).unwrap();
    let (ann, bob) = (users.check(b"ann", b"a").decide().unwrap(), users.check(b"bob", b"b").decide().unwrap());
    assert_eq!(Role::ALL.map(|role| ann.has(role)), [true, true, true, false, false]);
    assert_eq!(Role::ALL.map(|role| bob.has(role)), [true, true, true, false, true]);
    assert!(users.check(b"cy", b"").decide().is_none());
}

#[test]
fn a_user_has_the_union_of_the_roles() {
    let users = file::parse(FIRM).unwrap().users;
    let of = |name: &str| Arc::clone(&users.get(name.as_bytes()).unwrap().grants);
    let (feed, ann, bob) = (of("feed"), of("ann"), of("bob"));
    assert!(feed.publishes(b"trade") && !feed.has(Role::Query) && !feed.has(Role::Subscribe));
    let symbols: BTreeSet<Vec<u8>> = [b"AAPL".to_vec(), b"MSFT".to_vec()].into();
    assert_eq!(ann.subscribe.of(b"trade"), Some(Names::Only(symbols)));
    assert_eq!(ann.subscribe.of(b"quote"), Some(Names::All));
    assert_eq!(ann.subscribe.of(b"orders"), None);
    assert_eq!(ann.query.of(b"trade"), Some(Rows::Where(["sym in `AAPL`MSFT".to_string()].into())));
    assert_eq!(ann.query.of(b"quote"), None);
    assert!(!ann.operator && bob.operator);
    assert_eq!(bob.query.of(b"trade"), Some(Rows::All));
}

#[test]
fn a_user_without_a_password_logs_in_with_a_certificate_only() {
    let users = users("firm.toml", FIRM, &[]).unwrap();
    assert!(users.check(b"node", b"").decide().is_none());
    assert_eq!(users.of_certificate("rdb.example.com"), Some(b"node".to_vec()));
    assert_eq!(users.of_certificate("other.example.com"), None);
    assert!(users.grants(b"node").is_some_and(|grants| grants.joins(b"rdb") && !grants.has(Role::Query)));
}

#[test]
fn a_wrong_file_is_refused_with_the_place() {
    for (text, place) in [
        ("[users.ann]\nroles = [\"dsk\"]\n", "no role \"dsk\""),
        ("[users.ann]\nrole = [\"query\"]\n", "unknown field `role`"),
        ("[users.ann]\npassword = \"a\"\n", "missing field `roles`"),
        ("[roles.node]\nnode = true\n", "built-in role"),
        ("[roles.desk]\nquery = 3\n", "for each table true or a where-clause"),
        ("[roles.desk\n", "line 1: "),
        ("[users.ann]\npassword = \"s3cret\nroles = []\n", "line 2: "),
    ] {
        let reason = refused(text);
        assert!(reason.contains(place) && !reason.contains("s3cret"), "{text}: {reason}");
    }
}

#[test]
fn a_union_with_all_is_all() {
    let some = || Names::Only([b"a".to_vec()].into());
    for (mut own, other) in [(some(), Names::All), (Names::All, some())] {
        own.unite(&other);
        assert_eq!(own, Names::All);
    }
}

#[test]
fn without_users_named_operators_are_the_only_ones() {
    let operators = |names: &[&[u8]]| names.iter().map(|name| name.to_vec()).collect();
    let has = |access: &Anyone, user: &[u8]| access.check(user, b"").decide().unwrap().operator;
    assert!(has(&Anyone::new(operators(&[])), b""));
    let named = Anyone::new(operators(&[b"ann"]));
    assert!(has(&named, b"ann") && !has(&named, b"bob"));
    let checked = Anyone::checked(operators(&[]));
    assert!(!has(&checked, b"ann") && !checked.check(b"ann", b"").decide().unwrap().has(Role::Node));
}

const OUTSIDE: &str = r#"
    [users.ann]
    password = "a"
    roles = ["query"]

    [oidc]
    jwks = "/keys.json"
    issuer = "https://sso"
    audience = "elastick"
    roles_claim = "groups"
    [oidc.roles]
    traders = ["query"]

    [ldap]
    url = "ldaps://dc1"
    bind_dn = "uid={user},dc=x"
    group_base = "dc=x"
    group_filter = "(member={dn})"
    [ldap.roles]
    Traders = ["publish"]
"#;

fn identity(by: &str, user: &str, values: &[&str]) -> Arc<Identity> {
    let values = values.iter().map(|value| value.to_string()).collect();
    Arc::new(Identity { by: by.into(), user: user.as_bytes().to_vec(), values, until: None })
}

#[test]
fn the_file_decides_first_then_the_issuer_then_the_directory() {
    let token = "eyJhbGciOiJFUzI1NiJ9.e30.AA";
    let users = users("outside.toml", OUTSIDE, &[]).unwrap();
    for (user, password, wanted) in [
        ("ann", "a", "admitted"),
        ("ann", "b", "refused"),
        // A name in the file gets nowhere else, in no spelling.
        ("ann", token, "refused"),
        ("ANN", "b", "refused"),
        ("bob", token, "token"),
        ("", token, "token"),
        ("bob", "b", "bind"),
        ("bob", "", "refused"),
        ("", "b", "refused"),
        ("bob ", "b", "refused"),
    ] {
        let found = match users.check(user.as_bytes(), password.as_bytes()) {
            Check::Admitted(_) => "admitted",
            Check::Refused => "refused",
            Check::Slow(_) => "slow",
            Check::External(ExternalLogin::Token(_)) => "token",
            Check::External(ExternalLogin::Bind(_)) => "bind",
        };
        assert_eq!(found, wanted, "{user}:{password}");
    }
}

#[test]
fn roles_of_an_identity_are_those_of_its_values_at_its_own_service() {
    let users = users("identity.toml", OUTSIDE, &[]).unwrap();
    for (by, user, values, wanted) in [
        ("https://sso", "bob", vec!["traders", "x"], Ok([false, true])),
        ("ldaps://dc1", "bob", vec!["traders"], Ok([true, false])),
        ("https://sso", "bob", vec!["Traders"], Err("no role")),
        ("https://sso", "bob", vec![], Err("no role")),
        ("https://sso", "ann", vec!["traders"], Err("in the users file")),
        ("https://sso", "cluster", vec!["traders"], Err("in the users file")),
        ("https://evil", "bob", vec!["traders"], Err("any more")),
    ] {
        match (users.identified(&identity(by, user, &values)), wanted) {
            (Ok(grants), Ok(wanted)) => {
                assert_eq!([Role::Publish, Role::Query].map(|role| grants.has(role)), wanted, "{by} {values:?}");
                assert!(grants.by_name && !grants.has(Role::Node) && grants.identity.is_some());
            }
            (Err(reason), Err(wanted)) => assert!(reason.contains(wanted), "{by} {user}: {reason}"),
            (found, wanted) => panic!("{by} {user} {values:?}: {found:?}, not {wanted:?}"),
        }
    }
}
