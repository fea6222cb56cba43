//! Messages that an evaluation sends to clients. They leave after its end, so that an evaluation that starts again sends them once.

use crate::net::{ConnId, message};
use crate::q::{Console, QError, to_wire};
use crate::table::{Sym, Value};
use bytes::Bytes;
use proto::MessageKind;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What a client has set for its connection.
#[derive(Clone, Copy, Debug)]
pub struct ClientSettings {
    /// By `\c` and `\P`.
    pub console: Option<Console>,
    /// By `\d`.
    pub namespace: Sym,
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings { console: None, namespace: Sym::NULL }
    }
}

/// Client connections by handle.
#[derive(Debug, Default)]
pub struct Connections(Mutex<BTreeMap<i32, (ConnId, ClientSettings)>>);

impl Connections {
    pub fn opened(&self, conn: ConnId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(conn.handle(), (conn, ClientSettings::default()));
    }

    pub fn closed(&self, conn: ConnId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&conn.handle());
    }

    fn of(&self, handle: i32) -> Option<ConnId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&handle).map(|(conn, _)| *conn)
    }

    /// Returns the console size, precision and namespace that a client has set with `\c`, `\P` and `\d`. If its connection is closed: 25 80, 7, root.
    pub fn settings_of(&self, handle: i32) -> ClientSettings {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&handle).map_or_else(Default::default, |open| open.1)
    }

    /// Keeps the `\c`, `\P` and `\d` with which a message has ended: the next message of the connection begins with them.
    pub fn set(&self, handle: i32, settings: ClientSettings) {
        if let Some(open) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&handle) {
            open.1 = settings;
        }
    }

    /// Returns all handles, ascending.
    pub fn handles(&self) -> Vec<i32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }
}

/// Messages and responses of one evaluation.
#[derive(Debug, Default)]
pub struct Sends {
    pub messages: Vec<(ConnId, Bytes)>,
    bytes: usize,
    /// The evaluation called `-30!(::)`: its own response comes later.
    pub deferred: bool,
}

impl Sends {
    /// `neg[handle] value`.
    ///
    /// # Errors
    /// `nyi` for a sync message, because the tickerplant never waits for a client; a handle that is not open; a value that cannot be
    /// serialised; `limit` if the messages hold more than so many bytes, for all wait in memory until the end.
    pub fn send(
        &mut self,
        handle: i64,
        value: &Value,
        connections: &Connections,
        bytes_most: usize,
    ) -> Result<Value, QError> {
        if handle > 0 {
            return Err(QError::with("nyi", "the tickerplant sends async messages only: neg[handle] message"));
        }
        let conn = i32::try_from(handle.saturating_neg()).ok().and_then(|handle| connections.of(handle));
        let words = || format!("Cannot write to handle {}. OS reports: Bad file descriptor", handle.saturating_neg());
        let conn = conn.ok_or_else(|| QError::signal(words()))?;
        // A flush (`neg[handle][]`) has no effect: all messages leave at the end.
        if !matches!(value, Value::Null) {
            let mut put = Ok(());
            let message = message::message(MessageKind::Async, |writer| put = to_wire(value, writer));
            put?;
            let message = message.map_err(|error| QError::with("limit", error.to_string()))?;
            self.bytes = self.bytes.saturating_add(message.len());
            if self.bytes > bytes_most {
                let why = format!("messages of more than {bytes_most} bytes in one expression (--limit-message)");
                return Err(QError::with("limit", why));
            }
            self.messages.push((conn, message));
        }
        Ok(Value::Null)
    }
}

/// Encodes a deferred response.
///
/// # Errors
/// A result that cannot be serialised.
pub fn answer(result: Result<&Value, &[u8]>) -> Result<Bytes, QError> {
    let value = match result {
        Err(name) => return Ok(message::error(name)),
        Ok(value) => value,
    };
    let mut put = Ok(());
    let message = message::message(MessageKind::Response, |writer| put = to_wire(value, writer));
    put?;
    message.map_err(|error| QError::with("limit", error.to_string()))
}
