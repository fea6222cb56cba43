//! HTTP requests and WebSocket frames, which share the port with kdb+ clients.

use elastick::net::{http, websocket};

/// Target `http`: a request.
pub fn http(bytes: &[u8]) {
    let whole = http::parse(bytes);
    if let Ok(Some((request, used))) = &whole {
        assert!(*used <= bytes.len() && request.path.starts_with('/'));
        let message = request.for_handler();
        assert_eq!(message.fields, request.fields);
        // The request is incomplete before its last byte, and its end does not depend on what follows.
        for end in [0, *used / 2, used.saturating_sub(1)] {
            assert_eq!(http::parse(&bytes[..end]), Ok(None), "{end} of {used} bytes");
        }
        assert_eq!(http::parse(&bytes[..*used]), whole);
    }
    if let Ok(None) = whole {
        // A prefix of an incomplete request is incomplete as well, not an error.
        assert!(!matches!(http::parse(&bytes[..bytes.len() / 2]), Ok(Some(_)) | Err(_)));
    }
}

/// Maximum size of a message.
const MAX_BYTES: usize = 4096;

/// Target `websocket`: the first byte is the size of the pieces; a client's frames follow.
pub fn websocket(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let whole = events(bytes, bytes.len().max(1));
    for piece in [1, usize::from(*piece).max(1)] {
        assert_eq!(whole, events(bytes, piece), "pieces of {piece} make no difference");
    }
}

/// Returns a client's messages, and the error that ends the connection.
fn events(bytes: &[u8], piece_bytes: usize) -> (Vec<websocket::WebSocketEvent>, Option<websocket::Broken>) {
    let mut reader = websocket::Reader::new(MAX_BYTES);
    let mut found = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        reader.extend(piece);
        loop {
            match reader.next_event() {
                Ok(Some(event)) => {
                    if let websocket::WebSocketEvent::Message { payload, .. } = &event {
                        assert!(payload.len() <= MAX_BYTES);
                    }
                    let ends = matches!(event, websocket::WebSocketEvent::Close(_));
                    found.push(event);
                    if ends {
                        return (found, None);
                    }
                }
                Ok(None) => break,
                Err(broken) => return (found, Some(broken)),
            }
        }
    }
    (found, None)
}
