use super::*;
use crate::access::file;
use std::fs;

const SEARCH: &str = r#"
    [ldap]
    url = ["ldaps://dc1.example.com", "ldaps://dc2.example.com:3269"]
    service_dn = "cn=elastick,dc=example"
    service_password_file = "PASSWORD"
    search_base = "ou=people,dc=example"
    search_filter = "(&(objectClass=person)(uid={user}))"
    group_base = "ou=groups,dc=example"
    group_filter = "(member={dn})"

    [ldap.roles]
    Traders = ["query"]
"#;

const BIND: &str = r#"
    [ldap]
    url = "ldap://localhost"
    bind_dn = "uid={user},ou=people,dc=example"
    every_user = ["query"]
"#;

fn with_password(name: &str, mode: u32, text: &str) -> Result<Arc<Ldap>, String> {
    let path = std::env::temp_dir().join(format!("elastick-ldap-{}-{name}", std::process::id()));
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let parsed = file::parse(&SEARCH.replace("PASSWORD", path.to_str().unwrap()));
    fs::remove_file(path).unwrap();
    parsed.map(|parsed| parsed.ldap.unwrap())
}

#[test]
fn the_service_password_is_read_from_a_private_file_and_never_shown() {
    let ldap = with_password("good", 0o600, "s3cret-of-the-service\n").unwrap();
    assert_eq!(ldap.service.as_ref().unwrap().password, b"s3cret-of-the-service");
    assert!(!format!("{ldap:?}").contains("s3cret"));
    assert_eq!(ldap.servers.iter().map(|url| url.port).collect::<Vec<_>>(), [636, 3269]);
    assert!(with_password("open", 0o644, "secret").is_err_and(|reason| reason.contains("chmod 600")));
    assert!(with_password("empty", 0o600, "\n").is_err_and(|reason| reason.contains("is empty")));
}

#[test]
fn names_are_folded_and_those_that_could_be_another_are_rejected() {
    let ldap = file::parse(BIND).unwrap().ldap.unwrap();
    for (user, wanted) in [
        ("ann", Some("ann")),
        ("ANN", Some("ann")),
        ("ann.lee@example", Some("ann.lee@example")),
        ("van der berg", Some("van der berg")),
        ("", None),
        (" ann", None),
        ("ann ", None),
        ("ann  lee", None),
        ("ann\0", None),
        ("ann\n", None),
        ("ånn", None),
    ] {
        assert_eq!(ldap.folded(user.as_bytes()).as_deref(), wanted, "{user:?}");
    }
    assert_eq!(ldap.folded(&[b'a'; 129]), None);
    assert_eq!(ldap.folded(&[0xff]), None);
    let principal = file::parse(&BIND.replace("uid={user},ou=people,dc=example", "{user}@corp.example")).unwrap();
    let principal = principal.ldap.unwrap();
    assert_eq!(principal.bind_name("ann").as_deref(), Some("ann@corp.example"));
    for user in ["ann@other", "other\\ann", "cn=ann,dc=x", "a/b"] {
        assert_eq!(principal.folded(user.as_bytes()), None, "{user}");
    }
}

/// None of these names ends its value, or begins another one.
#[test]
fn a_name_cannot_leave_its_place_in_a_distinguished_name() {
    let ldap = file::parse(BIND).unwrap().ldap.unwrap();
    for (user, wanted) in [
        ("ann", "ann"),
        ("ann,ou=admins", "ann\\2cou\\3dadmins"),
        ("a+uid=root", "a\\2buid\\3droot"),
        ("a\"b\\c;d<e>f#g", "a\\22b\\5cc\\3bd\\3ce\\3ef\\23g"),
        ("{user}", "\\7buser\\7d"),
    ] {
        assert_eq!(ldap.bind_name(user), Some(format!("uid={wanted},ou=people,dc=example")), "{user}");
    }
}

#[test]
fn filters_are_parsed_before_names_are_put_in() {
    let text = |text: &str| Piece::Text(text.as_bytes().to_vec());
    let equal = |attribute: &str, value: Vec<Piece>| Filter::Equal(attribute.to_string(), value);
    for (filter, wanted) in [
        ("(uid={user})", equal("uid", vec![Piece::User])),
        ("(mail={user}@example.com)", equal("mail", vec![Piece::User, text("@example.com")])),
        ("(cn=a\\28b\\29\\2a)", equal("cn", vec![text("a(b)*")])),
        ("(cn=*)", Filter::Present("cn".to_string())),
        (
            "(& (objectClass=group)(!(cn=x))(| (a=1)(b=2)) )",
            Filter::And(vec![
                equal("objectClass", vec![text("group")]),
                Filter::Not(Box::new(equal("cn", vec![text("x")]))),
                Filter::Or(vec![equal("a", vec![text("1")]), equal("b", vec![text("2")])]),
            ]),
        ),
        (
            "(member:1.2.840.113556.1.4.1941:={dn})",
            Filter::Matches {
                attribute: "member".to_string(),
                rule: "1.2.840.113556.1.4.1941".to_string(),
                value: vec![Piece::Dn],
            },
        ),
    ] {
        assert_eq!(Filter::parse(filter), Ok(wanted), "{filter}");
    }
    assert_eq!(Piece::fill(&[Piece::User, text("@x")], "a)(uid=*", ""), b"a)(uid=*@x");
}

#[test]
fn a_wrong_filter_is_rejected() {
    let deep = format!("{}(a=b){}", "(!".repeat(20), ")".repeat(20));
    for filter in [
        "",
        "uid={user}",
        "(uid={user}",
        "(uid={user}))",
        "(uid)",
        "(&)",
        "(uid>=1)",
        "(uid~=a)",
        "(uid=a*)",
        "(=a)",
        "(u id=a)",
        "(uid={name})",
        "(uid=\\2)",
        "(uid=\\zz)",
        "(uid=\\+1)",
        "(uid::=a)",
        "(:dn:=a)",
        "(a=(b))",
        deep.as_str(),
    ] {
        assert!(Filter::parse(filter).is_err(), "{filter}");
    }
}

#[test]
fn a_wrong_table_is_rejected_with_the_reason() {
    for (from, to, wanted) in [
        ("ldap://localhost", "ldap://dc1.example.com", "plain text"),
        ("ldap://localhost", "ldaps://dc1/dc=example", "no path"),
        ("ldap://localhost\"", "ldaps://dc1\"\nstart_tls = true", "leave start_tls out"),
        ("uid={user},", "uid=ann,", "bind_dn needs {user}"),
        ("bind_dn = \"uid={user},ou=people,dc=example\"", "", "set bind_dn"),
        ("every_user = [\"query\"]", "", "no user has a role"),
        ("every_user", "service_dn = \"cn=x\"\nevery_user", "belong together"),
        ("every_user", "group_base = \"dc=x\"\nevery_user", "belong together"),
        (
            "every_user",
            "group_base = \"dc=x\"\ngroup_filter = \"(cn=x)\"\nevery_user",
            "every user would be in every group",
        ),
        ("every_user", "search_base = \"dc=x\"\nsearch_filter = \"(cn=x)\"\nevery_user", "search_filter needs {user}"),
        ("every_user = [\"query\"]", "[ldap.roles]\nx = [\"query\"]", "needs group_base"),
        ("every_user = [\"query\"]", "[ldap.roles]\nx = [\"query\"]\nX = [\"query\"]", "occurs twice"),
        (
            "uid={user},ou=people,dc=example\"",
            "{user}@example\"\ngroup_base = \"dc=x\"\ngroup_filter = \"(member={dn})\"",
            "{dn} of group_filter is not known",
        ),
    ] {
        let text = BIND.replace(from, to);
        assert_ne!(text, BIND);
        let reason = file::parse(&text).err().unwrap_or_default();
        assert!(reason.contains(wanted), "{to}: {reason}");
    }
}
