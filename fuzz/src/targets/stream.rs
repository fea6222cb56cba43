//! What a kdb+ client sends, in any pieces: login, then messages.

use super::{limits, memory};
use proto::{DecodeError, FrameReader, decode, handshake};

/// What came of a stream.
#[derive(Debug, PartialEq)]
struct Told {
    login: Option<Result<Vec<u8>, handshake::HandshakeError>>,
    messages: Vec<Vec<u8>>,
    end: Option<DecodeError>,
}

/// The first byte is the size of the pieces; then a login and messages.
pub fn stream(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let whole = told(bytes, bytes.len().max(1), false);
    for (piece, in_place) in [(usize::from(*piece).max(1), true), (1, false)] {
        assert_eq!(whole, told(bytes, piece, in_place), "pieces of {piece} make no difference");
    }
    for message in &whole.messages {
        // Whatever it holds: an object, or an error.
        let _ = decode::message(message, &limits());
    }
}

/// What comes of bytes in pieces of that size, read into the reader's own room or handed to it.
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
            // Twice what is there and a buffer's least size, whatever a header announces.
            memory::within(bytes.len().saturating_mul(4).saturating_add(512 << 10), || reader.extend(piece));
            if !take(&mut reader, &mut told) {
                return told;
            }
        }
    }
    told
}

/// Takes the messages that are whole; whether more can come.
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

/// The login as a client of ours says it, having checked that it is understood.
fn said_again(credentials: &handshake::Credentials) -> Vec<u8> {
    let hello = handshake::hello(&credentials.user, &credentials.password, credentials.capability);
    // One byte more than was sent, where there was no colon or no capability.
    if hello.len() <= handshake::MAX_LOGIN_BYTES {
        let (again, used) = handshake::parse(&hello).expect("a login of ours").expect("a whole one");
        assert_eq!((&again, used), (credentials, hello.len()));
    }
    hello
}
