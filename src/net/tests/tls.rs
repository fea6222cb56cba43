//! TLS clients, beside plain ones.

use super::*;
use crate::config::TlsMode;
use crate::net::tls::fixture::{FILES, settings};
use crate::net::tls::{Door, TlsSettings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

fn serving(settings: &TlsSettings) -> Running {
    let door = Door::of(settings).unwrap();
    Running::started(Limits::default(), Box::new(Anyone::new(BTreeSet::new())), None, &[], Some(door))
}

fn connect(server: &Running) -> Result<Client, ClientError> {
    let address = format!("tcps://localhost:{}:ann:pw", server.port).parse().unwrap();
    Client::connect(&address, PATIENCE, proto::Limits::default())
}

/// A client independent of [`Client`], with a certificate of its own or none.
fn other_client(server: &Running, with_certificate: bool) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&FILES.authority).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match with_certificate {
        true => {
            let key = PrivateKeyDer::from_pem_file(&FILES.own.1).unwrap();
            builder.with_client_auth_cert(vec![CertificateDer::from_pem_file(&FILES.own.0).unwrap()], key).unwrap()
        }
        false => builder.with_no_client_auth(),
    };
    let tls = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    StreamOwned::new(tls, server.raw())
}

#[test]
fn one_port_takes_plain_and_tls_clients() {
    let server = serving(&settings(TlsMode::Both));
    for mut client in [connect(&server).unwrap(), server.client()] {
        assert_eq!(client.query("hello").unwrap(), Value::chars("hello"));
    }
}

#[test]
fn messages_longer_than_any_buffer_arrive_whole_in_both_directions() {
    let server = serving(&settings(TlsMode::Only));
    let mut client = connect(&server).unwrap();
    for length in [1, 16_383, 16_384, 200_000, 9_000_001] {
        let text: String = (0..length).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        assert!(client.query(&text).unwrap() == Value::chars(text.as_str()), "{length} bytes");
    }
}

#[test]
fn a_plain_client_of_a_tls_port_is_disconnected() {
    let server = serving(&settings(TlsMode::Only));
    let refused = Client::connect(&server.address(), PATIENCE, proto::Limits::default()).err();
    assert!(matches!(refused, Some(ClientError::Refused(_))), "{refused:?}");
}

#[test]
fn a_tls_client_of_a_plain_port_learns_why_it_cannot_connect() {
    let server = Running::new();
    let error = connect(&server).err().unwrap().to_string();
    assert!(error.contains("does it listen with TLS"), "{error}");
}

#[test]
fn a_handshake_that_arrives_byte_by_byte_holds_up_nobody() {
    let server = serving(&settings(TlsMode::Both));
    let mut slow = other_client(&server, false);
    let mut hello = Vec::new();
    slow.conn.write_tls(&mut hello).unwrap();
    let mut other = connect(&server).unwrap();
    for (at, byte) in hello.iter().enumerate() {
        slow.sock.write_all(&[*byte]).unwrap();
        if at % 50 == 0 {
            assert_eq!(other.query("hello").unwrap(), Value::chars("hello"));
        }
    }
    slow.write_all(b"bob:pw\x03\0").unwrap();
    let mut answer = [0];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [3]);
}

#[test]
fn a_client_sends_a_certificate_where_one_is_required() {
    let server = serving(&TlsSettings { verify_client: true, ..settings(TlsMode::Only) });
    let mut without = other_client(&server, false);
    let refused = without.write_all(b"bob:pw\x03\0").and_then(|()| without.read_exact(&mut [0]));
    assert!(refused.is_err());
    let mut with = other_client(&server, true);
    with.write_all(b"bob:pw\x03\0").unwrap();
    with.read_exact(&mut [0]).unwrap();
    let opened = server.expect("opened");
    for name in ["CN=tick1", "\"localhost\"", "\"tick.example\""] {
        assert!(opened.contains(name), "{opened}");
    }
}

#[test]
fn a_key_of_another_certificate_is_an_error() {
    let wrong = TlsSettings { key: Some(FILES.other_key.clone()), ..settings(TlsMode::Both) };
    let error = Door::of(&wrong).err().unwrap();
    assert!(error.starts_with("SSL_CERT_FILE and SSL_KEY_FILE do not fit together"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let wrong = TlsSettings { key: Some("/no/such.key".into()), ..settings(TlsMode::Both) };
    let error = Door::of(&wrong).err().unwrap();
    assert!(error.starts_with("SSL_KEY_FILE, /no/such.key: "), "{error}");
    let error = Door::of(&TlsSettings { certificate: None, ..wrong }).err().unwrap();
    assert!(error.contains("set SSL_CERT_FILE (--tls-cert) and SSL_KEY_FILE"), "{error}");
}

#[test]
fn pages_are_served_with_tls() {
    let server = serving(&settings(TlsMode::Only));
    for path in ["/metrics", "/large"] {
        let mut browser = other_client(&server, false);
        browser
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut page = Vec::new();
        // TLS tells an end from a cut: without close_notify this is an error.
        browser.read_to_end(&mut page).unwrap();
        assert!(page.starts_with(b"HTTP/1.1 200"));
        assert!(path == "/metrics" || page.len() > LARGE_BYTES);
    }
}
