//! One evaluation: the query, its limits and its results. It may run several times until they stand.

use super::core::schema::Tables;
use super::plant::reader::Reader;
use super::plant::variables::{Names, Variables};
use super::record::{Call, Expected, Performed};
use super::sends::{ClientSettings, Connections, Sends};
use super::users::Space;
use crate::audit::Ticket;
use crate::config::Limit;
use crate::metrics;
use crate::net::account::HeldBytes;
use crate::net::departed;
use crate::net::shares::{Share, bounds_of};
use crate::net::{ConnId, Peer, SyncRequest, message};
use crate::q::{self, Caller, QError};
use crate::sys::interrupt::Cancel;
use crate::table::{Value, symbol};
use bytes::Bytes;
use std::collections::VecDeque;
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
    /// The message's share of the memory of pending messages.
    pub held: Option<HeldBytes>,
    pub work: Work,
    pub caller: Caller,
    /// Globals that it sees.
    pub space: Space,
    pub connections: Arc<Connections>,
    pub tables: Arc<Tables>,
    /// Variables of `.u` before its first call.
    pub included: Names,
    pub variables: Arc<Variables>,
    /// Calls that the event loop has performed for it.
    pub record: Vec<Performed>,
    /// Calls of its last run that the event loop has not performed, because the variables had changed.
    pub last_calls: Vec<Call>,
    /// Limits, set at its first run.
    pub limits: Option<q::Limits>,
    /// Settings of its connection at its first run.
    pub began: Option<ClientSettings>,
    /// It has published an update: its response waits until the update is as durable as promised.
    pub published: bool,
    /// Responses to messages with a deferred response.
    pub answers: Vec<(SyncRequest, Bytes)>,
    /// It has sent the response that it deferred.
    pub answered: bool,
    /// What its user may have running and add.
    pub share: Option<Share>,
    /// Its record of the audit log.
    pub ticket: Option<Ticket>,
}

impl Query {
    pub fn new(
        from: Option<From>,
        work: Work,
        caller: Caller,
        connections: Arc<Connections>,
        tables: Arc<Tables>,
    ) -> Query {
        Query {
            from,
            held: None,
            work,
            caller,
            space: Space::SHARED,
            connections,
            tables,
            included: Names::NONE,
            variables: Arc::default(),
            record: Vec::new(),
            last_calls: Vec::new(),
            limits: None,
            began: None,
            published: false,
            answers: Vec::new(),
            answered: false,
            share: None,
            ticket: None,
        }
    }

    /// Returns its client, which may not see all of `.u`; `None` for the owner's timer.
    pub fn reader(&self) -> Option<Reader<'_>> {
        self.from.as_ref().map(|from| Reader { conn: from.conn, grants: &from.peer.grants })
    }

    pub fn is_sync(&self) -> bool {
        self.from.as_ref().is_some_and(|from| from.request.is_some())
    }

    /// Flag that is set when nobody reads its response any more; `None` if it runs to its end in any case.
    pub fn gone(&self) -> Option<&Cancel> {
        self.from.as_ref().filter(|from| from.request.is_some()).map(|from| &from.peer.gone)
    }

    pub fn is_abandoned(&self) -> bool {
        self.gone().is_some_and(Cancel::is_set)
    }
}

/// A run that made calls which the event loop has to perform.
pub struct Calls {
    pub query: Query,
    /// How many calls of the record it has repeated.
    pub repeats: usize,
    pub expected: VecDeque<Expected>,
    pub read_before: Names,
    pub read_after: bool,
    /// Its result stands if the calls have the expected results: it has assigned no global.
    pub may_stand: bool,
    /// Its result stands in any case: it has used up its time or memory.
    pub is_over: bool,
    /// The event loop has performed some of its calls.
    pub is_begun: bool,
    pub outcome: Outcome,
}

impl Outcome {
    /// The outcome of a query whose client has disconnected before it ran.
    pub fn abandoned() -> Outcome {
        let error = departed::abandoned();
        Outcome { answer: message::error(&error.name), error: Some(error), sends: Sends::default() }
    }
}

/// Result of a run.
pub struct Outcome {
    /// Response; empty for the timer.
    pub answer: Bytes,
    pub error: Option<QError>,
    pub sends: Sends,
}

/// What a query thread returns.
pub enum Done {
    Result(Query, Outcome),
    Calls(Box<Calls>),
    /// It has read variables of `.u` that were not copied for it, and must be evaluated again with them.
    Lacks(Query, Names),
}

/// Limits of one evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub time: Duration,
    pub memory_bytes: u64,
    /// New symbols of one evaluation.
    pub symbols: u64,
}

impl Bounds {
    /// Returns the limits of an evaluation; those of a client's query may be lower by the client's roles.
    pub(super) fn limits(self, query: Option<&Query>) -> q::Limits {
        let peer = query.and_then(|query| query.from.as_ref()).map(|from| &from.peer);
        let (time, memory_bytes) = bounds_of(peer, self.time, self.memory_bytes);
        let share = query.and_then(|query| query.share.as_ref());
        let symbols = share.map_or_else(|| symbol::Budget::new(self.symbols), |share| share.budget(self.symbols));
        q::Limits {
            deadline: Instant::now().checked_add(time),
            memory_bytes,
            symbols: Some(symbols),
            cancel: query.and_then(Query::gone).cloned(),
            ..q::Limits::default()
        }
    }
}

/// Counts a query that exceeded one of its limits.
pub fn query_refused(error: &QError, time: Limit) {
    match error.name.as_ref() {
        b"stop" if departed::is_abandoned(error) => {}
        b"stop" => metrics::refused(time),
        b"wsfull" => metrics::refused(Limit::query_memory_bytes),
        _ => {}
    }
}
