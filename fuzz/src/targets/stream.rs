//! The byte stream of a kdb+ client, in pieces of any size: login, then messages.

use super::{limits, memory};
use proto::{DecodeError, FrameReader, decode, handshake};

/// Result of reading a stream.
#[derive(Debug, PartialEq)]
struct Told {
    login: Option<Result<Vec<u8>, handshake::HandshakeError>>,
    messages: Vec<Vec<u8>>,
    end: Option<DecodeError>,
}

/// Target `stream`: the first byte is the size of the pieces; a login and messages follow.
pub fn stream(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let whole = told(bytes, bytes.len().max(1), false);
    for (piece, in_place) in [(usize::from(*piece).max(1), true), (1, false)] {
        assert_eq!(whole, told(bytes, piece, in_place), "pieces of {piece} make no difference");
    }
    for message in &whole.messages {
        // An object or an error; either is fine.
        let _ = decode::message(message, &limits());
    }
}

/// Reads bytes in pieces of this size, in the reader's own buffer (`in_place`) or from the caller's, and returns the result.
fn told(bytes: &[u8], piece_bytes: usize, in_place: bool) -> Told {
    let mut told = Told { login: None, messages: Vec::new(), end: None };
    let mut begun = Vec::new();
    let mut reader = FrameReader::new(limits());
    for piece in bytes.chunks(piece_bytes) {
        let mut piece = piece;
        if told.login.is_none() {
            begun.extend_from_slice(piece);
            let used = match handshake::parse(&begun) {
                Ok(None) => continue,
                Ok(Some((credentials, used))) => {
                    assert!(used <= begun.len() && used <= handshake::MAX_LOGIN_BYTES);
                    told.login = Some(Ok(said_again(&credentials)));
                    used
                }
                Err(error) => {
                    told.login = Some(Err(error));
                    return told;
                }
            };
            piece = begun.get(used..).unwrap_or_default();
        }
        if in_place {
            while !piece.is_empty() {
                let room = reader.spare();
                let taken = room.len().min(piece.len());
                let (now, later) = piece.split_at(taken);
                room[..taken].copy_from_slice(now);
                reader.filled(taken);
                piece = later;
                if !take(&mut reader, &mut told) {
                    return told;
                }
            }
        } else {
            // A bound in terms of the bytes received and a minimum buffer, whatever length a header announces.
            memory::within(bytes.len().saturating_mul(4).saturating_add(512 << 10), || reader.extend(piece));
            if !take(&mut reader, &mut told) {
                return told;
            }
        }
    }
    told
}

/// Takes all complete messages. Returns whether more can follow.
fn take(reader: &mut FrameReader, told: &mut Told) -> bool {
    loop {
        match reader.next() {
            Ok(Some((header, message))) => {
                assert_eq!(header.total_bytes, message.len() as u64);
                told.messages.push(message.to_vec());
            }
            Ok(None) => return true,
            Err(error) => {
                told.end = Some(error);
                return false;
            }
        }
    }
}

/// Returns the login as our client encodes it, after checking that it parses back.
fn said_again(credentials: &handshake::Credentials) -> Vec<u8> {
    let reasons = if credentials.explains { handshake::EXPLAINS } else { 0 };
    let hello = handshake::hello(&credentials.user, &credentials.password, credentials.capability | reasons);
    // The encoding adds a byte if the login had no colon or no capability.
    if hello.len() <= handshake::MAX_LOGIN_BYTES {
        let (again, used) = handshake::parse(&hello).expect("a login of ours").expect("a whole one");
        assert_eq!((&again, used), (credentials, hello.len()));
    }
    hello
}
