//! A session over sockets in memory.

use super::super::fixture::{self, FILES};
use super::super::handshakes::advance;
use super::super::process::Door;
use super::*;
use crate::config::TlsMode;
use crate::net::ConnId;
use proptest::prelude::*;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{CipherSuite as Suite, ClientConfig, ClientConnection, RootCertStore};
use std::collections::VecDeque;

/// A socket in memory. A read returns, and a write takes, as many bytes as listed, then it would block.
#[derive(Default)]
struct Pipe {
    sent: Vec<u8>,
    arrived: VecDeque<u8>,
    room: VecDeque<usize>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.arrived.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.arrived.read(buffer)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(room) = self.room.pop_front() else { return Err(io::ErrorKind::WouldBlock.into()) };
        let taken = room.min(bytes.len());
        self.sent.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Completes a handshake in memory.
fn pair() -> (Session, ClientConnection) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&FILES.authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config =
        config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let door = Door::of(&fixture::settings(TlsMode::Only)).unwrap();
    let mut session = Session::new(door.config(), &[]).unwrap();
    while session.secured().is_none() {
        let mut pipe = Pipe::default();
        client.write_tls(&mut pipe.arrived).unwrap();
        while session.receive(&mut pipe).is_ok() {}
        let mut step = session.next_step().expect("a whole record");
        let outcome = advance(&mut step);
        session.step_done(Job { conn: ConnId::new(0, 1), step, outcome }).unwrap();
        receive(&mut session, &mut client);
    }
    (session, client)
}

/// Passes what the session has to send to the client.
fn receive(session: &mut Session, client: &mut ClientConnection) {
    let mut pipe = Pipe { room: vec![usize::MAX; 99].into(), ..Pipe::default() };
    session.push(&mut pipe).unwrap();
    client.read_tls(&mut pipe.sent.as_slice()).unwrap();
    client.process_new_packets().unwrap();
}

proptest! {
    #[test]
    fn written_bytes_leave_in_order_and_are_counted_until_the_socket_has_them(
        lengths in prop::collection::vec(1usize..90_000, 1..6),
        rooms in prop::collection::vec(1usize..40_000, 1..40),
    ) {
        let (mut session, mut client) = pair();
        let (mut expected, mut received) = (Vec::new(), Vec::new());
        let mut pipe = Pipe { room: rooms.into(), ..Pipe::default() };
        for (number, length) in lengths.into_iter().enumerate() {
            let text = vec![number as u8; length];
            let mut rest = text.as_slice();
            while !rest.is_empty() {
                match session.write(&mut pipe, &[IoSlice::new(rest)]) {
                    Ok(taken) => rest = &rest[taken..],
                    Err(error) => {
                        prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        prop_assert!(session.unsent_bytes() > 0);
                        pipe.room.extend([5, 70_000]);
                    }
                }
            }
            expected.extend(text);
        }
        while session.unsent_bytes() > 0 {
            pipe.room.push_back(1000);
            session.push(&mut pipe).unwrap();
        }
        let mut records = pipe.sent.as_slice();
        while !records.is_empty() {
            client.read_tls(&mut records).unwrap();
            client.process_new_packets().unwrap();
            let _ = client.reader().read_to_end(&mut received);
        }
        prop_assert!(received == expected);
    }

    #[test]
    fn records_cut_anywhere_are_read_whole_with_room_of_any_size(
        lengths in prop::collection::vec(1usize..60_000, 1..5),
        cuts in prop::collection::vec(1usize..70_000, 1..20),
        rooms in prop::collection::vec(1usize..90_000, 1..10),
    ) {
        let (mut session, mut client) = pair();
        client.set_buffer_limit(None);
        let expected: Vec<u8> = lengths.iter().zip(0u8..).flat_map(|(length, byte)| vec![byte; *length]).collect();
        client.writer().write_all(&expected).unwrap();
        client.send_close_notify();
        let mut records = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut records).unwrap();
        }
        let mut received: Vec<u8> = Vec::new();
        let (mut cuts, mut rooms) = (cuts.iter().cycle(), rooms.iter().cycle());
        let mut pipe = Pipe::default();
        let mut rest = records.as_slice();
        loop {
            let mut room = vec![0; *rooms.next().unwrap()];
            match session.read(&mut pipe, &mut room) {
                Ok(0) => break,
                Ok(read) => received.extend(&room[..read]),
                Err(error) => {
                    prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    prop_assert!(!session.has_more());
                    let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                    prop_assert!(!now.is_empty());
                    pipe.arrived.extend(now);
                    rest = later;
                }
            }
        }
        prop_assert!(received == expected);
        prop_assert_eq!(session.held_bytes(), 0);
    }
}

#[test]
fn changed_bytes_are_an_error() {
    let (mut session, mut client) = pair();
    client.writer().write_all(b"hello").unwrap();
    let mut pipe = Pipe::default();
    client.write_tls(&mut pipe.arrived).unwrap();
    *pipe.arrived.back_mut().unwrap() ^= 1;
    let error = session.read(&mut pipe, &mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn ciphers_have_the_names_that_kdb_shows() {
    assert_eq!(openssl_name(Suite::TLS13_AES_256_GCM_SHA384), "TLS_AES_256_GCM_SHA384");
    assert_eq!(openssl_name(Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256), "ECDHE-RSA-AES128-GCM-SHA256");
    let name = openssl_name(Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256);
    assert_eq!(name, "ECDHE-ECDSA-CHACHA20-POLY1305");
}
