//! Expressions from clients, evaluated on query threads.

use super::evaluation::{Bounds, Calls, Done, From, Outcome, Query, Work};
use super::globals::SharedGlobals;
use super::host::{QueryHost, Ran};
use super::program;
use super::worker::Worker;
use crate::env::Spawner;
use crate::log::Waker;
use crate::net::departed;
use crate::net::shares::explained;
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
/// The operating system's, if no thread can be started.
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
        let limits = query.limits.clone().unwrap_or_else(|| self.bounds.limits(Some(&query)));
        query.limits = Some(limits.clone());
        query.began.get_or_insert_with(|| query.connections.settings_of(query.caller.handle));
        loop {
            if query.is_abandoned() {
                return Done::Result(query, Outcome::abandoned());
            }
            let mut host = QueryHost::new(&query, self.globals.current(), self.rules.block_writes, &self.codec);
            let result = self.evaluate(&mut host, &query.work, query.is_sync(), &limits);
            let result = result.map_err(|error| departed::reason(error, query.gone()));
            let Ran { base, globals, access, repeats, expected, read_before, read_after, lacks, sends, settings } =
                host.ran();
            query.connections.set(query.caller.handle, settings);
            let is_over = matches!(&result, Err(error) if matches!(&*error.name, b"stop" | b"wsfull"));
            if !lacks.is_empty() && !is_over {
                return Done::Lacks(query, lacks);
            }
            if !expected.is_empty() {
                let (answer, error) = self.answered(&query, result, &limits);
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
            let result = match self.globals.publish(query.space, &base, &globals, &access) {
                Ok(true) => result,
                // Another expression has changed what this one has read.
                Ok(false) if !is_over => continue,
                Ok(false) => Err(QError::with("stop", "time limit: other clients keep changing what it assigns")),
                Err(error) => result.and(Err(error)),
            };
            let (answer, error) = self.answered(&query, result, &limits);
            return Done::Result(query, Outcome { answer, error, sends });
        }
    }

    /// Returns the response to a result for its client, and its error; empty for the timer.
    fn answered(&self, query: &Query, result: Result<Value, QError>, limits: &q::Limits) -> (Bytes, Option<QError>) {
        let (Some(From { peer, .. }), Work::Message(object)) = (&query.from, &query.work) else {
            return (Bytes::new(), result.err());
        };
        match answer(result, peer, limits) {
            Ok(answer) => (answer, None),
            Err(error) => {
                let text = explained(error.clone(), peer, self.bounds.time, self.bounds.memory_bytes);
                (message::failure(&text, peer.explains, object, Endian::Little), Some(error))
            }
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
        host.begins(&message);
        match program::handler(host, is_sync) {
            Some(handler) => q::apply(host, &handler, &[message], limits),
            None => q::eval_message(host, &message, limits),
        }
    }
}

/// Encodes the response to a result for this peer within these limits.
///
/// # Errors
/// Those of the evaluation, or of a result that cannot be encoded.
fn answer(result: Result<Value, QError>, peer: &Peer, limits: &q::Limits) -> Result<Bytes, QError> {
    result.and_then(|value| {
        let mut deep = Ok(());
        let whole = message::message(proto::MessageKind::Response, |writer| {
            deep = limits.within(|| to_wire(&value, writer));
        });
        deep?;
        let message = whole.map_err(|error| QError::with("type", error.to_string()))?;
        Ok(message::for_peer(message, peer))
    })
}
