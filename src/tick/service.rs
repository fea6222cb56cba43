//! Message handling of the tickerplant: turns messages into updates, calls and queries.

mod audited;
mod queries;

use super::core::{call, sequenced};
use super::evaluation::{Bounds, Calls, Done, Query};
use super::gate::{self, Gate};
use super::globals::{Globals, SharedGlobals};
use super::plant::Plant;
use super::plant::calls::{self, Called, Caller};
use super::plant::functions;
use super::program::{self, Logins};
use super::query::{self, Setup};
use super::sends::Connections;
use super::users::Users;
use super::worker::Worker;
use crate::audit::Audit;
use crate::config::Limit;
use crate::env::Env;
use crate::log::Waker;
use crate::metrics::{self, Health, HealthWatch, Id, Snapshot};
use crate::net::account::Account;
use crate::net::http::{self, Page};
use crate::net::shares::Shares;
use crate::net::{CloseReason, ConnId, Control, Deferred, Links, Login, Peer, Service, SyncRequest, message, signals};
use crate::q::{QError, Rules};
use crate::table::Value;
use proto::{DecodeError, Endian, Header, Limits, MessageKind, View, Writer, types};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The tickerplant as the event loop drives it.
pub struct TickService {
    pub plant: Plant,
    codec: Limits,
    /// Memory of messages that wait for a query thread or are evaluated.
    pending: Arc<Account>,
    queries: Worker<Query, Done>,
    /// Evaluated queries whose calls of `.u` the loop has yet to make, in the order of their evaluations.
    calling: VecDeque<Calls>,
    globals: Arc<SharedGlobals>,
    users: Users,
    rules: Arc<Rules>,
    gate: Gate,
    connections: Arc<Connections>,
    /// Sync messages with a deferred response, by handle.
    deferred: Deferred,
    timer: Option<Timer>,
    /// Set if `.z.pw` is defined.
    logins: Option<Logins>,
    /// Set when the process was asked to stop.
    end: Arc<AtomicBool>,
    is_stopping: bool,
    waker: Waker,
    audit: Audit,
    shares: Arc<Shares>,
    /// Pending requests for metrics; each wakes the event loop.
    watched: Receiver<metrics::SnapshotRequest>,
    watching: HealthWatch,
}

/// `.z.ts` of a start-up file. The interval counts from the end of one call to the next call.
struct Timer {
    function: Value,
    every: Duration,
    /// `None` while it runs.
    next: Option<Instant>,
}

/// Options for messages other than updates.
pub struct ServiceOptions {
    /// Limits of a message.
    pub codec: Limits,
    /// Memory of received messages that are not handled yet, shared with the event loop.
    pub pending: Arc<Account>,
    pub globals: Globals,
    /// Limits of a query.
    pub query: Bounds,
    /// Number of query threads.
    pub threads: usize,
    /// Limits of `.z.pw`.
    pub handler: Bounds,
    /// What clients may call and define.
    pub rules: Rules,
    /// `.z.ts` of a start-up file and its interval in milliseconds.
    pub timer: Option<(Value, u64)>,
}

impl TickService {
    /// Starts the query threads.
    ///
    /// # Errors
    /// The operating system's, if no thread can be started.
    pub fn new(
        env: &Env,
        plant: Plant,
        options: ServiceOptions,
        waker: Waker,
        end: Arc<AtomicBool>,
        watched: Receiver<metrics::SnapshotRequest>,
    ) -> io::Result<TickService> {
        let ServiceOptions { codec, pending, globals, query, threads, handler, rules, timer } = options;
        let timer = timer.map(|(function, every_ms)| {
            let every = Duration::from_millis(every_ms);
            Timer { function, every, next: Instant::now().checked_add(every) }
        });
        let rules = Arc::new(rules);
        let shares = Shares::new(&plant.limits);
        let logins = Logins::start(&*env.spawner, &globals, handler, Arc::clone(&waker))?;
        let gate = Gate::new(&globals, &rules);
        let globals = Arc::new(SharedGlobals::from(globals));
        let setup = Setup { bounds: query, rules: Arc::clone(&rules), codec, globals: Arc::clone(&globals) };
        let queries = query::start(&*env.spawner, threads, setup, Arc::clone(&waker))?;
        Ok(TickService {
            plant,
            codec,
            pending,
            queries,
            calling: VecDeque::new(),
            gate,
            globals,
            users: Users::default(),
            rules,
            waker,
            connections: Arc::default(),
            deferred: Deferred::default(),
            timer,
            logins,
            end,
            is_stopping: false,
            audit: Audit::default(),
            shares,
            watched,
            watching: HealthWatch::default(),
        })
    }

    /// Handles a message of a connection.
    pub fn handle(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut dyn Links) {
        if header.kind == MessageKind::Response {
            return;
        }
        if header.endian == Endian::Little {
            return self.little(conn, body, ctl);
        }
        let caller = Caller { conn, request: ctl.request() };
        let mut little = Vec::with_capacity(body.len());
        match View::parse(body, Endian::Big, &self.codec).map(|(view, _)| view.append_little(&mut little)) {
            Ok(Ok(())) => self.little(conn, &little, ctl),
            Ok(Err(error)) => self.malformed(caller, &error.to_string(), ctl),
            Err(error) => self.no_object(caller, &error, ctl),
        }
    }

    /// Returns the health of the process.
    fn health_of(plant: &Plant, audit: &Audit, ctl: &dyn Links) -> Health {
        let mut health = plant.health(&ctl.used());
        audit.add_health(&mut health);
        health
    }

    /// Returns the metrics of the process.
    fn snapshot(&self, ctl: &dyn Links) -> Snapshot {
        let mut snapshot = self.plant.snapshot(self.globals.current().bytes(), ctl);
        snapshot.set(Id::Health, Self::health_of(&self.plant, &self.audit, ctl).level());
        snapshot
    }

    fn stop(&mut self, reason: &str, ctl: &mut Control) {
        let must_end = signals::is_asked(&self.end) || self.plant.leaves_log().is_some();
        if self.plant.may_stop(must_end, ctl) && !std::mem::replace(&mut self.is_stopping, true) {
            self.plant.stop(reason, ctl);
            ctl.stop();
        }
    }

    fn stop_if_asked(&mut self, ctl: &mut Control) {
        let request = signals::is_asked(&self.end).then_some("shutting down on request");
        if let Some(reason) = request.or_else(|| self.plant.must_step_down()) {
            self.stop(reason, ctl);
        }
    }

    /// Takes the results of other threads.
    pub fn come_round(&mut self, ctl: &mut dyn Links) {
        self.plant.woken(ctl);
        self.queries_done(ctl);
        self.perform(ctl);
    }

    fn little(&mut self, conn: ConnId, body: &[u8], ctl: &mut dyn Links) {
        if let Some(call) = call::recognise(body).filter(|_| self.gate.passes_updates(ctl.request().is_some())) {
            match ctl.request() {
                // A rejection of an async update is counted and kept in quarantine.
                None => drop(self.plant.update(conn, &call, ctl)),
                Some(request) => self.plant.update_sync(conn, &call, request, ctl),
            }
            return;
        }
        let sequenced = sequenced::recognise(body, &self.codec);
        if let Some(call) = sequenced.filter(|_| self.gate.passes_updates(ctl.request().is_some())) {
            return self.plant.answer_sequenced(conn, &call, ctl);
        }
        let caller = Caller { conn, request: ctl.request() };
        match View::parse(body, Endian::Little, &self.codec) {
            Ok((view, used)) if used == body.len() => self.other(&view, caller, ctl),
            Ok((_, used)) => {
                self.malformed(caller, &format!("badmsg: {} bytes after the object", body.len() - used), ctl)
            }
            Err(error) => self.no_object(caller, &error, ctl),
        }
    }

    fn no_object(&mut self, caller: Caller, error: &DecodeError, ctl: &mut dyn Links) {
        metrics::refused_by(error, Limit::message_bytes);
        self.malformed(caller, &error.to_string(), ctl);
    }

    /// Handles a whole message that is not a valid object: a sync message gets an error response, and its connection stays open. The sender of
    /// an async message cannot be notified, so its connection is closed.
    fn malformed(&mut self, caller: Caller, reason: &str, ctl: &mut dyn Links) {
        self.plant.stats.malformed = self.plant.stats.malformed.wrapping_add(1);
        match caller.request {
            Some(request) => ctl.reply(request, message::error(reason.trim_start_matches('\'').as_bytes())),
            None => ctl.close(caller.conn, reason),
        }
    }

    /// Handles every message that is not an update in its usual form.
    fn other(&mut self, view: &View<'_>, caller: Caller, ctl: &mut dyn Links) {
        let items: Vec<View<'_>>;
        let atoms: Vec<Vec<u8>>;
        if let Some(list) = view.list() {
            items = list.iter().collect();
        } else if let Some(vector) = view.vector().filter(|vector| vector.ty == types::SYMBOL) {
            // A q peer sends (`.u.sub;`trade;`) as one symbol vector.
            atoms = vector.symbols().map(symbol_atom).collect();
            items = atoms
                .iter()
                .filter_map(|atom| View::parse(atom, Endian::Little, &self.codec).ok())
                .map(|v| v.0)
                .collect();
        } else {
            items = Vec::new();
        }
        let Some((function, args)) = items.split_first() else { return self.free_query(view, caller, ctl) };
        if let Some(row) = function.text().and_then(functions::find) {
            if self.gate.is_handled(row, caller.request.is_some()) {
                return self.query(view, caller, ctl);
            }
            let grants = ctl.peer(caller.conn).map(|peer| &*peer.grants);
            return match gate::allowed(row, &self.rules, grants) {
                Ok(()) => self.call(row.name.as_bytes(), args, caller, ctl),
                Err(error) => {
                    self.audit_call_refused(row, args, caller.conn, &error, ctl);
                    self.failed(&error, caller, ctl)
                }
            };
        }
        match (function.lambda(), args) {
            (Some((_, source)), [count]) if calls::is_roll_lambda(source) => {
                let own = int_atom(caller.conn.handle());
                match View::parse(&own, Endian::Little, &self.codec) {
                    Ok((own, _)) => self.call(b".u.asg.roll", &[own, *count], caller, ctl),
                    Err(error) => self.malformed(caller, &error.to_string(), ctl),
                }
            }
            _ => self.free_query(view, caller, ctl),
        }
    }

    fn call(&mut self, name: &[u8], args: &[View<'_>], caller: Caller, ctl: &mut dyn Links) {
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        let called = self.audited_call(name, args, caller, &mut writer, ctl);
        if name == proto::log::SCHEMA && called.is_ok() {
            self.globals.show_tables(self.plant.tables());
        }
        let called = called.and_then(|called| {
            writer.finish().map_err(|error| QError::with("limit", error.to_string()))?;
            Ok(called)
        });
        match called {
            Ok(called) => self.answer(called, &object, caller.request, ctl),
            Err(error) => self.failed(&error, caller, ctl),
        }
    }

    fn answer(&mut self, called: Called, object: &[u8], request: Option<SyncRequest>, ctl: &mut dyn Links) {
        let Some(request) = request else { return };
        let answer = message::response(object).unwrap_or_else(|error| message::error(error.to_string().as_bytes()));
        let answer = match ctl.peer(request.conn) {
            Some(peer) => message::for_peer(answer, peer),
            None => answer,
        };
        match called {
            Called::Put => ctl.reply(request, answer),
            Called::PutWhenDurable => self.plant.acknowledge_later(request, answer),
            Called::Answered => {}
        }
    }

    fn failed(&mut self, error: &QError, caller: Caller, ctl: &mut dyn Links) {
        self.plant.stats.query_errors = self.plant.stats.query_errors.wrapping_add(1);
        match caller.request {
            Some(request) => {
                // Programs show these texts to people, so each client gets the reason as well.
                let text = match error.detail.is_empty() {
                    true => error.name.to_vec(),
                    false => [&error.name, b": ".as_slice(), error.detail.as_bytes()].concat(),
                };
                self.plant.note_denied(error, caller.conn, ctl);
                self.plant.respond(request, message::error(&text), ctl);
            }
            None => tracing::warn!(handle = caller.conn.handle(), %error, "an async message failed"),
        }
    }

    /// Evaluates a message that names no function of `.u`, if its sender may query.
    fn free_query(&mut self, view: &View<'_>, caller: Caller, ctl: &mut dyn Links) {
        match gate::may_query(view.chars(), ctl.peer(caller.conn).map(|peer| &*peer.grants)) {
            Ok(()) => self.query(view, caller, ctl),
            Err(error) => {
                self.audit_query_refused(view, caller.conn, &error, ctl);
                self.failed(&error, caller, ctl)
            }
        }
    }
}

fn symbol_atom(text: &[u8]) -> Vec<u8> {
    [&[types::SYMBOL_ATOM.cast_unsigned()], text, &[0]].concat()
}

fn int_atom(value: i32) -> Vec<u8> {
    [&[types::INT.saturating_neg().cast_unsigned()], value.to_le_bytes().as_slice()].concat()
}

impl Service for TickService {
    fn login(&mut self, conn: ConnId, user: &[u8], password: &[u8], _: &mut Control) -> Login {
        let Some(logins) = &self.logins else { return Login::Admitted };
        if program::is_cluster(user, self.plant.has_secret()) {
            return Login::Admitted;
        }
        logins.submit(conn, user, password, self.globals.current());
        Login::Later
    }

    fn opened(&mut self, conn: ConnId, peer: &Peer, _: &mut Control) {
        tracing::debug!(handle = conn.handle(), %peer, "connection opened");
        self.users.opened(conn, peer);
        self.connections.opened(conn);
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        self.handle(conn, header, body, ctl);
    }

    fn iteration_ended(&mut self, ctl: &mut Control) {
        self.plant.end_iteration(ctl);
        let plant = &self.plant;
        if plant.requested_hand_over().is_some() || plant.is_leaving() || plant.leaves_log().is_some() {
            self.stop_if_asked(ctl);
        }
        let health = || Self::health_of(&self.plant, &self.audit, ctl);
        self.watching.look(ctl.now(), health);
    }

    fn writable(&mut self, conn: ConnId, ctl: &mut Control) {
        self.plant.writable(conn, ctl);
    }

    fn left(&mut self, _: ConnId, ctl: &mut Control) {
        self.withdraw_abandoned(ctl);
    }

    fn closed(&mut self, conn: ConnId, _: &CloseReason, ctl: &mut Control) {
        self.withdraw_abandoned(ctl);
        self.connections.closed(conn);
        self.deferred.forget(conn);
        if let Some(left) = self.users.closed(conn) {
            self.globals.forget(left);
        }
        self.plant.closed(conn, ctl);
        self.record_sums(Some(conn));
    }

    fn woken(&mut self, ctl: &mut Control) {
        self.come_round(ctl);
        while let Some((conn, admitted)) = self.logins.as_ref().and_then(Logins::decided) {
            ctl.admit(conn, admitted);
        }
        while let Ok(request) = self.watched.try_recv() {
            // The receiver may have given up.
            let _ = request.send(self.snapshot(ctl));
        }
        self.stop_if_asked(ctl);
    }

    fn is_served(&self, conn: ConnId) -> bool {
        self.plant.serves(conn)
    }

    fn deadline(&self) -> Option<Instant> {
        let timer = self.timer.as_ref().and_then(|timer| timer.next);
        [self.plant.deadline(), timer, self.plant.sums_due(), self.watching.due()].into_iter().flatten().min()
    }

    fn timer(&mut self, ctl: &mut Control) {
        self.tick(ctl);
        self.plant.timer(ctl);
        if self.plant.sums_due().is_some_and(|due| due <= Instant::now()) {
            self.record_sums(None);
        }
    }

    fn page(&mut self, path: &str, query: &str, ctl: &mut Control) -> Option<Page> {
        match path {
            http::METRICS => Some(Page::metrics(&self.snapshot(ctl))),
            http::HEALTH if http::asks_for_passive(query) => {
                let words = match self.plant.failure() {
                    Some(failure) => format!("failed: {failure}; this tickerplant does not wait for another one"),
                    None => "active: this tickerplant does not wait for another one".to_string(),
                };
                Some(Page::text(503, &words))
            }
            http::HEALTH => Some(Page::health(&Self::health_of(&self.plant, &self.audit, ctl))),
            _ => None,
        }
    }

    fn starts_again(&self) -> bool {
        !signals::is_asked(&self.end) && self.plant.must_step_down().is_some()
    }

    fn liveness(&mut self) -> Option<String> {
        Some(self.plant.status_line())
    }
}
