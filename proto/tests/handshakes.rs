//! Logins, as clients send them.

use elastick_proto::handshake::{self, Credentials, HandshakeError, MAX_LOGIN_BYTES};

fn login(bytes: &[u8]) -> (Credentials, usize) {
    handshake::parse(bytes).expect("a login").expect("whole")
}

fn credentials(user: &[u8], password: &[u8], capability: u8) -> Credentials {
    Credentials { user: user.to_vec(), password: password.to_vec(), capability, explains: false }
}

#[test]
fn logins_seen_on_the_wire_are_understood() {
    let cases: [(&[u8], Credentials); 6] = [
        (b"bob:pw\x03\0", credentials(b"bob", b"pw", 3)),
        (b"bob:pw\x06\0", credentials(b"bob", b"pw", 6)),
        (b":\x06\0", credentials(b"", b"", 6)),
        (b"anonymous\x03\0", credentials(b"anonymous", b"", 3)),
        (b"\x03\0", credentials(b"", b"", 3)),
        (b"b:p:q\x06\0", credentials(b"b", b"p:q", 6)),
    ];
    for (bytes, expected) in cases {
        assert_eq!(login(bytes), (expected, bytes.len()));
    }
}

#[test]
fn a_console_asks_for_reasons_in_a_bit_that_is_no_capability() {
    let hello = handshake::hello(b"bob", b"pw", handshake::CAPABILITY | handshake::EXPLAINS);
    let expected = Credentials { explains: true, ..credentials(b"bob", b"pw", 6) };
    assert_eq!(login(&hello), (expected, hello.len()));
    assert_eq!(handshake::answer(login(&hello).0.capability), 6);
}

#[test]
fn a_login_without_capability_is_that_of_an_old_client() {
    assert_eq!(login(b"bob:pw\0").0, credentials(b"bob", b"pw", 0));
    assert_eq!(login(b"\0").0, credentials(b"", b"", 0));
}

#[test]
fn bytes_after_a_login_are_not_consumed() {
    assert_eq!(login(b"a:b\x03\0\x01\0\0\0").1, 5);
}

#[test]
fn a_login_in_parts_is_waited_for() {
    let whole = b"bob:pw\x03\0";
    for cut in 0..whole.len() {
        assert_eq!(handshake::parse(&whole[..cut]), Ok(None));
    }
}

#[test]
fn a_login_without_end_is_rejected_at_the_limit() {
    assert_eq!(handshake::parse(&vec![b'x'; MAX_LOGIN_BYTES - 1]), Ok(None));
    assert_eq!(handshake::parse(&vec![b'x'; MAX_LOGIN_BYTES]), Err(HandshakeError::TooLong));
    let mut late = vec![b'x'; MAX_LOGIN_BYTES + 5];
    late.push(0);
    assert_eq!(handshake::parse(&late), Err(HandshakeError::TooLong));
}

#[test]
fn a_browser_is_recognised() {
    assert_eq!(handshake::parse(b"GET /metrics HTTP/1.1\r\n"), Err(HandshakeError::Http));
}

#[test]
fn the_common_capability_is_the_smaller_one() {
    assert_eq!([0, 3, 6, 7].map(handshake::answer), [0, 3, 6, 6]);
    assert_eq!(handshake::accepted(&[3]), Some(3));
    assert_eq!(handshake::accepted(&[]), None);
}

#[test]
fn a_client_says_what_a_server_understands() {
    let hello = handshake::hello(b"bob", b"p:w", 6);
    assert_eq!(login(&hello), (credentials(b"bob", b"p:w", 6), hello.len()));
}

#[test]
fn a_client_without_capability_leaves_nothing_behind_its_login() {
    let hello = handshake::hello(b"bob", b"p:w", 0);
    assert_eq!(login(&hello), (credentials(b"bob", b"p:w", 0), hello.len()));
}

#[test]
fn a_password_never_shows_in_debug_output() {
    assert!(!format!("{:?}", credentials(b"bob", b"secret", 6)).contains("secret"));
}
