//! Connection loop of a node: passes messages and events to the pool, one per connection at a time, and returns the results.

use super::effects::Out;
use super::figures;
use super::outlet::LoopMessage;
use super::pool::{Done, Ended, Job, Line, Pool};
use super::report::Constants;
use super::scope::{Link, NodeScope, Spoken};
use super::shared::{Ending, Shared};
use crate::access::{Role, needs_role};
use crate::config::{Limit, Limits};
use crate::metrics;
use crate::net::account::HeldBytes;
use crate::net::client::Incoming;
use crate::net::http::{self, Page};
use crate::net::inbox::{Inbox, Message};
use crate::net::signals::{self, ShutdownRequests};
use crate::net::{CloseReason, ConnId, Control, Login, Peer, Service, message, outbox_refuses};
use crate::q::QError;
use crate::q::handlers::{Handler, HandlerEvent};
use crate::queue::Date;
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
    ) -> Queries {
        let shared = Arc::clone(&scope.shared);
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
        };
        queries.set_timer(Instant::now());
        queries
    }

    /// Queues a job; jobs of one connection run in order.
    fn push(&mut self, job: Job) {
        self.shared.queries_open.fetch_add(1, Ordering::SeqCst);
        if let Some(line) = job.line {
            if let Some(waiting) = self.busy.get_mut(&line) {
                return waiting.push_back(job);
            }
            self.busy.insert(line, VecDeque::new());
        }
        self.pool.push(job);
    }

    /// Queues a client's message.
    fn queue_message(&mut self, conn: ConnId, header: &Header, body: Vec<u8>, held: HeldBytes, ctl: &mut Control) {
        if self.shared.is_ending() {
            return;
        }
        let Some(peer) = ctl.peer(conn).cloned() else { return };
        if !peer.grants.has(Role::Query) {
            return self.refuse(conn, &needs_role("a query", Role::Query), ctl);
        }
        let line = Line::Client(conn);
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        let is_sync = header.kind == MessageKind::Sync;
        let event = HandlerEvent::Message { is_sync, body, endian: header.endian };
        self.push(Job { request: ctl.request(), held: Some(held), ..Job::of(Some(line), Some(peer), event) });
        // The next message may depend on this one, so reading pauses. If an evaluation waits for this client's
        // response, reading goes on instead, as the response follows such messages; they queue up to the receive
        // buffer's limit.
        let waiting = |jobs: &VecDeque<Job>| jobs.iter().map(Job::body_bytes).sum::<usize>();
        let room = usize::try_from(self.watched.limits.inbox_bytes).unwrap_or(usize::MAX);
        if !self.scope.is_asked(conn) || self.busy.get(&line).map_or(0, waiting) > room {
            ctl.pause(conn);
        }
    }

    /// Starts the connection's next job, or resumes reading from it.
    fn next_of(&mut self, line: Line, ctl: &mut Control) {
        if let Some(Some(job)) = self.busy.get_mut(&line).map(VecDeque::pop_front) {
            return self.pool.push(job);
        }
        self.busy.remove(&line);
        match line {
            Line::Client(conn) => {
                if ctl.peer(conn).is_none() {
                    self.scope.forget(line);
                }
                ctl.resume(conn);
                ctl.free_number(conn);
            }
            Line::Opened(handle) => {
                if let Some(inbox) = self.inboxes.remove(&handle) {
                    self.hear(inbox);
                }
            }
        }
    }

    /// Handles a message on a connection opened by this process, or its end.
    fn hear(&mut self, inbox: Arc<Inbox>) {
        let handle = inbox.number();
        if handle == 0 || self.shared.is_ending() {
            return;
        }
        let line = Some(Line::Opened(handle));
        if self.busy.contains_key(&Line::Opened(handle)) {
            self.inboxes.insert(handle, inbox);
        } else if let Some(Message { kind, body, endian, answer }) = inbox.take() {
            self.inboxes.insert(handle, inbox);
            let event = HandlerEvent::Message { is_sync: kind == MessageKind::Sync, body, endian };
            self.push(Job { answer: Some(answer), ..Job::of(line, None, event) });
        } else if inbox.is_over() {
            inbox.set_number(0);
            // The process itself may have closed it meanwhile.
            let _ = self.scope.handles.close(handle);
            self.push(Job::of(line, None, HandlerEvent::Closed { web: false }));
        }
    }

    /// Sends a sync message to a client on behalf of an evaluation that waits for the response.
    fn ask(&mut self, conn: ConnId, before: Vec<Out>, message: Bytes, ctl: &mut Control) {
        for out in before {
            self.send(out, ctl);
        }
        let Some(peer) = ctl.peer(conn).cloned() else { return self.scope.unask(conn) };
        ctl.send(conn, message::for_peer(message, &peer));
        // The response arrives behind messages that the client has sent before.
        ctl.resume(conn);
    }

    fn finished(&mut self, done: Done, ctl: &mut Control) {
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
            // `.u.end` is not counted as a query; an ending node waits for it separately.
            (Ended::DayEnd, _) => return,
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
        self.shared.queries_open.fetch_sub(1, Ordering::SeqCst);
        if let Some(line) = line {
            self.next_of(line, ctl);
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
                if let Some(limit) = outbox_refuses(&self.watched.limits, waiting, all, message.len()) {
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
            Some(request) => ctl.reply(request, message::error(&error.name)),
            None => tracing::warn!(handle = conn.handle(), %error, "an async message failed"),
        }
    }

    fn spoken(&self, conn: ConnId, ctl: &Control) -> Spoken {
        if ctl.is_web(conn) { Spoken::Web } else { Spoken::Ipc }
    }

    fn snapshot(&self, ctl: &Control) -> metrics::Snapshot {
        figures::snapshot(&self.shared, &self.watched.constants, &self.watched.limits, ctl)
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
        until.is_some_and(|until| now < until) && self.shared.ending() != Some(Ending::Asked)
    }
}

impl Service for Queries {
    fn login(&mut self, conn: ConnId, user: &[u8], password: &[u8], _: &mut Control) -> Login {
        if self.scope.handler(Handler::Login).is_none() {
            return Login::Admitted;
        }
        let event = HandlerEvent::Login { user: user.to_vec(), password: password.to_vec() };
        self.push(Job::of(Some(Line::Client(conn)), None, event));
        Login::Later
    }

    fn opened(&mut self, conn: ConnId, peer: &Peer, ctl: &mut Control) {
        tracing::debug!(handle = conn.handle(), %peer, "connection opened");
        let spoken = self.spoken(conn, ctl);
        self.scope.connections().insert(conn.handle(), Link { conn, spoken });
        let web = spoken == Spoken::Web;
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
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        ctl.pause(conn);
        self.push(Job::of(Some(Line::Client(conn)), Some(peer), HandlerEvent::Web { is_text, payload }));
    }

    fn request(&mut self, conn: ConnId, request: &http::HttpRequest, peer: &Peer, _: &mut Control) -> bool {
        if self.scope.handler(Handler::of_method(request.method)).is_none() || self.shared.is_ending() {
            return false;
        }
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        self.push(Job::of(Some(Line::Client(conn)), Some(peer.clone()), HandlerEvent::Page(request.for_handler())));
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

    fn iteration_ended(&mut self, _: &mut Control) {}

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, conn: ConnId, reason: &CloseReason, ctl: &mut Control) {
        tracing::debug!(%reason, "a connection ended");
        self.scope.unask(conn);
        let link = self.scope.connections().remove(&conn.handle());
        let web = link.is_some_and(|link| link.spoken == Spoken::Web);
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
                LoopMessage::Ask { conn, before, message } => self.ask(conn, before, message, ctl),
                LoopMessage::Told(inbox) => self.hear(inbox),
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
            self.shared.end(Ending::Asked);
        } else if leave && !std::mem::replace(&mut self.stop.is_reported, true) {
            self.shared.ask_to_leave();
        }
        self.end_if_drained(ctl);
    }

    fn deadline(&self) -> Option<Instant> {
        let drained_by = self.drained_by.map(|by| match self.shared.day_ends.until() {
            Some(until) if self.waits_for_day_end(by) => until.max(by),
            _ => by,
        });
        [drained_by, self.timer.next].into_iter().flatten().min()
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

    fn page(&mut self, path: &str, ctl: &mut Control) -> Option<Page> {
        match path {
            http::METRICS => Some(Page::metrics(&self.snapshot(ctl))),
            http::HEALTH => {
                Some(Page::health(figures::health(&self.shared, self.scope.constants.policy.roll_percent())))
            }
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
