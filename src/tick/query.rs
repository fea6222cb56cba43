//! Expressions from clients, evaluated on query threads.

use super::evaluation::{Bounds, Calls, Done, From, Outcome, Query, Work};
use super::globals::SharedGlobals;
use super::host::{QueryHost, Ran};
use super::program;
use super::worker::Worker;
use crate::env::Spawner;
use crate::log::Waker;
use crate::net::{Peer, message};
use crate::q::{self, Host, QError, Rules, from_view, to_wire};
use crate::table::Value;
use bytes::Bytes;
use proto::{Endian, Limits, View};
use std::io;
use std::sync::Arc;

/// What the query threads share.
pub struct Setup {
    pub bounds: Bounds,
    pub rules: Arc<Rules>,
    pub codec: Limits,
    pub globals: Arc<SharedGlobals>,
}

/// Starts the threads.
///
/// # Errors
/// The system's, if it has no thread left.
pub fn start(spawner: &dyn Spawner, threads: usize, setup: Setup, waker: Waker) -> io::Result<Worker<Query, Done>> {
    // Settings of the thread that evaluated the start-up files.
    let settings = q::settings();
    let setup = Arc::new(setup);
    let work = move || {
        let setup = Arc::clone(&setup);
        move |query: Query| {
            q::adopt(settings);
            setup.run(query)
        }
    };
    Worker::start(spawner, "query", (threads, true), waker, work)
}

impl Setup {
    fn run(&self, mut query: Query) -> Done {
        let limits = query.limits.get_or_insert_with(|| self.bounds.limits()).clone();
        loop {
            let mut host = QueryHost::new(&query, self.globals.current(), self.rules.block_writes, &self.codec);
            let result = self.evaluate(&mut host, &query.work, query.is_sync(), &limits);
            let Ran { base, globals, access, repeats, expected, read_before, read_after, lacks, sends } = host.ran();
            let is_over = matches!(&result, Err(error) if matches!(&*error.name, b"stop" | b"wsfull"));
            if !lacks.is_empty() && !is_over {
                return Done::Lacks(query, lacks);
            }
            if !expected.is_empty() {
                let (answer, error) = answered(query.from.as_ref(), result, &limits);
                let outcome = Outcome { answer, error, sends };
                let may_stand = access.assigned.is_empty();
                return Done::Calls(Box::new(Calls {
                    query,
                    repeats,
                    expected,
                    read_before,
                    read_after,
                    may_stand,
                    is_over,
                    is_begun: false,
                    outcome,
                }));
            }
            let result = match self.globals.publish(&base, &globals, &access) {
                Ok(true) => result,
                // Another expression has changed what this one has read.
                Ok(false) if !is_over => continue,
                Ok(false) => Err(QError::with("stop", "time limit: other clients keep changing what it assigns")),
                Err(error) => result.and(Err(error)),
            };
            let (answer, error) = answered(query.from.as_ref(), result, &limits);
            return Done::Result(query, Outcome { answer, error, sends });
        }
    }

    /// Evaluates a message with the handler of a start-up file if there is one, or the timer function.
    ///
    /// # Errors
    /// Those of the expression; `access` for a call that clients may not make.
    fn evaluate(&self, host: &mut dyn Host, work: &Work, is_sync: bool, limits: &q::Limits) -> Result<Value, QError> {
        let object = match work {
            Work::Message(object) => object,
            Work::Timer(function) => return q::apply(host, function, &[Value::Timestamp(q::now_ns())], limits),
        };
        let parsed = View::parse(object, Endian::Little, &self.codec);
        let (view, _) = parsed.map_err(|error| QError::with(error.term(), error.to_string()))?;
        let message = limits.within(|| self.rules.admitted(from_view(&view)?))?;
        match program::handler(host, is_sync) {
            Some(handler) => q::apply(host, &handler, &[message], limits),
            None => q::eval_message(host, &message, limits),
        }
    }
}

/// Returns the response to a result for its client, and its error; empty for the timer.
fn answered(from: Option<&From>, result: Result<Value, QError>, limits: &q::Limits) -> (Bytes, Option<QError>) {
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
