//! WebSocket (RFC 6455) on the kdb+ port: upgrade response, frame parser and encoder. Pure; the event loop's part is in `reactor::web`.

use crate::kernel::digest::{sha1, to_base64};
use bytes::{BufMut, Bytes, BytesMut};

/// Constant of the RFC, appended to the client's key before hashing.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Close codes of RFC 6455.
pub const GOING_AWAY: u16 = 1001;
pub const PROTOCOL_ERROR: u16 = 1002;
pub const TOO_LARGE: u16 = 1009;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Maximum payload of a control frame.
const CONTROL_BYTES: usize = 125;

/// A parsed message or control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole message.
    Message { is_text: bool, payload: Vec<u8> },
    /// To be answered with a pong of the same payload.
    Ping(Vec<u8>),
    /// The peer closes the connection.
    Close,
}

/// Protocol violation or oversized message; `code` goes into the close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    pub code: u16,
    pub reason: &'static str,
}

/// Frame parser. Buffers at most one message and one frame head.
#[derive(Debug)]
pub struct Reader {
    held: Vec<u8>,
    /// Fragments of an incomplete message.
    message: Option<(bool, Vec<u8>)>,
    most: usize,
}

/// A frame's head.
struct Head {
    is_last: bool,
    opcode: u8,
    mask: [u8; 4],
    length: usize,
    head_bytes: usize,
}

impl Reader {
    /// `most` is the maximum length of a message.
    pub fn new(most: usize) -> Reader {
        Reader { held: Vec::new(), message: None, most }
    }

    pub fn extend(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    pub fn held_bytes(&self) -> usize {
        self.held.len().saturating_add(self.message.as_ref().map_or(0, |(_, payload)| payload.len()))
    }

    /// Returns the next event; `None` while its frame is incomplete.
    ///
    /// # Errors
    /// A violation after which the connection must be closed.
    pub fn next_event(&mut self) -> Result<Option<Event>, Broken> {
        loop {
            let Some(head) = self.head()? else { return Ok(None) };
            let whole = head.head_bytes.saturating_add(head.length);
            if self.held.len() < whole {
                return Ok(None);
            }
            let mut payload = self.held.get(head.head_bytes..whole).unwrap_or_default().to_vec();
            self.held.drain(..whole);
            payload.iter_mut().zip(head.mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            if let Some(event) = self.take(&head, payload)? {
                return Ok(Some(event));
            }
        }
    }

    fn head(&self) -> Result<Option<Head>, Broken> {
        let broken = |reason| Broken { code: PROTOCOL_ERROR, reason };
        let [first, second, rest @ ..] = &self.held[..] else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(broken("an extension that was not agreed on"));
        }
        if second & 0x80 == 0 {
            return Err(broken("a client's frame must be masked"));
        }
        let (is_last, opcode) = (first & 0x80 != 0, first & 0x0f);
        let (length, length_bytes) = match second & 0x7f {
            126 => match rest.first_chunk::<2>() {
                Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 2),
                None => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 8),
                None => return Ok(None),
            },
            short => (u64::from(short), 0),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if opcode >= CLOSE && (length > CONTROL_BYTES || !is_last) {
            return Err(broken("a control frame is short and whole"));
        }
        let before = self.message.as_ref().map_or(0, |(_, payload)| payload.len());
        if length.saturating_add(before) > self.most {
            return Err(Broken { code: TOO_LARGE, reason: "the message is too long" });
        }
        let Some(mask) = rest.get(length_bytes..).and_then(<[u8]>::first_chunk::<4>) else { return Ok(None) };
        Ok(Some(Head { is_last, opcode, mask: *mask, length, head_bytes: 6 + length_bytes }))
    }

    fn take(&mut self, head: &Head, payload: Vec<u8>) -> Result<Option<Event>, Broken> {
        let broken = |reason| Broken { code: PROTOCOL_ERROR, reason };
        match (head.opcode, self.message.take()) {
            (TEXT | BINARY, Some(_)) => Err(broken("a message inside another")),
            (TEXT | BINARY, None) => Ok(self.part(head.opcode == TEXT, payload, head.is_last)),
            (CONTINUATION, None) => Err(broken("the rest of no message")),
            (CONTINUATION, Some((is_text, mut message))) => {
                message.extend_from_slice(&payload);
                Ok(self.part(is_text, message, head.is_last))
            }
            (opcode, open) => {
                self.message = open;
                match opcode {
                    CLOSE => Ok(Some(Event::Close)),
                    PING => Ok(Some(Event::Ping(payload))),
                    PONG => Ok(None),
                    _ => Err(broken("an unknown kind of frame")),
                }
            }
        }
    }

    fn part(&mut self, is_text: bool, payload: Vec<u8>, is_last: bool) -> Option<Event> {
        if is_last {
            return Some(Event::Message { is_text, payload });
        }
        self.message = Some((is_text, payload));
        None
    }
}

fn frame(opcode: u8, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(payload.len().saturating_add(10));
    out.put_u8(0x80 | opcode);
    match payload.len() {
        short @ 0..=125 => out.put_u8(u8::try_from(short).unwrap_or(0)),
        medium @ 126..=0xffff => {
            out.put_u8(126);
            out.put_u16(u16::try_from(medium).unwrap_or(u16::MAX));
        }
        long => {
            out.put_u8(127);
            out.put_u64(long as u64);
        }
    }
    out.put_slice(payload);
    out.freeze()
}

/// Encodes a message to a client.
pub fn message(is_text: bool, payload: &[u8]) -> Bytes {
    frame(if is_text { TEXT } else { BINARY }, payload)
}

/// Encodes the answer to a ping.
pub fn pong(payload: &[u8]) -> Bytes {
    frame(PONG, payload)
}

/// Encodes a close frame.
pub fn close(code: u16) -> Bytes {
    frame(CLOSE, &code.to_be_bytes())
}

/// Returns the response that accepts an upgrade request with this key.
pub fn accepted(key: &[u8]) -> Bytes {
    let proof = to_base64(&sha1(&[key, KEY_SUFFIX].concat()));
    let head =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ";
    format!("{head}{proof}\r\n\r\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes a client's (masked) frame.
    fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = frame(first & 0x0f, payload).to_vec();
        out[0] = first;
        out[1] |= 0x80;
        let head = out.len() - payload.len();
        let mask = [7, 0, 255, 19];
        let masked: Vec<u8> = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        out.truncate(head);
        out.extend(mask);
        out.extend(masked);
        out
    }

    fn events(bytes: &[u8], most: usize) -> Result<Vec<Event>, Broken> {
        let mut reader = Reader::new(most);
        let mut found = Vec::new();
        // One byte at a time, so that frames are split everywhere.
        for byte in bytes {
            reader.extend(&[*byte]);
            while let Some(event) = reader.next_event()? {
                found.push(event);
            }
        }
        Ok(found)
    }

    #[test]
    fn the_key_of_the_standard_has_the_proof_of_the_standard() {
        let answer = accepted(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert!(String::from_utf8_lossy(&answer).contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }

    #[test]
    fn fragments_make_a_message_and_control_frames_may_come_between() {
        let bytes =
            [sent(0x01, b"ab"), sent(0x89, b"hi"), sent(0x00, b"c"), sent(0x80, b"d"), sent(0x88, b"")].concat();
        let message = Event::Message { is_text: true, payload: b"abcd".to_vec() };
        assert_eq!(events(&bytes, 100), Ok(vec![Event::Ping(b"hi".to_vec()), message, Event::Close]));
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        let code = |bytes: &[u8]| events(bytes, 10).expect_err("broken").code;
        assert_eq!(code(&frame(TEXT, b"unmasked")), PROTOCOL_ERROR);
        assert_eq!(code(&sent(0x80, b"x")), PROTOCOL_ERROR);
        assert_eq!(code(&[sent(0x01, b"x"), sent(0x81, b"y")].concat()), PROTOCOL_ERROR);
        assert_eq!(code(&sent(0xc1, b"x")), PROTOCOL_ERROR);
        assert_eq!(code(&sent(0x83, b"x")), PROTOCOL_ERROR);
        assert_eq!(code(&sent(0x09, b"x")), PROTOCOL_ERROR);
        assert_eq!(code(&sent(0x82, &[0; 11])), TOO_LARGE);
        assert_eq!(code(&[sent(0x02, &[0; 6]), sent(0x80, &[0; 6])].concat()), TOO_LARGE);
    }

    proptest! {
        #[test]
        fn messages_of_any_length_come_through(lengths in prop::collection::vec(0usize..70_000, 1..4)) {
            let payloads: Vec<Vec<u8>> = lengths.iter().map(|n| (0..*n).map(|i| i as u8).collect()).collect();
            let mut reader = Reader::new(1 << 20);
            for payload in &payloads {
                reader.extend(&sent(0x82, payload));
            }
            for payload in payloads {
                prop_assert_eq!(reader.next_event(), Ok(Some(Event::Message { is_text: false, payload })));
            }
            prop_assert_eq!(reader.held_bytes(), 0);
        }

        #[test]
        fn any_bytes_are_events_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = events(&bytes, 1000);
        }
    }
}
