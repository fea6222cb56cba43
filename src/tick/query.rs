//! Expressions that clients send, on threads of their own.

use super::globals::Globals;
use super::host::SnapshotHost;
use super::program;
use super::worker::Worker;
use crate::log::Waker;
use crate::net::{ConnId, Peer, Request, message};
use crate::q::{self, Caller, Host, NEEDS_OWNER, QError, Rules, from_view, to_wire};
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
    pub(super) fn limits(self) -> q::Limits {
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
pub fn start(
    threads: usize,
    bounds: Bounds,
    rules: Arc<Rules>,
    codec: Limits,
    waker: Waker,
) -> io::Result<Worker<Query, Done>> {
    let work = move || {
        let rules = Arc::clone(&rules);
        move |query: Query| run(query, bounds, &rules, &codec)
    };
    Worker::start("query", threads, waker, work)
}

fn run(query: Query, bounds: Bounds, rules: &Rules, codec: &Limits) -> Done {
    let mut host = SnapshotHost::new(Arc::clone(&query.globals), query.caller.clone());
    let limits = bounds.limits();
    let result = evaluate(&mut host, &query.object, query.request.is_some(), rules, &limits, codec);
    if host.asks_owner() || matches!(&result, Err(error) if *error == NEEDS_OWNER) {
        return Done::NeedsOwner(query);
    }
    let (answer, error) = answer(result, &query.peer, &limits);
    Done::Answer { conn: query.conn, request: query.request, answer, error }
}

/// Evaluates the object of a message, by way of the handler that a start-up file has set for it.
///
/// # Errors
/// The expression's; `access` for what is not on the list of what clients may call.
pub fn evaluate(
    host: &mut dyn Host,
    object: &[u8],
    is_sync: bool,
    rules: &Rules,
    limits: &q::Limits,
    codec: &Limits,
) -> Result<Value, QError> {
    let (view, _) = View::parse(object, Endian::Little, codec).map_err(|e| QError::with(e.term(), e.to_string()))?;
    let message = limits.within(|| rules.admitted(from_view(&view)?))?;
    match program::handler(host, is_sync) {
        Some(handler) => q::apply(host, &handler, &[message], limits),
        None => q::eval_message(host, &message, limits),
    }
}

/// The response to a result, as it is to be sent to this peer within these limits; an error that has none of its own becomes one.
pub fn answer(result: Result<Value, QError>, peer: &Peer, limits: &q::Limits) -> (Bytes, Option<QError>) {
    let answered = result.and_then(|value| {
        let mut deep = Ok(());
        let whole = message::message(proto::MessageKind::Response, |writer| {
            deep = limits.within(|| to_wire(&value, writer));
        });
        deep?;
        whole.map_err(|error| QError::with("type", error.to_string()))
    });
    match answered {
        Ok(message) => (message::for_peer(message, peer), None),
        Err(error) => (message::error(&error.name), Some(error)),
    }
}
