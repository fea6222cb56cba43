//! Connections that q opens with `hopen`. A thread per connection reads, so that responses reach the waiting query and the peer's own
//! messages are evaluated.

use super::client::{Client, ClientError};
use super::inbox::{End, Hold, Inbox, Message, Next, ReplyOrder, Tell};
use super::outgoing::{Outgoing, SendLimits};
pub use super::remote_errors::ended;
use super::remote_errors::{refused, unsent};
use super::web_remote::{self, Web};
use super::{message, own_user, websocket};
use crate::config::Address;
use crate::q::handles::{Arrived, Connector, Holder, Peer, Reply, Unsent, is_web};
use crate::q::{QError, from_view, to_wire};
use crate::table::{Items, Value, Vector};
use bytes::Bytes;
use proto::{Limits, MessageKind, View, Writer, encode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Default connection timeout.
pub const CONNECT: Duration = Duration::from_secs(10);

/// Encodes a value as a whole message.
///
/// # Errors
/// `type` for a value without a wire format, `limit`.
pub fn encoded(kind: MessageKind, value: &Value) -> Result<Vec<u8>, QError> {
    let mut bytes = Vec::new();
    let start = encode::begin_message(kind, &mut bytes);
    let mut writer = Writer::new(&mut bytes);
    to_wire(value, &mut writer)?;
    writer.finish().map_err(|e| QError::with("type", e.to_string()))?;
    encode::finish_message(&mut bytes, start).map_err(|e| QError::with("limit", e.to_string()))?;
    Ok(bytes)
}

/// Decodes a response, or a message returned unevaluated.
///
/// # Errors
/// The peer's error, or the decoder's for bytes that are not an object.
pub fn value(incoming: &super::client::Incoming) -> Result<Value, QError> {
    let limits = Limits::default();
    let failed = |error| match error {
        ClientError::Server(text) => QError::received(&text),
        ClientError::Decode(error) => QError::with(error.term(), error.to_string()),
        other => QError::signal(other.to_string().into_bytes()),
    };
    incoming.view(&limits).map_err(failed).and_then(|view| from_view(&view))
}

/// Waits for the response to a request, or for a message of the peer before it. Rejects messages that cannot be decoded.
///
/// # Errors
/// Those of [`value`] and [`ended`].
pub fn reply(inbox: &Inbox, by: Option<Instant>) -> Result<Reply, QError> {
    loop {
        match inbox.reply(by) {
            Ok(next) => {
                if let Some(reply) = arrived(inbox, next)? {
                    return Ok(reply);
                }
            }
            Err(end) => return ended(end),
        }
    }
}

/// Takes what [`reply`] waits for. Does not wait: `None` if it has not arrived.
///
/// # Errors
/// As [`reply`].
pub fn poll(inbox: &Inbox) -> Result<Option<Reply>, QError> {
    match inbox.poll() {
        Ok(Some(next)) => arrived(inbox, next),
        Ok(None) => Ok(None),
        Err(end) => ended(end),
    }
}

/// Decodes what has arrived; `None` for a message that cannot be decoded, which is rejected.
fn arrived(inbox: &Inbox, next: Next) -> Result<Option<Reply>, QError> {
    let Message { kind, body, endian, answer } = match next {
        Next::Answer(answer) => return value(&answer).map(|value| Some(Reply::Response(value))),
        Next::Message(message) => message,
    };
    let is_sync = kind == MessageKind::Sync;
    let respond = move |result: Result<Value, QError>| {
        let encoded = |value| encoded(MessageKind::Response, &value);
        let failure = |error: QError| message::failure(&error, false, &[], endian).to_vec();
        let bytes = if is_sync { result.and_then(encoded).unwrap_or_else(failure) } else { Vec::new() };
        answer(bytes, ReplyOrder::AtOnce);
    };
    let parsed = View::parse(&body, endian, &Limits::default());
    match parsed.map_err(|e| QError::with(e.term(), e.to_string())).and_then(|(view, _)| from_view(&view)) {
        Ok(message) => {
            let gone = inbox.gone().clone();
            Ok(Some(Reply::Message(Arrived { message, is_sync, gone, answer: Box::new(respond) })))
        }
        Err(error) => {
            respond(Err(error));
            Ok(None)
        }
    }
}

/// Encodes a WebSocket message: text, or bytes.
///
/// # Errors
/// `type` for any other value.
pub fn frame(value: &Value) -> Result<Bytes, QError> {
    match value {
        Value::Vector(Vector { items: Items::Byte(bytes), .. }) => Ok(websocket::message(false, bytes)),
        other => Ok(websocket::message(true, other.as_text().ok_or(QError::named("type"))?)),
    }
}

/// A connection that this process opened.
struct Remote {
    inbox: Arc<Inbox>,
    out: Arc<Outgoing>,
    tell: Tell,
    /// Uses a Unix domain socket.
    is_unix: bool,
}

impl Remote {
    /// Sends a request. If a part could not be sent, the connection is closed.
    fn ask(&self, message: &Value, by: Option<Instant>) -> Result<(), QError> {
        match self.out.send_all(&encoded(MessageKind::Sync, message)?, by) {
            Ok(true) => Ok(()),
            Ok(false) => ended(End::Stopped),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn lost(&self, error: &ClientError) -> QError {
        self.inbox.end(End::Closed);
        unsent(error)
    }
}

impl Peer for Remote {
    fn send(&mut self, message: &Value, wait: bool, by: Option<Instant>) -> Result<Value, QError> {
        if !wait {
            let sent = self.out.send(encoded(MessageKind::Async, message)?, by);
            return match sent {
                Ok(()) => Ok(Value::Null),
                Err(ClientError::Timeout) => ended(End::Stopped),
                Err(error) => Err(self.lost(&error)),
            };
        }
        self.ask(message, by)?;
        match self.inbox.answer(by) {
            Ok(answer) => value(&answer),
            Err(end) => ended(end),
        }
    }

    fn request(&mut self, message: &Value, by: Option<Instant>) -> Result<Option<Value>, QError> {
        self.ask(message, by)?;
        Ok(None)
    }

    fn flush(&mut self, by: Option<Instant>) -> Result<(), QError> {
        match self.out.flush(by) {
            Ok(true) => Ok(()),
            Ok(false) => ended(End::Stopped),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn unsent(&self) -> Option<Unsent> {
        let out = Arc::clone(&self.out);
        Some(Arc::new(move || out.waiting_bytes()))
    }

    fn reply(&mut self, by: Option<Instant>) -> Result<Reply, QError> {
        reply(&self.inbox, by)
    }

    fn poll(&mut self) -> Result<Option<Reply>, QError> {
        poll(&self.inbox)
    }

    fn receive(&mut self, by: Option<Instant>) -> Result<Value, QError> {
        match self.inbox.next(by) {
            Ok(message) => value(&message),
            Err(end) => ended(end),
        }
    }

    fn holder(&self) -> Option<Holder> {
        let (inbox, tell) = (Arc::clone(&self.inbox), Arc::clone(&self.tell));
        Some(Box::new(move || Box::new(Hold::new(&inbox, Arc::clone(&tell)))))
    }

    fn socket(&self) -> [u8; 2] {
        [b'q', if self.is_unix { b'u' } else { b't' }]
    }

    fn cut(&mut self) {
        self.out.close();
    }

    fn known_as(&mut self, handle: i32) {
        self.inbox.set_number(handle);
        // Messages may have arrived before the handle was assigned.
        (self.tell)(Arc::clone(&self.inbox));
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // No close notification for a handle that this process closes.
        self.inbox.set_number(0);
        self.out.close_after();
    }
}

/// Returns the `hopen` implementation. `tell` is called when a peer has sent a message, and `limits` are those of the messages that wait to be sent.
/// As in kdb+, an address without a user means the one that runs this process. The login ends with kdb+'s own capability byte: some servers do not know
/// the bit with which elastick's consoles request reasons of errors.
pub fn connector(tell: Tell, web: Web, limits: SendLimits) -> Connector {
    Arc::new(move |address: &[u8], timeout_ms: u64| {
        let text = String::from_utf8_lossy(address);
        let timeout = if timeout_ms == 0 { CONNECT } else { Duration::from_millis(timeout_ms) };
        if is_web(address) {
            return web_remote::open(&text, timeout, &web, &tell);
        }
        let mut address: Address = text.parse().map_err(|e: String| QError::signal(e.into_bytes()))?;
        if address.user.is_empty() {
            address.user = own_user::name();
        }
        let client = Client::connect(&address, timeout, Limits::default()).map_err(refused)?;
        let out = Outgoing::new(&client, limits).map_err(|error| QError::reported("hop", &error))?;
        let inbox = Arc::new(Inbox::default());
        let (own, back, tell_of) = (Arc::clone(&inbox), Arc::clone(&out), Arc::clone(&tell));
        let is_unix = client.is_unix();
        let reading = crate::sys::stack::thread("handle".into());
        let reading = reading.spawn(move || read(client, &own, &back, &tell_of));
        reading.map_err(|error| QError::with("conn", error.to_string()))?;
        Ok(Box::new(Remote { inbox, out, tell: Arc::clone(&tell), is_unix }) as Box<dyn Peer>)
    })
}

fn read(mut client: Client, inbox: &Arc<Inbox>, out: &Arc<Outgoing>, tell: &Tell) {
    let end = loop {
        let incoming = match client.next_message(None) {
            Ok(Some(incoming)) => incoming,
            Err(ClientError::Decode(error)) => break End::Malformed(error.term()),
            _ => break End::Closed,
        };
        if incoming.header.kind == MessageKind::Response {
            inbox.put_answer(incoming);
            continue;
        }
        let out = Arc::clone(out);
        let answer = move |bytes: Vec<u8>, _: ReplyOrder| {
            if !bytes.is_empty() {
                // A closed peer needs no response.
                let _ = out.send(bytes, None);
            }
        };
        let (kind, endian) = (incoming.header.kind, incoming.header.endian);
        let message = Message { kind, body: incoming.body, endian, answer: Box::new(answer) };
        let full = inbox.put(message);
        tell(Arc::clone(inbox));
        if full {
            inbox.wait_for_room();
        }
    };
    inbox.end(end);
    out.close();
    tell(Arc::clone(inbox));
}
