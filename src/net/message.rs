//! Builds whole messages for the event loop: a header and one object, as shared bytes.

use super::peer::Peer;
use crate::q::QError;
use bytes::Bytes;
use proto::{EncodeError, Endian, Limits, MessageKind, View, Writer, compress, encode};

/// Appends a message to `out`; `write` encodes its object. On failure `out` is unchanged.
///
/// # Errors
/// The writer's, or a message too long for a header.
pub fn append(out: &mut Vec<u8>, kind: MessageKind, write: impl FnOnce(&mut Writer<'_>)) -> Result<(), EncodeError> {
    let start = encode::begin_message(kind, out);
    let mut writer = Writer::new(out);
    write(&mut writer);
    let result = writer.finish().and_then(|()| encode::finish_message(out, start));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Returns one message.
///
/// # Errors
/// As [`append`].
pub fn message(kind: MessageKind, write: impl FnOnce(&mut Writer<'_>)) -> Result<Bytes, EncodeError> {
    let mut out = Vec::new();
    append(&mut out, kind, write)?;
    Ok(out.into())
}

/// Returns a response with an object that is already encoded.
///
/// # Errors
/// A message too long for a header.
pub fn response(object: &[u8]) -> Result<Bytes, EncodeError> {
    message(MessageKind::Response, |writer| writer.raw(object))
}

/// Returns the error response `'text`.
pub fn error(text: &[u8]) -> Bytes {
    encode::error_message(text).into()
}

/// Returns the error response to a message with the object `body`: with reason and place for a peer that requested them.
pub fn failure(error: &QError, explains: bool, body: &[u8], endian: Endian) -> Bytes {
    let view = || View::parse(body, endian, &Limits::default()).ok().and_then(|(view, _)| view.chars());
    let asked = if explains { view() } else { None };
    self::error(&error.wire_text(explains, asked))
}

/// Returns the message as this peer receives it: compressed where kdb+ would compress it.
pub fn for_peer(message: Bytes, peer: &Peer) -> Bytes {
    if peer.local || peer.capability == 0 {
        return message;
    }
    match compress::compress(&message) {
        Some(small) => small.into(),
        None => message,
    }
}
