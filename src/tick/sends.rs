//! What an evaluation sends to clients: it leaves when the evaluation has ended, so that one that is begun anew sends it once.

use crate::net::{ConnId, Request, message};
use crate::q::{QError, to_wire};
use crate::table::Value;
use bytes::Bytes;
use proto::MessageKind;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Clients' connections by handle.
#[derive(Debug, Default)]
pub struct Connections(Mutex<BTreeMap<i32, ConnId>>);

impl Connections {
    pub fn opened(&self, conn: ConnId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(conn.handle(), conn);
    }

    pub fn closed(&self, conn: ConnId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&conn.handle());
    }

    fn of(&self, handle: i32) -> Option<ConnId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&handle).copied()
    }

    /// All handles, ascending.
    pub fn handles(&self) -> Vec<i32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }
}

/// What one evaluation sends.
#[derive(Debug, Default)]
pub struct Sends {
    pub messages: Vec<(ConnId, Bytes)>,
    /// Answers to messages whose answer was put off.
    pub answers: Vec<(Request, Bytes)>,
    /// The message that is evaluated is answered by `-30!`, here or later.
    pub deferred: bool,
    /// This evaluation has given the answer that it put off.
    pub answered: bool,
}

impl Sends {
    /// `neg[handle] value`.
    ///
    /// # Errors
    /// `nyi` for a question: the tickerplant waits for nobody; a handle that is not open; what cannot travel.
    pub fn send(&mut self, handle: i64, value: &Value, connections: &Connections) -> Result<Value, QError> {
        if handle > 0 {
            return Err(QError::with("nyi", "the tickerplant sends async messages only: neg[handle] message"));
        }
        let conn = i32::try_from(handle.saturating_neg()).ok().and_then(|handle| connections.of(handle));
        let words = || format!("Cannot write to handle {}. OS reports: Bad file descriptor", handle.saturating_neg());
        let conn = conn.ok_or_else(|| QError::signal(words()))?;
        // Everything leaves at the end: there is nothing to wait for.
        if !matches!(value, Value::Null) {
            let mut put = Ok(());
            let message = message::message(MessageKind::Async, |writer| put = to_wire(value, writer));
            put?;
            self.messages.push((conn, message.map_err(|error| QError::with("limit", error.to_string()))?));
        }
        Ok(Value::Null)
    }
}

/// The answer to a message that was put off.
///
/// # Errors
/// A result that cannot travel.
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
