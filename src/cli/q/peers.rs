//! Other processes at the end of handles: those that this one has connected to, and what all of them send.

use crate::config::Address;
use crate::net::client::{Client, ClientError, Incoming, Outgoing};
use crate::q::handles::{Connector, Peer, PeerError};
use crate::q::{QError, from_view, to_wire};
use crate::sys::interrupt;
use crate::table::Value;
use proto::{Endian, MessageKind};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection may take to come about where nothing else is said.
pub const CONNECT: Duration = Duration::from_secs(10);
/// How often one who waits for an answer looks whether Ctrl-C was pressed.
const LOOK: Duration = Duration::from_millis(50);

/// The handle under which the session knows a connection, 0 before it does.
pub type Number = Arc<AtomicI32>;

/// What happened at a connection.
pub enum Happened {
    /// Another process has connected.
    Opened {
        peer: Box<dyn Peer>,
        user: Vec<u8>,
        address: i32,
    },
    /// Somebody wants to connect, and `.z.pw` decides.
    Login {
        user: Vec<u8>,
        password: Vec<u8>,
        answer: Sender<bool>,
    },
    /// A message that is no answer.
    Message {
        number: Number,
        kind: MessageKind,
        body: Vec<u8>,
        endian: Endian,
        /// What to answer a sync message through.
        answer: Box<dyn FnOnce(Vec<u8>) + Send>,
    },
    Closed(Number),
}

/// A whole message of a value.
///
/// # Errors
/// `type` for what cannot travel, `limit`.
pub fn encoded(kind: MessageKind, value: &Value) -> Result<Vec<u8>, QError> {
    let mut bytes = Vec::new();
    let start = proto::encode::begin_message(kind, &mut bytes);
    let mut writer = proto::Writer::new(&mut bytes);
    to_wire(value, &mut writer)?;
    writer.finish().map_err(|e| QError::with("type", e.to_string()))?;
    proto::encode::finish_message(&mut bytes, start).map_err(|e| QError::with("limit", e.to_string()))?;
    Ok(bytes)
}

/// The answers of one connection as they come.
pub struct Answers {
    received: Mutex<Receiver<Incoming>>,
    /// Answers to come that nobody waits for any more.
    given_up: AtomicUsize,
}

impl Answers {
    pub fn new(received: Receiver<Incoming>) -> Answers {
        Answers { received: Mutex::new(received), given_up: AtomicUsize::new(0) }
    }

    /// The answer to the sync message that was sent last, unless it has not come by then or Ctrl-C is pressed.
    ///
    /// # Errors
    /// The other process's error; `close`, `stop`.
    pub fn wait(&self, by: Option<Instant>) -> Result<Value, QError> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match received.recv_timeout(LOOK) {
                Ok(_) if self.given_up.load(Ordering::SeqCst) > 0 => {
                    self.given_up.fetch_sub(1, Ordering::SeqCst);
                }
                Ok(incoming) => {
                    let limits = proto::Limits::default();
                    return from_view(&incoming.view(&limits).map_err(|e| failed(&e))?);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(QError::named("close")),
                Err(RecvTimeoutError::Timeout) => {
                    if interrupt::is_asked() || by.is_some_and(|by| by <= Instant::now()) {
                        self.given_up.fetch_add(1, Ordering::SeqCst);
                        return Err(QError::named("stop"));
                    }
                }
            }
        }
    }
}

fn failed(error: &ClientError) -> QError {
    match error {
        ClientError::Server(name) => QError::signal(name.clone()),
        other => QError::signal(other.to_string().into_bytes()),
    }
}

/// A process that this one has connected to.
struct Remote {
    number: Number,
    out: Arc<Mutex<Outgoing>>,
    answers: Answers,
}

impl Remote {
    fn write(out: &Mutex<Outgoing>, bytes: &[u8]) -> Result<(), ClientError> {
        out.lock().unwrap_or_else(PoisonError::into_inner).send(bytes)
    }
}

impl Peer for Remote {
    fn send(&mut self, message: &Value, wait: bool, by: Option<Instant>) -> Result<Value, PeerError> {
        let kind = if wait { MessageKind::Sync } else { MessageKind::Async };
        let written = encoded(kind, message).and_then(|m| Remote::write(&self.out, &m).map_err(|e| failed(&e)));
        let answer = written.and_then(|()| if wait { self.answers.wait(by) } else { Ok(Value::Null) });
        // That the connection is gone is told by the thread that reads it.
        answer.map_err(PeerError::Answer)
    }

    fn known_as(&mut self, handle: i32) {
        self.number.store(handle, Ordering::SeqCst);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Who closes a handle is not told that it closed.
        self.number.store(0, Ordering::SeqCst);
        self.out.lock().unwrap_or_else(PoisonError::into_inner).close();
    }
}

/// How `hopen` connects: `tell` is called, on a thread of the connection, with what it sends on its own account.
pub fn connector(tell: impl Fn(Happened) + Send + Sync + Clone + 'static) -> Connector {
    Arc::new(move |address: &[u8], timeout_ms: u64| {
        let text = String::from_utf8_lossy(address);
        let address: Address = text.parse().map_err(|e: String| QError::signal(e.into_bytes()))?;
        let timeout = if timeout_ms == 0 { CONNECT } else { Duration::from_millis(timeout_ms) };
        let hop = |e: ClientError| match e {
            ClientError::Refused(_) => QError::named("access"),
            other => QError::with("hop", other.to_string()),
        };
        let client = Client::connect(&address, timeout, proto::Limits::default()).map_err(hop)?;
        let out = Arc::new(Mutex::new(client.outgoing().map_err(|e| QError::with("hop", e.to_string()))?));
        let (number, (say, answers)) = (Number::default(), channel());
        let (tell, own, back) = (tell.clone(), Arc::clone(&number), Arc::clone(&out));
        let reading = std::thread::Builder::new().name("handle".into());
        let reading = reading.spawn(move || read(client, &say, &own, &back, &tell));
        reading.map_err(|e| QError::with("conn", e.to_string()))?;
        Ok(Box::new(Remote { number, out, answers: Answers::new(answers) }) as Box<dyn Peer>)
    })
}

fn read(
    mut client: Client,
    answers: &Sender<Incoming>,
    number: &Number,
    out: &Arc<Mutex<Outgoing>>,
    tell: &impl Fn(Happened),
) {
    while let Ok(Some(incoming)) = client.next_message(None) {
        if incoming.header.kind == MessageKind::Response {
            // Nobody waits where Ctrl-C ended the wait.
            let _ = answers.send(incoming);
            continue;
        }
        let out = Arc::clone(out);
        let answer = move |bytes: Vec<u8>| drop(Remote::write(&out, &bytes));
        tell(Happened::Message {
            number: Arc::clone(number),
            kind: incoming.header.kind,
            body: incoming.body,
            endian: incoming.header.endian,
            answer: Box::new(answer),
        });
    }
    tell(Happened::Closed(Arc::clone(number)));
}
