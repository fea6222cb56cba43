//! Connection loop of a node: passes messages and events to the pool, one per connection at a time, and returns the results.

mod lines;

use super::effects::Out;
use super::entitled;
use super::figures;
use super::outlet::LoopMessage;
use super::pool::{Done, Ended, Job, Line, Pool};
use super::report::Constants;
use super::scope::{Link, NodeScope, WireProtocol};
use super::shared::{Ending, Shared};
use crate::access::{Role, needs_role};
use crate::audit::{Audit, Call, Entry, Shown, Ticket};
use crate::config::{Limit, Limits};
use crate::metrics::{self, Health, HealthWatch, Id};
use crate::net::account::HeldBytes;
use crate::net::client::Incoming;
use crate::net::http::{self, Page};
use crate::net::inbox::Inbox;
use crate::net::shares::{Share, Shares};
use crate::net::signals::{self, ShutdownRequests};
use crate::net::{CloseReason, ConnId, Control, Login, Peer, Service, message, outbox_crowds, outbox_refuses};
use crate::q::QError;
use crate::q::handlers::{Handler, HandlerEvent};
use crate::queue::Date;
use crate::table::Sym;
use bytes::Bytes;
use proto::{Header, MessageKind};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Time for running queries to finish when the node ends.
const DRAIN: Duration = Duration::from_secs(10);

/// Inputs of the metrics and health pages.
pub struct Watched {
    pub constants: Constants,
    pub limits: Limits,
    /// Requests for metrics snapshots; each wakes the loop.
    pub requests: Receiver<metrics::SnapshotRequest>,
}

/// Termination requests by signals.
pub struct Stop {
    requested: ShutdownRequests,
    /// SIGTERM starts an orderly leave instead of ending the process.
    leaves: bool,
    /// The leave was requested already.
    is_reported: bool,
}

impl Stop {
    pub fn new(requested: ShutdownRequests, leaves: bool) -> Stop {
        Stop { requested, leaves, is_reported: false }
    }
}

/// The service that the connection loop calls.
pub struct Queries {
    pub(super) shared: Arc<Shared>,
    scope: Arc<NodeScope>,
    pub(super) pool: Pool,
    messages: Receiver<LoopMessage>,
    stop: Stop,
    watched: Watched,
    /// Deadline after which the loop ends despite running queries.
    drained_by: Option<Instant>,
    /// Connections with a running job, and the jobs queued behind it.
    busy: HashMap<Line, VecDeque<Job>>,
    /// Connections opened by this process whose receive buffer may hold more than the running job.
    inboxes: HashMap<i32, Arc<Inbox>>,
    /// Connections closed by this process, for which `.z.pc` is not called.
    closed: HashSet<ConnId>,
    timer: Timer,
    audit: Audit,
    shares: Arc<Shares>,
    watching: HealthWatch,
}

/// Schedule of `.z.ts`.
#[derive(Default)]
struct Timer {
    next: Option<Instant>,
    period_ms: u64,
    /// A call is running; the next is scheduled at its end.
    runs: bool,
}

impl Queries {
    pub fn new(
        scope: Arc<NodeScope>,
        pool: Pool,
        messages: Receiver<LoopMessage>,
        stop: Stop,
        watched: Watched,
        audit: Audit,
    ) -> Queries {
        let shared = Arc::clone(&scope.shared);
        let shares = Shares::new(&watched.limits);
        let mut queries = Queries {
            shared,
            scope,
            pool,
            messages,
            stop,
            watched,
            drained_by: None,
            busy: HashMap::new(),
            inboxes: HashMap::new(),
            closed: HashSet::new(),
            timer: Timer::default(),
            audit,
            shares,
            watching: HealthWatch::default(),
        };
        queries.set_timer(Instant::now());
        queries
    }

    /// Queues a client's message.
    fn queue_message(&mut self, conn: ConnId, header: &Header, body: Vec<u8>, held: HeldBytes, ctl: &mut Control) {
        if self.shared.is_ending() {
            return;
        }
        let Some(peer) = ctl.peer(conn).cloned() else { return };
        if !peer.grants.has(Role::Query) {
            let error = needs_role("a query", Role::Query);
            self.audit.record(|| {
                let shown = self.audit.showing().map_or(Shown::None, |showing| showing.bytes(&body, header.endian));
                let call = Call { shown, bytes_in: body.len() as u64, ..Call::named("query") };
                Entry::new(peer.who(conn), call).failed(error.to_string())
            });
            return self.refuse(conn, &error, ctl);
        }
        let (ticket, share) = match self.begin("query", body.len(), conn, &peer) {
            Ok(begun) => begun,
            Err(error) => return self.refuse_fully(conn, &error, ctl),
        };
        let line = Line::Client(conn);
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        let is_sync = header.kind == MessageKind::Sync;
        let event = HandlerEvent::Message { is_sync, body, endian: header.endian };
        let job = Job {
            request: ctl.request(),
            held: Some(held),
            share,
            ticket,
            gone: is_sync.then(|| peer.gone.clone()),
            ..Job::of(Some(line), Some(peer), event)
        };
        if job.is_abandoned() {
            // It was sent before its client left, and is read only now.
            let done = self.pool.abandoned(job);
            return self.deliver(done, ctl);
        }
        self.push(job);
        // The next message may depend on this one, so reading pauses. If an evaluation waits for this client's
        // response, reading goes on instead, as the response follows such messages; they queue up to the receive
        // buffer's limit.
        let waiting = |jobs: &VecDeque<Job>| jobs.iter().map(Job::body_bytes).sum::<usize>();
        let room = usize::try_from(self.watched.limits.inbox_bytes).unwrap_or(usize::MAX);
        if !self.scope.is_awaited(conn) || self.busy.get(&line).map_or(0, waiting) > room {
            ctl.pause(conn);
        }
    }

    /// Sends a sync message to a client on behalf of an evaluation that waits for the response.
    fn send_request(&mut self, conn: ConnId, before: Vec<Out>, message: Bytes, ctl: &mut Control) {
        for out in before {
            self.send(out, ctl);
        }
        let Some(peer) = ctl.peer(conn).cloned() else { return self.scope.drop_waiters(conn) };
        ctl.send(conn, message::for_peer(message, &peer));
        // The response arrives behind messages that the client has sent before.
        ctl.resume(conn);
    }

    fn finished(&mut self, done: Done, ctl: &mut Control) {
        let line = done.line;
        let is_day_end = matches!(done.ended, Ended::DayEnd);
        self.deliver(done, ctl);
        // `.u.end` is not counted as a query; an ending node waits for it separately.
        if is_day_end {
            return;
        }
        self.shared.queries_open.fetch_sub(1, Ordering::SeqCst);
        if let Some(line) = line {
            self.next_of(line, ctl);
        }
    }

    /// Sends what a job has left to send.
    fn deliver(&mut self, done: Done, ctl: &mut Control) {
        let Done { line, out, ended, closes } = done;
        for out in out {
            self.send(out, ctl);
        }
        let conn = match line {
            Some(Line::Client(conn)) => Some(conn),
            _ => None,
        };
        match (ended, conn) {
            (Ended::Answer(request, answer), _) => ctl.reply(request, answer),
            (Ended::Login(admitted), Some(conn)) => ctl.admit(conn, admitted),
            (Ended::Verdict(verdict), Some(conn)) => ctl.judge(conn, verdict),
            (Ended::Page(page), Some(conn)) => ctl.answer_page(conn, page),
            (Ended::Timer, _) => {
                self.timer.runs = false;
                self.set_timer(ctl.now());
            }
            _ => {}
        }
        match line.filter(|_| closes) {
            Some(Line::Client(conn)) => ctl.close(conn, "'badmsg"),
            // The connection's thread then reports its end.
            Some(Line::Opened(handle)) => self.scope.handles.cut(handle),
            None => {}
        }
    }

    fn send(&mut self, out: Out, ctl: &mut Control) {
        match out {
            Out::Respond { request, answer } => ctl.reply(request, answer),
            Out::Close(conn) => {
                self.closed.insert(conn);
                ctl.close(conn, "closed by an evaluation");
            }
            Out::Send { conn, message } => {
                let (waiting, all) = (ctl.outbox_bytes(conn), ctl.outboxes_bytes());
                let of_user = outbox_crowds(ctl.is_user_full(conn), waiting, message.len());
                if let Some(limit) = outbox_refuses(&self.watched.limits, waiting, all, message.len()).or(of_user) {
                    metrics::refused(limit);
                    return ctl.close(conn, "it does not read the messages sent to it");
                }
                ctl.send(conn, message);
            }
        }
    }

    /// Schedules the next call of `.z.ts` one period from now, if a period is set.
    fn set_timer(&mut self, now: Instant) {
        let period_ms = self.scope.timer_ms.load(Ordering::Relaxed);
        self.timer.period_ms = period_ms;
        self.timer.next = (period_ms > 0).then(|| now.checked_add(Duration::from_millis(period_ms))).flatten();
    }

    /// Reschedules if the period has changed.
    fn look_at_timer(&mut self, now: Instant) {
        if !self.timer.runs && self.timer.period_ms != self.scope.timer_ms.load(Ordering::Relaxed) {
            self.set_timer(now);
        }
    }

    /// Rejects a message of a client without the role that it needs.
    fn refuse(&self, conn: ConnId, error: &QError, ctl: &mut Control) {
        self.shared.query_errors.fetch_add(1, Ordering::Relaxed);
        match ctl.request() {
            Some(request) => {
                let text = error.wire_text(ctl.peer(conn).is_some_and(|peer| peer.explains), None);
                ctl.reply(request, message::error(&text));
            }
            None => tracing::warn!(handle = conn.handle(), %error, "an async message failed"),
        }
    }

    /// Begins a call: its record, and its part of what its user may have running.
    fn begin(
        &self,
        name: &'static str,
        bytes: usize,
        conn: ConnId,
        peer: &Peer,
    ) -> Result<(Option<Ticket>, Option<Share>), QError> {
        if self.shared.has_stalled() {
            let text = "this node stood still, and may have lost its windows to others: it joins again first";
            return Err(QError::with("evicted", text));
        }
        let call = || Call { bytes_in: bytes as u64, ..Call::named(name) };
        let ticket = self.audit.begin(|| peer.who(conn), call)?;
        match self.shares.take(peer) {
            Ok(share) => Ok((ticket, Some(share))),
            Err(error) => {
                ticket.into_iter().for_each(|ticket| ticket.end(Some(error.to_string()), 0));
                Err(error)
            }
        }
    }

    /// Rejects a message, with the error's text: the user's limit, or why nothing can be recorded.
    fn refuse_fully(&self, conn: ConnId, error: &QError, ctl: &mut Control) {
        let text = [&error.name, b": ".as_slice(), error.detail.as_bytes()].concat();
        self.refuse(conn, &QError::signal(text), ctl);
    }

    fn protocol(&self, conn: ConnId, ctl: &Control) -> WireProtocol {
        if ctl.is_web(conn) { WireProtocol::Web } else { WireProtocol::Ipc }
    }

    fn snapshot(&self, ctl: &Control) -> metrics::Snapshot {
        let Watched { constants, limits, .. } = &self.watched;
        let mut snapshot = figures::snapshot(&self.shared, constants, limits, ctl);
        snapshot.set(Id::Health, self.health(ctl).level());
        snapshot
    }

    fn health(&self, ctl: &Control) -> Health {
        let Watched { constants, limits, .. } = &self.watched;
        let mut health = figures::health(&self.shared, constants, limits, &ctl.used());
        self.audit.add_health(&mut health);
        health
    }

    fn end_if_drained(&mut self, ctl: &mut Control) {
        if !self.shared.is_ending() {
            return;
        }
        if self.drained_by.is_none() {
            self.drained_by = Some(ctl.now().checked_add(DRAIN).unwrap_or_else(|| ctl.now()));
            if self.scope.handler(Handler::Exit).is_some() {
                self.push(Job::of(None, None, HandlerEvent::Exit));
            }
        }
        let days = &self.shared.day_ends;
        if self.waits_for_day_end(ctl.now()) {
            return;
        }
        let by = self.drained_by.unwrap_or_else(|| ctl.now());
        let is_drained = self.shared.queries_open.load(Ordering::SeqCst) == 0 && !days.is_open();
        if is_drained || ctl.now() >= by {
            if days.is_open() {
                tracing::error!(
                    "this node terminates while .u.end is still running: its rows of that day may be unsaved; the \
                     tickerplant's log has them"
                );
            }
            ctl.stop();
        }
    }

    /// Returns whether an ending node still waits for the owner's `.u.end`. It does at the end of its day or after an
    /// orderly leave, not on an explicit request to end.
    fn waits_for_day_end(&self, now: Instant) -> bool {
        let until = self.shared.day_ends.until();
        until.is_some_and(|until| now < until) && self.shared.ending() != Some(Ending::Requested)
    }
}

impl Service for Queries {
    fn login(&mut self, conn: ConnId, user: &[u8], password: &[u8], ctl: &mut Control) -> Login {
        if self.scope.handler(Handler::Login).is_none() {
            return Login::Admitted;
        }
        let (user, password, address) = (user.to_vec(), password.to_vec(), ctl.address(conn));
        let event = HandlerEvent::Login { user, password, address };
        self.push(Job::of(Some(Line::Client(conn)), None, event));
        Login::Later
    }

    fn opened(&mut self, conn: ConnId, peer: &Peer, ctl: &mut Control) {
        tracing::debug!(handle = conn.handle(), %peer, "connection opened");
        let protocol = self.protocol(conn, ctl);
        self.scope.connections().insert(conn.handle(), Link { conn, protocol, console: None, namespace: Sym::NULL });
        if entitled::restriction(&peer.grants).is_some() {
            self.scope.spaces.connected(&peer.user, conn);
        }
        let web = protocol == WireProtocol::Web;
        if self.scope.handler(if web { Handler::WebOpened } else { Handler::Opened }).is_some() {
            // The open handler finishes before the first message is processed.
            ctl.pause(conn);
            self.push(Job::of(Some(Line::Client(conn)), Some(peer.clone()), HandlerEvent::Opened { web }));
        }
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        if header.kind == MessageKind::Response {
            let more = self.scope.answered(conn, Incoming { header: *header, body: body.to_vec() });
            if !more && self.busy.contains_key(&Line::Client(conn)) {
                ctl.pause(conn);
            }
            return;
        }
        // A query thread may take its time: the copy counts until the end of its evaluation.
        let Some(held) = ctl.pending().hold(body.len() as u64) else {
            let why = ctl.pending().refusal();
            return ctl.refuse(conn, Limit::pending_bytes, why);
        };
        self.queue_message(conn, header, body.to_vec(), held, ctl);
    }

    fn owned_message(&mut self, conn: ConnId, header: &Header, body: Vec<u8>, held: HeldBytes, ctl: &mut Control) {
        match header.kind {
            MessageKind::Response => self.message(conn, header, &body, ctl),
            _ => self.queue_message(conn, header, body, held, ctl),
        }
    }

    fn takes_web(&self) -> bool {
        self.scope.handler(Handler::Web).is_some()
    }

    fn web_message(&mut self, conn: ConnId, is_text: bool, payload: Vec<u8>, ctl: &mut Control) {
        if self.shared.is_ending() {
            return;
        }
        let Some(peer) = ctl.peer(conn).cloned() else { return };
        let (ticket, share) = match self.begin("websocket", payload.len(), conn, &peer) {
            Ok(begun) => begun,
            // A WebSocket message has no response that could hold the error.
            Err(error) => return ctl.close(conn, error.to_string()),
        };
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        ctl.pause(conn);
        let event = HandlerEvent::Web { is_text, payload };
        self.push(Job { share, ticket, ..Job::of(Some(Line::Client(conn)), Some(peer), event) });
    }

    fn request(&mut self, conn: ConnId, request: &http::HttpRequest, peer: &Peer, ctl: &mut Control) -> bool {
        let handler = Handler::of_method(request.method);
        if self.shared.is_ending() || !handler.has_default() && self.scope.handler(handler).is_none() {
            return false;
        }
        let (mut ticket, share) = match self.begin("page", request.body.len(), conn, peer) {
            Ok(begun) => begun,
            Err(error) => {
                ctl.refuse_page(conn, &error.to_string());
                return true;
            }
        };
        if let Some(ticket) = &mut ticket {
            let shown = ticket.showing().text(&request.shown());
            ticket.edit(|entry| entry.call.shown = shown);
        }
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        let event = HandlerEvent::Page(request.for_handler());
        let gone = Some(peer.gone.clone());
        self.push(Job { share, ticket, gone, ..Job::of(Some(Line::Client(conn)), Some(peer.clone()), event) });
        true
    }

    fn authorise(&mut self, conn: ConnId, request: &http::HttpRequest, peer: &Peer, _: &mut Control) -> bool {
        if self.scope.handler(Handler::Authorise).is_none() || self.shared.is_ending() {
            return false;
        }
        self.push(Job::of(
            Some(Line::Client(conn)),
            Some(peer.clone()),
            HandlerEvent::Authorise(request.for_handler()),
        ));
        true
    }

    fn iteration_ended(&mut self, ctl: &mut Control) {
        let mut watching = std::mem::take(&mut self.watching);
        watching.look(ctl.now(), || self.health(ctl));
        self.watching = watching;
    }

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn left(&mut self, conn: ConnId, ctl: &mut Control) {
        self.abandon(Line::Client(conn), ctl);
    }

    fn closed(&mut self, conn: ConnId, reason: &CloseReason, ctl: &mut Control) {
        tracing::debug!(%reason, "a connection ended");
        self.abandon(Line::Client(conn), ctl);
        self.scope.drop_waiters(conn);
        self.scope.spaces.disconnected(conn);
        let link = self.scope.connections().remove(&conn.handle());
        let web = link.is_some_and(|link| link.protocol == WireProtocol::Web);
        let handler = if web { Handler::WebClosed } else { Handler::Closed };
        let line = Line::Client(conn);
        let is_told = !self.closed.remove(&conn) && self.scope.handler(handler).is_some();
        if is_told || self.busy.contains_key(&line) {
            // Running jobs finish first, and the handle number is not reused before then.
            ctl.keep_number(conn);
        }
        match is_told {
            true => self.push(Job::of(Some(line), None, HandlerEvent::Closed { web })),
            false => self.scope.forget(line),
        }
    }

    fn woken(&mut self, ctl: &mut Control) {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                LoopMessage::Done(done) => self.finished(done, ctl),
                LoopMessage::Request { conn, before, message } => self.send_request(conn, before, message, ctl),
                LoopMessage::Received(inbox) => self.received(inbox, ctl),
            }
        }
        while let Some(kept) = self.shared.day_ends.take() {
            tracing::info!("calling .u.end[{}] for {} bytes of rows", Date(kept.date), kept.bytes);
            self.pool.push(Job::of_day(kept));
        }
        self.look_at_timer(ctl.now());
        while let Ok(request) = self.watched.requests.try_recv() {
            // The requester may have timed out.
            let _ = request.send(self.snapshot(ctl));
        }
        let leave = signals::is_asked(&self.stop.requested.leave);
        if signals::is_asked(&self.stop.requested.end) || (leave && !self.stop.leaves) {
            self.shared.end(Ending::Requested);
        } else if leave && !std::mem::replace(&mut self.stop.is_reported, true) {
            self.shared.request_leave();
        }
        self.end_if_drained(ctl);
    }

    fn deadline(&self) -> Option<Instant> {
        let drained_by = self.drained_by.map(|by| match self.shared.day_ends.until() {
            Some(until) if self.waits_for_day_end(by) => until.max(by),
            _ => by,
        });
        [drained_by, self.timer.next, self.watching.due()].into_iter().flatten().min()
    }

    fn timer(&mut self, ctl: &mut Control) {
        if self.timer.next.is_some_and(|at| at <= Instant::now()) {
            self.timer.next = None;
            if !self.shared.is_ending() && self.scope.handler(Handler::Timer).is_some() {
                self.timer.runs = true;
                self.push(Job::of(None, None, HandlerEvent::Timer));
            }
        }
        self.end_if_drained(ctl);
    }

    fn page(&mut self, path: &str, _: &str, ctl: &mut Control) -> Option<Page> {
        match path {
            http::METRICS => Some(Page::metrics(&self.snapshot(ctl))),
            http::HEALTH => Some(Page::health(&self.health(ctl))),
            _ => None,
        }
    }

    /// Watchdog status: `None` if the ingest thread has not iterated since the last call, as queries without updates
    /// are of no use. A node that is ending has a deadline instead.
    fn liveness(&mut self) -> Option<String> {
        (self.shared.has_ingest_come_round() || self.shared.is_ending()).then(|| {
            let state = self.shared.state();
            let memory = state.memory_percent.unwrap_or(0.0);
            let lost = if state.connected { "" } else { ", waiting for the tickerplant" };
            format!("{}{lost}, {} rows, memory {memory:.1} %", state.phase.name(), state.rows)
        })
    }
}
