//! Expressions from clients, evaluated on query threads.

use super::globals::Globals;
use super::host::SnapshotHost;
use super::program;
use super::sends::{Connections, Sends};
use super::worker::Worker;
use crate::env::Spawner;
use crate::log::Waker;
use crate::net::{ConnId, Peer, SyncRequest, message};
use crate::q::{self, Caller, Host, NEEDS_OWNER, QError, Rules, from_view, to_wire};
use crate::sys::clock;
use crate::table::Value;
use bytes::Bytes;
use proto::{Endian, Limits, View};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a query evaluates.
pub enum Work {
    /// Object of the message, little-endian, validated.
    Message(Vec<u8>),
    /// Timer function.
    Timer(Value),
}

/// Client that sent a query.
pub struct From {
    pub conn: ConnId,
    pub request: Option<SyncRequest>,
    pub peer: Peer,
}

/// A query to evaluate.
pub struct Query {
    /// `None` for the timer.
    pub from: Option<From>,
    pub work: Work,
    pub caller: Caller,
    pub globals: Arc<Globals>,
    pub connections: Arc<Connections>,
}

impl Query {
    pub fn is_sync(&self) -> bool {
        self.from.as_ref().is_some_and(|from| from.request.is_some())
    }
}

/// Outcome of a query.
pub enum Done {
    /// Response, its error if it is one, and the messages to send.
    Result { from: Option<From>, answer: Bytes, error: Option<QError>, sends: Sends },
    /// Must run again on the event-loop thread.
    NeedsOwner(Query),
}

/// Limits of one evaluation.
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

    /// The same with the time limit in CPU time of this thread: on a busy machine a cheap query still gets its response.
    pub(super) fn limits_of_this_thread(self) -> q::Limits {
        let processor_time = clock::thread_processor_time().checked_add(self.time);
        q::Limits { processor_time, ..self.limits() }
    }
}

/// Starts the threads.
///
/// # Errors
/// The system's, if it has no thread left.
pub fn start(
    spawner: &dyn Spawner,
    threads: usize,
    bounds: Bounds,
    rules: Arc<Rules>,
    codec: Limits,
    waker: Waker,
) -> io::Result<Worker<Query, Done>> {
    // Settings of the thread that evaluated the start-up files.
    let settings = q::settings();
    let work = move || {
        let rules = Arc::clone(&rules);
        move |query: Query| {
            q::adopt(settings);
            run(query, bounds, &rules, &codec)
        }
    };
    Worker::start(spawner, "query", threads, waker, work)
}

fn run(query: Query, bounds: Bounds, rules: &Rules, codec: &Limits) -> Done {
    let (globals, connections) = (Arc::clone(&query.globals), Arc::clone(&query.connections));
    let mut host = SnapshotHost::new(globals, query.caller.clone(), connections, query.is_sync());
    let limits = bounds.limits();
    let result = evaluate(&mut host, &query.work, query.is_sync(), rules, &limits, codec);
    if host.asks_owner() || matches!(&result, Err(error) if *error == NEEDS_OWNER) {
        return Done::NeedsOwner(query);
    }
    let (answer, error) = answered(query.from.as_ref(), result, &limits);
    Done::Result { from: query.from, answer, error, sends: host.sends() }
}

/// Evaluates a message with the handler of a start-up file if there is one, or the timer function.
///
/// # Errors
/// Those of the expression; `access` for a call that clients may not make.
pub fn evaluate(
    host: &mut dyn Host,
    work: &Work,
    is_sync: bool,
    rules: &Rules,
    limits: &q::Limits,
    codec: &Limits,
) -> Result<Value, QError> {
    let object = match work {
        Work::Message(object) => object,
        Work::Timer(function) => return q::apply(host, function, &[Value::Timestamp(q::now_ns())], limits),
    };
    let (view, _) = View::parse(object, Endian::Little, codec).map_err(|e| QError::with(e.term(), e.to_string()))?;
    let message = limits.within(|| rules.admitted(from_view(&view)?))?;
    match program::handler(host, is_sync) {
        Some(handler) => q::apply(host, &handler, &[message], limits),
        None => q::eval_message(host, &message, limits),
    }
}

/// Returns the response to a result for its client, and its error; empty for the timer.
pub fn answered(from: Option<&From>, result: Result<Value, QError>, limits: &q::Limits) -> (Bytes, Option<QError>) {
    match from {
        Some(from) => answer(result, &from.peer, limits),
        None => (Bytes::new(), result.err()),
    }
}

/// Encodes the response to a result for this peer within these limits; a result that cannot be encoded becomes an error.
fn answer(result: Result<Value, QError>, peer: &Peer, limits: &q::Limits) -> (Bytes, Option<QError>) {
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
