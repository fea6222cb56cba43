//! Expressions that clients send, on threads of their own.

use super::globals::Globals;
use super::host::SnapshotHost;
use super::worker::Worker;
use crate::log::Waker;
use crate::net::{ConnId, Peer, Request, message};
use crate::q::{self, Caller, Host, NEEDS_OWNER, QError, from_view, to_wire};
use crate::table::Value;
use bytes::Bytes;
use proto::{Endian, Limits, View};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something to evaluate.
pub struct Query {
    pub conn: ConnId,
    pub request: Option<Request>,
    /// The message's object, little-endian, checked.
    pub object: Vec<u8>,
    pub caller: Caller,
    pub peer: Peer,
    pub globals: Arc<Globals>,
}

/// What became of a query.
pub enum Done {
    /// What to answer, and the error where it is one.
    Answer { conn: ConnId, request: Option<Request>, answer: Bytes, error: Option<QError> },
    /// It has to be run again, on the thread that owns what it wants.
    NeedsOwner(Query),
}

/// What one evaluation may use.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub time: Duration,
    pub memory_bytes: u64,
}

impl Bounds {
    fn limits(self) -> q::Limits {
        q::Limits {
            deadline: Instant::now().checked_add(self.time),
            memory_bytes: self.memory_bytes,
            ..q::Limits::default()
        }
    }
}

/// Starts the threads.
///
/// # Errors
/// The system's.
pub fn start(threads: usize, bounds: Bounds, codec: Limits, waker: Waker) -> io::Result<Worker<Query, Done>> {
    Worker::start("query", threads, waker, move || move |query: Query| run(query, bounds, &codec))
}

fn run(query: Query, bounds: Bounds, codec: &Limits) -> Done {
    let mut host = SnapshotHost::new(Arc::clone(&query.globals), query.caller.clone());
    let result = evaluate(&mut host, &query.object, bounds, codec);
    if host.asks_owner() || matches!(&result, Err(error) if *error == NEEDS_OWNER) {
        return Done::NeedsOwner(query);
    }
    let (answer, error) = answer(result, &query.peer);
    Done::Answer { conn: query.conn, request: query.request, answer, error }
}

/// Evaluates the object of a message.
///
/// # Errors
/// The expression's.
pub fn evaluate(host: &mut dyn Host, object: &[u8], bounds: Bounds, codec: &Limits) -> Result<Value, QError> {
    let (view, _) = View::parse(object, Endian::Little, codec).map_err(|e| QError::with(e.term(), e.to_string()))?;
    q::eval_message(host, &from_view(&view)?, &bounds.limits())
}

/// The response to a result, as it is to be sent to this peer; an error that has none of its own becomes one.
pub fn answer(result: Result<Value, QError>, peer: &Peer) -> (Bytes, Option<QError>) {
    let answered = result.and_then(|value| {
        let mut deep = Ok(());
        let whole = message::message(proto::MessageKind::Response, |writer| deep = to_wire(&value, writer));
        deep?;
        whole.map_err(|error| QError::with("type", error.to_string()))
    });
    match answered {
        Ok(message) => (message::for_peer(message, peer), None),
        Err(error) => (message::error(&error.name), Some(error)),
    }
}
