//! WebSocket (RFC 6455) on the kdb+ port: `tungstenite`'s protocol over bytes that the event loop reads and sends. Pure; the event
//! loop's part is in `reactor::web`.

use crate::bug;
use crate::kernel::digest::{sha1, to_base64};
use bytes::{Buf, Bytes, BytesMut};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use tungstenite::error::Error;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, FrameHeader};
use tungstenite::protocol::{Message, Role, WebSocketConfig, WebSocketContext};

/// Constant of the RFC, appended to the client's key before hashing.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Size of the protocol's own receive buffer between messages.
const READ_BUFFER_BYTES: usize = 4096;

/// Head of a client's control frame: two bytes and the mask.
const CONTROL_HEAD_BYTES: usize = 6;

/// What a client has sent, or is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketEvent {
    /// A whole message.
    Message { is_text: bool, payload: Vec<u8> },
    /// To be sent to the client: the pong for its ping.
    Reply(Bytes),
    /// The peer closes the connection; to be sent before it is closed.
    Close(Bytes),
}

/// Protocol violation or oversized message; `reply` is the close frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub code: u16,
    pub reason: String,
    pub reply: Bytes,
}

impl Broken {
    /// Whether the message exceeds the limit.
    pub fn is_too_large(&self) -> bool {
        self.code == u16::from(CloseCode::Size)
    }
}

/// Receiving side of a connection. Buffers at most one message, and one frame of at most the same length.
pub struct Reader {
    protocol: WebSocketContext,
    wire: Wire,
}

/// The stream that the protocol reads and writes: bytes received, and replies to be sent.
#[derive(Default)]
struct Wire {
    received: BytesMut,
    /// Bytes that the protocol has read since the last message.
    passed_bytes: usize,
    replies: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.received.len().min(buffer.len());
        match (buffer.get_mut(..length), self.received.get(..length)) {
            // 0 would mean that the peer has closed.
            (Some(to), Some(from)) if length > 0 => to.copy_from_slice(from),
            _ => return Err(ErrorKind::WouldBlock.into()),
        }
        self.received.advance(length);
        self.passed_bytes = self.passed_bytes.saturating_add(length);
        Ok(length)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.replies.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("held_bytes", &self.held_bytes()).finish_non_exhaustive()
    }
}

impl Reader {
    /// Of a server's connection.
    pub fn new(max_message_bytes: usize) -> Reader {
        Reader::of(Role::Server, max_message_bytes)
    }

    /// Of a client's connection.
    pub fn of_client(max_message_bytes: usize) -> Reader {
        Reader::of(Role::Client, max_message_bytes)
    }

    fn of(role: Role, max_message_bytes: usize) -> Reader {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            // Replies go to the wire at once: send buffers are the event loop's.
            .write_buffer_size(0)
            .max_message_size(Some(max_message_bytes))
            .max_frame_size(Some(max_message_bytes));
        Reader { protocol: WebSocketContext::new(role, Some(config)), wire: Wire::default() }
    }

    pub fn extend(&mut self, bytes: &[u8]) {
        self.wire.received.extend_from_slice(bytes);
    }

    /// Received bytes of incomplete messages, except what the protocol has in its receive buffer behind the last message.
    pub fn held_bytes(&self) -> usize {
        self.wire.received.len().saturating_add(self.wire.passed_bytes)
    }

    /// Returns the next event; `None` while its frame is incomplete.
    ///
    /// # Errors
    /// A violation after which the connection must be closed.
    pub fn next_event(&mut self) -> Result<Option<WebSocketEvent>, Broken> {
        loop {
            match self.protocol.read(&mut self.wire) {
                Ok(Message::Text(text)) => return Ok(Some(self.message(true, &text.into()))),
                Ok(Message::Binary(bytes)) => return Ok(Some(self.message(false, &bytes))),
                Ok(Message::Ping(payload)) => {
                    self.control(payload.len());
                    self.protocol.flush(&mut self.wire).or_else(|error| self.broken(error))?;
                    return Ok(Some(WebSocketEvent::Reply(self.replies())));
                }
                Ok(Message::Pong(payload)) => self.control(payload.len()),
                Ok(Message::Close(_)) => {
                    // Reports that the connection is closed, once the reply is written.
                    let _ = self.protocol.flush(&mut self.wire);
                    return Ok(Some(WebSocketEvent::Close(self.replies())));
                }
                // Only sent, never received.
                Ok(Message::Frame(_)) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return self.broken(error),
            }
        }
    }

    fn message(&mut self, is_text: bool, payload: &Bytes) -> WebSocketEvent {
        self.wire.passed_bytes = 0;
        WebSocketEvent::Message { is_text, payload: payload.to_vec() }
    }

    /// Takes a control frame off the account; it may stand between the fragments of a message.
    fn control(&mut self, payload_bytes: usize) {
        let frame_bytes = payload_bytes.saturating_add(CONTROL_HEAD_BYTES);
        self.wire.passed_bytes = self.wire.passed_bytes.saturating_sub(frame_bytes);
    }

    fn replies(&mut self) -> Bytes {
        std::mem::take(&mut self.wire.replies).into()
    }

    fn broken<T>(&mut self, error: Error) -> Result<T, Broken> {
        let code = match error {
            Error::Capacity(_) => CloseCode::Size,
            Error::Utf8(_) => CloseCode::Invalid,
            _ => CloseCode::Protocol,
        };
        // Without a reason in words, which would reveal details of the process.
        let frame = CloseFrame { code, reason: "".into() };
        // After an exchange of close frames nothing more is to be sent.
        let _ = self.protocol.close(&mut self.wire, Some(frame));
        Err(Broken { code: code.into(), reason: error.to_string(), reply: self.replies() })
    }
}

/// Encodes a message to a client. Text is sent as it is: strings of q are bytes in any encoding.
pub fn message(is_text: bool, payload: &[u8]) -> Bytes {
    let opcode = OpCode::Data(if is_text { Data::Text } else { Data::Binary });
    let head = FrameHeader { opcode, ..FrameHeader::default() };
    let mut out = Vec::with_capacity(head.len(payload.len() as u64).saturating_add(payload.len()));
    if let Err(error) = head.format(payload.len() as u64, &mut out) {
        bug!("a vector takes any head: {error}");
    }
    out.extend_from_slice(payload);
    out.into()
}

/// Encodes a message to a server, masked.
///
/// # Errors
/// The system has no random bytes.
pub fn masked(is_text: bool, payload: &[u8]) -> io::Result<Vec<u8>> {
    let opcode = OpCode::Data(if is_text { Data::Text } else { Data::Binary });
    let mask = random()?;
    let head = FrameHeader { opcode, mask: Some(mask), ..FrameHeader::default() };
    let mut out = Vec::with_capacity(head.len(payload.len() as u64).saturating_add(payload.len()));
    if let Err(error) = head.format(payload.len() as u64, &mut out) {
        bug!("a vector takes any head: {error}");
    }
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    Ok(out)
}

/// Returns a new key for an upgrade request.
///
/// # Errors
/// The system has no random bytes.
pub fn new_key() -> io::Result<String> {
    Ok(to_base64(&random::<16>()?))
}

/// A client's frame that ends the connection, without a code.
///
/// # Errors
/// The system has no random bytes.
pub fn masked_close() -> io::Result<Vec<u8>> {
    let opcode = OpCode::Control(Control::Close);
    let head = FrameHeader { opcode, mask: Some(random()?), ..FrameHeader::default() };
    let mut out = Vec::new();
    if let Err(error) = head.format(0, &mut out) {
        bug!("a vector takes any head: {error}");
    }
    Ok(out)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system has no random bytes"))?;
    Ok(bytes)
}

/// The proof that a server has read this key.
pub fn proof(key: &[u8]) -> String {
    to_base64(&sha1(&[key, KEY_SUFFIX].concat()))
}

/// Returns the response that accepts an upgrade request with this key.
pub fn accepted(key: &[u8]) -> Bytes {
    let proof = proof(key);
    let head =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ";
    format!("{head}{proof}\r\n\r\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MESSAGE: u8 = 0x80;
    const TEXT: u8 = 1;
    const BINARY: u8 = 2;
    const CLOSE: u8 = 8;
    const PING: u8 = 9;
    const PONG: u8 = 10;

    /// Encodes a client's (masked) frame.
    fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = message(false, payload).to_vec();
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

    /// Encodes a server's control frame.
    fn control(opcode: u8, payload: &[u8]) -> Bytes {
        [&[MESSAGE | opcode, payload.len() as u8], payload].concat().into()
    }

    fn events(bytes: &[u8], max_message_bytes: usize) -> Result<Vec<WebSocketEvent>, Broken> {
        let mut reader = Reader::new(max_message_bytes);
        let mut found = Vec::new();
        // One byte at a time, so that frames are split everywhere.
        for byte in bytes {
            reader.extend(&[*byte]);
            while let Some(event) = reader.next_event()? {
                let ends = matches!(event, WebSocketEvent::Close(_));
                found.push(event);
                if ends {
                    return Ok(found);
                }
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
        let frames = [sent(TEXT, b"ab"), sent(MESSAGE | PING, b"hi"), sent(MESSAGE | PONG, b""), sent(0, b"c")];
        let bytes = [frames.concat(), sent(MESSAGE, b"d"), sent(MESSAGE | CLOSE, b"")].concat();
        let message = WebSocketEvent::Message { is_text: true, payload: b"abcd".to_vec() };
        let (pong, close) = (WebSocketEvent::Reply(control(PONG, b"hi")), WebSocketEvent::Close(control(CLOSE, b"")));
        assert_eq!(events(&bytes, 100), Ok(vec![pong, message, close]));
    }

    #[test]
    fn every_ping_has_its_pong_though_they_come_together() {
        let mut reader = Reader::new(100);
        reader.extend(&[sent(MESSAGE | PING, b"1"), sent(MESSAGE | PING, b"2")].concat());
        for payload in [b"1", b"2"] {
            assert_eq!(reader.next_event(), Ok(Some(WebSocketEvent::Reply(control(PONG, payload)))));
        }
        assert_eq!((reader.next_event(), reader.held_bytes()), (Ok(None), 0));
    }

    #[test]
    fn a_close_frame_is_answered_with_its_code() {
        let reply = |payload: &[u8]| events(&sent(MESSAGE | CLOSE, payload), 100);
        let close = |payload: &[u8]| Ok(vec![WebSocketEvent::Close(control(CLOSE, payload))]);
        assert_eq!(reply(b"\x03\xe8bye"), close(b"\x03\xe8bye"));
        // 1005 means a frame without code and must not be sent.
        let answered = reply(b"\x03\xed").expect("closed");
        assert!(
            matches!(&answered[..], [WebSocketEvent::Close(frame)] if frame[2..4] == 1002u16.to_be_bytes()),
            "{answered:?}"
        );
        assert_eq!(reply(b"\x03").expect_err("half a code").code, 1002);
        assert_eq!(reply(b"\x03\xe8\xff").expect_err("a reason that is no text").code, 1007);
    }

    #[test]
    fn protocol_violations_are_rejected() {
        let code = |bytes: &[u8]| events(bytes, 10).expect_err("broken").code;
        assert_eq!(code(&message(true, b"unmasked")), 1002);
        assert_eq!(code(&sent(MESSAGE, b"x")), 1002);
        assert_eq!(code(&[sent(TEXT, b"x"), sent(MESSAGE | TEXT, b"y")].concat()), 1002);
        assert_eq!(code(&sent(0xc0 | TEXT, b"x")), 1002);
        assert_eq!(code(&sent(MESSAGE | 3, b"x")), 1002);
        assert_eq!(code(&sent(MESSAGE | 11, b"x")), 1002);
        assert_eq!(code(&sent(PING, b"x")), 1002);
        assert_eq!(events(&sent(MESSAGE | PING, &[0; 126]), 200).expect_err("broken").code, 1002);
        assert_eq!(code(&sent(MESSAGE | TEXT, b"\xff")), 1007);
        assert_eq!(code(&[sent(TEXT, b"\xc3"), sent(MESSAGE, b"x")].concat()), 1007);
        assert_eq!(code(&sent(MESSAGE | BINARY, &[0; 11])), 1009);
        assert_eq!(code(&[sent(BINARY, &[0; 6]), sent(MESSAGE, &[0; 6])].concat()), 1009);
        let broken = events(&[MESSAGE | BINARY, 0xff, 255, 255, 255, 255, 255, 255, 255, 255], 10);
        assert_eq!(broken, Ok(Vec::new()), "the mask is missing");
        assert_eq!(code(&[MESSAGE | BINARY, 0xff, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4]), 1009);
    }

    #[test]
    fn the_close_frame_of_a_violation_has_its_code() {
        let broken = events(&sent(MESSAGE | BINARY, &[0; 11]), 10).expect_err("too long");
        assert_eq!((broken.is_too_large(), broken.reply), (true, control(CLOSE, &1009u16.to_be_bytes())));
    }

    #[test]
    fn fragments_are_held_and_control_frames_between_them_are_not() {
        let mut reader = Reader::new(100_000);
        reader.extend(&sent(BINARY, &[0; 60_000]));
        assert_eq!(reader.next_event(), Ok(None));
        let held = reader.held_bytes();
        assert!(held >= 60_000, "{held}");
        for _ in 0..100 {
            reader.extend(&[sent(MESSAGE | PING, &[0; 125]), sent(MESSAGE | PONG, &[0; 125])].concat());
            while reader.next_event().expect("no violation").is_some() {}
        }
        assert_eq!(reader.held_bytes(), held);
        reader.extend(&sent(MESSAGE, b"x"));
        assert!(
            matches!(reader.next_event(), Ok(Some(WebSocketEvent::Message { payload, .. })) if payload.len() == 60_001)
        );
        assert_eq!(reader.held_bytes(), 0);
    }

    proptest! {
        #[test]
        fn messages_of_any_length_come_through(lengths in prop::collection::vec(0usize..70_000, 1..4)) {
            let payloads: Vec<Vec<u8>> = lengths.iter().map(|n| (0..*n).map(|i| i as u8).collect()).collect();
            let mut reader = Reader::new(1 << 20);
            for payload in &payloads {
                reader.extend(&sent(MESSAGE | BINARY, payload));
            }
            for payload in payloads {
                prop_assert_eq!(reader.next_event(), Ok(Some(WebSocketEvent::Message { is_text: false, payload })));
            }
            prop_assert_eq!(reader.held_bytes(), 0);
        }

        #[test]
        fn any_bytes_are_events_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = events(&bytes, 1000);
        }
    }
}
