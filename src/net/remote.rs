//! Other processes as q's handles reach them.

use super::client::{Client, ClientError};
use crate::config::Address;
use crate::q::handles::{Peer, PeerError};
use crate::q::{QError, from_view, to_wire};
use crate::table::Value;
use proto::{Limits, MessageKind, Writer, encode};
use std::time::{Duration, Instant};

/// How long a connection may take to come about where nothing else is said.
const CONNECT: Duration = Duration::from_secs(10);

/// A socket's timeout must not be nothing.
const LEAST: Duration = Duration::from_millis(1);

struct Remote(Client);

fn failed(error: ClientError) -> PeerError {
    match error {
        ClientError::Server(name) => PeerError::Answer(QError::signal(name)),
        ClientError::Timeout => PeerError::Gone(QError::with("stop", "time limit")),
        error if error.is_answer() => PeerError::Answer(QError::signal(error.to_string().into_bytes())),
        error => PeerError::Gone(QError::signal(error.to_string().into_bytes())),
    }
}

/// Connects to `host:port:user:password` within so many milliseconds, 0 for ten seconds.
///
/// # Errors
/// `hop`, or what is wrong with the address.
pub fn connect(address: &[u8], timeout_ms: u64) -> Result<Box<dyn Peer>, QError> {
    let text = String::from_utf8_lossy(address);
    let address: Address = text.parse().map_err(|e: String| QError::signal(e.into_bytes()))?;
    let timeout = if timeout_ms == 0 { CONNECT } else { Duration::from_millis(timeout_ms) };
    let mut client =
        Client::connect(&address, timeout, Limits::default()).map_err(|_| QError::with("hop", text.clone()))?;
    client.set_timeout(None);
    Ok(Box::new(Remote(client)))
}

fn message(value: &Value, kind: MessageKind) -> Result<Vec<u8>, QError> {
    let mut bytes = Vec::new();
    let start = encode::begin_message(kind, &mut bytes);
    let mut writer = Writer::new(&mut bytes);
    to_wire(value, &mut writer)?;
    writer.finish().map_err(|e| QError::with("type", e.to_string()))?;
    encode::finish_message(&mut bytes, start).map_err(|e| QError::with("limit", e.to_string()))?;
    Ok(bytes)
}

impl Peer for Remote {
    fn send(&mut self, value: &Value, wait: bool, by: Option<Instant>) -> Result<Value, PeerError> {
        let by = by.map(|by| by.max(Instant::now().checked_add(LEAST).unwrap_or(by)));
        // A send, too, may wait for the other side.
        self.0.arm(by).map_err(failed)?;
        self.0.set_timeout(by.map(|by| by.saturating_duration_since(Instant::now())));
        let kind = if wait { MessageKind::Sync } else { MessageKind::Async };
        let bytes = message(value, kind).map_err(PeerError::Answer)?;
        if !wait {
            self.0.send_raw(&bytes).and_then(|()| self.0.flush()).map_err(failed)?;
            return Ok(Value::Null);
        }
        let answer = self.0.request_raw(&bytes, |_| {}).map_err(failed)?;
        let limits = Limits::default();
        let view = answer.view(&limits).map_err(failed)?;
        from_view(&view).map_err(PeerError::Answer)
    }
}
