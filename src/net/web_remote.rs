//! HTTP and WebSocket connections that q opens: `` `:http://host "request" `` and `` `:ws://host "request" ``.

use super::client::web::{Upgraded, WebAddress, WebClient, WebError};
use super::client::{ClientError, WriteHalf};
use super::http_response::Broken;
use super::inbox::{End, Inbox, Tell};
use super::remote_errors::{refused, unsent};
use super::websocket::{self, Reader, WebSocketEvent};
use crate::config::{Limit, Limits};
use crate::metrics;
use crate::q::QError;
use crate::q::handlers::HandlerEvent;
use crate::q::handles::Peer;
use crate::sys::interrupt;
use crate::table::{Items, Value, Vector};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of one read of a WebSocket.
const READ_BYTES: usize = 16 << 10;

/// Callback, on any thread: a message of a WebSocket. `done` is called when it has been evaluated; the next one is read after that.
pub type TellWeb = Arc<dyn Fn(Arc<Inbox>, HandlerEvent, Box<dyn FnOnce() + Send>) + Send + Sync>;

/// What HTTP connections may hold, and who takes the messages of WebSockets; without anyone there are none.
#[derive(Clone)]
pub struct Web {
    /// Of a response, and of a WebSocket's message: an exchange's snapshot is as long as a file.
    pub max_response_bytes: usize,
    pub tell: Option<TellWeb>,
}

impl Web {
    pub fn of(limits: &Limits, tell: Option<TellWeb>) -> Web {
        let bytes = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        Web { max_response_bytes: bytes(limits.http_response_bytes), tell }
    }
}

/// Connects to an HTTP server.
///
/// # Errors
/// `hop` or `timeout`; `nyi` for a WebSocket where nobody takes its messages.
pub fn open(address: &str, timeout: Duration, web: &Web, tell: &Tell) -> Result<Box<dyn Peer>, QError> {
    let address: WebAddress = address.parse().map_err(|e: String| QError::signal(e.into_bytes()))?;
    if address.is_websocket() && web.tell.is_none() {
        return Err(QError::with("nyi", "WebSocket connections to other servers are opened in elastick q only"));
    }
    let client = WebClient::connect(&address, timeout, None).map_err(refused)?;
    if address.is_websocket() {
        let client = Some(client);
        let (web, tell) = (web.clone(), Arc::clone(tell));
        let inbox = Arc::new(Inbox::default());
        return Ok(Box::new(Socket { client, out: None, closer: None, inbox, web, tell }));
    }
    let first = Some((client, Instant::now()));
    Ok(Box::new(Http { address, timeout, first, max_response_bytes: web.max_response_bytes }))
}

/// The bytes of a request.
fn request_of(message: &Value) -> Result<&[u8], QError> {
    message.as_text().ok_or(QError::with("type", "an HTTP request is text"))
}

/// The q error of a request without a response.
fn failed(error: WebError) -> QError {
    match error {
        WebError::Connection(ClientError::Timeout) if interrupt::is_asked() => QError::named("stop"),
        WebError::Connection(ClientError::Timeout) => QError::with("stop", "time limit"),
        WebError::Connection(error) => refused(error),
        WebError::Response(broken) => {
            QError::with(if matches!(broken, Broken::TooLong(_)) { "limit" } else { "http" }, broken.to_string())
        }
    }
}

/// Age at which the connection made with a handle is not used any more: servers close those that send nothing.
const IDLE: Duration = Duration::from_secs(1);

/// An HTTP server. Each request has a connection of its own.
struct Http {
    address: WebAddress,
    timeout: Duration,
    /// The connection made with the handle, for a request that follows at once.
    first: Option<(WebClient, Instant)>,
    max_response_bytes: usize,
}

impl Peer for Http {
    fn send(&mut self, message: &Value, wait: bool, by: Option<Instant>) -> Result<Value, QError> {
        let request = request_of(message)?;
        if !wait {
            return Err(QError::with("nyi", "an HTTP request waits for its response: send it on the positive handle"));
        }
        let client = match self.first.take() {
            Some((client, at)) if at.elapsed() < IDLE => client,
            _ => WebClient::connect(&self.address, self.timeout, by).map_err(refused)?,
        };
        client.request(request, by, self.max_response_bytes).map(Value::chars).map_err(failed)
    }

    fn socket(&self) -> [u8; 2] {
        *b"ht"
    }
}

/// A WebSocket: its first message is the upgrade request, whose response is returned.
struct Socket {
    client: Option<WebClient>,
    /// Writing half, once the server has agreed.
    out: Option<Arc<Mutex<WriteHalf>>>,
    /// The same without its lock, which the reader may hold for as long as a write takes.
    closer: Option<WriteHalf>,
    inbox: Arc<Inbox>,
    web: Web,
    tell: Tell,
}

impl Socket {
    fn upgrade(&mut self, message: &Value, by: Option<Instant>) -> Result<Value, QError> {
        let request = request_of(message)?;
        let client = self.client.take().ok_or(QError::named("close"))?;
        let upgraded = match client.upgrade(request, by, self.web.max_response_bytes).map_err(failed)? {
            Ok(upgraded) => upgraded,
            Err(response) => return Ok(Value::chars(response)),
        };
        let outgoing = || upgraded.outgoing().map_err(|error| QError::reported("hop", &error));
        self.closer = Some(outgoing()?);
        let out = Arc::new(Mutex::new(outgoing()?));
        let head = Value::chars(upgraded.head.clone());
        let reader = Messages {
            reader: Reader::of_client(self.web.max_response_bytes),
            out: Arc::clone(&out),
            inbox: Arc::clone(&self.inbox),
            tell_web: self.web.tell.clone().ok_or(QError::named("nyi"))?,
        };
        let tell = Arc::clone(&self.tell);
        let thread = crate::sys::stack::thread("websocket".into()).spawn(move || reader.run(upgraded, &tell));
        thread.map_err(|error| QError::with("conn", error.to_string()))?;
        self.out = Some(out);
        Ok(head)
    }
}

impl Peer for Socket {
    fn send(&mut self, message: &Value, wait: bool, by: Option<Instant>) -> Result<Value, QError> {
        let Some(out) = &self.out else { return self.upgrade(message, by) };
        if wait {
            return Err(QError::with("nyi", "a WebSocket is sent async messages only: use the negative handle"));
        }
        let (is_text, payload) = match message {
            Value::Vector(Vector { items: Items::Byte(bytes), .. }) => (false, &bytes[..]),
            other => (true, other.as_text().ok_or(QError::named("type"))?),
        };
        let frame = websocket::masked(is_text, payload).map_err(|error| QError::with("os", error.to_string()))?;
        let sent = out.lock().unwrap_or_else(PoisonError::into_inner).send_by(&frame, by);
        if let Err(error) = sent {
            // Part of a frame may be gone: nothing can follow it.
            self.inbox.end(End::Closed);
            self.cut();
            return Err(unsent(&error));
        }
        Ok(Value::Null)
    }

    fn socket(&self) -> [u8; 2] {
        *b"wt"
    }

    fn cut(&mut self) {
        if let Some(closer) = &mut self.closer {
            closer.close();
        }
    }

    fn known_as(&mut self, handle: i32) {
        self.inbox.set_number(handle);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // No close notification for a handle that this process closes.
        self.inbox.set_number(0);
        if let Some(out) = &self.out
            && let Ok(mut out) = out.try_lock()
            && let Ok(bye) = websocket::masked_close()
        {
            // It may be closed already, or its server may have stopped reading.
            let _ = out.send_last(&bye);
        }
        self.cut();
    }
}

fn write(out: &Mutex<WriteHalf>, bytes: &[u8]) -> Result<(), ClientError> {
    out.lock().unwrap_or_else(PoisonError::into_inner).send(bytes)
}

/// The reading side of a WebSocket.
struct Messages {
    reader: Reader,
    out: Arc<Mutex<WriteHalf>>,
    inbox: Arc<Inbox>,
    tell_web: TellWeb,
}

impl Messages {
    /// Reads to the end of the connection.
    fn run(mut self, mut upgraded: Upgraded, tell: &Tell) {
        self.reader.extend(&std::mem::take(&mut upgraded.received));
        let mut buffer = vec![0; READ_BYTES];
        while self.hand_over() {
            match upgraded.read(&mut buffer) {
                Ok(read) if read > 0 => self.reader.extend(buffer.get(..read).unwrap_or_default()),
                _ => break,
            }
        }
        self.inbox.end(End::Closed);
        self.out.lock().unwrap_or_else(PoisonError::into_inner).close();
        tell(Arc::clone(&self.inbox));
    }

    /// Delivers whole messages, one after the other. Returns false if the connection ends.
    fn hand_over(&mut self) -> bool {
        loop {
            match self.reader.next_event() {
                Ok(None) => return true,
                Ok(Some(WebSocketEvent::Message { is_text, payload })) => {
                    let (done, evaluated) = channel();
                    let done = move || {
                        // The reader may have gone.
                        let _ = done.send(());
                    };
                    (self.tell_web)(Arc::clone(&self.inbox), HandlerEvent::Web { is_text, payload }, Box::new(done));
                    if evaluated.recv().is_err() {
                        return false;
                    }
                }
                Ok(Some(WebSocketEvent::Reply(frame))) => {
                    if write(&self.out, &frame).is_err() {
                        return false;
                    }
                }
                Ok(Some(WebSocketEvent::Close(frame))) => {
                    // The server closes the connection.
                    let _ = write(&self.out, &frame);
                    return false;
                }
                Err(broken) => {
                    if broken.is_too_large() {
                        metrics::refused(Limit::http_response_bytes);
                    }
                    tracing::warn!(reason = broken.reason, "a WebSocket's server broke the protocol");
                    let _ = write(&self.out, &broken.reply);
                    return false;
                }
            }
        }
    }
}
