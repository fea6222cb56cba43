//! What browsers and monitors send on the same port: HTTP requests, WebSocket frames.

use elastick::net::{http, websocket};

/// A request.
pub fn http(bytes: &[u8]) {
    let whole = http::parse(bytes);
    if let Ok(Some((request, used))) = &whole {
        assert!(*used <= bytes.len() && request.path.starts_with('/'));
        let message = request.for_handler();
        assert_eq!(message.fields, request.fields);
        // It is waited for until its last byte, and where it ends does not depend on what follows.
        for end in [0, *used / 2, used.saturating_sub(1)] {
            assert_eq!(http::parse(&bytes[..end]), Ok(None), "{end} of {used} bytes");
        }
        assert_eq!(http::parse(&bytes[..*used]), whole);
    }
    if let Ok(None) = whole {
        // What is not whole is not refused before.
        assert!(!matches!(http::parse(&bytes[..bytes.len() / 2]), Ok(Some(_)) | Err(_)));
    }
}

/// Most that a message may have.
const MOST_BYTES: usize = 4096;

/// The first byte is the size of the pieces; then a client's frames.
pub fn websocket(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let whole = events(bytes, bytes.len().max(1));
    for piece in [1, usize::from(*piece).max(1)] {
        assert_eq!(whole, events(bytes, piece), "pieces of {piece} make no difference");
    }
}

/// What a client has said, and why it cannot go on.
fn events(bytes: &[u8], piece_bytes: usize) -> (Vec<websocket::Event>, Option<websocket::Broken>) {
    let mut reader = websocket::Reader::new(MOST_BYTES);
    let mut found = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        reader.extend(piece);
        loop {
            match reader.next_event() {
                Ok(Some(event)) => {
                    if let websocket::Event::Message { payload, .. } = &event {
                        assert!(payload.len() <= MOST_BYTES);
                    }
                    found.push(event);
                }
                Ok(None) => break,
                Err(broken) => return (found, Some(broken)),
            }
        }
    }
    (found, None)
}
